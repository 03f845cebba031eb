/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors and metadata that a folder of chunks becomes, in the order of the
 * result: kv_pack_lay_out of traces/trace/pack_own.h.
 */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/text/json.h"
#include "traces/trace/pack_own.h"

enum { ALONE = 4, OF_A_LAYER = 5 }; /* most tensors */

static void add(kv_pack *p, const char *name, kv_st_dtype dtype, int rank,
                const uint64_t *shape, const void *data) {
  kv_pack_tensor *x = &p->tensor[p->n++];
  *x = (kv_pack_tensor){.dtype = dtype, .rank = rank, .data = data};
  snprintf(x->name, sizeof x->name, "%s", name);
  x->bytes = kv_st_dtype_bits(dtype) / 8;
  for (int r = 0; r < rank; r++) {
    x->shape[r] = shape[r];
    x->bytes *= shape[r];
  }
}

static void add_list(kv_pack *p, const char *name, kv_st_dtype dtype, int n,
                     const void *data) {
  const uint64_t shape = (uint64_t)n;
  if (data) add(p, name, dtype, 1, &shape, data);
}

static void add_layer(kv_pack *p, int l) {
  const kv_chunks *x = &p->file[p->first[l]];
  char name[KV_TENSOR_NAME];
  for (const char *part = x->o ? "qkvo" : "qkv"; *part; part++) {
    bool query = *part == 'q' || *part == 'o',
         key = *part == 'q' || *part == 'k';
    const uint64_t shape[3] = {(uint64_t)(query ? p->n_heads : p->n_kv_heads),
                               (uint64_t)p->facts.tokens,
                               (uint64_t)(key ? x->d : x->d_v)};
    snprintf(name, sizeof name, "layers.%d.%c", x->layer, *part);
    add(p, name, x->dtype, 3, shape, NULL);
  }
  if (!x->sinks) return;
  float *all = p->sinks + (size_t)l * (size_t)p->n_heads;
  for (int i = p->first[l]; i < p->first[l + 1]; i++)
    memcpy(all + p->file[i].head, p->file[i].sinks,
           (size_t)p->file[i].heads * sizeof *all);
  snprintf(name, sizeof name, "layers.%d.sinks", x->layer);
  add_list(p, name, KV_ST_F32, p->n_heads, all);
}

/* Layers that have files, as "0,5,31"; for free(). NULL: no memory. */
static char *layers_text(const kv_pack *p) {
  size_t room = (size_t)p->facts.layers * 7 + 8, used = 0;
  char *text = malloc(room);
  if (!text) return NULL;
  for (int l = 0; l < p->facts.layers; l++)
    used += (size_t)snprintf(text + used, room - used, "%s%d", l ? "," : "",
                             p->file[p->first[l]].layer);
  return text;
}

static bool is_set(const kv_pack *p, const char *key) {
  const char *text = json_string_value(json_object_get(p->meta, key));
  return text && strcmp(text, "none") != 0;
}

/* Does the result need version 2? */
static bool second(const kv_pack *p) {
  return p->sinks || p->windowed || is_set(p, "attn.softcap") ||
         is_set(p, "attn.sliding_window") || is_set(p, "kv.shared");
}

static bool set(kv_pack *p, const char *key, const char *text) {
  return text && json_object_set_new(p->meta, key, json_string(text)) == 0;
}

/* If trace.json lists layers, they must be those that have files. */
static kv_rc check_listed(const kv_pack *p, const char *layers, kv_err *e) {
  const json_t *x = json_object_get(p->json.root, "layers");
  char *listed = json_is_array(x) ? kv_json_print(x, JSON_COMPACT) : NULL;
  char a[KV_SHOW], b[KV_SHOW], c[KV_SHOW];
  const char *text = json_string_value(x);
  size_t n = listed ? strlen(listed) : 0;
  if (n > 1) {
    listed[n - 1] = 0; /* without its brackets */
    text = listed + 1;
  }
  bool same = !x || json_is_null(x) || (text && strcmp(text, layers) == 0) ||
              (text && strcmp(text, "all") == 0);
  kv_rc rc =
      same ? KV_OK
           : kv_fail(e, KV_INPUT,
                     "%s: layers is %s, but there are files of %s; list these, "
                     "ascending",
                     kv_show(p->json.path, a),
                     text && *text ? kv_show(text, b) : "not a list",
                     kv_show(layers, c));
  free(listed);
  return rc;
}

static kv_rc describe(kv_pack *p, kv_err *e) {
  kv_rc rc = kv_pack_json_meta(&p->json, &p->meta, e);
  char number[16], *layers = layers_text(p);
  if (!rc && !layers) rc = kv_no_memory(e, "the layers", 0);
  if (!rc) rc = check_listed(p, layers, e);
  snprintf(number, sizeof number, "%d", p->file->d);
  bool all = p->facts.layers == p->n_layers;
  if (!rc &&
      !(set(p, "format", "kvtrace") && set(p, "layers", all ? "all" : layers) &&
        set(p, "version", second(p) ? "2" : "1") &&
        (json_object_get(p->meta, "head_dim") || set(p, "head_dim", number))))
    rc = kv_no_memory(e, "metadata", 0);
  free(layers);
  return rc;
}

static bool any_sinks(const kv_pack *p) {
  for (int i = 0; i < p->facts.files; i++)
    if (p->file[i].sinks) return true;
  return false;
}

kv_rc kv_pack_lay_out(kv_pack *p, kv_err *e) {
  size_t layers = (size_t)p->facts.layers;
  int turned, windowed;
  kv_rc rc =
      kv_pack_json_floats(&p->json, "rope.inv_freq", &turned, &p->inv_freq, e);
  if (!rc)
    rc = kv_pack_json_floats(&p->json, "rope.inv_freq.windowed", &windowed,
                             &p->windowed, e);
  if (rc) return rc;
  p->tensor = calloc(ALONE + layers * OF_A_LAYER, sizeof *p->tensor);
  if (any_sinks(p))
    p->sinks = calloc(layers * (size_t)p->n_heads, sizeof *p->sinks);
  if (!p->tensor || (any_sinks(p) && !p->sinks))
    return kv_no_memory(e, "the tensors", layers * sizeof *p->tensor);
  add_list(p, "tokens", KV_ST_I32, p->facts.tokens, p->tokens);
  add_list(p, "positions", KV_ST_I32, p->facts.tokens, p->positions);
  add_list(p, "rope.inv_freq", KV_ST_F32, turned, p->inv_freq);
  add_list(p, "rope.inv_freq.windowed", KV_ST_F32, windowed, p->windowed);
  for (int l = 0; l < p->facts.layers; l++) add_layer(p, l);
  return describe(p, e);
}
