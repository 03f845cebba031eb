/* SPDX-License-Identifier: Apache-2.0
 *
 * What a folder of chunks holds (kv_pack_open of traces/trace/pack.h): its
 * files, in order of layers and heads, checked against each other and against
 * trace.json.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/trace/pack_own.h"

/* The limits of a trace (traces/trace/trace.c). */
enum { LAYERS_MOST = 100000, HEADS_MOST = 1 << 20 };

/* --- which files ---------------------------------------------------------- */

static int is_chunks(const struct dirent *x) {
  size_t n = strlen(x->d_name), m = strlen(".chunks");
  return n > m && strcmp(x->d_name + n - m, ".chunks") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static int by_place(const void *a, const void *b) {
  const kv_chunks *x = a, *y = b;
  if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
  if (x->head != y->head) return x->head < y->head ? -1 : 1;
  return strcmp(x->path, y->path);
}

static kv_rc open_all(kv_pack *p, int n, struct dirent **name, kv_err *e) {
  kv_rc rc = KV_OK;
  p->file = calloc((size_t)n, sizeof *p->file);
  if (!p->file) return kv_no_memory(e, "the files", (size_t)n);
  for (int i = 0; !rc && i < n; i++) {
    char *path = NULL;
    if (asprintf(&path, "%s/%s", p->folder, name[i]->d_name) < 0)
      return kv_no_memory(e, "a file name", 0);
    rc = kv_chunks_open(path, &p->file[i], e);
    p->facts.files += !rc;
    free(path);
  }
  if (!rc) qsort(p->file, (size_t)n, sizeof *p->file, by_place);
  return rc;
}

static kv_rc find_files(kv_pack *p, kv_err *e) {
  struct dirent **name = NULL;
  char a[KV_SHOW];
  int n = scandir(p->folder, &name, is_chunks, by_name);
  kv_rc rc = KV_OK;
  if (n < 0 && errno == ENOMEM)
    rc = kv_no_memory(e, "the names of files", 0);
  else if (n < 0)
    rc = kv_cannot(e, KV_INPUT, "read the folder", p->folder);
  else if (n == 0)
    rc = kv_fail(e, KV_INPUT, "%s: has no NAME.chunks file to pack",
                 kv_show(p->folder, a));
  if (!rc) rc = open_all(p, n, name, e);
  for (int i = 0; i < n; i++) free(name[i]);
  free(name);
  return rc;
}

/* --- whether files agree ------------------------------------------------- */

static kv_rc differs(const kv_chunks *x, const kv_chunks *y, const char *what,
                     kv_err *e) {
  char a[KV_SHOW], b[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s (layer %d) and %s (layer %d) differ in %s",
                 kv_show(x->path, a), x->layer, kv_show(y->path, b), y->layer,
                 what);
}

/* Checks that a file has the dimensions and dtype of all files, and o and sinks
 * if its layer's first file has. */
static kv_rc check_file(const kv_pack *p, const kv_chunks *x,
                        const kv_chunks *same, kv_err *e) {
  const kv_chunks *all = p->file;
  char a[KV_SHOW];
  if (x->d != all->d) return differs(x, all, "head_dim", e);
  if (x->d_v != all->d_v) return differs(x, all, "value_dim", e);
  if (x->dtype != all->dtype) return differs(x, all, "dtype", e);
  if (x->o != same->o) return differs(x, same, "whether there is o", e);
  if (!x->sinks != !same->sinks)
    return differs(x, same, "whether there are sinks", e);
  if (x->head + x->heads <= p->n_heads &&
      x->kv_head + x->kv_heads <= p->n_kv_heads)
    return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s: layer %d has query heads %d to %d and KV heads %d to %d, "
                 "but the model has %d and %d",
                 kv_show(x->path, a), x->layer, x->head, x->head + x->heads - 1,
                 x->kv_head, x->kv_head + x->kv_heads - 1, p->n_heads,
                 p->n_kv_heads);
}

static kv_rc lacks(const kv_pack *p, int layer, const char *kind, int from,
                   int to, kv_err *e) {
  char a[KV_SHOW];
  return kv_fail(e, KV_INPUT,
                 "%s: no file has %s heads %d to %d of layer %d; is a rank "
                 "missing?",
                 kv_show(p->folder, a), kind, from, to - 1, layer);
}

/* Checks that a layer's files x[n] have each query head below n_heads once. */
static kv_rc check_heads(const kv_pack *p, int n, const kv_chunks *x,
                         kv_err *e) {
  int next = 0;
  char a[KV_SHOW], b[KV_SHOW];
  for (int i = 0; i < n; next = x[i].head + x[i].heads, i++) {
    if (x[i].head > next)
      return lacks(p, x->layer, "query", next, x[i].head, e);
    if (x[i].head < next)
      return kv_fail(e, KV_INPUT,
                     "%s and %s both have query head %d of layer %d; remove "
                     "the file of another run",
                     kv_show(x[i - 1].path, a), kv_show(x[i].path, b),
                     x[i].head, x->layer);
  }
  return next == p->n_heads ? KV_OK
                            : lacks(p, x->layer, "query", next, p->n_heads, e);
}

/* Checks that every KV head exists, and counts further copies. */
static kv_rc check_kv_heads(kv_pack *p, int n, const kv_chunks *x, kv_err *e) {
  int *times = calloc((size_t)p->n_kv_heads, sizeof *times), g = 0, to;
  kv_rc rc = KV_OK;
  if (!times) return kv_no_memory(e, "heads", (size_t)p->n_kv_heads);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < x[i].kv_heads; k++) times[x[i].kv_head + k]++;
  while (g < p->n_kv_heads && times[g]) p->facts.copies += times[g++] - 1;
  for (to = g; to < p->n_kv_heads && !times[to];) to++;
  if (to > g) rc = lacks(p, x->layer, "KV", g, to, e);
  free(times);
  return rc;
}

static kv_rc check_layers(kv_pack *p, kv_err *e) {
  int files = p->facts.files;
  p->first = calloc((size_t)files + 1, sizeof *p->first);
  if (!p->first) return kv_no_memory(e, "the layers", (size_t)files);
  for (int i = 0; i < files; i++)
    if (i == 0 || p->file[i].layer != p->file[i - 1].layer)
      p->first[p->facts.layers++] = i;
  p->first[p->facts.layers] = files;
  kv_rc rc = KV_OK;
  for (int l = 0; !rc && l < p->facts.layers; l++) {
    int at = p->first[l], n = p->first[l + 1] - at;
    for (int i = 0; !rc && i < n; i++)
      rc = check_file(p, &p->file[at + i], &p->file[at], e);
    if (!rc) rc = check_heads(p, n, &p->file[at], e);
    if (!rc) rc = check_kv_heads(p, n, &p->file[at], e);
  }
  return rc;
}

/* --- which layers, which tokens ------------------------------------------- */

/* Unless trace.json lists some, all layers of the model are expected. */
static kv_rc expect_layers(const kv_pack *p, kv_err *e) {
  const json_t *x = json_object_get(p->json.root, "layers");
  const char *text = json_string_value(x);
  char a[KV_SHOW];
  int l = 0;
  if (x && !json_is_null(x) && !(text && strcmp(text, "all") == 0))
    return KV_OK;
  while (l < p->n_layers && l < p->facts.layers &&
         p->file[p->first[l]].layer == l)
    l++;
  if (l < p->n_layers)
    return kv_fail(e, KV_INPUT,
                   "%s: no file has layer %d of the model's %d; if it was not "
                   "recorded, list the recorded ones as `layers` in trace.json",
                   kv_show(p->folder, a), l, p->n_layers);
  if (l == p->facts.layers) return KV_OK;
  const kv_chunks *more = &p->file[p->first[l]];
  return kv_fail(e, KV_INPUT, "%s: has layer %d, but the model has %d",
                 kv_show(more->path, a), more->layer, p->n_layers);
}

static kv_rc too_short(const kv_chunks *x, int want, int whole, kv_err *e) {
  char a[KV_SHOW], then[80] = "";
  if (x->end != KV_CHUNKS_WHOLE) return kv_chunks_tell(x, whole, e);
  if (whole > 0)
    snprintf(then, sizeof then, "; --tokens %d packs what every file has",
             whole);
  return kv_fail(e, KV_INPUT,
                 "%s: layer %d, heads %d to %d, has %d of %d tokens%s",
                 kv_show(x->path, a), x->layer, x->head, x->head + x->heads - 1,
                 x->tokens, want, then);
}

/* asked: tokens to take; 0: not given. */
static kv_rc choose_tokens(kv_pack *p, int asked, int listed, kv_err *e) {
  int least = p->file->tokens, most = 0, want = asked ? asked : listed;
  const kv_chunks *first = NULL; /* the first file that is not whole */
  for (int i = 0; i < p->facts.files; i++) {
    const kv_chunks *x = &p->file[i];
    if (x->tokens < least) least = x->tokens;
    if (x->tokens > most) most = x->tokens;
    if (!first && x->end != KV_CHUNKS_WHOLE) first = x;
  }
  if (!want && first) return too_short(first, 0, least, e);
  if (!want) want = most;
  for (int i = 0; i < p->facts.files; i++)
    if (p->file[i].tokens < want) return too_short(&p->file[i], want, least, e);
  p->facts.tokens = want;
  return KV_OK;
}

/* A list of trace.json must have a number for each token that is taken. */
static kv_rc cut_list(const kv_pack *p, const char *key, int n, kv_err *e) {
  char a[KV_SHOW];
  if (n >= p->facts.tokens || n == 0) return KV_OK;
  return kv_fail(e, KV_INPUT, "%s: %s has %d of %d tokens",
                 kv_show(p->json.path, a), key, n, p->facts.tokens);
}

static kv_rc read_json(kv_pack *p, int asked, kv_err *e) {
  const kv_pack_json *j = &p->json;
  int listed, positions;
  kv_rc rc = kv_pack_json_count(j, "n_layers", LAYERS_MOST, &p->n_layers, e);
  if (!rc) rc = kv_pack_json_count(j, "n_heads", HEADS_MOST, &p->n_heads, e);
  if (!rc)
    rc = kv_pack_json_count(j, "n_kv_heads", HEADS_MOST, &p->n_kv_heads, e);
  if (!rc) rc = kv_pack_json_ints(j, "tokens", &listed, &p->tokens, e);
  if (!rc) rc = kv_pack_json_ints(j, "positions", &positions, &p->positions, e);
  if (!rc) rc = check_layers(p, e);
  if (!rc) rc = expect_layers(p, e);
  if (!rc) rc = choose_tokens(p, asked, listed, e);
  if (!rc) rc = cut_list(p, "tokens", listed, e);
  return rc ? rc : cut_list(p, "positions", positions, e);
}

/* --- opening -------------------------------------------------------------- */

static kv_rc name_inputs(kv_pack *p, kv_err *e) {
  int n = p->facts.files;
  const char **name = p->facts.inputs = calloc((size_t)n + 1, sizeof *name);
  if (!name) return kv_no_memory(e, "names of files", (size_t)n);
  for (int i = 0; i < n; i++) name[i] = p->file[i].path;
  name[n] = p->json.path;
  return KV_OK;
}

static void count_bytes(kv_pack *p) {
  for (int i = 0; i < p->facts.files; i++)
    p->facts.bytes += kv_chunks_token(&p->file[i]) * p->facts.tokens;
}

kv_rc kv_pack_open(const char *folder, int tokens, kv_pack **out, kv_err *e) {
  kv_pack *p = *out = calloc(1, sizeof *p);
  if (!p) return kv_no_memory(e, "a folder", sizeof *p);
  p->folder = kv_text_copy(strlen(folder), folder);
  kv_rc rc = p->folder ? find_files(p, e) : kv_no_memory(e, "a file name", 0);
  if (!rc) rc = kv_pack_json_read(folder, &p->json, e);
  if (!rc) rc = read_json(p, tokens, e);
  if (!rc) rc = kv_pack_lay_out(p, e);
  if (!rc) rc = kv_pack_try(p, e);
  if (!rc) rc = name_inputs(p, e);
  if (!rc) count_bytes(p);
  if (rc) {
    kv_pack_close(p);
    *out = NULL;
  }
  return rc;
}

const kv_pack_facts *kv_pack_found(const kv_pack *p) { return &p->facts; }

void kv_pack_close(kv_pack *p) {
  if (!p) return;
  for (int i = 0; i < p->facts.files; i++) kv_chunks_close(&p->file[i]);
  kv_pack_json_free(&p->json);
  json_decref(p->meta);
  free(p->facts.inputs);
  free(p->folder);
  free(p->file);
  free(p->first);
  free(p->tokens);
  free(p->positions);
  free(p->inv_freq);
  free(p->windowed);
  free(p->sinks);
  free(p->tensor);
  free(p);
}
