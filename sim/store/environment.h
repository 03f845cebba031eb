/* SPDX-License-Identifier: Apache-2.0
 *
 * Where and how a run was computed: what a reader needs to judge a
 * confirmation. Plain data, filled in once when a program starts and passed to
 * kv_db_put and kv_db_put_theirs (sim/store/db.h). The host's name is left out
 * on purpose; two machines count as different if their processors differ. Long
 * texts are cut; unknown ones are "unknown".
 */
#ifndef KV_SIM_ENVIRONMENT_H
#define KV_SIM_ENVIRONMENT_H

#include <stdbool.h>

typedef struct kv_environment {
  char version[32], commit[64];   /* of kvreplay */
  bool dirty;                     /* with uncommitted changes */
  char compiler[160], flags[512]; /* that built it */
  char cpu[96];                   /* brand, or kind, of the processor */
  char isa[16];                   /* the kernel set of the program: "avx2" */
  int cores;                      /* online, >= 1 */
  char os[192], locale[64];
  bool ftz, daz;     /* are subnormal results, or operands, flushed to zero in
                        the calling thread? False while we compute */
  char rounding[16]; /* its rounding mode: nearest, down, up or zero */
  char sqlite[32], jansson[32]; /* versions of the libraries */
  char command[4096]; /* the command line, words separated by blanks */
  char started[32];   /* UTC, 2026-01-31T12:00:00.000000Z */
} kv_environment;

/* Fills in *out. isa: name of the program's kernels. argc, argv: main's. */
void kv_environment_look(const char *isa, int argc, char *const *argv,
                         kv_environment *out);

#endif
