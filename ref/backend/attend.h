/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention and observation over rows named by pointers, and over a lane.
 *
 * The output follows arithmetic 3: chunks of 128 entries of the view, each
 * with its own maximum, combined in order. Observation follows arithmetic 4:
 * probabilities over the whole candidate set, without chunks. Both take
 * logits that were computed before, so a logit is computed once for both.
 */
#ifndef KV_REF_ATTEND_H
#define KV_REF_ATTEND_H

#include "ref/kernels/kernels.h"
#include "ref/lane/lane.h"

enum { KV_CHUNK = 128 };

/* Rows of keys that are named at once. Keys are no part of a chain, so the
 * number is of no matter but for speed: a call begins with keys that are packed
 * beside nothing (ref/kernels/coded_pack.h). */
enum { KV_KEYS = 512 };

/* Rows of a lane's coded entries, decoded once for several readers: those of
 * entry i, as attention reads it, at i * d and i * d_v. A side at NULL is not
 * there. */
typedef struct kv_materialised {
  float *k, *v;
} kv_materialised;

/* A chunk that stands in no lane, joined after those of the view: m_c, l_c,
 * a_c of arithmetic 3. l 0: there is none. */
typedef struct kv_chunk {
  float m, l;
  const float *a; /* [d_v] */
} kv_chunk;

/* The first entries of an attention, whole chunks, which were weighed before:
 * by kv_attend_begin, for a largest logit that was foreseen. Of each head. */
typedef struct kv_begun {
  int entries;
  const float *first; /* the largest logit of these entries */
  const float *best;  /* of all entries, as it was foreseen: M */
  const float *l, *o; /* [..] and [..][d_v]: the chains L and O so far */
} kv_begun;

/* Scratch of one attention of at most `heads` query heads (of a tile: of all
 * its steps) over at most `entries` entries; taken once, reused. */
typedef struct kv_attend_scratch {
  float *p;              /* [heads][KV_CHUNK] */
  size_t chunks;         /* room in top */
  float *top;            /* [heads][chunks]: m_c */
  float *best, *l;       /* [heads]: M and L */
  int64_t *mass;         /* [heads]: of the chunk in hand, in fixed point */
  float *part;           /* [heads][d_v]: a_c of the chunk in hand */
  float *pack;           /* [KV_PACK][d] */
  float *rows;           /* [KV_CHUNK][max(d, d_v)] decoded or widened rows */
  float *room;           /* KV_PLACE_ROOM(d): lent to kv_place_row */
  const kv_chunk *more;  /* [heads], or NULL: no such chunk */
  const kv_begun *begun; /* or NULL; used where M was foreseen for every head */
  /* Of every coded entry that is asked for, or NULL. */
  kv_materialised materialised;
  const void *row[KV_KEYS];
} kv_attend_scratch;

kv_rc kv_attend_scratch_init(kv_attend_scratch *x, int d, int d_v, int heads,
                             int entries, kv_err *e);
void kv_attend_scratch_release(kv_attend_scratch *x);

/* Names value rows of entries first..first+count-1 (count <= KV_CHUNK) of one
 * kind: returns how many of them, >= 1, row[] names. */
typedef int (*kv_value_rows)(void *ctx, int first, int count,
                             kv_attend_scratch *x, kv_row_kind *kind);

/* Heads that are many: their rows are made fp32 once for all of them, instead
 * of in the registers of each few. */
enum { KV_MANY_HEADS = 9 };

/* One attention of m heads over n >= 1 entries with logits s[i*lds + j]:
 * out[m][d_v], lse[m]. */
void kv_attend_rows(const kv_kernels *kernel, int m, int n, int d_v,
                    const float *s, size_t lds, kv_value_rows value, void *ctx,
                    kv_attend_scratch *x, float *out, float *lse);

/* The same for a tile of decode steps, in one pass over the values: step r of
 * `steps` has the heads r * m .. r * m + m - 1 of s, out and lse and sees
 * entries 0 .. n + r - 1. Bits are those of a call a step. */
void kv_attend_tile(const kv_kernels *kernel, int steps, int m, int n, int d_v,
                    const float *s, size_t lds, kv_value_rows value, void *ctx,
                    kv_attend_scratch *x, float *out, float *lse);

/* The chains L and O of m heads over entries 0..n-1, n in whole chunks, of an
 * attention whose M will be best[i]: l[m], o[m][d_v]. */
void kv_attend_begin(const kv_kernels *kernel, int m, int n, int d_v,
                     const float *s, size_t lds, kv_value_rows value, void *ctx,
                     kv_attend_scratch *x, const float *best, float *l,
                     float *o);

/* p[j] = probability of s[j] among s[0..n); returns sum RN(e * 2^40). p may
 * be s. */
int64_t kv_observation_row(const kv_kernels *kernel, int n, const float *s,
                           float *p);

/* True where all of x[0..n) are finite. */
bool kv_all_finite(const float *x, int n);

/* --- attend_lane.c ------------------------------------------------------ */

/* Logits of m queries (q + i * ldq; of kv_lane_query where the lane is
 * re-indexed) against entries first..first+count-1, bias included, into
 * s[i * lds + entry]. known (may be NULL): logits by token id, which hold for
 * entries that no verb has rewritten. */
void kv_lane_logits(const kv_kernels *kernel, const kv_lane *l, int m,
                    const float *q, size_t ldq, int first, int count,
                    const float *known, size_t known_stride, float *s,
                    size_t lds, kv_attend_scratch *x);

/* Rotates the fp32 query of the token of entry i to its place in a re-indexed
 * lane; does nothing for other lanes. */
void kv_lane_query(const kv_lane *l, int i, kv_attend_scratch *x, float *q);

/* True if that side of entry i is stored as codes. */
bool kv_lane_coded_key(const kv_lane *l, int i);
bool kv_lane_coded_value(const kv_lane *l, int i);
/* The rows of a coded entry, each where `to` has that side. */
void kv_lane_make(const kv_lane *l, int i, const kv_materialised *to,
                  kv_attend_scratch *x);

/* Value rows of a view, for kv_attend_rows: places are counted along the
 * view and asked for in ascending order. */
typedef struct kv_lane_values {
  const kv_lane *lane;
  const kv_view *view;
  int at_run, before; /* current run; entries of the runs before it */
} kv_lane_values;

int kv_lane_value_rows(void *values, int first, int count, kv_attend_scratch *x,
                       kv_row_kind *kind);

#endif
