/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/rows.h"

#include "ref/ground/formula.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 4, HEADS = 4, BINS = 8, PROMPT = 480, TOKENS = 800 };
enum { PARTS = LAYERS + LAYERS * HEADS + BINS };

/* err: error at a tenth; fall: how fast it falls with the share kept;
 * ends: share stored at the end beyond the budget; reads all stored. */
static const struct {
  const char *name, *params;
  double err, fall, grows;
  bool budget, reads_part;
} method[KV_ROWS_METHODS] = {
    {"dense", "{}", 0, 1, 1, false, false},
    {"window", "{\"budget\": %d}", .71, .25, 0, true, false},
    {"random", "{\"budget\": %d, \"seed\": 1, \"recent\": %d}", .66, .3, 0,
     true, false},
    {"streamingllm", "{\"budget\": %d, \"sink\": 4, \"recent\": %d}", .69, .26,
     0, true, false},
    {"h2o", "{\"budget\": %d, \"group\": \"mean\", \"recent\": %d}", .41, .5, 0,
     true, false},
    {"tova", "{\"budget\": %d}", .45, .5, 0, true, false},
    {"snapkv", "{\"budget\": %d, \"window\": 32, \"pool\": \"avg\"}", .33, .55,
     .4, true, false},
    {"pyramidkv", "{\"budget\": %d, \"window\": 32}", .36, .5, .42, true,
     false},
    {"adakv", "{\"budget\": %d, \"window\": 32}", .29, .55, .4, true, false},
    {"quest", "{\"budget\": %d, \"page\": 16}", .12, .9, 1.05, true, true},
    {"zsmerge", "{\"budget\": %d, \"variant\": \"paper\"}", .5, .4, 0, true,
     false},
    {"kivi", "{\"bits\": 2, \"residual\": 32}", .085, 1, .2, false, false},
    {"kivi", "{\"bits\": 4, \"residual\": 32}", .017, 1, .32, false, false},
    {"oracle-topk", "{\"budget\": %d}", .028, 1.1, 1, true, true},
    {"oracle-topp", "{\"p\": 0.95}", .021, 1, 1, false, true}};

static const double share[KV_ROWS_BUDGETS] = {.05, .1, .2, .4};
static const char *const target[KV_ROWS_BUDGETS] = {"5%", "10%", "20%", "40%"};

bool kv_rows_has_budget(int m) { return method[m].budget; }

/* A number in [0, 1) that depends on everything named. */
static double noise(unsigned a, unsigned b, unsigned c) {
  uint64_t x = kv_mix((uint64_t)a << 40 ^ (uint64_t)b << 20 ^ c);
  return (double)(x >> 11) * 0x1p-53;
}

static kv_digest digest(const char *what, const kv_result *r, int layer) {
  char text[1024];
  kv_sha256 h;
  int n = snprintf(text, sizeof text, "%s %s %s %d %d", what, r->trace, r->spec,
                   layer, r->budget);
  kv_sha256_init(&h);
  kv_sha256_add(&h, text, (size_t)n);
  return kv_sha256_end(&h);
}

static kv_stat spread(double mean, int64_t count) {
  return (kv_stat){count,
                   mean,
                   mean * .8,
                   mean * 1.9,
                   mean * 2.6,
                   mean * 3.7,
                   (double)(count - 1) * mean * mean / 9};
}

/* Every measure from one error: not physics, only shapes. */
static void fill(kv_stat *s, double err, bool needles) {
  double kept = 1 / (1 + err);
  for (int m = 0; m < KV_MEASURES; m++) {
    bool needle = kv_measure_table[m].of == KV_OF_SEARCHES;
    double x = kv_measure_table[m].better > 0 ? kept * kept : err / 3;
    if (m == KV_OUTPUT_ERROR) x = err;
    if (m == KV_NEEDLE_DENSE) x = 1;
    if (!kv_measure_of_steps(m) || (needle && !needles)) continue;
    s[m] = spread(x, needle ? 160 : 2560);
  }
}

/* adakv's heads and layers differ, about the run's mean. */
static double kept_by_head(const kv_result *r, int i) {
  double lean = .2 * (i / HEADS - 1.5) / LAYERS + .1 * (i % HEADS - 1.5);
  return r->totals.kept * (strcmp(r->method, "adakv") ? 1 : 1 + lean);
}

static void fill_parts(kv_result *r, unsigned seed, double err) {
  kv_part *p = r->part;
  for (int l = 0; l < LAYERS; l++, p++)
    *p = (kv_part){l, -1, -1, PROMPT + 1, TOKENS, r->totals.kept, 0, {{0}}};
  for (int i = 0; i < LAYERS * HEADS; i++, p++)
    *p = (kv_part){i / HEADS, i % HEADS,          -1, PROMPT + 1,
                   TOKENS,    kept_by_head(r, i), 0,  {{0}}};
  for (int b = 0; b < BINS; b++, p++)
    *p = (kv_part){-1,
                   -1,
                   b,
                   PROMPT + 1 + b * (TOKENS - PROMPT) / BINS,
                   PROMPT + (b + 1) * (TOKENS - PROMPT) / BINS,
                   NAN,
                   0,
                   {{0}}};
  for (int i = 0; i < PARTS; i++) {
    int b = r->part[i].bin;
    double grow = b < 0 ? 1 : .75 + .07 * b;
    r->part[i].drift = -err * grow * (TOKENS - PROMPT) / (b < 0 ? 1 : BINS);
    fill(r->part[i].stat, err * grow * (.9 + .2 * noise(seed, (unsigned)i, 7)),
         b % 2 == 0);
  }
}

static void fill_steps(kv_result *r, double end, double reads) {
  for (int i = 0; i < r->n_steps; i++) {
    int64_t dense = (int64_t)(PROMPT + i) * 2048;
    r->step[i] = (kv_step_cost){PROMPT + i, (int64_t)((double)dense * end),
                                (int64_t)((double)dense * end * .97),
                                (int64_t)((double)dense * reads),
                                (int64_t)((double)dense * reads / 16)};
  }
}

/* Means that move about the run's. */
static void fill_means(kv_result *r, unsigned seed) {
  int steps = r->n_steps - 1;
  for (int m = 0; m < KV_MEASURES; m++)
    for (int i = 0; i < steps; i++) {
      double x = r->stat[m].mean * (.8 + .4 * noise(seed, (unsigned)i, 9));
      bool all = kv_measure_table[m].of != KV_OF_SEARCHES;
      bool there = r->stat[m].count && (all || i % 2 == 0);
      r->step_mean[m * steps + i] = there ? (float)x : NAN;
    }
}

static void fill_totals(kv_result *r, double end, double reads, int entries) {
  double dense = TOKENS * 2048, mean = (TOKENS + PROMPT) / 2. * 2048;
  kv_totals *t = &r->totals;
  t->end.payload = (int64_t)(dense * end * .97);
  t->end.metadata = (int64_t)(dense * end * .03);
  t->codes_end = t->end.payload;
  t->mean = mean * end;
  t->codes_mean = mean * end * .97;
  t->peak = (int64_t)(dense * end) + PROMPT * 512;
  t->codes_peak = t->peak - 512;
  t->mti = (int64_t)(mean * end * (TOKENS - PROMPT));
  t->read = mean * reads;
  t->scanned = mean * reads / 16;
  t->asset = entries * 16;
  t->fetched = entries * 32;
  t->moved = entries * 64;
  t->verbs = entries;
  t->kr = end;
  t->cr = reads;
  t->kept = entries;
  t->kept_min = entries - 1;
  t->kept_max = entries + 1;
  t->attended = reads * (TOKENS + PROMPT) / 2.;
  t->needle_kept = t->needle_worst = NAN;
}

static void measure(kv_result *r, int trace, int m, int b) {
  unsigned seed = (unsigned)(trace * 1000 + m * 10 + b);
  double s = method[m].budget ? share[b] : 1;
  double end = method[m].grows >= 1 ? method[m].grows
               : method[m].budget   ? s * .6 + method[m].grows
                                    : method[m].grows;
  double reads = method[m].reads_part ? s * .6 : end;
  double err = method[m].err * pow(s / .1, -method[m].fall);
  if (!method[m].budget) err = method[m].err;
  err = fmin(err * (.8 + .5 * noise(seed, 1, 1)) * (1 + .15 * trace), 1.2);
  if (!method[m].budget && method[m].reads_part) reads = .18;
  fill_totals(r, end, reads, (int)(end * TOKENS));
  if (method[m].budget) r->totals.attended = r->budget;
  fill(r->stat, err, trace > 0);
  if (trace > 0) r->totals.needle_kept = 1 / (1 + 2 * err);
  if (trace > 0) r->totals.needle_worst = 1 / (1 + 4 * err);
  r->drift = -err * (TOKENS - PROMPT);
  fill_parts(r, seed, err);
  fill_steps(r, end, reads);
  fill_means(r, seed);
}

static void name(kv_result *r, int trace, int m, int b) {
  char params[256], spec[300];
  const char *how = method[m].params;
  int budget = (int)(share[b] * PROMPT);
  r->budget = method[m].budget ? budget : -1;
  r->basis = method[m].budget ? KV_BASIS_PROMPT : KV_BASIS_NONE;
  r->achieved = method[m].budget ? share[b] : NAN;
  snprintf(r->target, sizeof r->target, "%s",
           method[m].budget ? target[b] : "");
  snprintf(r->trace, sizeof r->trace, "made_up_%d", trace + 1);
  snprintf(params, sizeof params, how, budget, budget / 2);
  snprintf(spec, sizeof spec, "%s %s", method[m].name, params);
  r->method = method[m].name;
  r->params = strdup(params);
  r->spec = strdup(spec);
}

kv_result kv_rows_make(int trace, int m, int b, const char *isa, int threads) {
  kv_result r = {.has_identity = true,
                 .prompt_len = PROMPT,
                 .n_tokens = TOKENS,
                 .revision = 1,
                 .arithmetic = 1,
                 .backend = "ref",
                 .threads = threads,
                 .seconds = .25,
                 .n_parts = PARTS,
                 .n_layers = LAYERS,
                 .n_steps = TOKENS - PROMPT + 1};
  name(&r, trace, m, b);
  memset(r.identity.byte, 0xa0 + trace, sizeof r.identity.byte);
  snprintf(r.isa, sizeof r.isa, "%s", isa);
  r.status = method[m].budget ? KV_CELL_OK : KV_CELL_FIXED;
  r.journal = digest("journal", &r, -1);
  r.state = digest("state", &r, -1);
  r.output = digest("output", &r, -1);
  r.scores = digest("scores", &r, -1);
  r.has_scores = true;
  r.part = calloc(PARTS, sizeof *r.part);
  r.layer = calloc(LAYERS, sizeof *r.layer);
  r.step = calloc((size_t)r.n_steps, sizeof *r.step);
  r.step_mean =
      calloc((size_t)KV_MEASURES * (size_t)r.n_steps, sizeof *r.step_mean);
  for (int l = 0; l < LAYERS; l++)
    r.layer[l] =
        (kv_layer_result){l, digest("journal", &r, l), digest("state", &r, l),
                          digest("output", &r, l), digest("scores", &r, l)};
  measure(&r, trace, m, b);
  return r;
}

kv_environment kv_rows_environment(int number) {
  kv_environment v = {.version = "0.1.0",
                      .commit = "0123456789ab",
                      .compiler = "made up",
                      .flags = "-O3",
                      .isa = "avx2",
                      .cores = 2,
                      .os = "Linux made up",
                      .locale = "C",
                      .rounding = "nearest",
                      .sqlite = "3",
                      .jansson = "2",
                      .command = "kvreplay run"};
  snprintf(v.cpu, sizeof v.cpu, "made-up processor %d", number);
  snprintf(v.started, sizeof v.started, "2026-01-%02uT00:00:00Z",
           (unsigned)number % 28 + 1);
  return v;
}
