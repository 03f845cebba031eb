/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the trace.json of a folder of chunks, for traces/trace/pack.c: a JSON
 * object. Its lists `tokens`, `positions` and `rope.inv_freq` become tensors,
 * everything else metadata. Errors name the file and the key.
 */
#ifndef KV_TRACES_PACK_JSON_H
#define KV_TRACES_PACK_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "ref/ground/err.h"

/* Zeroed: nothing was read. */
typedef struct kv_pack_json {
  char *path;   /* owned */
  json_t *root; /* an object, owned */
} kv_pack_json;

/* Reads folder/trace.json. KV_INPUT: it is missing or no JSON object.
 * KV_RESOURCE: memory. Free *out also after a failure. */
kv_rc kv_pack_json_read(const char *folder, kv_pack_json *out, kv_err *e);
void kv_pack_json_free(kv_pack_json *j);

/* The integer of a key, from 1 to most, as a number or as text of digits.
 * KV_INPUT if it is missing or wrong. */
kv_rc kv_pack_json_count(const kv_pack_json *j, const char *key, int most,
                         int *out, kv_err *e);

/* A list of numbers: *out [*n]; free() it; NULL if the key is absent or null.
 * KV_INPUT: it is something else, or a number is beyond the type. KV_RESOURCE:
 * memory. */
kv_rc kv_pack_json_ints(const kv_pack_json *j, const char *key, int *n,
                        int32_t **out, kv_err *e);
kv_rc kv_pack_json_floats(const kv_pack_json *j, const char *key, int *n,
                          float **out, kv_err *e);

/* *out: a new object of texts, the metadata. A text is copied; anything else
 * becomes its JSON. Leaves out null, the lists above and what a packer adds
 * itself (format, version, layers). KV_RESOURCE: memory. */
kv_rc kv_pack_json_meta(const kv_pack_json *j, json_t **out, kv_err *e);

#endif
