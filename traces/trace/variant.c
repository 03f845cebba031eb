/* SPDX-License-Identifier: Apache-2.0
 *
 * Versions of the format and what version 2 adds: traces/trace/variant.h.
 */
#include "traces/trace/variant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "ref/ground/text.h"
#include "traces/trace/own.h"

static kv_rc tell(const char *file, const char *key, const char *reason,
                  kv_err *e) {
  char a[KV_SHOW], b[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s: metadata %s %s", kv_show(file, a),
                 kv_show(key, b), reason);
}

static const char *const added[] = {"attn.softcap", "attn.sliding_window",
                                    "attn.sinks", NULL};
/* Keys of version 2 that say how attention is computed. */
static const char *const known[] = {
    "attn.scale", "attn.latent", "attn.sliding_window", "attn.softcap",
    "kv.shared",  "rope.layout", "rope.scale",          NULL};

static bool among(const char *key, const char *const *list) {
  while (*list && strcmp(key, *list) != 0) list++;
  return *list;
}

static bool is_none(const char *text) { return !strcmp(text, "none"); }

static bool says_how(const char *key) {
  return !strncmp(key, "attn.", 5) || !strncmp(key, "rope.", 5) ||
         !strncmp(key, "kv.", 3);
}

static kv_rc check_keys(const char *file, const kv_st *s, int version,
                        kv_err *e) {
  for (size_t i = 0; i < kv_st_meta_count(s); i++) {
    const char *key = kv_st_meta_key(s, i);
    if (is_none(kv_st_meta(s, key))) continue;
    if (version == 1 && among(key, added))
      return tell(file, key,
                  "is set, but version 1 defines no arithmetic for it, so "
                  "results would be wrong",
                  e);
    if (version == 2 && says_how(key) && !among(key, known))
      return tell(file, key,
                  "is unknown to this program; use a newer kvreplay, or a "
                  "trace without it",
                  e);
  }
  return KV_OK;
}

kv_rc kv_variant_version(const char *file, const kv_st *s, kv_err *e) {
  const char *format = kv_st_meta(s, "format"), *v = kv_st_meta(s, "version");
  char a[KV_SHOW], b[KV_SHOW];
  if (!format || strcmp(format, "kvtrace") != 0)
    return kv_fail(e, KV_INPUT,
                   "%s: metadata format is %s; only kvtrace can be read",
                   kv_show(file, a), format ? kv_show(format, b) : "missing");
  if (!v || (strcmp(v, "1") != 0 && strcmp(v, "2") != 0))
    return kv_fail(e, KV_INPUT,
                   "%s: metadata version is %s; only 1 and 2 can be read",
                   kv_show(file, a), v ? kv_show(v, b) : "missing");
  return check_keys(file, s, *v - '0', e);
}

bool kv_variant_second(const kv_st *s) {
  return !strcmp(kv_st_meta(s, "version"), "2");
}

/* "4096" for all layers, or one number for each layer of the model, as
 * "512,512,0", optionally in brackets; 0: no window. */
static bool parse(const char *text, int n, int *out) {
  char end = *text == '[' ? ']' : 0;
  int i = 0;
  text += end != 0;
  for (;; text++) {
    text += strspn(text, " ");
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || i == n) return false;
    out[i++] = (int)strtol(text, NULL, 10);
    text += digits;
    text += strspn(text, " ");
    if (*text != ',') break;
  }
  for (int l = 1; i == 1 && l < n && !end; l++) out[l] = out[0];
  return *text == end && (!end || !text[1]) && (i == n || (i == 1 && !end));
}

static kv_rc read_windows(kv_trace *t, const kv_st *s, kv_err *e) {
  const char *text = kv_st_meta(s, "attn.sliding_window");
  int n = t->shape.n_layers, *window;
  if (!text || is_none(text)) return KV_OK;
  window = calloc((size_t)n, sizeof *window);
  if (!window) return kv_no_memory(e, "windows", (size_t)n * sizeof *window);
  bool good = parse(text, n, window);
  for (int l = 0; l < n; l++) good = good && window[l] != 1;
  for (int i = 0; good && i < t->n_layers; i++)
    t->layer[i].data.window = window[t->layer[i].data.layer];
  uint8_t *windowed = t->own->windowed = calloc((size_t)n, sizeof *windowed);
  bool any = false;
  for (int l = 0; windowed && l < n; l++) any |= windowed[l] = window[l] > 0;
  t->shape.windowed = any ? windowed : NULL;
  free(window);
  if (!windowed) return kv_no_memory(e, "windows", (size_t)n);
  if (good) return KV_OK;
  return tell(t->path, "attn.sliding_window",
              "must be a number of tokens, at least 2, or a list with one "
              "number for each layer of the model, 0 for no window",
              e);
}

static kv_rc read_softcap(kv_trace *t, const kv_st *s, kv_err *e) {
  const char *text = kv_st_meta(s, "attn.softcap");
  float cap;
  if (!text || is_none(text)) return KV_OK;
  if (!kv_text_float(text, &cap) || !(cap >= 0x1p-20f && cap <= 0x1p20f))
    return tell(t->path, "attn.softcap",
                "must be a decimal number from 2^-20 to 2^20", e);
  t->shape.softcap = cap;
  return KV_OK;
}

static kv_rc read_shared(kv_trace *t, const kv_st *s, kv_err *e) {
  const char *text = kv_st_meta(s, "kv.shared");
  if (!text || is_none(text)) return KV_OK;
  if (strcmp(text, "first") != 0)
    return tell(t->path, "kv.shared", "must be none or first", e);
  if (t->shape.d_v > t->shape.d)
    return tell(t->path, "kv.shared", "is first, but v has more numbers than k",
                e);
  t->shape.shared = 1;
  return KV_OK;
}

kv_rc kv_variant_read(kv_trace *t, const kv_st *s, kv_err *e) {
  if (!kv_variant_second(s)) return KV_OK;
  kv_rc rc = read_windows(t, s, e);
  if (!rc) rc = read_softcap(t, s, e);
  return rc ? rc : read_shared(t, s, e);
}

kv_rc kv_variant_sinks(kv_trace *t, int i, kv_err *e) {
  kv_layer_data *x = &t->layer[i].data;
  char name[KV_TENSOR_NAME];
  snprintf(name, sizeof name, "layers.%d.sinks", x->layer);
  const kv_st_tensor *y = kv_st_find(t->own->files, name);
  if (!y || !kv_variant_second(t->own->files)) return KV_OK;
  const uint64_t n = (uint64_t)t->shape.n_heads;
  kv_rc rc = kv_trace_copy(t, y, KV_ST_F32, n, (void **)&t->own->sinks[i], e);
  if (rc) return rc;
  for (uint64_t h = 0; h < n; h++)
    if (!kv_finite(t->own->sinks[i][h]))
      return kv_trace_tell(t, name, "holds NaN or Inf", e);
  x->sinks = t->own->sinks[i];
  return KV_OK;
}

kv_rc kv_trace_expect_plain(const kv_trace *t, const char *who, kv_err *e) {
  char a[KV_SHOW];
  if (t->shape.shared)
    return kv_fail(e, KV_INPUT,
                   "%s: V is a part of K (kv.shared), which %s cannot handle; "
                   "give a trace without it",
                   kv_show(t->path, a), who);
  if (t->shape.softcap > 0)
    return kv_fail(e, KV_INPUT,
                   "%s: logits have a cap (attn.softcap), which %s cannot "
                   "handle; give a trace without one",
                   kv_show(t->path, a), who);
  for (int i = 0; i < t->n_layers; i++)
    if (t->layer[i].data.sinks)
      return kv_fail(e, KV_INPUT,
                     "%s: layer %d has learned sinks, which %s cannot handle; "
                     "give a trace without them",
                     kv_show(t->path, a), t->layer[i].data.layer, who);
  for (int i = 0; i < t->n_layers; i++)
    if (t->layer[i].data.window)
      return kv_fail(
          e, KV_INPUT,
          "%s: layer %d has a sliding window of %d tokens, but %s needs layers "
          "that see all of them; give a trace of such layers only",
          kv_show(t->path, a), t->layer[i].data.layer, t->layer[i].data.window,
          who);
  return KV_OK;
}
