/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a decisions file: its form, and whose it is. What it says is looked
 * at in decisions_fit.c.
 */
#include "traces/decisions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces/decisions_part.h"
#include "traces/safetensors.h"
#include "traces/text.h"

enum { TENSOR_NAME = 64, PAGE_MOST = 1 << 20 };

typedef struct source {
  const char *path;
  const kv_st *files;
  const kv_trace *trace;
} source;

static kv_rc bad(const source *s, kv_err *e, const char *key,
                 const char *want) {
  char a[KV_SHOW], b[KV_SHOW];
  const char *have = kv_st_meta(s->files, key);
  return kv_fail(e, KV_INPUT, "%s: metadata %s %s%s; write %s",
                 kv_show(s->path, a), key, have ? "is " : "is missing",
                 have ? kv_show(have, b) : "", want);
}

/* --- metadata ----------------------------------------------------------- */

/* Place in choices of the key's value; otherwise where the key is absent. */
static kv_rc choose(const source *s, const char *key, const char *want,
                    const char *const choices[], int otherwise, int *out,
                    kv_err *e) {
  const char *have = kv_st_meta(s->files, key);
  *out = otherwise;
  if (!have && otherwise >= 0) return KV_OK;
  for (*out = 0; have && choices[*out]; ++*out)
    if (strcmp(choices[*out], have) == 0) return KV_OK;
  return bad(s, e, key, want);
}

static kv_rc count(const source *s, const char *key, int *out, kv_err *e) {
  const char *have = kv_st_meta(s->files, key);
  uint64_t n = 0;
  *out = 0;
  if (!have) return KV_OK;
  if (!kv_text_count(have, INT32_MAX, &n) || n == 0)
    return bad(s, e, key, "a number of tokens");
  *out = (int)n;
  return KV_OK;
}

static kv_rc read_unit(const source *s, int *page, kv_err *e) {
  const char *have = kv_st_meta(s->files, "unit");
  uint64_t n = 0;
  *page = 1;
  if (have && strcmp(have, "token") == 0) return KV_OK;
  if (!have || strncmp(have, "page:", 5) != 0 ||
      !kv_text_count(have + 5, PAGE_MOST, &n) || n == 0)
    return bad(s, e, "unit", "token or page:N");
  *page = (int)n;
  return KV_OK;
}

static kv_rc read_names(const source *s, kv_decisions_file *f, kv_err *e) {
  const char *name = kv_st_meta(s->files, "name");
  const char *trace = kv_st_meta(s->files, "trace");
  if (!name || !*name) return bad(s, e, "name", "what the rows are called");
  if (!trace || strlen(trace) != 64 || strspn(trace, "0123456789abcdef") != 64)
    return bad(s, e, "trace", "the trace's identity, as kvtrace info prints");
  memcpy(f->trace, trace, sizeof f->trace);
  f->path = kv_text_copy(strlen(s->path), s->path);
  f->name = kv_text_copy(strlen(name), name);
  return f->path && f->name ? KV_OK
                            : kv_no_memory(e, "decisions", strlen(name));
}

typedef struct asked {
  kv_decisions_file *file;
  int head, view_head; /* 0: a list a KV head; 1: a query head */
  int page;
} asked;

static kv_rc read_meta(const source *s, asked *a, kv_err *e) {
  static const char *const formats[] = {"kvdecisions", NULL};
  static const char *const versions[] = {"1", NULL};
  static const char *const kinds[] = {"stored", "view", "stored+view", NULL};
  static const char *const heads[] = {"kv", "query", NULL};
  static const char *const flags[] = {"0", "1", NULL};
  kv_decisions *d = &a->file->decisions;
  int none, kind, reindex;
  kv_rc rc = choose(s, "format", formats[0], formats, -1, &none, e);
  if (!rc) rc = choose(s, "version", versions[0], versions, -1, &none, e);
  if (!rc)
    rc = choose(s, "kind", "stored, view or stored+view", kinds, -1, &kind, e);
  if (!rc) rc = choose(s, "head", "kv or query", heads, -1, &a->head, e);
  if (!rc)
    rc = choose(s, "view_head", "kv or query", heads, 1, &a->view_head, e);
  if (!rc) rc = choose(s, "reindex", "0 or 1", flags, 0, &reindex, e);
  if (!rc) rc = read_unit(s, &a->page, e);
  if (!rc) rc = count(s, "block", &d->block, e);
  if (!rc) rc = count(s, "prompt_len", &a->file->prompt_len, e);
  if (!rc) rc = read_names(s, a->file, e);
  if (rc) return rc;
  d->stores = kind != 1;
  d->views = kind != 0;
  d->reindex = reindex;
  if (kind == 1) a->view_head = a->head;
  return KV_OK;
}

/* --- tensors ------------------------------------------------------------ */

/* A copy of tensor layers.L.WHAT, aligned; KV_INPUT unless it is a vector of
 * that type. */
static kv_rc vector(const source *s, int layer, const char *what,
                    kv_st_dtype type, size_t *n, void *out, kv_err *e) {
  char name[TENSOR_NAME], show[KV_SHOW];
  snprintf(name, sizeof name, "layers.%d.%s", layer, what);
  const kv_st_tensor *x = kv_st_find(s->files, name);
  if (!x)
    return kv_fail(e, KV_REFUSED,
                   "%s: tensor %s is missing; every layer that the trace "
                   "records needs decisions",
                   kv_show(s->path, show), name);
  if (x->dtype != type || x->rank != 1)
    return kv_fail(e, KV_INPUT, "%s: tensor %s is no vector of %s",
                   kv_show(s->path, show), name, kv_st_dtype_name(type));
  void *copy = kv_zalloc((size_t)x->bytes + 1, 1);
  if (!copy) return kv_no_memory(e, "decisions", (size_t)x->bytes);
  memcpy(copy, x->data, (size_t)x->bytes);
  memcpy(out, &copy, sizeof copy);
  *n = (size_t)x->shape[0];
  return KV_OK;
}

static kv_rc malformed(const source *s, int layer, const char *what,
                       const char *why, kv_err *e) {
  char show[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s: tensor layers.%d.%s %s",
                 kv_show(s->path, show), layer, what, why);
}

static kv_rc check_lists(const source *s, int layer, const char *const name[3],
                         const kv_lists *l, size_t starts, size_t items,
                         kv_err *e) {
  size_t lists = (size_t)l->steps * (size_t)l->heads;
  for (int i = 0; i < l->steps; i++)
    if (l->step[i] < 1 || l->step[i] > s->trace->shape.n_tokens ||
        (i && l->step[i] <= l->step[i - 1]))
      return malformed(s, layer, name[0],
                       "does not ascend within the trace's tokens", e);
  if (starts != lists + 1)
    return malformed(s, layer, name[1],
                     "has not one number per step and head, and one more", e);
  for (size_t k = 0; k < lists; k++)
    if (l->start[k] > l->start[k + 1])
      return malformed(s, layer, name[1], "descends", e);
  if (l->start[0] != 0 || (uint64_t)l->start[lists] != items)
    return malformed(s, layer, name[1],
                     "does not begin at 0 and end at the number of positions",
                     e);
  return KV_OK;
}

/* The lists of one kind; also after a failure to be freed. */
static kv_rc read_lists(const source *s, int layer, bool second, int head,
                        int page, kv_lists *l, kv_err *e) {
  static const char *const names[2][3] = {
      {"steps", "indptr", "positions"},
      {"view.steps", "view.indptr", "view.positions"}};
  const char *const *name = names[second];
  size_t steps = 0, starts = 0, items = 0;
  *l = (kv_lists){.page = page};
  l->heads = head ? s->trace->shape.n_heads : s->trace->shape.n_kv_heads;
  kv_rc rc = vector(s, layer, name[0], KV_ST_I32, &steps, &l->step, e);
  if (!rc) rc = vector(s, layer, name[1], KV_ST_I64, &starts, &l->start, e);
  if (!rc) rc = vector(s, layer, name[2], KV_ST_I32, &items, &l->item, e);
  if (rc) return rc;
  if (steps > (size_t)s->trace->shape.n_tokens)
    return malformed(s, layer, name[0], "has more steps than tokens", e);
  l->steps = (int)steps;
  return check_lists(s, layer, name, l, starts, items, e);
}

static kv_rc read_layer(const source *s, const asked *a, int layer,
                        kv_decided *out, kv_err *e) {
  const kv_decisions *d = &a->file->decisions;
  kv_rc rc = KV_OK;
  out->layer = layer;
  if (d->stores)
    rc = read_lists(s, layer, false, a->head, d->views ? 1 : a->page,
                    &out->stored, e);
  if (!rc && d->views)
    rc = read_lists(s, layer, d->stores, a->view_head, a->page, &out->view, e);
  return rc;
}

static kv_rc read_layers(const source *s, const asked *a, kv_err *e) {
  kv_decisions *d = &a->file->decisions;
  int layers = s->trace->n_layers;
  kv_decided *at = kv_zalloc((size_t)layers, sizeof *at);
  if (!at) return kv_no_memory(e, "decisions", (size_t)layers * sizeof *at);
  d->layer = at;
  const kv_shape *shape = &s->trace->shape;
  d->stored_heads = d->stores && a->head ? shape->n_heads : shape->n_kv_heads;
  for (; d->layers < layers; d->layers++) {
    kv_rc rc = read_layer(s, a, s->trace->layer[d->layers].data.layer,
                          &at[d->layers], e);
    if (rc) {
      d->layers++; /* what it took is to be freed */
      return rc;
    }
  }
  return KV_OK;
}

/* --- life --------------------------------------------------------------- */

static void free_lists(const kv_lists *l) {
  free((void *)l->step);
  free((void *)l->start);
  free((void *)l->item);
}

void kv_decisions_close(kv_decisions_file *f) {
  if (!f) return;
  for (int i = 0; i < f->decisions.layers; i++) {
    free_lists(&f->decisions.layer[i].stored);
    free_lists(&f->decisions.layer[i].view);
  }
  free((void *)f->decisions.layer);
  free(f->path);
  free(f->name);
  free(f);
}

/* Of another request, or from another token on? */
static kv_rc check_trace(const kv_decisions_file *f, const kv_trace *t,
                         int prompt_len, kv_err *e) {
  kv_digest identity;
  char hex[65], show[KV_SHOW];
  kv_rc rc = kv_trace_identity(t, &identity, e);
  if (rc) return rc;
  kv_digest_hex(&identity, hex);
  if (strcmp(hex, f->trace) != 0)
    return kv_fail(e, KV_REFUSED,
                   "%s: the decisions are for another trace (%.12s..., this "
                   "is %.12s...)",
                   kv_show(f->path, show), f->trace, hex);
  int decides = f->prompt_len ? f->prompt_len : t->shape.prompt_len;
  if (decides == prompt_len) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: the decisions are for decoding from token %d on, not "
                 "%d; take --prompt-len %d",
                 kv_show(f->path, show), decides, prompt_len, decides);
}

static kv_rc open_file(const char *path, const kv_trace *t, int prompt_len,
                       bool lists, kv_decisions_file **out, kv_err *e) {
  kv_decisions_file *f = kv_zalloc(1, sizeof *f);
  kv_st *files = NULL;
  if (!f) return kv_no_memory(e, "decisions", sizeof *f);
  asked a = {.file = f};
  kv_rc rc = kv_st_open(path, &files, e);
  source s = {path, files, t};
  if (!rc) rc = read_meta(&s, &a, e);
  if (!rc) rc = check_trace(f, t, prompt_len, e);
  if (!rc) rc = read_layers(&s, &a, e);
  if (!rc) rc = kv_decisions_fit(f, &t->shape, prompt_len, lists, e);
  if (!rc) rc = kv_st_damaged(files, e);
  kv_st_close(files);
  if (rc)
    kv_decisions_close(f);
  else
    *out = f;
  return rc;
}

kv_rc kv_decisions_open(const char *path, const kv_trace *t, int prompt_len,
                        kv_decisions_file **out, kv_err *e) {
  return open_file(path, t, prompt_len, true, out, e);
}

kv_rc kv_decisions_read(const char *path, const kv_trace *t, int prompt_len,
                        kv_decisions_file **out, kv_err *e) {
  return open_file(path, t, prompt_len, false, out, e);
}
