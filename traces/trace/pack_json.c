/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace.json of a folder of chunks: traces/trace/pack_json.h.
 */
#define _GNU_SOURCE 1
#include "traces/trace/pack_json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/ground/text.h"
#include "traces/container/index.h"
#include "traces/text/json.h"

static kv_rc tell(const kv_pack_json *j, const char *key, const char *why,
                  kv_err *e) {
  char a[KV_SHOW], b[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s: %s %s", kv_show(j->path, a), kv_show(key, b),
                 why);
}

kv_rc kv_pack_json_read(const char *folder, kv_pack_json *out, kv_err *e) {
  char a[KV_SHOW];
  *out = (kv_pack_json){0};
  if (asprintf(&out->path, "%s/trace.json", folder) < 0) {
    out->path = NULL;
    return kv_no_memory(e, "a file name", strlen(folder));
  }
  if (access(out->path, F_OK))
    return kv_fail(e, KV_INPUT,
                   "%s: %s; write what the ranks cannot know, such as "
                   "prompt_len, into it (traces/PACK.md)",
                   kv_show(out->path, a), strerror(errno));
  kv_rc rc = kv_st_json_file(out->path, "text", &out->root, e);
  return rc || json_is_object(out->root)
             ? rc
             : tell(out, "all of it", "is not a JSON object", e);
}

void kv_pack_json_free(kv_pack_json *j) {
  free(j->path);
  json_decref(j->root);
  *j = (kv_pack_json){0};
}

kv_rc kv_pack_json_count(const kv_pack_json *j, const char *key, int most,
                         int *out, kv_err *e) {
  const json_t *x = json_object_get(j->root, key);
  uint64_t n = 0;
  char a[KV_SHOW];
  if (!x) return tell(j, key, "is missing", e);
  if (json_is_integer(x) && json_integer_value(x) > 0)
    n = (uint64_t)json_integer_value(x);
  if (json_is_string(x)) kv_text_count(json_string_value(x), INT32_MAX, &n);
  if (n < 1 || n > (uint64_t)most)
    return kv_fail(e, KV_INPUT, "%s: %s must be a whole number from 1 to %d",
                   kv_show(j->path, a), key, most);
  *out = (int)n;
  return KV_OK;
}

static bool take_int(const json_t *x, void *out) {
  json_int_t n = json_integer_value(x);
  if (!json_is_integer(x) || n < INT32_MIN || n > INT32_MAX) return false;
  *(int32_t *)out = (int32_t)n;
  return true;
}

static bool take_float(const json_t *x, void *out) {
  float value = (float)json_number_value(x);
  *(float *)out = value;
  return json_is_number(x) && isfinite(value);
}

static kv_rc take_list(const kv_pack_json *j, const char *key,
                       bool (*take)(const json_t *, void *), int *n, void **out,
                       kv_err *e) {
  const json_t *list = json_object_get(j->root, key);
  *out = NULL;
  *n = 0;
  if (!list || json_is_null(list)) return KV_OK;
  if (json_array_size(list) == 0)
    return tell(j, key, "must be a list of numbers", e);
  size_t count = json_array_size(list);
  char *at = *out = calloc(count, 4);
  if (!at) return kv_no_memory(e, key, 4 * count);
  for (size_t i = 0; i < count; i++, at += 4)
    if (!take(json_array_get(list, i), at))
      return tell(j, key, "holds something other than 32-bit numbers", e);
  *n = (int)count;
  return KV_OK;
}

kv_rc kv_pack_json_ints(const kv_pack_json *j, const char *key, int *n,
                        int32_t **out, kv_err *e) {
  void *list;
  kv_rc rc = take_list(j, key, take_int, n, &list, e);
  *out = list;
  return rc;
}

kv_rc kv_pack_json_floats(const kv_pack_json *j, const char *key, int *n,
                          float **out, kv_err *e) {
  void *list;
  kv_rc rc = take_list(j, key, take_float, n, &list, e);
  *out = list;
  return rc;
}

static bool is_other(const char *key) {
  static const char *const other[] = {
      "tokens", "positions", "rope.inv_freq", "rope.inv_freq.windowed",
      "format", "version",   "layers"};
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    if (strcmp(key, other[i]) == 0) return true;
  return false;
}

/* A real number becomes the fewest digits that give it back, as in Python. */
static char *text_of(const json_t *x) {
  const size_t how = JSON_COMPACT | JSON_ENCODE_ANY;
  if (json_is_string(x))
    return kv_text_copy(json_string_length(x), json_string_value(x));
  for (size_t digits = 1; json_is_real(x) && digits < 17; digits++) {
    char *text = kv_json_print(x, how | JSON_REAL_PRECISION(digits));
    if (!text || strtod(text, NULL) == json_real_value(x)) return text;
    free(text);
  }
  return kv_json_print(x, how);
}

kv_rc kv_pack_json_meta(const kv_pack_json *j, json_t **out, kv_err *e) {
  const char *key;
  json_t *value;
  bool bad = !(*out = json_object());
  json_object_foreach(j->root, key, value) {
    if (bad || is_other(key) || json_is_null(value)) continue;
    char *text = text_of(value);
    bad = !text || json_object_set_new(*out, key, json_string(text));
    free(text);
  }
  return bad ? kv_no_memory(e, "metadata", 0) : KV_OK;
}
