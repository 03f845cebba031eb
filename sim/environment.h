/* SPDX-License-Identifier: Apache-2.0
 *
 * Where and how a run was computed: what a reader must know to believe a
 * confirmation. Plain data, looked at once when a program starts. The name
 * of the host is left out on purpose; two machines count as different when
 * their processors do.
 */
#ifndef KV_SIM_ENVIRONMENT_H
#define KV_SIM_ENVIRONMENT_H

#include <stdbool.h>

typedef struct kv_environment {
  char version[32], commit[64];
  bool dirty; /* the checkout had changes that no commit holds */
  char compiler[160], flags[512];
  char cpu[96], isa[16]; /* the best kernel set here */
  int cores;
  char os[192], locale[64];
  bool ftz, daz;     /* subnormals flushed: never while we compute */
  char rounding[16]; /* nearest, down, up, zero */
  char sqlite[32], jansson[32];
  char command[4096]; /* the command line, cut where it is longer */
  char started[24];   /* UTC, 2026-01-31T12:00:00Z */
} kv_environment;

/* isa: name of the best kernel set. Never fails: what cannot be found out is
 * "unknown". */
void kv_environment_look(const char *isa, int argc, char *const *argv,
                         kv_environment *out);

#endif
