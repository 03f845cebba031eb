/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of one safetensors file: eight bytes of length, JSON, then data
 * without hole or overlap to the last byte. kv_st_header_parse checks all of
 * it against the size of the file, in a fixed order, and says the first thing
 * that is wrong; it looks at no tensor data. Cost: linear in the header, a
 * sort by offset.
 */
#ifndef KV_TRACES_HEADER_H
#define KV_TRACES_HEADER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/ground/err.h"
#include "traces/container/dtype.h"

typedef struct kv_st_tensor {
  const char *name;
  kv_st_dtype dtype;
  int rank;
  const uint64_t *shape; /* [rank], row-major; rank 0 is one element */
  const void *data;      /* unaligned; little-endian */
  uint64_t bytes;
  int file; /* which shard */
} kv_st_tensor;

typedef struct kv_st_header {
  json_t *root;         /* owns the names and the metadata */
  json_t *meta;         /* borrowed; NULL where there is none */
  kv_st_tensor *tensor; /* [n], by offset */
  size_t n;
  uint64_t *shapes; /* all shapes, one behind the other */
} kv_st_header;

/* file: for the sentences. map: the size bytes of the file; what it points
 * to must outlive out. On failure out is empty. */
kv_rc kv_st_header_parse(const char *file, uint64_t size,
                         const unsigned char *map, kv_st_header *out,
                         kv_err *e);
void kv_st_header_free(kv_st_header *h);

/* Text as an object, strict: UTF-8, no duplicate keys, nothing behind it.
 * what: "header", "index", or a metadata key, for the sentence. */
kv_rc kv_st_json(const char *file, const char *what, size_t n,
                 const unsigned char *text, json_t **out, kv_err *e);

#endif
