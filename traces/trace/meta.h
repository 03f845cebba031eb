/* SPDX-License-Identifier: Apache-2.0
 *
 * The metadata of a trace, read and checked: numbers, the list of layers,
 * what version 1 cannot replay, answers and segments. Every function says
 * which key is wrong and how.
 */
#ifndef KV_TRACES_META_H
#define KV_TRACES_META_H

#include "ref/ground/err.h"
#include "traces/container/safetensors.h"
#include "traces/trace/trace.h"

/* A whole number in [least, most]; absent or anything else is KV_INPUT. */
kv_rc kv_meta_count(const char *file, const kv_st *s, const char *key,
                    int least, int most, int *out, kv_err *e);

/* A finite decimal; absent gives KV_INPUT where otherwise is NULL, else
 * *otherwise. */
kv_rc kv_meta_float(const char *file, const kv_st *s, const char *key,
                    const float *otherwise, float *out, kv_err *e);

/* format, version; softcap, sliding window and sinks absent or `none`. */
kv_rc kv_meta_version(const char *file, const kv_st *s, kv_err *e);

/* `layers`: all, or numbers separated by commas, ascending, each below
 * n_layers. *out is to be freed. */
kv_rc kv_meta_layers(const char *file, const kv_st *s, int n_layers, int *n,
                     int **out, kv_err *e);

/* 0 = half, 1 = interleaved; absent is KV_INPUT. */
kv_rc kv_meta_layout(const char *file, const kv_st *s, int *interleaved,
                     kv_err *e);

/* Lists of JSON objects; absent is the empty list. *out is to be freed. */
kv_rc kv_meta_answers(const char *file, const kv_st *s, int n_tokens, int *n,
                      kv_answer **out, kv_err *e);
kv_rc kv_meta_segments(const char *file, const kv_st *s, int n_tokens, int *n,
                       kv_segment **out, kv_err *e);

#endif
