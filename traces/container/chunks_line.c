/* SPDX-License-Identifier: Apache-2.0
 *
 * The first line of a file of chunks: traces/container/chunks_line.h. An
 * unknown key is refused, because a mistyped one would be ignored silently.
 */
#include "traces/container/chunks_line.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"

/* The limits of a trace (traces/trace/trace.c). */
enum { LAYERS_MOST = 100000, HEADS_MOST = 1 << 20, DIM_MOST = 1 << 16 };
enum { ROW_MOST = 1 << 26 }; /* bytes of a part of one token */

typedef struct count {
  const char *key;
  size_t offset;
  int least, most;
  int otherwise; /* if it is absent; -1: it must exist */
} count;

#define OF(member) offsetof(kv_chunks, member)
static const count counts[] = {
    {"layer", OF(layer), 0, LAYERS_MOST - 1, -1},
    {"head", OF(head), 0, HEADS_MOST - 1, 0},
    {"heads", OF(heads), 1, HEADS_MOST, -1},
    {"kv_head", OF(kv_head), 0, HEADS_MOST - 1, 0},
    {"kv_heads", OF(kv_heads), 1, HEADS_MOST, -1},
    {"head_dim", OF(d), 1, DIM_MOST, -1},
    {"value_dim", OF(d_v), 1, DIM_MOST, 0},
};
enum { COUNTS = sizeof counts / sizeof *counts };

/* Names as in safetensors, and as in torch and numpy. */
static const struct {
  const char *name;
  kv_st_dtype type;
} types[] = {{"F16", KV_ST_F16},   {"float16", KV_ST_F16},
             {"BF16", KV_ST_BF16}, {"bfloat16", KV_ST_BF16},
             {"F32", KV_ST_F32},   {"float32", KV_ST_F32}};

static kv_rc tell(const char *path, const char *key, const char *why,
                  kv_err *e) {
  char a[KV_SHOW], b[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s: %s of its first line %s", kv_show(path, a),
                 kv_show(key, b), why);
}

static kv_rc read_count(const char *path, const json_t *line, const count *x,
                        int *out, kv_err *e) {
  const json_t *y = json_object_get(line, x->key);
  char a[KV_SHOW];
  if (!y && x->otherwise >= 0) {
    *out = x->otherwise;
    return KV_OK;
  }
  json_int_t n = json_is_integer(y) ? json_integer_value(y) : -1;
  if (n < x->least || n > x->most)
    return kv_fail(e, KV_INPUT,
                   "%s: %s of its first line is %s; it must be a whole number "
                   "from %d to %d",
                   kv_show(path, a), x->key, y ? "something else" : "missing",
                   x->least, x->most);
  *out = (int)n;
  return KV_OK;
}

static kv_rc read_type(const char *path, const json_t *line, kv_chunks *out,
                       kv_err *e) {
  const char *name = json_string_value(json_object_get(line, "dtype"));
  const char *dot = name ? strrchr(name, '.') : NULL; /* torch.bfloat16 */
  if (dot) name = dot + 1;
  for (size_t i = 0; name && i < sizeof types / sizeof *types; i++) {
    out->dtype = types[i].type;
    if (strcmp(name, types[i].name) == 0) return KV_OK;
  }
  return tell(path, "dtype", "must be F16, BF16 or F32", e);
}

static kv_rc read_sinks(const char *path, const json_t *line, kv_chunks *out,
                        kv_err *e) {
  const json_t *list = json_object_get(line, "sinks");
  if (!list) return KV_OK;
  if (json_array_size(list) != (size_t)out->heads)
    return tell(path, "sinks",
                "must be a list of one number for each of its heads", e);
  out->sinks = calloc((size_t)out->heads, sizeof *out->sinks);
  if (!out->sinks)
    return kv_no_memory(e, "sinks", (size_t)out->heads * sizeof *out->sinks);
  for (int h = 0; h < out->heads; h++) {
    const json_t *x = json_array_get(list, (size_t)h);
    if (!json_is_number(x))
      return tell(path, "sinks", "holds something other than numbers", e);
    out->sinks[h] = (float)json_number_value(x);
  }
  return KV_OK;
}

static bool known(const char *key) {
  for (int i = 0; i < COUNTS; i++)
    if (strcmp(key, counts[i].key) == 0) return true;
  return !strcmp(key, "dtype") || !strcmp(key, "o") || !strcmp(key, "sinks");
}

static kv_rc check_keys(const char *path, const json_t *line, kv_err *e) {
  json_t *other = (json_t *)(uintptr_t)line; /* jansson's iterator wants it */
  const char *key;
  json_t *value;
  json_object_foreach(other, key, value) {
    if (!known(key)) return tell(path, key, "is an unknown key", e);
  }
  return KV_OK;
}

kv_rc kv_chunks_line(const char *path, const json_t *line, kv_chunks *out,
                     kv_err *e) {
  const json_t *o = json_object_get(line, "o");
  if (!json_is_object(line))
    return tell(path, "all", "is not a JSON object", e);
  kv_rc rc = check_keys(path, line, e);
  for (int i = 0; !rc && i < COUNTS; i++)
    rc = read_count(path, line, &counts[i],
                    (int *)(void *)((char *)out + counts[i].offset), e);
  if (!rc) rc = read_type(path, line, out, e);
  if (!rc && o && !json_is_boolean(o))
    rc = tell(path, "o", "must be true or false", e);
  if (rc) return rc;
  out->o = json_is_true(o);
  if (out->d_v == 0) out->d_v = out->d;
  for (const char *x = "qkvo"; *x; x++)
    if (kv_chunks_row(out, *x) > ROW_MOST)
      return tell(path, "head_dim", "gives rows of over 64 MiB a token", e);
  return read_sinks(path, line, out, e);
}
