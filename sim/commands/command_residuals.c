/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay residuals`: how alike the tokens of traces are, what is left of
 * them without something like them, and what coding them like CacheGen needs at
 * least, into a database, from which the page draws it.
 */
#include "sim/commands/inspect.h"

#include "traces/text/text.h"
#include <stdio.h>

static size_t size(const kv_trace *t) {
  (void)t;
  return sizeof(kv_similarities);
}

static kv_rc do_layer(const kv_inspect_task *s, const kv_trace *t, int i,
                      void *out, kv_err *e) {
  kv_similarities *o = out;
  kv_rc rc = kv_similarity_layer(t, i, s->kernels, s->threads, &s->files,
                                 o->space, o->rebuilt, e);
  return rc ? rc : kv_entropy_layer(t, i, s->kernels, o->entropy[0], e);
}

static kv_rc open(kv_inspect_task *s, const kv_trace *t, kv_err *e) {
  kv_rc rc = kv_similarity_check(t, e);
  if (rc) return rc;
  return kv_compressors_open(t, s->weights.n, s->weights.item, &s->files, e);
}

static void close(kv_inspect_task *s) { kv_compressors_close(&s->files); }

/* There, and what each file makes of it. */
static kv_rc has(const kv_inspect_task *s, const kv_digest *identity,
                 const kv_trace *t, bool *there, kv_err *e) {
  kv_rc rc = kv_db_has_similarities(s->db, identity, t->n_layers, there, e);
  for (int i = 0; i < s->files.n && !rc && *there; i++)
    rc = kv_db_has_rebuilt(s->db, identity, &s->files.file[i]->digest,
                           kv_compressors_layers(&s->files, i), there, e);
  return rc;
}

static kv_rc put(kv_db *db, const kv_digest *identity, const kv_trace *t,
                 const int *layer, const void *found, kv_err *e) {
  return kv_db_put_similarities(db, identity, t->n_layers, layer, found, e);
}

/* Means over layers. */
static void print_space(const kv_trace *t, const kv_similarities *of,
                        int space) {
  static const char *const words[KV_SPACES] = {"K and V by distance",
                                               "K by cosine"};
  double tokens = 0, far = 0, close = 0, chance = 0, share = 0, random = 0;
  for (int i = 0; i < t->n_layers; i++) {
    const kv_similarity *x = &of[i].space[space];
    tokens += (double)x->tokens;
    far += (double)x->far;
    close += (double)x->close;
    chance += x->chance / t->n_layers;
    share += x->residual[KV_LESS_NEAREST].share / t->n_layers;
    random += x->residual[KV_LESS_RANDOM].share / t->n_layers;
  }
  printf("  nearest of %s: %.1f %% more than %d tokens back (%.1f %% of all "
         "earlier ones are), %.1f %% with a cosine above 0.9, squares left "
         "%.3f (without a random one %.3f)\n",
         words[space], 100 * far / tokens, KV_FAR, 100 * chance,
         100 * close / tokens, share, random);
}

static void print_entropy(const kv_trace *t, const kv_similarities *of,
                          int coding) {
  double bits[KV_ENTROPY_PARTS] = {0}, error[KV_ENTROPY_PARTS] = {0};
  for (int i = 0; i < t->n_layers; i++)
    for (int part = 0; part < KV_ENTROPY_PARTS; part++) {
      bits[part] += of[i].entropy[part][coding].bits / t->n_layers;
      error[part] += of[i].entropy[part][coding].error / t->n_layers;
    }
  printf("  entropy of %s: %.2f bits an element of K, %.2f of V (squares "
         "missed %.2g, %.2g)\n",
         coding == KV_CODED_DELTAS ? "anchors and deltas"
                                   : "tokens as they are",
         bits[0], bits[1], error[0], error[1]);
}

/* Of the layers that the file has. */
static void print_rebuilt(const kv_trace *t, const kv_similarities *of,
                          int file) {
  double share[KV_REBUILT_WAYS] = {0};
  const kv_rebuilt *one = NULL;
  char a[KV_SHOW];
  int n = 0;
  for (int i = 0; i < t->n_layers; i++) {
    const kv_rebuilt *x = &of[i].rebuilt[file];
    if (!x->there) continue;
    for (int way = 0; way < KV_REBUILT_WAYS; way++) share[way] += x->share[way];
    one = x;
    n++;
  }
  if (!one) return;
  printf("  %s, latent %d, hidden %d: squares left ", kv_show(one->file, a),
         one->of.latent, one->of.hidden);
  if (one->alone)
    printf("%.4f (without references, as it learned)\n",
           share[KV_REBUILT_ALONE] / n);
  else
    printf("%.4f (without references, with which it learned, %.4f)\n",
           share[KV_REBUILT_NEAREST] / n, share[KV_REBUILT_ALONE] / n);
}

static void print(const kv_trace *t, const void *found) {
  const kv_similarities *of = found;
  double missed = 0;
  char a[KV_SHOW];
  for (int i = 0; i < t->n_layers; i++)
    missed += of[i].space[0].error[KV_RESIDUAL_LIST][2] / t->n_layers;
  printf("%s:\n", kv_show(t->name, a));
  for (int space = 0; space < KV_SPACES; space++) print_space(t, of, space);
  printf("  mean of %d references of stride %d: squares left %.3f\n",
         KV_RESIDUAL_K, kv_nearest_stride[KV_RESIDUAL_LIST], missed);
  for (int coding = 0; coding < KV_CODINGS; coding++)
    print_entropy(t, of, coding);
  for (int file = 0; file < KV_REBUILT_FILES; file++)
    print_rebuilt(t, of, file);
}

static const kv_inspection inspection = {"residuals", size, open, close,
                                         do_layer,    has,  put,  print};

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  if (!kv_spectrum_can())
    kv_note("this kvreplay was built without LAPACK: no spectra");
  return kv_inspect(self, &inspection, stopped, e);
}

/* --- the command -------------------------------------------------------- */

static const kv_task task_residuals = {
    sizeof(kv_inspect_task), NULL, NULL, work, kv_inspect_interrupted, NULL,
    kv_inspect_clean};

static const kv_option options[] = {
    {KV_SLOT_LIST, "weights", 'w', "FILE",
     .offset = offsetof(kv_inspect_task, weights), .use = KV_USE_READ,
     .group = "What",
     .help = "a compressor of deltakv (kvreplay train) that tokens are rebuilt "
             "by, beside the one in assets/; may be repeated"},
    KV_OPTIONS_INSPECT,
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay residuals traces/tiny/haystack_8.safetensors --db results.db",
     "how alike the tokens of a bundled trace are"},
    {"kvreplay residuals chat.safetensors -w narrow.safetensors -w "
     "wide.safetensors --db results.db",
     "what two compressors of its model miss, by width and position"},
    {"kvreport html results.db -o report.html", "the page, with its figures"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Compares every token, from the 17th on, with all earlier ones, as the "
    "keys before their rotation and the values of a layer's KV heads together "
    "(by distance, as DeltaKV does) and as the keys alone (by cosine, as the "
    "figure of its authors does), and keeps how far back the nearest is, their "
    "cosine, what is left without the nearest, without a random one and "
    "without the mean of references, with norms, values and spectrum. "
    "Where weights of deltakv lie beside the trace (assets/) latent vectors "
    "are counted, too, and of these and of every file named what a compressor "
    "misses with references and without, by position. Beside it the entropy of "
    "the keys and values coded like "
    "CacheGen, which no coder with a table a channel is below.",
    "The spectrum is LAPACK's and may differ in its last digits from machine "
    "to machine; all else is the same to the bit. Costs the products of all "
    "tokens with all earlier ones; a trace that the database has is not "
    "computed again.",
    NULL};

const kv_command kv_command_residuals = KV_COMMAND_OF_TRACES(
    "residuals", "how alike a trace's tokens are, for the report",
    kv_inspect_task, cells.traces, &task_residuals);
