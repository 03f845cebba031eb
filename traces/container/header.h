/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the header of one safetensors file: eight bytes of length, then JSON;
 * the tensors' data follow without hole or overlap to the last byte. Everything
 * is checked against the size of the file in a fixed order, and the first fault
 * is reported; no tensor data is read. Programs open files through
 * safetensors.h of this folder, which calls this. Cost: linear in the header,
 * plus sorting the tensors by offset.
 */
#ifndef KV_TRACES_HEADER_H
#define KV_TRACES_HEADER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/ground/err.h"
#include "traces/container/dtype.h"

typedef struct kv_st_tensor {
  const char *name; /* UTF-8 */
  kv_st_dtype dtype;
  int rank;
  const uint64_t *shape; /* [rank], row-major; rank 0 is one element */
  const void *data;      /* in the mapped file, unaligned; little-endian */
  uint64_t bytes;        /* of data */
  int file;              /* number of the shard in its set; 0 for one file */
} kv_st_tensor;

typedef struct kv_st_header {
  json_t *root;         /* the parsed JSON, which owns names and metadata */
  json_t *meta;         /* its __metadata__, an object of texts, or NULL */
  kv_st_tensor *tensor; /* [n], by offset in the file */
  size_t n;
  uint64_t *shapes; /* what tensor[].shape points into */
} kv_st_header;

/* Parses the file whose `size` bytes are mapped at map, which must stay mapped
 * as long as out is used. file: its path, for messages. KV_INPUT: the file is
 * malformed. KV_RESOURCE: memory. After a failure *out is empty;
 * kv_st_header_free accepts it but is not needed. */
kv_rc kv_st_header_parse(const char *file, uint64_t size,
                         const unsigned char *map, kv_st_header *out,
                         kv_err *e);
/* Frees what the parser allocated and zeroes *h; h may be NULL. */
void kv_st_header_free(kv_st_header *h);

/* Parses n bytes of text as strict JSON: UTF-8, no duplicate keys, nothing
 * after it. file and what ("header", "index", "metadata answers") are for
 * messages. Free *out with json_decref; NULL after an error. KV_INPUT: it is
 * not such JSON. KV_RESOURCE: memory. */
kv_rc kv_st_json(const char *file, const char *what, size_t n,
                 const unsigned char *text, json_t **out, kv_err *e);

#endif
