/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading an asset: traces/decisions/asset.h. The requested tensors are first
 * found and checked (asset_find.c), then one block of memory is allocated and
 * filled.
 */
#include "traces/decisions/asset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/decisions/asset_part.h"
#include "traces/trace/own.h"

static kv_rc check_format(const kv_asset *a, const char *want, kv_err *e) {
  const char *have = kv_asset_meta(a, "format");
  char show[KV_SHOW];
  if (!want || (have && strcmp(have, want) == 0)) return KV_OK;
  return kv_fail(e, KV_INPUT, "%s: metadata format %s%s; write %s", a->path,
                 have ? "is " : "is missing", have ? kv_show(have, show) : "",
                 want);
}

static kv_rc check_prompt(const kv_asset *a, const kv_trace *t, int prompt_len,
                          kv_err *e) {
  const char *text = kv_asset_meta(a, "prompt_len");
  uint64_t n = (uint64_t)t->shape.prompt_len;
  char show[KV_SHOW];
  if (text && (!kv_text_count(text, INT32_MAX, &n) || n == 0))
    return kv_fail(
        e, KV_INPUT,
        "%s: metadata prompt_len is %s; it must be a number of tokens", a->path,
        kv_show(text, show));
  if ((int)n == prompt_len) return KV_OK;
  return kv_fail(
      e, KV_REFUSED,
      "%s needs decoding to start at token %d, not %d; use --prompt-len %d",
      a->path, (int)n, prompt_len, (int)n);
}

static kv_rc check_trace(kv_asset *a, const kv_trace *t, int prompt_len,
                         kv_err *e) {
  const char *want = kv_asset_meta(a, "trace");
  kv_digest identity;
  char hex[65], show[KV_SHOW];
  if (!want) return KV_OK;
  if (strlen(want) != 64 || strspn(want, "0123456789abcdef") != 64)
    return kv_fail(e, KV_INPUT,
                   "%s: metadata trace is %s; write the trace's identity, "
                   "which kvtrace info prints",
                   a->path, kv_show(want, show));
  if (!t->own)
    return kv_fail(e, KV_REFUSED,
                   "%s belongs to one recorded trace, but a session has none",
                   a->path);
  kv_rc rc = kv_trace_identity(t, &identity, e);
  if (rc) return rc;
  kv_digest_hex(&identity, hex);
  if (strcmp(hex, want) != 0)
    return kv_fail(e, KV_REFUSED,
                   "%s belongs to another trace (%.12s..., this is %.12s...)",
                   a->path, want, hex);
  a->of_trace = true;
  return check_prompt(a, t, prompt_len, e);
}

static kv_rc copy_texts(const kv_st *s, kv_asset *a, kv_err *e) {
  size_t n = kv_st_meta_count(s);
  kv_asset_text *text = kv_zalloc(n + 1, sizeof *text);
  a->text = text;
  for (size_t i = 0; text && i < n; i++) {
    const char *key = kv_st_meta_key(s, i), *value = kv_st_meta(s, key);
    text[i].key = kv_text_copy(strlen(key), key);
    text[i].value = kv_text_copy(strlen(value), value);
    a->texts = (int)i + 1;
    if (!text[i].key || !text[i].value) text = NULL;
  }
  return text ? KV_OK : kv_no_memory(e, "an asset", n * sizeof *text);
}

static kv_rc take(const char *path, const kv_asset_kind *kind,
                  const kv_trace *t, kv_asset *a, kv_err *e) {
  char show[KV_SHOW];
  size_t layers = (size_t)t->n_layers;
  int *layer = kv_zalloc(layers, sizeof *layer);
  kv_show(path, show);
  a->path = kv_text_copy(strlen(show), show);
  a->ask = kind->tensors;
  a->asked = kv_tensors_asked(kind->tensors);
  a->layer = layer;
  a->layers = t->n_layers;
  a->tensor = kv_zalloc(layers * (size_t)a->asked + 1, sizeof *a->tensor);
  if (!a->path || !layer || !a->tensor)
    return kv_no_memory(e, "an asset", layers * sizeof *a->tensor);
  for (int i = 0; i < t->n_layers; i++) layer[i] = t->layer[i].data.layer;
  return KV_OK;
}

/* Opens one file, not a set: the digest covers all its bytes. */
static kv_rc open_one(const char *path, kv_st **files, kv_err *e) {
  char show[KV_SHOW];
  size_t n = strlen(path);
  if (n > 5 && strcmp(path + n - 5, ".json") == 0)
    return kv_fail(
        e, KV_INPUT,
        "%s is the index of several files, but a method reads a single file",
        kv_show(path, show));
  return kv_st_open(path, files, e);
}

kv_rc kv_asset_open(const char *path, const kv_asset_kind *kind,
                    const kv_trace *t, int prompt_len, kv_asset **out,
                    kv_err *e) {
  kv_asset_own *own = kv_zalloc(1, sizeof *own);
  kv_st *files = NULL;
  *out = NULL;
  if (!own) return kv_no_memory(e, "an asset", sizeof *own);
  kv_asset *a = &own->asset;
  kv_rc rc = take(path, kind, t, a, e);
  if (!rc && !kind->tensors) {
    rc = kv_asset_lines(path, a, e);
    goto out;
  }
  if (!rc) rc = open_one(path, &files, e);
  if (!rc) a->digest = kv_st_digest(files, 0);
  if (!rc) rc = copy_texts(files, a, e);
  if (!rc) rc = check_format(a, kind->format, e);
  if (!rc) rc = check_trace(a, t, prompt_len, e);
  if (!rc) rc = kv_asset_find(files, t, own, e);
  if (!rc) rc = kv_st_damaged(files, e);
out:
  kv_st_close(files);
  if (rc)
    kv_asset_close(a);
  else
    *out = a;
  return rc;
}

const kv_trace_reads kv_asset_reads = {.asset_open = kv_asset_open,
                                       .asset_beside = kv_asset_beside};

const kv_trace_reads kv_trace_file_reads = {.scan_layer = kv_trace_scan_layer,
                                            .damaged = kv_trace_damaged,
                                            .release_layer =
                                                kv_trace_release_layer,
                                            .asset_open = kv_asset_open,
                                            .asset_beside = kv_asset_beside};
