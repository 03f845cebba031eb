/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay grade` in this process, on a bundled trace, and the kernels that
 * it grades (tests/support/kernels/theirs.h). Linked into each test program
 * that uses it.
 */
#ifndef KV_TESTS_GRADED_H
#define KV_TESTS_GRADED_H

#include "tests/support/kernels/theirs.h"
#include "tests/support/program/command.h"

#include <jansson.h>

#define QUEST "quest:page=16:skip=0"
#define GROUPED QUEST ":share=group_sum"

/* The trace, and where files of a kernel's go. */
extern char file[600], decisions[600], outputs[512], db[512];
extern kv_trace *trace;

int graded_open(void); /* 0: done */
void graded_close(void);

/* grade TRACE --theirs FILE, then the arguments, the last one NULL. */
int grade(const char *first, ...);

/* What was heard, as JSON, to be given back; whole numbers of it. */
json_t *parsed(void);
int64_t integer(const json_t *o, const char *key);
int64_t counted(const char *key);

/* A right kernel: budget 64, pages of 16, outputs in F32. */
theirs kernel(void);

#endif
