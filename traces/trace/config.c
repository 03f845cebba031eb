/* SPDX-License-Identifier: Apache-2.0
 *
 * The geometry that a config.json of Hugging Face transformers describes:
 * kv_plan_of_config of traces/trace/plan.h. Architectures name the same number
 * differently; the known names are tried in order, in text_config if it exists.
 */
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/container/index.h"
#include "traces/trace/plan.h"

enum { LAYERS_MOST = KV_KEEP_LAYERS, NUMBER_MOST = 65536 };

/* What a config.json of this type may leave out, as in transformers 5.2. */
typedef struct known {
  const char *type; /* model_type */
  int layers, heads, kv_heads, d;
} known;

static const known defaults[] = {
    {"gemma", 28, 16, 16, 256},     {"gemma2", 26, 8, 4, 256},
    {"gemma3_text", 26, 8, 4, 256}, {"gpt_oss", 36, 64, 8, 64},
    {"qwen3", 32, 32, 32, 128},     {"qwen3_moe", 24, 32, 4, 128}};

static const char *const without_rope[] = {
    "biogpt", "bloom", "gpt2", "gpt_bigcode", "gpt_neo", "mpt", "opt", "xglm"};

typedef struct job {
  const char *path;
  const json_t *root, *text; /* text: that of the language model, or root */
  const char *type;          /* model_type; "": none */
  const known *known;        /* NULL: no defaults are known */
} job;

static bool is(const job *w, const char *type) {
  return strcmp(w->type, type) == 0;
}

/* The first of the keys, separated by blanks, that exists and is not null. */
static const json_t *find(const json_t *in, const char *keys, char key[32]) {
  while (*keys) {
    size_t n = strcspn(keys, " ");
    memcpy(key, keys, n);
    key[n] = 0;
    const json_t *x = json_object_get(in, key);
    if (x && !json_is_null(x)) return x;
    keys += n + (keys[n] == ' ');
  }
  return NULL;
}

/* A number of 1 to most by the first of the keys. Without any: `otherwise` or,
 * if that is 0, KV_INPUT. */
static kv_rc number(const job *w, const char *keys, int most, int otherwise,
                    int *out, kv_err *e) {
  char a[KV_SHOW], key[32];
  const json_t *x = find(w->text, keys, key);
  *out = otherwise;
  if (!x && otherwise) return KV_OK;
  if (!x)
    return kv_fail(
        e, KV_INPUT,
        "%s: has no %.*s, so it does not describe a model with attention",
        kv_show(w->path, a), (int)strcspn(keys, " "), keys);
  json_int_t value = json_integer_value(x);
  if (json_is_integer(x) && value >= 1 && value <= most) {
    *out = (int)value;
    return KV_OK;
  }
  return kv_fail(e, KV_INPUT, "%s: %s must be a whole number from 1 to %d",
                 kv_show(w->path, a), key, most);
}

/* --- heads ---------------------------------------------------------------- */

/* Falcon and StarCoder have one KV head unless they say otherwise. */
static bool multi_query(const job *w) {
  const json_t *x = json_object_get(w->text, "multi_query");
  bool usual = is(w, "falcon") || is(w, "RefinedWebModel") ||
               is(w, "RefinedWeb") || is(w, "gpt_bigcode");
  if (json_is_true(json_object_get(w->text, "new_decoder_architecture")))
    return false;
  return x ? json_is_true(x) : usual;
}

static kv_rc read_heads(const job *w, kv_shape *s, kv_err *e) {
  const known *k = w->known;
  char a[KV_SHOW];
  kv_rc rc = number(w, "num_attention_heads n_head n_heads num_heads",
                    NUMBER_MOST, k ? k->heads : 0, &s->n_heads, e);
  if (rc) return rc;
  if (multi_query(w))
    s->n_kv_heads = 1;
  else
    rc = number(w,
                "num_key_value_heads num_kv_heads n_head_kv "
                "multi_query_group_num",
                NUMBER_MOST, k ? k->kv_heads : s->n_heads, &s->n_kv_heads, e);
  if (rc || s->n_heads % s->n_kv_heads == 0) return rc;
  return kv_fail(e, KV_INPUT, "%s: %d query heads do not divide by %d KV heads",
                 kv_show(w->path, a), s->n_heads, s->n_kv_heads);
}

/* Multi-head latent attention, as a forward pass expands it. */
static kv_rc read_latent(const job *w, kv_shape *s, kv_err *e) {
  int turned = 0;
  s->n_kv_heads = s->n_heads;
  kv_rc rc = number(w, "qk_nope_head_dim", NUMBER_MOST, 0, &s->d, e);
  if (!rc) rc = number(w, "qk_rope_head_dim", NUMBER_MOST, 0, &turned, e);
  s->d += turned;
  return rc ? rc : number(w, "v_head_dim", NUMBER_MOST, 0, &s->d_v, e);
}

static kv_rc read_dimensions(const job *w, kv_shape *s, kv_err *e) {
  char key[32];
  int width;
  if (find(w->text, "kv_lora_rank", key)) return read_latent(w, s, e);
  s->d = w->known ? w->known->d : 0;
  kv_rc rc = KV_OK;
  if (s->d == 0 && !find(w->text, "head_dim kv_channels", key)) {
    rc = number(w, "hidden_size n_embd d_model dim", INT_MAX, 0, &width, e);
    s->d = rc ? 0 : width / s->n_heads;
  }
  if (!rc) rc = number(w, "head_dim kv_channels", NUMBER_MOST, s->d, &s->d, e);
  return rc ? rc : number(w, "v_head_dim", NUMBER_MOST, s->d, &s->d_v, e);
}

/* --- layers --------------------------------------------------------------- */

/* Linear attention, convolutions and states leave nothing to record. */
static bool attends(const char *type) {
  return type && !strstr(type, "linear") &&
         (strstr(type, "attention") || strstr(type, "hybrid"));
}

/* Which layers attend: by a type for each; by a few types, repeated
 * (RecurrentGemma); by their numbers (Bamba, LFM2); or those with l % every ==
 * at: in Qwen3-Next the last of `every` layers, in Jamba those with the
 * remainder `at` that the file gives. */
typedef struct rule {
  const json_t *types, *numbers; /* NULL: none */
  int every, at;
} rule;

static bool attends_at(const rule *x, int l) {
  size_t n = json_array_size(x->types);
  if (n)
    return attends(json_string_value(json_array_get(x->types, (size_t)l % n)));
  for (size_t i = 0; i < json_array_size(x->numbers); i++)
    if (json_integer_value(json_array_get(x->numbers, i)) == l) return true;
  return !x->numbers && l % x->every == x->at;
}

static kv_rc read_rule(const job *w, int n, rule *out, kv_err *e) {
  char a[KV_SHOW], key[32];
  const json_t *at = json_object_get(w->text, "attn_layer_offset");
  *out = (rule){.types = find(w->text, "layer_types layers_block_type", key),
                .every = 1};
  if (out->types && json_array_size(out->types) < (size_t)n)
    return kv_fail(e, KV_INPUT, "%s: %s must be a list of %d layers",
                   kv_show(w->path, a), key, n);
  if (!out->types) out->types = find(w->text, "block_types", key);
  out->numbers = find(w->text, "attn_layer_indices full_attn_idxs", key);
  kv_rc rc = number(w, "full_attention_interval attn_layer_period", LAYERS_MOST,
                    1, &out->every, e);
  out->at = at ? (int)(json_integer_value(at) % out->every) : out->every - 1;
  return rc;
}

/* How many of n layers have K and V of their own. The last ones may read those
 * of earlier layers (Gemma 3n, Gemma 4) and are then not recorded. */
static int owners(const job *w, int n) {
  json_int_t shared =
      json_integer_value(json_object_get(w->text, "num_kv_shared_layers"));
  return shared > 0 && shared < n ? n - (int)shared : n;
}

static kv_rc read_layers(const job *w, kv_plan *out, kv_err *e) {
  char a[KV_SHOW];
  rule by;
  int n = out->shape.n_layers;
  kv_rc rc = read_rule(w, n, &by, e);
  if (rc) return rc;
  out->layer = calloc((size_t)n, sizeof *out->layer);
  if (!out->layer)
    return kv_no_memory(e, "the layers", (size_t)n * sizeof *out->layer);
  for (int l = 0; l < owners(w, n); l++)
    if (attends_at(&by, l))
      out->layer[out->n++] = (kv_plan_layer){.layer = l, .outputs = true};
  if (out->n) return KV_OK;
  return kv_fail(e, KV_INPUT, "%s: no layer has attention",
                 kv_show(w->path, a));
}

/* --- types and positions -------------------------------------------------- */

static void read_type(const job *w, kv_plan *out) {
  static const char *const names[] = {"float16", "bfloat16", "float32"};
  char key[32];
  const json_t *x = find(w->text, "dtype torch_dtype", key);
  const char *name =
      json_string_value(x ? x : find(w->root, "dtype torch_dtype", key));
  if (name && !strncmp(name, "torch.", 6)) name += 6;
  for (int i = 0; name && i < 3; i++) {
    if (strcmp(name, names[i]) != 0) continue;
    kv_plan_type(out, (kv_dtype)i);
  }
}

static int frequencies(const job *w) {
  const json_t *rope = json_object_get(w->text, "rope_parameters");
  size_t n = sizeof without_rope / sizeof *without_rope;
  for (size_t i = 0; i < n; i++)
    if (is(w, without_rope[i])) return 0;
  if (json_is_true(json_object_get(w->text, "alibi"))) return 0;
  bool two = json_object_get(w->text, "rope_local_base_freq") ||
             is(w, "gemma3_text") || is(w, "gemma3n_text") ||
             json_is_object(json_object_get(rope, "sliding_attention"));
  return two ? 2 : 1;
}

static job begin(const char *path, const json_t *root) {
  char key[32];
  const json_t *text =
      find(root, "text_config llm_config language_config", key);
  job w = {path, root, json_is_object(text) ? text : root, NULL, NULL};
  w.type = json_string_value(json_object_get(w.text, "model_type"));
  if (!w.type) w.type = "";
  for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
    if (is(&w, defaults[i].type)) w.known = &defaults[i];
  return w;
}

kv_rc kv_plan_of_config(const char *path, kv_plan *out, kv_err *e) {
  json_t *root;
  *out = (kv_plan){.tokens = true};
  kv_rc rc = kv_st_json_file(path, "configuration", &root, e);
  if (rc) return rc;
  const job w = begin(path, root);
  kv_shape *s = &out->shape;
  rc = number(&w, "num_hidden_layers n_layer n_layers num_layers", LAYERS_MOST,
              w.known ? w.known->layers : 0, &s->n_layers, e);
  if (!rc) rc = read_heads(&w, s, e);
  if (!rc) rc = read_dimensions(&w, s, e);
  if (!rc) rc = read_layers(&w, out, e);
  read_type(&w, out);
  out->frequencies = frequencies(&w);
  out->sinks = is(&w, "gpt_oss");
  json_decref(root);
  if (rc) kv_plan_free(out);
  return rc;
}
