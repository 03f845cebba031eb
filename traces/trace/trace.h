/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens attention traces: maps a kv_trace (ref/lane/trace.h) from its file
 * (format: traces/README.md). kv_trace_open checks everything except the
 * numbers of q, k, v, o and colsum, so its result is consistent.
 * kv_trace_scan_layer and, for o, kv_trace_scan_output check those numbers,
 * layer by layer, before they are used.
 *
 *   open; a layer: scan, use, release_layer; damaged; close
 *
 * Memory: tables of a few bytes a token; q, k, v, o and colsum stay in the file
 * and are read through the map, unaligned. A file that is shortened meanwhile
 * reads as zeros, so kv_trace_damaged must return KV_OK before a result is
 * trusted. Everything returned belongs to the trace. One thread opens and
 * closes; any number may read in between. i is the i-th recorded layer, from 0.
 */
#ifndef KV_TRACES_TRACE_H
#define KV_TRACES_TRACE_H

#include <stddef.h>

#include "ref/ground/sha256.h"
#include "ref/lane/trace.h"

/* Opens the trace at path, a .safetensors or the .index.json of a set.
 * KV_INPUT: it cannot be read or is malformed, with file, key or tensor and
 * reason; KV_RESOURCE: memory, address space or descriptors. *out is NULL then.
 */
kv_rc kv_trace_open(const char *path, kv_trace **out, kv_err *e);
void kv_trace_close(kv_trace *t); /* accepts NULL */

/* The `name` of a trace at that path; free it with free(). NULL: no memory. */
char *kv_trace_stem(const char *path);

/* The metadata value of a key, or NULL. */
const char *kv_trace_meta(const kv_trace *t, const char *key);

/* Who gave the marked answer: "model" if the model's own greedy answer contains
 * it, "user" if it does not ("recorder" in the files of earlier versions);
 * NULL: unknown. */
const char *kv_trace_answer_by(const kv_trace *t);

/* Index of the first NaN or Inf of n elements at data (any alignment), or n. */
size_t kv_first_not_finite(kv_dtype type, size_t n, const void *data);

/* Reads all of q, k, v and colsum of a layer, or all of o, if recorded.
 * KV_INPUT, naming tensor and index: NaN, Inf, a column sum that no
 * probabilities give, v that is not a part of k although kv.shared says so, or
 * the file has changed. */
kv_rc kv_trace_scan_layer(const kv_trace *t, int i, kv_err *e);
kv_rc kv_trace_scan_output(const kv_trace *t, int i, kv_err *e);

/* KV_INPUT, naming the reason, unless attention is plain in every recorded
 * layer: over all tokens so far, without cap or sinks, V separate from K. For
 * callers that compute nothing else. who: the caller, as "kvreplay train". */
kv_rc kv_trace_expect_plain(const kv_trace *t, const char *who, kv_err *e);

/* Lets the system reclaim a layer's memory; it is read again when used. */
void kv_trace_release_layer(const kv_trace *t, int i);

/* KV_INPUT once a file was shortened or rewritten after it was opened. */
kv_rc kv_trace_damaged(const kv_trace *t, kv_err *e);

/* The trace's identity, whatever its file's name and shards: SHA-256 over the
 * tensors (name, type, shape, SHA-256 of the bytes), in bytewise order of
 * names, and the metadata without `created` and `recorder`. Reads the whole
 * file unless the cache has it. The cache (kvreplay/identity in XDG_CACHE_HOME,
 * else in ~/.cache) is keyed by device, inode, size and modification time. It
 * is skipped, without an error, if it cannot be used or a file was modified
 * less than two seconds ago. KV_INPUT: the file has changed. KV_RESOURCE:
 * memory. */
kv_rc kv_trace_identity(const kv_trace *t, kv_digest *out, kv_err *e);

/* The request that the trace holds, the same for two recordings of it: SHA-256
 * over model_digest and the token ids. If the trace lacks either: over q, k and
 * v rounded to F16, from the same cache. A trace without token ids may name its
 * request in the metadata request_digest, as kvtrace slim writes it, which is
 * trusted. The prompt's length is not included: a run may set its own. */
kv_rc kv_trace_request(const kv_trace *t, kv_digest *out, kv_err *e);

/* Which tensor of the format `name` is. For a recorded layer's tensor: returns
 * its index i, and *part is "q", "k", "v", "o", "rows", "colsum", "sinks" or
 * "k_bias".
 * Else -1; *part is "tokens", "positions", "rope.inv_freq" or
 * "rope.inv_freq.windowed", or NULL: the format has no such tensor. */
int kv_trace_part(const kv_trace *t, const char *name, const char **part);

/* How many tensors of the file are not read, and a sentence about them, which
 * names up to four: "2 tensors are none of the format's and were not read:
 * layers.0.O, x". */
enum { KV_UNREAD_TEXT = 512 }; /* bytes, with the NUL */
size_t kv_trace_unread(const kv_trace *t, char out[KV_UNREAD_TEXT]);

/* The open file, for other tensors (traces/container/safetensors.h). */
struct kv_st;
const struct kv_st *kv_trace_files(const kv_trace *t);

#endif
