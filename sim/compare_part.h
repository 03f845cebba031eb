/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the comparison (compare.c, compare_record.c, compare_lane.c,
 * compare_bytes.c): looking at what two backends left. A look returns true
 * where it found a difference, and has then described it.
 */
#ifndef KV_SIM_COMPARE_PART_H
#define KV_SIM_COMPARE_PART_H

#include "sim/compare.h"

/* Where a look is, and whom it looks at. */
typedef struct kv_look {
  const char *name[2]; /* of the backends; the second "ref again" */
  int layer, step;     /* -1: of the whole cell; no one step */
  bool columns;        /* are those of both lanes up to date? */
  float *row[2];       /* room for a row of K or V */
  kv_difference *out;
} kv_look;

/* Describes: value[i] as that many hex digits, or digits[i] 0: nothing there,
 * which the sentence calls `none`. What stands where comes as printf. */
typedef struct kv_look_at {
  const char *what;
  int lane, head, index;
  uint64_t value[2];
  int digits[2];
  const char *none;
} kv_look_at;
bool kv_look_tell(const kv_look *l, const kv_look_at *at, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));
/* The same of two digests. */
bool kv_look_digests(const kv_look *l, const kv_look_at *at, const kv_digest *a,
                     const kv_digest *b, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Records of a lane: its views, or its verbs. */
bool kv_look_records(const kv_look *l, int lane, const kv_words *a,
                     const kv_words *b);
/* Entries, weights, formats, columns, rewritten rows. */
bool kv_look_state(const kv_look *l, const kv_lane *a, const kv_lane *b);
/* Outputs and LSE of the lane's query heads. */
bool kv_look_seen(const kv_look *l, int d_v, const kv_seen *a,
                  const kv_seen *b);
/* Bytes of a lane, as the ledger counts them; `when` ends the sentence. */
bool kv_look_bytes(const kv_look *l, const kv_lane *a, const kv_lane *b,
                   const char *when);
/* Two rows' steps and totals: l->layer is -1, the cell as a whole. */
bool kv_look_ledger(kv_look *l, const kv_result *a, const kv_result *b);

#endif
