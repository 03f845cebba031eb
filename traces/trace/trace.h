/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention trace: one recorded request of one model, mapped and
 * validated. kv_trace_open checks everything but the values of q, k, v and o
 * (kv_trace_scan_layer does that, layer by layer, as they are used), so what
 * it returns holds together: shapes agree, lists are inside the tokens,
 * every decode row is recorded.
 *
 * Memory: tables of a few bytes a token; q, k, v, o and colsum stay in the
 * file and are read through the map, unaligned. All that is returned belongs
 * to the trace. Many threads may read; opening and closing are for one.
 *
 * A file can shrink while it is mapped. Reads then give zeros instead of a
 * signal: before a result is believed, kv_trace_damaged must say KV_OK.
 */
#ifndef KV_TRACES_TRACE_H
#define KV_TRACES_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/ground/err.h"
#include "ref/ground/sha256.h"
#include "ref/ground/shape.h"

/* Where an answer stands and where its needle does; ends are exclusive. The
 * token at start + i is predicted by row start + i - 1 (start >= 1), which
 * looks for source_start + i. The two lengths may differ. */
typedef struct kv_answer {
  int start, end, source_start, source_end;
} kv_answer;

typedef enum kv_role { KV_CONTEXT, KV_QUESTION, KV_ANSWER } kv_role;

typedef struct kv_segment {
  int start, end; /* tokens, end exclusive */
  kv_role role;
} kv_segment;

typedef struct kv_recorded {
  kv_layer_data data;
  const void *o; /* [n_heads][data.n_rows][d_v], o_type; NULL: not recorded */
  kv_dtype o_type;
} kv_recorded;

typedef struct kv_trace {
  const char *path;
  const char *name; /* file name without folder and .safetensors */
  kv_shape shape;
  kv_rope rope;
  float rope_scale;      /* already inside q and k; 1 where none is recorded */
  int n_layers;          /* recorded, <= shape.n_layers */
  kv_recorded *layer;    /* [n_layers], ascending data.layer */
  const int32_t *tokens; /* [T] token ids, or NULL */
  int first_decode; /* least prompt_len whose decode rows are all recorded */
  int n_answers;
  kv_answer *answer;
  int n_segments;
  kv_segment *segment;
  struct kv_trace_own *own; /* the file set and what the above points to */
} kv_trace;

kv_rc kv_trace_open(const char *path, kv_trace **out, kv_err *e);
void kv_trace_close(kv_trace *t);
/* What a trace of that path is called; freed by the caller, NULL without
 * memory. */
char *kv_trace_stem(const char *path);

/* The metadata value of a key, or NULL. */
const char *kv_trace_meta(const kv_trace *t, const char *key);

/* Index of the first of n elements, at any address, that is NaN or Inf; n
 * where there is none. */
size_t kv_first_not_finite(kv_dtype type, size_t n, const void *data);

/* KV_INPUT, naming tensor and index, when q, k or v of the i-th recorded
 * layer holds NaN or Inf, or colsum what no sum can be; the second looks at o.
 * One pass over the bytes. */
kv_rc kv_trace_scan_layer(const kv_trace *t, int i, kv_err *e);
kv_rc kv_trace_scan_output(const kv_trace *t, int i, kv_err *e);

/* Gives the pages of the i-th recorded layer back to the system. */
void kv_trace_release_layer(const kv_trace *t, int i);

/* KV_INPUT once a file has shrunk or changed since it was opened. */
kv_rc kv_trace_damaged(const kv_trace *t, kv_err *e);

/* What the request is, whatever its file is called and however it is cut
 * into shards: SHA-256 over the tensors (name, type, shape, SHA-256 of the
 * bytes) in bytewise name order and the metadata without `created` and
 * `recorder`. Reads the whole file unless the cache knows it; the cache
 * (XDG_CACHE_HOME, else ~/.cache) is keyed by device, inode, size and time
 * of change, and a cache that cannot be used is no error. */
kv_rc kv_trace_identity(const kv_trace *t, kv_digest *out, kv_err *e);

/* Index of the recorded layer that a tensor of the format belongs to, by its
 * name, and which one it is: q, k, v, o, rows or colsum. -1: of none; *part is
 * then the name of one that stands alone (tokens, positions, rope.inv_freq),
 * or NULL: the format has no such tensor and nobody reads it. */
int kv_trace_part(const kv_trace *t, const char *name, const char **part);

/* How many tensors nobody reads; "2 tensors are none of the format's and were
 * not read: layers.0.O, x". */
enum { KV_UNREAD_TEXT = 512 };
size_t kv_trace_unread(const kv_trace *t, char out[KV_UNREAD_TEXT]);

/* The file set, for who wants tensors beyond the ones above. */
struct kv_st;
const struct kv_st *kv_trace_files(const kv_trace *t);

#endif
