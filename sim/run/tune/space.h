/* SPDX-License-Identifier: Apache-2.0
 *
 * The search space of `kvreplay tune`: some numeric parameters of one method,
 * each on a grid of its own, low, low + step, .. up to high. A point is an
 * index on each grid, from 0. Its specification is the typed one followed by
 * these parameters, so that it can be typed again.
 */
#ifndef KV_SIM_TUNE_SPACE_H
#define KV_SIM_TUNE_SPACE_H

#include "sim/ask/spec.h"
#include "sim/run/tune/search.h"

/* Bytes of a value as text; most points of one grid. */
enum { KV_TUNE_TEXT = 64, KV_TUNE_GRID = 1000000 };

typedef struct kv_tune_axis {
  const kv_param *param; /* of the whole method, valid as long as that */
  int part;              /* index of the method, if two share a lane */
  const char *name;      /* in its part: "bits" if param is "kivi.bits" */
  double low, step;      /* in the parameter's unit */
  int points;            /* 1 .. KV_TUNE_GRID */
  /* both ends, as typed if they were */
  char first[KV_TUNE_TEXT], last[KV_TUNE_TEXT];
} kv_tune_axis;

typedef struct kv_tune_space {
  kv_specs specs; /* the specification as typed: exactly one */
  char *text;     /* the same as text; owned */
  int axes;
  kv_tune_axis axis[KV_TUNE_AXES]; /* [axes] in the order of the ranges */
  bool knob; /* its one axis was found by kv_tune_space_knob */
} kv_tune_space;

/* Makes the space, without axes yet, of a specification: one method, looked up
 * in `registry`, then among plugins. KV_USAGE: it is wrong, or is not one
 * method. KV_INPUT: a plugin is bad. KV_RESOURCE: memory. Free it with
 * kv_tune_space_free, also after a failure. */
kv_rc kv_tune_space_open(kv_registry *registry, const char *text,
                         kv_tune_space *out, kv_err *e);
/* Adds NAME=LOW:HIGH[:STEP],... The default step is that of the parameter's
 * table, else 1 for integers, else the largest power of ten that gives the
 * range a hundred steps. KV_USAGE: no such parameter, not a number, named
 * twice, or no range. */
kv_rc kv_tune_space_add(kv_tune_space *s, const char *list, kv_err *e);
/* Does its method have a parameter with that name of n bytes? */
bool kv_tune_space_has(const kv_tune_space *s, size_t n, const char *name);
/* If -b sets a parameter and it was not typed: makes its whole grid the one
 * axis, and returns true. A budget in entries reaches to n_tokens; call it
 * again once that is known. */
bool kv_tune_space_knob(kv_tune_space *s, int n_tokens);
/* Call it when all ranges are added. KV_USAGE if an end of a range is not a
 * value of the parameter, or the specification also sets the parameter.
 * KV_RESOURCE: memory. */
kv_rc kv_tune_space_check(kv_registry *registry, const kv_tune_space *s,
                          kv_err *e);
void kv_tune_space_free(kv_tune_space *s); /* accepts zeroed */

/* Writes the value of a parameter at index `at` of its grid. */
void kv_tune_axis_text(const kv_tune_axis *a, int at, char out[KV_TUNE_TEXT]);
/* The specification of the point at[axes]; free() it; NULL without memory. */
char *kv_tune_space_text(const kv_tune_space *s, const int *at);
/* Writes the same for a message, cut to out[0..room). */
void kv_tune_space_show(const kv_tune_space *s, const int *at, size_t room,
                        char *out);

#endif
