/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a trace smaller: traces/trace/slim.h. Tensors are copied in file
 * order; if q loses rows, the column sums before it and the numbers of the rows
 * after it are new.
 */
#include "traces/trace/slim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/container/safetensors.h"
#include "traces/trace/colsum.h"
#include "traces/trace/own.h"
#include "traces/trace/rewrite.h"

/* What a tensor of the trace becomes; q may bring others. */
typedef enum fate { COPY, CUT, SUMS, ROWS } fate;
enum { PARTS = 3 };

typedef struct job {
  kv_slim *s;
  const kv_kernels *kernel;
  const kv_st *files;
  kv_rewrite to;
} job;

/* --- what is kept --------------------------------------------------------- */

static const kv_layer_data *data_of(const kv_slim *s, int i) {
  return &s->from->layer[i].data;
}

/* How many recorded query rows of the layer are left out, its first ones. */
static int rows_gone(const kv_slim *s, int i) {
  const kv_layer_data *x = data_of(s, i);
  int first = kv_keep_first(s->keep, s->from->shape.prompt_len), n = 0;
  if (!x->rows) return first;
  while (n < x->n_rows && x->rows[n] < first) n++;
  return n;
}

static bool makes_sums(const kv_slim *s, int i) {
  return !s->keep->no_sums && rows_gone(s, i) > 0 && kv_colsum_can(s->from, i);
}

/* Is a tensor unknown to the format kept? One of a layer goes with it. */
static bool belongs(const kv_slim *s, const char *name) {
  char *end;
  if (strncmp(name, "layers.", 7) != 0) return true;
  long layer = strtol(name + 7, &end, 10);
  return *end != '.' || layer < 0 || layer >= KV_KEEP_LAYERS ||
         kv_keep_has(s->keep, (int)layer);
}

/* Writes into out what a tensor becomes; returns how many, 0 if it is left out.
 * *i: its recorded layer, or -1. */
static int fates_of(const kv_slim *s, const kv_st_tensor *x, int *i,
                    fate out[PARTS]) {
  const char *part;
  int n = 0;
  *i = kv_trace_part(s->from, x->name, &part);
  out[0] = COPY;
  if (*i < 0)
    return part ? strcmp(part, "tokens") || !s->keep->no_tokens
                : belongs(s, x->name);
  if (!kv_keep_has(s->keep, data_of(s, *i)->layer)) return 0;
  bool q = !strcmp(part, "q"), o = !strcmp(part, "o"), gone = rows_gone(s, *i);
  if (o && s->keep->no_o) return 0;
  if (!strcmp(part, "colsum")) return !s->keep->no_sums && !makes_sums(s, *i);
  if (!gone) return 1;
  if (!strcmp(part, "rows")) return 0;
  if (q && makes_sums(s, *i)) out[n++] = SUMS;
  out[n++] = q || o ? CUT : COPY;
  if (q) out[n++] = ROWS;
  return n;
}

/* A tensor of the result. */
typedef struct entry {
  const char *name;
  kv_st_dtype type;
  int rank;
  const uint64_t *shape; /* [rank] */
  uint64_t own[3];
  char text[64];
} entry;

static void describe(const kv_slim *s, const kv_st_tensor *x, int i, fate what,
                     entry *out) {
  static const char *const parts[] = {[SUMS] = "colsum", [ROWS] = "rows"};
  *out = (entry){x->name, x->dtype, x->rank, x->shape, {0}, ""};
  if (what == COPY) return;
  uint64_t left = (uint64_t)(data_of(s, i)->n_rows - rows_gone(s, i));
  memcpy(out->own, x->shape, sizeof out->own);
  out->own[1] = what == CUT ? left : (uint64_t)s->from->shape.prompt_len;
  out->shape = out->own;
  if (what == CUT) return;
  if (what == ROWS) out->own[0] = left;
  out->rank = what == ROWS ? 1 : 2;
  out->type = what == ROWS ? KV_ST_I32 : KV_ST_I64;
  snprintf(out->text, sizeof out->text, "layers.%d.%s", data_of(s, i)->layer,
           parts[what]);
  out->name = out->text;
}

static int64_t bytes_of(const kv_st_tensor *x, const entry *y) {
  uint64_t bytes = kv_st_dtype_bits(y->type) / 8;
  if (y->shape == x->shape) return (int64_t)x->bytes;
  for (int r = 0; r < y->rank; r++) bytes *= y->shape[r];
  return (int64_t)bytes;
}

int64_t kv_slim_bytes(const kv_slim *s) {
  const kv_st *files = kv_trace_files(s->from);
  int64_t all = 0;
  for (size_t t = 0; t < kv_st_count(files); t++) {
    const kv_st_tensor *x = kv_st_at(files, t);
    fate what[PARTS];
    entry y;
    int i, n = fates_of(s, x, &i, what);
    for (int j = 0; j < n; j++) {
      describe(s, x, i, what[j], &y);
      all += bytes_of(x, &y);
    }
  }
  return all;
}

/* --- what is refused ------------------------------------------------------ */

static kv_rc check_layer(const kv_slim *s, int i, kv_err *e) {
  const kv_layer_data *x = data_of(s, i);
  char a[KV_SHOW];
  int gone = rows_gone(s, i);
  if (gone == x->n_rows)
    return kv_fail(
        e, KV_USAGE,
        "%s: no query row of layer %d is left, because it has no decode steps "
        "and --rows decode keeps only those; give last=N",
        kv_show(s->from->path, a), x->layer);
  if (!gone || s->keep->no_sums || x->colsum || kv_colsum_can(s->from, i))
    return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s: layer %d has neither all of the prompt's query rows nor "
                 "their column sums, so dropped rows cannot be summed; give "
                 "--no-sums to do without",
                 kv_show(s->from->path, a), x->layer);
}

static kv_rc check_layers(const kv_slim *s, kv_err *e) {
  char a[KV_SHOW];
  for (int k = 0; k < s->keep->n_layers; k++) {
    int i = 0, layer = s->keep->layers[k];
    while (i < s->from->n_layers && data_of(s, i)->layer != layer) i++;
    if (i == s->from->n_layers)
      return kv_fail(
          e, KV_USAGE,
          "%s: layer %d is not recorded; kvtrace info lists the recorded ones",
          kv_show(s->from->path, a), layer);
  }
  return KV_OK;
}

static kv_rc check(kv_slim *s, kv_err *e) {
  const kv_keep *k = s->keep;
  kv_rc rc = check_layers(s, e);
  if (!rc && k->last == KV_KEEP_ALL && !k->n_layers && !k->no_o &&
      !k->no_tokens && !k->no_sums)
    rc = kv_fail(e, KV_USAGE,
                 "nothing to leave out; give --rows, --layers, --no-o, "
                 "--drop-tokens or --no-sums");
  for (int i = 0; !rc && i < s->from->n_layers; i++) {
    if (!kv_keep_has(k, data_of(s, i)->layer)) continue;
    rc = check_layer(s, i, e);
    s->layers++;
    s->sums_made += makes_sums(s, i);
  }
  return rc;
}

/* --- declared ------------------------------------------------------------- */

static kv_rc declare(const job *w, kv_err *e) {
  kv_rc rc = KV_OK;
  for (size_t t = 0; !rc && t < kv_st_count(w->files); t++) {
    const kv_st_tensor *x = kv_st_at(w->files, t);
    fate what[PARTS];
    int i, n = fates_of(w->s, x, &i, what);
    for (int j = 0; !rc && j < n; j++) {
      entry y;
      describe(w->s, x, i, what[j], &y);
      rc = kv_st_writer_declare(w->to.out, y.name, y.type, y.rank, y.shape, e);
    }
  }
  return rc;
}

static kv_rc put_layers(const job *w, kv_err *e) {
  const kv_keep *k = w->s->keep;
  size_t room = 12 * (size_t)k->n_layers + 1, at = 0;
  if (!k->n_layers) return KV_OK;
  char *text = kv_zalloc(room, 1);
  if (!text) return kv_no_memory(e, "the list of layers", room);
  for (int i = 0; i < k->n_layers; i++)
    at += (size_t)snprintf(text + at, room - at, "%s%d", i ? "," : "",
                           k->layers[i]);
  kv_rc rc = kv_st_writer_meta(w->to.out, "layers", text, e);
  free(text);
  return rc;
}

/* Without token ids: the request that they and the model's digest make. */
static kv_rc put_request(const job *w, kv_err *e) {
  kv_digest request;
  char hex[65];
  if (!w->s->keep->no_tokens) return KV_OK;
  kv_rc rc = kv_trace_request(w->s->from, &request, e);
  if (rc) return rc;
  kv_digest_hex(&request, hex);
  return kv_st_writer_meta(w->to.out, KV_REQUEST_KEY, hex, e);
}

/* `slimmed`: what was left out, after the value that it had. */
static kv_rc put_meta(const job *w, kv_err *e) {
  const kv_keep *k = w->s->keep;
  char rows[40] = "", gone[160], text[400];
  const char *before = kv_trace_meta(w->s->from, "slimmed");
  if (k->last != KV_KEEP_ALL)
    snprintf(rows, sizeof rows, ", rows last=%d,decode", k->last);
  snprintf(gone, sizeof gone, "%s%s%s%s%s", rows,
           k->n_layers ? ", fewer layers" : "", k->no_o ? ", no outputs" : "",
           k->no_tokens ? ", no token ids" : "",
           k->no_sums ? ", no column sums" : "");
  snprintf(text, sizeof text, "%.200s%s%s", before ? before : "",
           before ? "; " : "", gone + 2);
  kv_rc rc = kv_rewrite_meta(&w->to, e);
  if (!rc) rc = put_layers(w, e);
  if (!rc) rc = put_request(w, e);
  return rc ? rc : kv_st_writer_meta(w->to.out, "slimmed", text, e);
}

/* --- written -------------------------------------------------------------- */

static kv_rc append(const job *w, uint64_t bytes, const void *data, kv_err *e) {
  kv_rc rc = kv_rewrite_bytes(&w->to, bytes, data, e);
  if (w->s->tick) w->s->tick(w->s->self, (int64_t)bytes);
  return rc;
}

/* Appends the last rows of each head. */
static kv_rc append_cut(const job *w, const kv_st_tensor *x, int i, kv_err *e) {
  uint64_t row = x->bytes / x->shape[0] / x->shape[1];
  uint64_t gone = (uint64_t)rows_gone(w->s, i) * row;
  uint64_t head = x->shape[1] * row;
  kv_rc rc = KV_OK;
  for (uint64_t h = 0; !rc && h < x->shape[0]; h++)
    rc = append(w, head - gone, (const char *)x->data + h * head + gone, e);
  return rc;
}

static kv_rc append_rows(const job *w, int i, kv_err *e) {
  const kv_layer_data *x = data_of(w->s, i);
  int32_t token[1024];
  size_t n = 0;
  kv_rc rc = KV_OK;
  for (int r = rows_gone(w->s, i); !rc && r < x->n_rows; r++) {
    token[n++] = x->rows ? x->rows[r] : r;
    if (n < 1024 && r < x->n_rows - 1) continue;
    rc = append(w, n * sizeof *token, token, e);
    n = 0;
  }
  return rc;
}

static kv_rc append_sums(const job *w, int i, kv_err *e) {
  const kv_shape *p = &w->s->from->shape;
  size_t n = (size_t)kv_group(p) * (size_t)p->prompt_len;
  int64_t *sums = kv_zalloc(n, sizeof *sums);
  kv_rc rc = sums ? KV_OK : kv_no_memory(e, "column sums", n * sizeof *sums);
  for (int g = 0; !rc && g < p->n_kv_heads; g++) {
    rc = kv_colsum_head(p, data_of(w->s, i), g, w->kernel, w->s->stop, sums, e);
    if (!rc) rc = append(w, n * sizeof *sums, sums, e);
  }
  free(sums);
  return rc;
}

static kv_rc append_part(const job *w, const kv_st_tensor *x, int i, fate what,
                         kv_err *e) {
  if (what == SUMS) return append_sums(w, i, e);
  if (what == ROWS) return append_rows(w, i, e);
  return what == CUT ? append_cut(w, x, i, e) : append(w, x->bytes, x->data, e);
}

/* Checks a layer's numbers before its first tensor is written. */
static kv_rc scan(const job *w, int i, kv_err *e) {
  kv_rc rc = kv_trace_scan_layer(w->s->from, i, e);
  return rc || w->s->keep->no_o ? rc : kv_trace_scan_output(w->s->from, i, e);
}

static kv_rc append_all(const job *w, kv_err *e) {
  int at = -1;
  kv_rc rc = KV_OK;
  for (size_t t = 0; !rc && t < kv_st_count(w->files); t++) {
    const kv_st_tensor *x = kv_st_at(w->files, t);
    fate what[PARTS];
    int i, n = fates_of(w->s, x, &i, what);
    if (n && i >= 0 && i != at) {
      if (at >= 0) kv_trace_release_layer(w->s->from, at);
      rc = scan(w, at = i, e);
    }
    for (int j = 0; !rc && j < n; j++) rc = append_part(w, x, i, what[j], e);
    if (i < 0) kv_st_release(w->files, x);
  }
  return rc;
}

kv_rc kv_slim_write(kv_slim *s, const kv_kernels *kernel, const char *path,
                    kv_err *e) {
  job w = {s, kernel, kv_trace_files(s->from), {s->from, NULL, s->stop}};
  s->layers = s->sums_made = 0;
  kv_rc rc = kv_rewrite_apart(s->from, "made smaller", path, e);
  if (!rc) rc = check(s, e);
  if (!rc) rc = kv_st_writer_open(path, 0, &w.to.out, e);
  if (!rc) rc = declare(&w, e);
  if (!rc) rc = put_meta(&w, e);
  if (!rc) rc = append_all(&w, e);
  if (!rc) rc = kv_trace_damaged(s->from, e);
  if (!rc) rc = kv_st_writer_finish(w.to.out, NULL, e);
  kv_st_writer_close(w.to.out);
  return rc;
}
