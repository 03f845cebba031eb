/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention and observation over rows named by pointers, and over a lane.
 *
 * The output follows arithmetic 3: chunks of 128 entries of the view, each with
 * its own maximum, combined in order. Observation follows arithmetic 4:
 * probabilities over all candidates, without chunks. Both take computed logits,
 * so a logit is computed once for both. A decode step calls kv_lane_logits,
 * then kv_attend_rows with kv_lane_value_rows. Arrays are row-major fp32.
 * Nothing fails or allocates except kv_attend_scratch_init.
 */
#ifndef KV_REF_ATTEND_H
#define KV_REF_ATTEND_H

#include "ref/kernels/kernels.h"
#include "ref/lane/lane.h"

enum { KV_CHUNK = 128 }; /* entries of a chunk of arithmetic 3 */

/* Most rows of coded keys in one call of a kernel; for other keys KV_CHUNK.
 * Affects only speed: a call first packs its keys (ref/kernels/coded.h). */
enum { KV_KEYS = 512 };

/* Rows of a lane's coded entries as attention reads them, by entry index,
 * decoded once for several query heads. NULL: that side was not decoded. */
typedef struct kv_materialised {
  float *k, *v; /* [n_tokens][d], [n_tokens][d_v] */
} kv_materialised;

/* A chunk without entries, joined after the chunks of the view: m_c, l_c, a_c
 * of arithmetic 3 (the hook chunk of ref/lane/method.h). */
typedef struct kv_chunk {
  float m, l;     /* largest logit; sum of e^(logit - m), 0: no chunk */
  const float *a; /* [d_v] values weighted with these */
} kv_chunk;

/* The first entries of an attention, which kv_attend_begin has weighed with a
 * predicted largest logit M. m: query heads. */
typedef struct kv_begun {
  int entries;        /* how many, in whole chunks */
  const float *first; /* [m] the largest logit of these entries */
  const float *best;  /* [m] the predicted M of all entries */
  const float *l, *o; /* [m], [m][d_v]: the chains L and O so far */
} kv_begun;

/* Scratch of one thread for attention of at most `heads` query heads (of all
 * steps of a tile) over at most `entries` entries; allocated once, reused.
 * Before a call the caller sets more, begun, materialised and sink; after it
 * the first three go back to NULL. */
typedef struct kv_attend_scratch {
  float *p;             /* [heads][KV_CHUNK] */
  size_t chunks;        /* capacity of top */
  float *top;           /* [heads][chunks]: m_c */
  float *best, *l;      /* [heads]: M and L */
  int64_t *mass;        /* [heads]: of the current chunk, in fixed point */
  float *part;          /* [heads][d_v]: a_c of the current chunk */
  float *pack;          /* [KV_PACK][d] */
  float *rows;          /* [KV_CHUNK][max(d, d_v)] decoded or widened rows */
  float *room;          /* [KV_PLACE_ROOM(d)] for kv_place_row */
  const kv_chunk *more; /* [heads] chunks to join, or NULL */
  /* [heads of a step] one more logit each, without a value, joined after all
   * chunks: M is no less than it, and L ends with RN(expm(sink - M) + L). NULL:
   * none. */
  const float *sink;
  const kv_begun *begun; /* or NULL; used for a single step if M was predicted
                            for every head */
  kv_materialised materialised; /* if not NULL, read instead of codes */
  kv_block_rows block;          /* how rows of a format block are stored */
  const void *row[KV_KEYS];     /* rows named for a kernel; not owned */
} kv_attend_scratch;

/* KV_RESOURCE without memory; release it then, too. Release accepts zeroed. */
kv_rc kv_attend_scratch_init(kv_attend_scratch *x, int d, int d_v, int heads,
                             int entries, kv_err *e);
void kv_attend_scratch_release(kv_attend_scratch *x);

/* Source of value rows: points x->row[0..] to the rows of entries
 * first..first+count-1 (count <= KV_CHUNK), as many as are of one kind, which
 * it stores in *kind. Returns how many, at least 1. Rows are valid until the
 * next call. */
typedef int (*kv_value_rows)(void *ctx, int first, int count,
                             kv_attend_scratch *x, kv_row_kind *kind);

/* From so many heads on, rows are widened once in memory for all heads instead
 * of in registers for a few heads at a time. */
enum { KV_MANY_HEADS = 9 };

/* One attention of m query heads that read the same n >= 1 entries. s[i*lds +
 * j] is the finite logit of head i and entry j; ctx is passed to value. Writes
 * out[m][d_v] and lse[m], the logarithm of the sum of all e^logit, including
 * x->more and x->sink. */
void kv_attend_rows(const kv_kernels *kernel, int m, int n, int d_v,
                    const float *s, size_t lds, kv_value_rows value, void *ctx,
                    kv_attend_scratch *x, float *out, float *lse);

/* The same for a tile of decode steps, in one pass over the values. Step r of
 * `steps` has heads r * m .. r * m + m - 1 of s, out and lse and sees entries 0
 * .. n + r - 1. The bits equal those of one call a step. */
void kv_attend_tile(const kv_kernels *kernel, int steps, int m, int n, int d_v,
                    const float *s, size_t lds, kv_value_rows value, void *ctx,
                    kv_attend_scratch *x, float *out, float *lse);

/* Weighs entries 0..n-1, in whole chunks, of an attention of m heads whose
 * largest logit will be best[i]. Writes the chains so far, l[m] and o[m][d_v],
 * from which kv_attend_rows continues through x->begun. */
void kv_attend_begin(const kv_kernels *kernel, int m, int n, int d_v,
                     const float *s, size_t lds, kv_value_rows value, void *ctx,
                     kv_attend_scratch *x, const float *best, float *l,
                     float *o);

/* p[j] = the probability of logit s[j] among s[0..n), n >= 1; p may be s.
 * Returns the sum of RN(e^(s[j] - largest) * 2^40). */
int64_t kv_observation_row(const kv_kernels *kernel, int n, const float *s,
                           float *p);

/* The same for a head with a sink, one more logit: M is no less than it, and
 * the returned sum includes RN(expm(sink - M) * 2^40). *share becomes the
 * sink's own probability. sink NULL: as kv_observation_row, *share is 0. */
int64_t kv_observation_sink(const kv_kernels *kernel, int n, const float *s,
                            const float *sink, float *p, float *share);

/* True if all of x[0..n) are finite. */
bool kv_all_finite(const float *x, int n);

/* --- rows of a lane ------------------------------------------------------- */

/* Logits of m queries against entries first..first+count-1, softcap and bias
 * included, into s[i * lds + entry]. Query i is d floats at q + i * ldq, after
 * kv_lane_query if the lane is re-indexed. known, or NULL: [m][known_stride]
 * logits by token id, used for keys that attention reads as recorded. */
void kv_lane_logits(const kv_kernels *kernel, const kv_lane *l, int m,
                    const float *q, size_t ldq, int first, int count,
                    const float *known, size_t known_stride, float *s,
                    size_t lds, kv_attend_scratch *x);

/* Rotates q[d], the query of entry i's token, to the entry's place in a
 * re-indexed lane; does nothing for other lanes. */
void kv_lane_query(const kv_lane *l, int i, kv_attend_scratch *x, float *q);

/* Decodes the coded sides of entry i that `to` has memory for into `to`. */
void kv_lane_materialise(const kv_lane *l, int i, const kv_materialised *to,
                         kv_attend_scratch *x);

/* The value rows of a view. Entries are counted along the view; in ascending
 * order each is found in O(1). */
typedef struct kv_lane_values {
  const kv_lane *lane;
  const kv_view *view;
  int at_run, before; /* current run; entries of the runs before it; begin: 0 */
} kv_lane_values;

/* The kv_value_rows of a lane; values: a kv_lane_values. */
int kv_lane_value_rows(void *values, int first, int count, kv_attend_scratch *x,
                       kv_row_kind *kind);

#endif
