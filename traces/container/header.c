/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks, in the order that traces/container/header.h states: the length field,
 * UTF-8, JSON, and the type of every value; then, along the offsets, that each
 * tensor begins where the one before ended and that its bytes are its shape
 * times its type; last, that the file ends where the data does.
 */
#include "traces/container/header.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/text/json.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the container is little-endian and read without a copy");

enum { HEADER_MOST = 100000000, FIELD = 8 };

typedef struct offset {
  uint64_t begin, end;
} offset;

typedef struct parser {
  const char *file;
  uint64_t size; /* of the file */
  kv_st_header *h;
  offset *at; /* [h->n]; sorted together with h->tensor through order */
  size_t shapes_used;
  kv_err *e;
} parser;

static kv_rc tell(const parser *p, const char *name, const char *reason) {
  char a[KV_SHOW], b[KV_SHOW];
  return kv_fail(p->e, KV_INPUT, "%s: tensor %s: %s", kv_show(p->file, a),
                 kv_show(name, b), reason);
}

kv_rc kv_st_json(const char *file, const char *what, size_t n,
                 const unsigned char *text, json_t **out, kv_err *e) {
  char a[KV_SHOW], b[KV_SHOW];
  json_error_t why;
  bool no_memory;
  *out = NULL;
  kv_show(file, a);
  if (!kv_utf8_valid(n, text)) {
    return kv_fail(e, KV_INPUT, "%s: the %s is not UTF-8", a, what);
  }
  *out = kv_json_load(n, text, &no_memory, &why);
  if (*out) return KV_OK;
  if (no_memory) return kv_no_memory(e, what, n);
  switch (json_error_code(&why)) {
  case json_error_duplicate_key:
    return kv_fail(e, KV_INPUT, "%s: the %s has a duplicate key at byte %d", a,
                   what, why.position);
  default:
    return kv_fail(e, KV_INPUT, "%s: the %s is not valid JSON: %s (byte %d)", a,
                   what, kv_show(why.text, b), why.position);
  }
}

/* A JSON integer of at least 0; false for anything else. */
static int natural(const json_t *value, uint64_t *out) {
  if (!json_is_integer(value) || json_integer_value(value) < 0) return 0;
  *out = (uint64_t)json_integer_value(value);
  return 1;
}

static kv_rc read_shape(parser *p, const json_t *list, kv_st_tensor *t) {
  if (!json_is_array(list))
    return tell(p, t->name, "has a shape that is not a list");
  uint64_t *shape = p->h->shapes + p->shapes_used;
  t->rank = (int)json_array_size(list);
  t->shape = shape;
  for (int i = 0; i < t->rank; i++) {
    if (!natural(json_array_get(list, (size_t)i), &shape[i])) {
      return tell(p, t->name,
                  "has a shape with something other than whole numbers");
    }
  }
  p->shapes_used += (size_t)t->rank;
  return KV_OK;
}

static kv_rc read_offsets(parser *p, const json_t *list, const char *name,
                          offset *at) {
  if (!json_is_array(list) || json_array_size(list) != 2 ||
      !natural(json_array_get(list, 0), &at->begin) ||
      !natural(json_array_get(list, 1), &at->end)) {
    return tell(p, name, "must have a pair of whole numbers as data_offsets");
  }
  return KV_OK;
}

static kv_rc read_entry(parser *p, const json_t *entry, kv_st_tensor *t,
                        offset *at) {
  if (!json_is_object(entry)) return tell(p, t->name, "is not an object");
  const char *type = json_string_value(json_object_get(entry, "dtype"));
  if (!type) return tell(p, t->name, "has no dtype");
  t->dtype = kv_st_dtype_find(type);
  if (t->dtype == KV_ST_DTYPES) {
    char a[KV_SHOW], b[KV_SHOW], c[KV_SHOW];
    return kv_fail(p->e, KV_INPUT, "%s: tensor %s: unknown dtype %s",
                   kv_show(p->file, a), kv_show(t->name, b), kv_show(type, c));
  }
  kv_rc rc = read_shape(p, json_object_get(entry, "shape"), t);
  if (rc) return rc;
  rc = read_offsets(p, json_object_get(entry, "data_offsets"), t->name, at);
  if (rc) return rc;
  if (json_object_size(entry) != 3) {
    return tell(p, t->name,
                "has fields other than dtype, shape and data_offsets");
  }
  return KV_OK;
}

static kv_rc read_meta(parser *p, json_t *meta) {
  const char *key;
  json_t *value;
  char a[KV_SHOW], b[KV_SHOW];
  p->h->meta = meta;
  if (!json_is_object(meta)) {
    return kv_fail(p->e, KV_INPUT, "%s: __metadata__ is not an object",
                   kv_show(p->file, a));
  }
  json_object_foreach(meta, key, value) {
    if (json_is_string(value)) continue;
    return kv_fail(p->e, KV_INPUT,
                   "%s: metadata %s is not a string, as all metadata must be",
                   kv_show(p->file, a), kv_show(key, b));
  }
  return KV_OK;
}

/* Takes memory for every tensor and shape number that the header may hold. */
static kv_rc take_room(parser *p) {
  size_t n = json_object_size(p->h->root), numbers = 0;
  const char *key;
  json_t *value;
  json_object_foreach(p->h->root, key, value) {
    numbers += json_array_size(json_object_get(value, "shape"));
  }
  p->h->tensor = calloc(n + 1, sizeof *p->h->tensor);
  p->at = calloc(n + 1, sizeof *p->at);
  p->h->shapes = calloc(numbers + 1, sizeof *p->h->shapes);
  if (p->h->tensor && p->at && p->h->shapes) return KV_OK;
  return kv_no_memory(p->e, "the tensor table", n * sizeof *p->h->tensor);
}

static kv_rc read_all(parser *p) {
  const char *key;
  json_t *value;
  json_object_foreach(p->h->root, key, value) {
    kv_rc rc;
    if (strcmp(key, "__metadata__") == 0) {
      rc = read_meta(p, value);
    } else {
      kv_st_tensor *t = &p->h->tensor[p->h->n];
      t->name = key;
      rc = read_entry(p, value, t, &p->at[p->h->n]);
      p->h->n++;
    }
    if (rc) return rc;
  }
  return KV_OK;
}

typedef struct place {
  offset at;
  kv_st_tensor tensor;
} place;

static int by_offset(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->at.begin != y->at.begin) return x->at.begin < y->at.begin ? -1 : 1;
  if (x->at.end != y->at.end) return x->at.end < y->at.end ? -1 : 1;
  return strcmp(x->tensor.name, y->tensor.name);
}

static kv_rc sort_all(parser *p) {
  size_t n = p->h->n;
  place *list = calloc(n + 1, sizeof *list);
  if (!list) return kv_no_memory(p->e, "the tensor table", n * sizeof *list);
  for (size_t i = 0; i < n; i++) {
    list[i] = (place){p->at[i], p->h->tensor[i]};
  }
  qsort(list, n, sizeof *list, by_offset);
  for (size_t i = 0; i < n; i++) {
    p->at[i] = list[i].at;
    p->h->tensor[i] = list[i].tensor;
  }
  free(list);
  return KV_OK;
}

/* Bytes by shape and type. */
static kv_rc measure(const parser *p, const kv_st_tensor *t, uint64_t *bytes) {
  uint64_t n = 1;
  for (int i = 0; i < t->rank; i++) {
    if (__builtin_mul_overflow(n, t->shape[i], &n)) {
      return tell(p, t->name, "has a shape that overflows 64 bits");
    }
  }
  if (__builtin_mul_overflow(n, kv_st_dtype_bits(t->dtype), &n)) {
    return tell(p, t->name, "has a shape that overflows 64 bits");
  }
  if (n % 8 != 0) return tell(p, t->name, "does not end on a whole byte");
  *bytes = n / 8;
  return KV_OK;
}

static kv_rc place_one(const parser *p, const offset *at, uint64_t end,
                       kv_st_tensor *t) {
  uint64_t bytes = 0;
  if (at->begin < end) return tell(p, t->name, "overlaps the tensor before it");
  if (at->begin > end) return tell(p, t->name, "leaves a hole before it");
  if (at->end < at->begin) return tell(p, t->name, "ends before it begins");
  kv_rc rc = measure(p, t, &bytes);
  if (rc) return rc;
  if (at->end - at->begin != bytes) {
    return tell(p, t->name, "has offsets that do not fit its shape and dtype");
  }
  t->bytes = bytes;
  return KV_OK;
}

static kv_rc walk(parser *p, const unsigned char *data, uint64_t room) {
  uint64_t end = 0;
  char a[KV_SHOW];
  for (size_t i = 0; i < p->h->n; i++) {
    kv_rc rc = place_one(p, &p->at[i], end, &p->h->tensor[i]);
    if (rc) return rc;
    /* A pointer may only be formed within the file. */
    if (end <= room) p->h->tensor[i].data = data + end;
    end = p->at[i].end;
  }
  if (end == room) return KV_OK;
  unsigned long long more = end > room ? end - room : room - end;
  return kv_fail(p->e, KV_INPUT, "%s: %llu %s bytes at the end",
                 kv_show(p->file, a), more,
                 end > room ? "missing" : "trailing");
}

/* Reads the length field and checks it against the file's size. */
static kv_rc read_length(const parser *p, const unsigned char *map,
                         uint64_t *n) {
  char a[KV_SHOW];
  kv_show(p->file, a);
  if (p->size < FIELD) {
    return kv_fail(p->e, KV_INPUT, "%s: too short to be a safetensors file", a);
  }
  memcpy(n, map, FIELD);
  if (*n > HEADER_MOST) {
    return kv_fail(p->e, KV_INPUT,
                   "%s: the header claims %llu bytes, over the limit of %d; "
                   "this is probably not a safetensors file",
                   a, (unsigned long long)*n, (int)HEADER_MOST);
  }
  if (*n > p->size - FIELD) {
    return kv_fail(p->e, KV_INPUT,
                   "%s: the header (%llu bytes) is longer than the file", a,
                   (unsigned long long)*n);
  }
  return KV_OK;
}

/* Some writers align the data with zero bytes after the header's JSON, where
 * the format has blanks; the reader of the format's authors refuses them too.
 * If nothing else is wrong, says so; otherwise *e stays. */
static void tell_padding(const char *file, size_t n, const unsigned char *text,
                         kv_err *e) {
  char a[KV_SHOW];
  size_t m = n;
  json_t *root;
  kv_err other;
  while (m && text[m - 1] == 0) m--;
  if (m == n || kv_st_json(file, "header", m, text, &root, &other)) return;
  json_decref(root);
  kv_fail(e, KV_INPUT,
          "%s: the header is padded with %zu zero bytes instead of blanks "
          "(0x20); fix the program that wrote the file",
          kv_show(file, a), n - m);
}

kv_rc kv_st_header_parse(const char *file, uint64_t size,
                         const unsigned char *map, kv_st_header *out,
                         kv_err *e) {
  parser p = {.file = file, .size = size, .h = out, .e = e};
  uint64_t n = 0;
  char a[KV_SHOW];
  *out = (kv_st_header){0};
  kv_rc rc = read_length(&p, map, &n);
  if (rc) return rc;
  rc = kv_st_json(file, "header", (size_t)n, map + FIELD, &out->root, e);
  if (rc == KV_INPUT) tell_padding(file, (size_t)n, map + FIELD, e);
  if (rc) return rc;
  if (!json_is_object(out->root)) {
    rc = kv_fail(e, KV_INPUT, "%s: the header is not a JSON object",
                 kv_show(file, a));
  }
  if (!rc) rc = take_room(&p);
  if (!rc) rc = read_all(&p);
  if (!rc) rc = sort_all(&p);
  if (!rc) rc = walk(&p, map + FIELD + n, size - FIELD - n);
  free(p.at);
  if (rc) kv_st_header_free(out);
  return rc;
}

void kv_st_header_free(kv_st_header *h) {
  if (!h) return;
  json_decref(h->root);
  free(h->tensor);
  free(h->shapes);
  *h = (kv_st_header){0};
}
