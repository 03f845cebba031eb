/* SPDX-License-Identifier: Apache-2.0
 *
 * The files: sim/inspect/rebuilt.h. What they make of tokens is in latent.c.
 */
#include "sim/inspect/rebuilt.h"

#include <string.h>
#include <unistd.h>

#include "sim/inspect/latent.h"
#include "traces/decisions/asset.h"

const char *const kv_rebuilt_way[KV_REBUILT_WAYS] = {"nearest", "none"};

int kv_compressors_layers(const kv_compressors *c, int i) {
  const kv_asset *a = c->file[i];
  int n = 0;
  for (int l = 0; l < a->layers; l++) n += !kv_latents_lack(a, a->layer[l]);
  return n;
}

static bool twice(const kv_compressors *c, const kv_asset *a) {
  for (int i = 0; i < c->n; i++)
    if (!memcmp(&c->file[i]->digest, &a->digest, sizeof a->digest)) return true;
  return false;
}

static kv_rc add(const kv_trace *t, const char *path, kv_compressors *c,
                 kv_err *e) {
  kv_asset *a = NULL;
  kv_compressor widths;
  if (c->n == KV_REBUILT_FILES)
    return kv_fail(e, KV_USAGE,
                   "more than %d files of weights at once: name the others in "
                   "another command, their rows go into the same database",
                   KV_REBUILT_FILES);
  kv_rc rc =
      kv_asset_open(path, &kv_latents_kind, t, t->shape.prompt_len, &a, e);
  if (!rc)
    rc = kv_open_compressor(&t->shape, "deltakv", a, kv_latents_lack, a,
                            &widths, e);
  if (rc || twice(c, a)) {
    kv_asset_close(a);
    return rc;
  }
  c->path[c->n] = path;
  c->file[c->n++] = a;
  return KV_OK;
}

kv_rc kv_compressors_open(const kv_trace *t, int n, const char *const *path,
                          kv_compressors *out, kv_err *e) {
  kv_err none = {0};
  kv_rc rc = KV_OK;
  out->n = 0;
  out->beside =
      !kv_asset_beside(t, "deltakv", sizeof out->own, out->own, &none) &&
      access(out->own, F_OK) == 0;
  if (out->beside) rc = add(t, out->own, out, e);
  for (int i = 0; !rc && i < n; i++) rc = add(t, path[i], out, e);
  if (rc != KV_REFUSED) return rc;
  if (e) e->rc = KV_INPUT; /* there is no cell that could be refused */
  return KV_INPUT;
}

void kv_compressors_close(kv_compressors *c) {
  while (c->n) kv_asset_close(c->file[--c->n]);
}
