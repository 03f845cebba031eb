/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the comparison (sim/run/compare/compare*.c): functions that
 * compare what two backends left after the same step. Each kv_look_* that
 * returns bool returns true if it found a difference, which it has then
 * described in l->out. They cannot fail. One thread.
 */
#ifndef KV_SIM_COMPARE_PART_H
#define KV_SIM_COMPARE_PART_H

#include "sim/run/compare/compare.h"

/* Scores that one backend's hooks saw in this step. For each lane, then for the
 * layer: records {chose, head, list, lists, n}, each followed by n words. */
typedef struct kv_look_shown {
  kv_shown_to to; /* for the plan that the backend's store is opened with */
  int lanes;      /* of a layer */
  struct kv_look_words {
    uint32_t *word; /* [n] of room */
    size_t n, room;
  } * lane;       /* [lanes + 1], the last for the layer */
  bool looks;     /* record; false: ignore */
  bool no_memory; /* a record is missing: the comparison ends with this step */
} kv_look_shown;
/* Opens an empty one, which takes no records yet. KV_RESOURCE: memory. Free
 * with close, also after a failure. */
kv_rc kv_look_shown_open(int lanes, kv_look_shown *out, kv_err *e);
void kv_look_shown_close(kv_look_shown *x);
/* Drops all records: call it when the next step begins. */
void kv_look_shown_forget(kv_look_shown *x);

/* Where the comparison is, and what it compares. */
typedef struct kv_look {
  const char *name[2]; /* of the backends; the second may be "ref again" */
  int layer;           /* the model's number; -1: the whole cell */
  int step;            /* tokens seen; -1: no single step */
  bool columns;  /* columns of both lanes are up to date: also compare them */
  float *row[2]; /* [max(d, d_v)] scratch, a row of K or V of each */
  kv_difference *out; /* where the first difference is described */
} kv_look;

/* A difference to describe, between value[0] of the first backend and value[1]
 * of the second. value[i] is printed with digits[i] hex digits; digits[i] 0: no
 * value, the sentence says `none`. lane, head, index: -1: does not apply. */
typedef struct kv_look_at {
  const char *what;      /* as in kv_difference */
  int lane, head, index; /* as in kv_difference */
  uint64_t value[2];
  int digits[2];    /* 0 .. 16 */
  const char *none; /* "no such selection"; used if digits has a 0 */
} kv_look_at;
/* Describes the difference `at` in l->out, with its place within the lane as
 * printf writes it ("entry 5"), and returns true. */
bool kv_look_tell(const kv_look *l, const kv_look_at *at, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));
/* The same for two digests that differ; the sentence has their first 16 hex
 * digits. at->value and at->digits are unused. */
bool kv_look_digests(const kv_look *l, const kv_look_at *at, const kv_digest *a,
                     const kv_digest *b, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Compares the scores shown to query heads (views true), or to compressions, in
 * the current step. */
bool kv_look_scores(const kv_look *l, const kv_look_shown *a,
                    const kv_look_shown *b, bool views);
/* Compares the two lanes' entries, weights, classes, formats,
 * rewritten rows and, with l->columns, columns. */
bool kv_look_state(const kv_look *l, const kv_lane *a, const kv_lane *b);
/* Compares outputs [queries][d_v] and LSE of the lane's query heads. */
bool kv_look_seen(const kv_look *l, int d_v, const kv_seen *a,
                  const kv_seen *b);

#endif
