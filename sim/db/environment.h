/* SPDX-License-Identifier: Apache-2.0
 *
 * Where and how a run was computed: what a reader must know to judge a
 * confirmation. Plain data, filled once when a program starts. The host's name
 * is left out on purpose; two machines count as different if their processors
 * differ.
 */
#ifndef KV_SIM_ENVIRONMENT_H
#define KV_SIM_ENVIRONMENT_H

#include <stdbool.h>

typedef struct kv_environment {
  char version[32], commit[64];
  bool dirty; /* the checkout had uncommitted changes */
  char compiler[160], flags[512];
  char cpu[96], isa[16]; /* the best kernel set here */
  int cores;
  char os[192], locale[64];
  bool ftz, daz;     /* subnormals flushed to zero; never while we compute */
  char rounding[16]; /* nearest, down, up, zero */
  char sqlite[32], jansson[32];
  char command[4096]; /* the command line, cut where it is longer */
  char started[32];   /* UTC, 2026-01-31T12:00:00.000000Z */
} kv_environment;

/* Fills out. isa: name of the best kernel set. Never fails: what cannot be
 * found out becomes "unknown". */
void kv_environment_look(const char *isa, int argc, char *const *argv,
                         kv_environment *out);

#endif
