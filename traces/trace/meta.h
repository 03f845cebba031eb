/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and checks the metadata of a trace, for kv_trace_open. `file` is the
 * path for messages, s the open file. A missing or malformed key is KV_INPUT,
 * with a sentence that names it; lists may also be KV_RESOURCE, memory.
 */
#ifndef KV_TRACES_META_H
#define KV_TRACES_META_H

#include "ref/ground/err.h"
#include "traces/container/safetensors.h"
#include "traces/trace/trace.h"

/* The integer of a key, from least to most; the key must exist. */
kv_rc kv_meta_count(const char *file, const kv_st *s, const char *key,
                    int least, int most, int *out, kv_err *e);

/* The decimal of a key, within +-3.4e38. If it is absent: *otherwise, or
 * KV_INPUT if otherwise is NULL. */
kv_rc kv_meta_float(const char *file, const kv_st *s, const char *key,
                    const float *otherwise, float *out, kv_err *e);

/* `layers`, the recorded ones: "all", or ascending numbers below n_layers,
 * separated by commas, optionally in brackets. *out: [*n], free() it; unchanged
 * after a failure. */
kv_rc kv_meta_layers(const char *file, const kv_st *s, int n_layers, int *n,
                     int **out, kv_err *e);

/* `rope.layout`: *interleaved is 0 for "half", 1 for "interleaved". */
kv_rc kv_meta_layout(const char *file, const kv_st *s, int *interleaved,
                     kv_err *e);

/* `answer_by`, if it exists, must be a value that kv_trace_answer_by knows. */
kv_rc kv_meta_answer_by(const char *file, const kv_st *s, kv_err *e);

/* `answers` and `segments`, JSON lists of ranges within n_tokens tokens; an
 * absent key is the empty list. *out: [*n]; free() it also after a failure,
 * when *n is 0. */
kv_rc kv_meta_answers(const char *file, const kv_st *s, int n_tokens, int *n,
                      kv_answer **out, kv_err *e);
kv_rc kv_meta_segments(const char *file, const kv_st *s, int n_tokens, int *n,
                       kv_segment **out, kv_err *e);

#endif
