/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay grade` called in this process, on a bundled trace, with the files
 * of a made-up kernel (tests/support/kernels/theirs.h). Linked into each test
 * program that uses it. Any failure fails the running test.
 */
#ifndef KV_TESTS_GRADED_H
#define KV_TESTS_GRADED_H

#include "tests/support/kernels/theirs.h"
#include "tests/support/program/command.h"

#include <jansson.h>

/* The methods that kernels are graded as. */
#define QUEST "quest:page=16:skip=0"
#define AT_64 "-m " QUEST " -b 64"
#define GROUPED QUEST ":share=group_sum"

/* The trace and its path; paths in a scratch folder for a kernel's decisions
 * and outputs, and for a database. */
extern kv_trace *trace;
extern char file[600], decisions[600], outputs[512], db[512];

/* Before the first test: 0 on success. After the last. */
int graded_open(void);
void graded_close(void);

/* Calls `grade TRACE --theirs DECISIONS` with the words of a line, which is
 * made as printf does: returns the exit code; what it printed is in heard and
 * said. */
int grade(const char *line, ...) __attribute__((format(printf, 1, 2)));

/* What it printed, as JSON, for json_decref; the whole number of a key of o;
 * and that of a key of what was printed. */
json_t *parsed(void);
int64_t integer(const json_t *o, const char *key);
int64_t counted(const char *key);

/* A kernel with no fault: budget 64, pages of 16, outputs in F32. */
theirs kernel(void);

#endif
