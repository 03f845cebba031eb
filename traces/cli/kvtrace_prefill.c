/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace prefill: how sparse a recorded prompt's attention is in blocks, by
 * head, and what patterns of block-sparse prefill would keep of it at the same
 * number of pairs; with --map the attention map of a layer, block by block.
 * Nothing is written but standard output.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "traces/cli/kvtrace.h"
#include "traces/prefill/prefill.h"
#include "traces/text/json.h"
#include "traces/text/progress.h"
#include "traces/text/text.h"

enum { TABLE, JSON, CSV }; /* --format */
enum { NO_MAP = -1, BLOCK = 64, SHARE = 95 };

typedef struct task {
  kv_list path; /* first, as in kv_one_trace */
  int format, block, share, map;
  kv_prefill *head; /* [recorded layers][n_heads] */
  json_t *rows;     /* of --format json */
} task;

static void begin(void *self, int argc, char **argv) {
  task *s = self;
  (void)argc, (void)argv;
  s->block = BLOCK;
  s->share = SHARE;
  s->map = NO_MAP;
}

static kv_rc check(void *self, kv_err *e) {
  const task *s = self;
  if (s->map == NO_MAP || s->format != TABLE) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "--map has a row for every pair of blocks, too many for a "
                 "table; give --format csv or json");
}

static double part_of(int64_t x, int64_t of) {
  return of ? (double)x / (double)of : 0;
}

/* --- rows of figures ------------------------------------------------------ */

static void put_csv(int layer, int head, const kv_prefill *x) {
  printf("%d,%d,%" PRId64 ",%" PRId64, layer, head, x->pairs, x->needed);
  for (int p = 0; p < KV_PATTERNS; p++)
    printf(",%.9g", part_of(x->kept[p], x->mass));
  putchar('\n');
}

static json_t *json_of(int layer, int head, const kv_prefill *x) {
  json_t *row =
      json_pack("{s:i,s:i,s:I,s:I}", "layer", layer, "head", head, "pairs",
                (json_int_t)x->pairs, "needed", (json_int_t)x->needed);
  for (int p = 0; p < KV_PATTERNS; p++)
    json_object_set_new(row, kv_patterns[p].name,
                        json_real(part_of(x->kept[p], x->mass)));
  return row;
}

static void put_rows(task *s, const kv_trace *t) {
  int heads = t->shape.n_heads;
  if (s->format == CSV) {
    printf("layer,head,pairs,needed");
    for (int p = 0; p < KV_PATTERNS; p++) printf(",%s", kv_patterns[p].name);
    putchar('\n');
  }
  for (int i = 0; i < t->n_layers * heads; i++) {
    int layer = t->layer[i / heads].data.layer;
    if (s->format == CSV) put_csv(layer, i % heads, &s->head[i]);
    if (s->format == JSON)
      json_array_append_new(s->rows, json_of(layer, i % heads, &s->head[i]));
  }
}

/* --- the table ------------------------------------------------------------ */

static void put_line(const char *layer, const char *head, double share,
                     const double *kept) {
  printf("%5s  %4s  %6.1f%%", layer, head, 100 * share);
  for (int p = 0; p < KV_PATTERNS; p++) printf("  %14.4f", kept[p]);
  putchar('\n');
}

/* Means of the figures of n heads, and a line for each that has a number. */
static void put_heads(const char *layer, int n, const kv_prefill *x,
                      bool each) {
  double share = 0, kept[KV_PATTERNS] = {0};
  for (int h = 0; h < n; h++, x++) {
    double one[KV_PATTERNS], needs = part_of(x->needed, x->pairs);
    char head[16];
    for (int p = 0; p < KV_PATTERNS; p++) {
      one[p] = part_of(x->kept[p], x->mass);
      kept[p] += one[p] / n;
    }
    share += needs / n;
    snprintf(head, sizeof head, "%d", h);
    if (each) put_line(layer, head, needs, one);
  }
  put_line(layer, "mean", share, kept);
}

static void put_table(const task *s, const kv_trace *t) {
  int heads = t->shape.n_heads;
  char a[KV_SHOW];
  printf("%s: a prompt of %d tokens in blocks of %d\n", kv_show(t->name, a),
         t->shape.prompt_len, s->block);
  printf(
      "pairs: fewest of a query and a key block with %d %% of the mass; then "
      "what\na pattern of as many pairs has of it\n\n",
      s->share);
  printf("layer  head    pairs");
  for (int p = 0; p < KV_PATTERNS; p++) printf("  %14s", kv_patterns[p].title);
  putchar('\n');
  for (int i = 0; i < t->n_layers; i++) {
    char layer[16];
    snprintf(layer, sizeof layer, "%d", t->layer[i].data.layer);
    put_heads(layer, heads, s->head + i * heads, true);
  }
  put_heads("all", t->n_layers * heads, s->head, false);
}

/* --- a map ---------------------------------------------------------------- */

static void put_pair(task *s, int head, int i, int j, double mass) {
  if (s->format == CSV)
    printf("%d,%d,%d,%d,%.9g\n", s->map, head, i, j, mass);
  else
    json_array_append_new(s->rows,
                          json_pack("{s:i,s:i,s:i,s:i,s:f}", "layer", s->map,
                                    "head", head, "query_block", i, "key_block",
                                    j, "mass", mass));
}

/* In shares of the mass that the query block's rows have, a row 1. */
static kv_rc put_map(void *self, int head, const kv_grid *g,
                     const int64_t *mass, kv_err *e) {
  task *s = self;
  (void)e;
  if (head == 0 && s->format == CSV)
    puts("layer,head,query_block,key_block,mass");
  for (int i = 0; i < g->blocks; i++) {
    int rows = i + 1 < g->blocks ? g->block : g->tokens - i * g->block;
    for (int j = g->from[i]; j <= i; j++)
      put_pair(s, head, i, j,
               (double)mass[kv_grid_at(g, i, j)] * 0x1p-40 / rows);
  }
  return KV_OK;
}

static kv_rc do_map(task *s, const kv_trace *t, const kv_kernels *kernel,
                    kv_err *e) {
  char a[KV_SHOW];
  for (int i = 0; i < t->n_layers; i++)
    if (t->layer[i].data.layer == s->map)
      return kv_prefill_map(t, i, kernel, s->block, put_map, s, e);
  return kv_fail(e, KV_USAGE,
                 "%s: layer %d is not recorded; kvtrace info --format json "
                 "lists those that are",
                 kv_show(t->path, a), s->map);
}

/* --- work ----------------------------------------------------------------- */

static kv_rc do_layers(task *s, const kv_trace *t, const kv_kernels *kernel,
                       kv_err *e) {
  size_t n = (size_t)t->n_layers * (size_t)t->shape.n_heads;
  kv_progress progress;
  kv_rc rc = KV_OK;
  s->head = kv_zalloc(n, sizeof *s->head);
  if (!s->head) return kv_no_memory(e, "figures of heads", n * sizeof *s->head);
  kv_progress_start(&progress, stderr, "prefill", "layers", t->n_layers, false);
  for (int i = 0; !rc && i < t->n_layers; i++) {
    rc = kv_prefill_layer(t, i, kernel, s->block, s->share,
                          s->head + i * t->shape.n_heads, e);
    kv_trace_release_layer(t, i);
    kv_progress_add(&progress, 1);
  }
  kv_progress_end(&progress);
  if (!rc && s->format == TABLE) put_table(s, t);
  if (!rc && s->format != TABLE) put_rows(s, t);
  return rc;
}

/* Prints and frees s->rows, after kv_json_begin. */
static kv_rc print_json(task *s, const kv_trace *t, kv_err *e) {
  json_t *out =
      json_pack("{s:s,s:i,s:i,s:i,s:o}", "trace", t->name, "prompt",
                t->shape.prompt_len, "block", s->block, "share", s->share,
                s->map == NO_MAP ? "heads" : "map", s->rows);
  char *text = out ? json_dumps(out, JSON_INDENT(1)) : NULL;
  json_decref(out);
  return kv_print_json(t->path, text, e);
}

static kv_rc compute(task *s, const kv_trace *t, kv_err *e) {
  const kv_kernels *kernel;
  kv_rc rc = kv_compute_setup(&kernel, e);
  if (rc) return rc;
  return s->map == NO_MAP ? do_layers(s, t, kernel, e)
                          : do_map(s, t, kernel, e);
}

static kv_rc compute_json(task *s, const kv_trace *t, kv_err *e) {
  kv_json_begin();
  s->rows = json_array();
  kv_rc rc = compute(s, t, e);
  if (!rc) return print_json(s, t, e);
  json_decref(s->rows);
  (void)kv_json_end();
  return rc;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  kv_trace *t = NULL;
  (void)stopped;
  kv_rc rc = kv_trace_open(s->path.item[0], &t, e);
  if (!rc) rc = s->format == JSON ? compute_json(s, t, e) : compute(s, t, e);
  kv_trace_close(t);
  return rc;
}

static void release(void *self) { free(((task *)self)->head); }

/* --- the command -------------------------------------------------------- */

static const kv_option options[] = {
    {KV_SLOT_COUNT, "block", 'b', "N", .min = 1, .max = 1 << 20,
     .offset = offsetof(task, block), .group = "What to measure",
     .help = "tokens of a block (default 64)"},
    {KV_SLOT_COUNT, "share", 's', "PERCENT", .min = 1, .max = 100,
     .offset = offsetof(task, share),
     .help = "of a head's mass that the pairs must hold (default 95)"},
    {KV_SLOT_COUNT, "map", 'm', "LAYER", .max = 1 << 20,
     .offset = offsetof(task, map),
     .help = "instead: the attention map of a layer, a row for each head and "
             "pair of blocks (csv or json)"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|json|csv",
     .offset = offsetof(task, format), .group = "What to print",
     .help = "table (the default), json or csv"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvtrace prefill -b 16 traces/tiny/haystack_8.safetensors",
     "heads whose prompt could be read sparsely, and by which pattern"},
    {"kvtrace prefill -f csv --map 2 chat.safetensors",
     "where the heads of layer 2 look: sinks, near tokens, documents"},
    {NULL, NULL}};

static const char *const notes[] = {
    "A pair is a block of queries and a block of keys that one of them sees; "
    "its mass is the sum of its probabilities. The fewest pairs with 95 % of "
    "a head's mass are the largest ones, which nobody knows beforehand. A "
    "pattern takes as many pairs by its own rule, and what is printed is the "
    "share of the mass that it has then.",
    "vertical-slash: columns and diagonals by the attention of the prompt's "
    "last block of rows, as FlexPrefill of MInference's. A-shape: the first "
    "column, the main diagonal, and those next to it. block "
    "top-k: of each query block as many key blocks, by the product of mean "
    "query and mean key, as MInference's block-sparse.",
    "All query rows of the prompt must be recorded. A map's masses are means "
    "over a query block's rows, so that a line of it adds up to 1, or less "
    "beside learned sinks.",
    NULL};

static const kv_task task_prefill = {.size = sizeof(task),
                                     .begin = begin,
                                     .check = check,
                                     .work = work,
                                     .free = release};

const kv_command kv_command_prefill = {
    .name = "prefill",
    .summary = "measure how sparsely a prompt could be read",
    KV_ONE_TRACE,
    .options = options,
    .examples = examples,
    .notes = notes,
    .task = &task_prefill};
