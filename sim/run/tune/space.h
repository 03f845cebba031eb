/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay tune` searches through: some numeric parameters of one method,
 * each on a grid of its own, low, low + step, .. up to high. A point is a
 * number of each grid, from 0 on, and its specification is the typed one with
 * these parameters written behind it, so that it can be typed again.
 */
#ifndef KV_SIM_TUNE_SPACE_H
#define KV_SIM_TUNE_SPACE_H

#include "sim/ask/spec.h"
#include "sim/run/tune/search.h"

/* Bytes of a value as text; points of one grid at most. */
enum { KV_TUNE_TEXT = 64, KV_TUNE_GRID = 1000000 };

typedef struct kv_tune_axis {
  const kv_param *param; /* of the whole method; lives as long as it */
  int part;              /* which of two methods on a lane has it */
  const char *name;      /* in its part: "bits", where param is "kivi.bits" */
  double low, step;      /* in the parameter's unit */
  int points;            /* 1 .. KV_TUNE_GRID */
  char first[KV_TUNE_TEXT], last[KV_TUNE_TEXT]; /* both ends, as typed if they
                                                   were */
} kv_tune_axis;

typedef struct kv_tune_space {
  kv_specs specs; /* the specification as typed: one */
  char *text;     /* it, as typed; owned */
  int axes;
  kv_tune_axis axis[KV_TUNE_AXES]; /* [axes] in the order of the ranges */
  bool knob; /* its one axis was found by kv_tune_space_knob */
} kv_tune_space;

/* Makes the space, without axes yet, of a specification: one method, looked up
 * in `registry`, then among plugins. KV_USAGE: it is wrong, or is not one
 * method; KV_INPUT: a plugin is bad; KV_RESOURCE: memory. Free it with
 * kv_tune_space_free, also after a failure. */
kv_rc kv_tune_space_open(kv_registry *registry, const char *text,
                         kv_tune_space *out, kv_err *e);
/* Adds NAME=LOW:HIGH[:STEP],... The step, where none is typed, is that of the
 * parameter's table, else 1 for whole numbers, else the largest power of ten of
 * which the range has a hundred. KV_USAGE: no such parameter, not a number's,
 * named twice, or no range. */
kv_rc kv_tune_space_add(kv_tune_space *s, const char *list, kv_err *e);
/* True if its method has a parameter of that name, of n bytes. */
bool kv_tune_space_has(const kv_tune_space *s, size_t n, const char *name);
/* Its one axis becomes the whole grid of the parameter that -b sets, where
 * there is one that was not typed: true. A budget in entries reaches to
 * n_tokens; call it again once that is known. */
bool kv_tune_space_knob(kv_tune_space *s, int n_tokens);
/* Call it when all ranges are added: KV_USAGE if an end of a range is none of
 * the parameter's values, or the parameter was typed in the specification, too;
 * KV_RESOURCE: memory. */
kv_rc kv_tune_space_check(kv_registry *registry, const kv_tune_space *s,
                          kv_err *e);
void kv_tune_space_free(kv_tune_space *s); /* accepts zeroed */

/* Writes the value of a parameter at number `at` of its grid. */
void kv_tune_axis_text(const kv_tune_axis *a, int at, char out[KV_TUNE_TEXT]);
/* The specification of the point at[axes], freed with free(); NULL if memory
 * ends. */
char *kv_tune_space_text(const kv_tune_space *s, const int *at);
/* Writes the same for a sentence: as much of it as fits into out[0..room). */
void kv_tune_space_show(const kv_tune_space *s, const int *at, size_t room,
                        char *out);

#endif
