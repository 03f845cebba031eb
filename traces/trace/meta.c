/* SPDX-License-Identifier: Apache-2.0
 *
 * Metadata of a trace (traces/trace/meta.h).
 */
#include "traces/trace/meta.h"

#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"

static kv_rc tell(const char *file, const char *key, const char *reason,
                  kv_err *e) {
  char a[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s: metadata %s %s", kv_show(file, a), key,
                 reason);
}

kv_rc kv_meta_count(const char *file, const kv_st *s, const char *key,
                    int least, int most, int *out, kv_err *e) {
  const char *text = kv_st_meta(s, key);
  uint64_t value = 0;
  char a[KV_SHOW], b[KV_SHOW];
  if (!text) return tell(file, key, "is missing", e);
  if (kv_text_count(text, (uint64_t)most, &value) && value >= (uint64_t)least) {
    *out = (int)value;
    return KV_OK;
  }
  return kv_fail(
      e, KV_INPUT,
      "%s: metadata %s is %s; it must be a whole number from %d to %d",
      kv_show(file, a), key, kv_show(text, b), least, most);
}

kv_rc kv_meta_float(const char *file, const kv_st *s, const char *key,
                    const float *otherwise, float *out, kv_err *e) {
  const char *text = kv_st_meta(s, key);
  if (!text && otherwise) {
    *out = *otherwise;
    return KV_OK;
  }
  if (!text) return tell(file, key, "is missing", e);
  if (kv_text_float(text, out)) return KV_OK;
  return tell(file, key, "must be a finite decimal number", e);
}

static kv_rc all_layers(int n_layers, int *n, int *list) {
  for (*n = 0; *n < n_layers; ++*n) list[*n] = *n;
  return KV_OK;
}

/* Reads one number of "[0, 5, 31]" or "0,5,31" and moves *text past it. */
static int next_layer(const char **text, int *out) {
  char digits[12];
  uint64_t value;
  *text += strspn(*text, " ");
  size_t n = strspn(*text, "0123456789");
  if (n == 0 || n >= sizeof digits) return 0;
  memcpy(digits, *text, n);
  digits[n] = 0;
  *text += n;
  *text += strspn(*text, " ");
  if (!kv_text_count(digits, INT32_MAX, &value)) return 0;
  *out = (int)value;
  return 1;
}

static kv_rc list_layers(const char *file, const char *text, int n_layers,
                         int *n, int *list, kv_err *e) {
  static const char reason[] =
      "must be `all` or an ascending list of layers of the model";
  int brackets = *text == '[', last = -1, l;
  text += brackets;
  for (*n = 0;; text++) {
    if (!next_layer(&text, &l) || l <= last || l >= n_layers) {
      return tell(file, "layers", reason, e);
    }
    list[(*n)++] = last = l;
    if (*text != ',') break;
  }
  if (strcmp(text, brackets ? "]" : "") == 0) return KV_OK;
  return tell(file, "layers", reason, e);
}

kv_rc kv_meta_layers(const char *file, const kv_st *s, int n_layers, int *n,
                     int **out, kv_err *e) {
  const char *text = kv_st_meta(s, "layers");
  if (!text) return tell(file, "layers", "is missing", e);
  int *list = calloc((size_t)n_layers, sizeof *list);
  if (!list) return kv_no_memory(e, "the layers", (size_t)n_layers);
  kv_rc rc = strcmp(text, "all") == 0
                 ? all_layers(n_layers, n, list)
                 : list_layers(file, text, n_layers, n, list, e);
  if (rc) free(list);
  if (!rc) *out = list;
  return rc;
}

kv_rc kv_meta_layout(const char *file, const kv_st *s, int *interleaved,
                     kv_err *e) {
  const char *text = kv_st_meta(s, "rope.layout");
  if (!text) return tell(file, "rope.layout", "is missing", e);
  *interleaved = strcmp(text, "interleaved") == 0;
  if (*interleaved || strcmp(text, "half") == 0) return KV_OK;
  return tell(file, "rope.layout", "must be half or interleaved", e);
}

/* A key's list of objects; *out is NULL if the key is absent. */
static kv_rc read_list(const char *file, const kv_st *s, const char *key,
                       json_t **out, kv_err *e) {
  const char *text = kv_st_meta(s, key);
  char what[40] = "metadata ";
  *out = NULL;
  if (!text) return KV_OK;
  strncat(what, key, 20);
  kv_rc rc =
      kv_st_json(file, what, strlen(text), (const unsigned char *)text, out, e);
  if (rc || json_is_array(*out)) return rc;
  json_decref(*out);
  *out = NULL;
  return tell(file, key, "is not a list", e);
}

/* Two keys of an object as a range within [least, most]. */
static int range(const json_t *item, const char *first, const char *last,
                 int least, int most, int *start, int *end) {
  const json_t *a = json_object_get(item, first);
  const json_t *b = json_object_get(item, last);
  if (!json_is_integer(a) || !json_is_integer(b)) return 0;
  json_int_t x = json_integer_value(a), y = json_integer_value(b);
  if (x < least || y < x || y > most) return 0;
  *start = (int)x;
  *end = (int)y;
  return 1;
}

static kv_rc bad_item(const char *file, const char *key, size_t i,
                      const char *reason, kv_err *e) {
  char a[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s: metadata %s: item %zu %s", kv_show(file, a),
                 key, i, reason);
}

/* A list of objects: its key, the bytes of an item in memory, its reader. */
typedef struct list {
  const char *key;
  size_t size;
  kv_rc (*read)(const char *file, const json_t *item, size_t i, int n_tokens,
                void *out, kv_err *e);
} list;

static kv_rc read_items(const list *l, const char *file, const kv_st *s,
                        int n_tokens, int *n, void **out, kv_err *e) {
  json_t *items;
  *n = 0;
  *out = NULL;
  kv_rc rc = read_list(file, s, l->key, &items, e);
  if (rc) return rc;
  size_t count = json_array_size(items);
  char *at = *out = calloc(count + 1, l->size);
  if (!at) rc = kv_no_memory(e, l->key, (count + 1) * l->size);
  for (size_t i = 0; !rc && i < count; i++, at += l->size)
    rc = l->read(file, json_array_get(items, i), i, n_tokens, at, e);
  *n = rc ? 0 : (int)count;
  json_decref(items);
  return rc;
}

static kv_rc read_answer(const char *file, const json_t *item, size_t i,
                         int n_tokens, void *out, kv_err *e) {
  kv_answer *a = out;
  if (!range(item, "start", "end", 1, n_tokens, &a->start, &a->end) ||
      !range(item, "source_start", "source_end", 0, n_tokens, &a->source_start,
             &a->source_end)) {
    return bad_item(
        file, "answers", i,
        "must have start, end, source_start and source_end within the tokens",
        e);
  }
  if (a->source_start < a->start) return KV_OK;
  return bad_item(file, "answers", i, "has its source after the answer", e);
}

kv_rc kv_meta_answers(const char *file, const kv_st *s, int n_tokens, int *n,
                      kv_answer **out, kv_err *e) {
  static const list answers = {"answers", sizeof **out, read_answer};
  void *items;
  kv_rc rc = read_items(&answers, file, s, n_tokens, n, &items, e);
  *out = items;
  return rc;
}

kv_rc kv_meta_answer_by(const char *file, const kv_st *s, kv_err *e) {
  const char *by = kv_st_meta(s, "answer_by");
  if (!by || !strcmp(by, "model") || !strcmp(by, "user") ||
      !strcmp(by, "recorder")) /* earlier versions' word for user */
    return KV_OK;
  return tell(file, "answer_by", "must be model or user", e);
}

static kv_rc read_segment(const char *file, const json_t *item, size_t i,
                          int n_tokens, void *out, kv_err *e) {
  static const char *const roles[] = {"context", "question", "answer"};
  kv_segment *g = out;
  const char *role = json_string_value(json_object_get(item, "role"));
  if (!range(item, "start", "end", 0, n_tokens, &g->start, &g->end)) {
    return bad_item(file, "segments", i,
                    "must have start and end within the tokens", e);
  }
  for (unsigned r = 0; role && r < 3; r++) {
    g->role = (kv_role)r;
    if (strcmp(role, roles[r]) == 0) return KV_OK;
  }
  return bad_item(file, "segments", i,
                  "must have the role context, question or answer", e);
}

kv_rc kv_meta_segments(const char *file, const kv_st *s, int n_tokens, int *n,
                       kv_segment **out, kv_err *e) {
  static const list segments = {"segments", sizeof **out, read_segment};
  void *items;
  kv_rc rc = read_items(&segments, file, s, n_tokens, n, &items, e);
  *out = items;
  return rc;
}
