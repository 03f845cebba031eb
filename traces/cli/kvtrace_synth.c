/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace synth: writes a synthetic trace. An interrupt ends it between two
 * batches of rows, and nothing is left behind.
 */
#define _GNU_SOURCE 1
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces/cli/kvtrace.h"
#include "traces/container/apart.h"
#include "traces/text/progress.h"
#include "traces/text/text.h"
#include "traces/trace/synth.h"

static const kv_flag flags[] = {
    {"out", 'o', "FILE", "Result", "where to write it (required)"},
    {"output", 0, NULL, "Result", "record o as well: quadratic in tokens"},
    {"record", 0, "LIST", "Result", "layers to record, as 8,24 [all]"},
    {"quiet", 'q', NULL, "Result", "no progress"},
    {"like", 0, "MODEL", "Shape", "a model to take the shape of [tiny]"},
    {"layers", 0, "N", "Shape", "layers of the model [as MODEL]"},
    {"heads", 0, "N", "Shape", "query heads [as MODEL]"},
    {"kv-heads", 0, "N", "Shape", "KV heads, a divisor of heads [as MODEL]"},
    {"dim", 0, "N", "Shape", "head dimension, a multiple of 4 [as MODEL]"},
    {"dtype", 0, "F16|BF16|F32", "Shape", "of q, k and v [as MODEL]"},
    {"tokens", 't', "N", "Request", "prompt and decode steps [1024]"},
    {"prompt-len", 'p', "N", "Request",
     "tokens of the prompt [all but min(256, tokens / 8)]"},
    {"seed", 's', "N", "Request", "another seed, another trace [1]"},
    {0}};

static volatile sig_atomic_t interrupted;

static void on_signal(int number) { interrupted = number; }

static const char *value(const kv_verb_call *call, const char *name) {
  return kv_flag_value(&kv_verb_synth, call, name);
}

static kv_rc number(const kv_verb_call *call, const char *name, uint64_t most,
                    uint64_t *out, kv_err *e) {
  const char *text = value(call, name);
  char a[KV_SHOW];
  if (!text || kv_text_count(text, most, out)) return KV_OK;
  return kv_fail(e, KV_USAGE, "--%s is %s, not a whole number up to %llu", name,
                 kv_show(text, a), (unsigned long long)most);
}

static kv_rc count(const kv_verb_call *call, const char *name, int least,
                   int most, int *out, kv_err *e) {
  uint64_t x = (uint64_t)*out;
  kv_rc rc = number(call, name, (uint64_t)most, &x, e);
  if (!rc && x < (uint64_t)least) {
    rc = kv_fail(e, KV_USAGE, "--%s must be at least %d", name, least);
  }
  if (!rc) *out = (int)x;
  return rc;
}

static kv_rc choose_model(const kv_verb_call *call, kv_synth *s, kv_err *e) {
  const char *text = value(call, "like"), *names[16];
  char a[KV_SHOW];
  int n;
  const kv_geometry *all = kv_geometries(&n);
  const kv_geometry *g = kv_geometry_find(text ? text : "tiny");
  for (int i = 0; i < n; i++) names[i] = all[i].name;
  if (!g) {
    const char *near = kv_text_nearest(text, n, names);
    return kv_fail(e, KV_USAGE,
                   "--like knows no %s%s%s%s; kvtrace synth "
                   "--help lists the models",
                   kv_show(text, a), near ? "; did you mean " : "",
                   near ? near : "", near ? "?" : "");
  }
  s->like = *g;
  return KV_OK;
}

static kv_rc choose_shape(const kv_verb_call *call, kv_synth *s, kv_err *e) {
  kv_geometry *g = &s->like;
  bool any;
  kv_rc rc = choose_model(call, s, e);
  if (!rc) rc = count(call, "layers", 1, 100000, &g->n_layers, e);
  if (!rc) rc = count(call, "heads", 1, 65536, &g->n_heads, e);
  if (!rc) rc = count(call, "kv-heads", 1, 65536, &g->n_kv_heads, e);
  if (!rc) rc = count(call, "dim", 8, 1024, &g->d, e);
  if (!rc) rc = kv_flag_dtype(&kv_verb_synth, call, &any, &g->dtype, e);
  if (!rc) rc = count(call, "tokens", 1, 1 << 23, &s->n_tokens, e);
  s->prompt_len = kv_synth_prompt(s->n_tokens);
  if (!rc) rc = count(call, "prompt-len", 1, s->n_tokens, &s->prompt_len, e);
  if (!rc) rc = number(call, "seed", UINT64_MAX, &s->seed, e);
  return rc;
}

/* "8,24": ascending layers of the model into list. */
static kv_rc choose_layers(const kv_verb_call *call, kv_synth *s, int **list,
                           kv_err *e) {
  const char *text = value(call, "record");
  int last = -1;
  if (!text) return KV_OK;
  *list = calloc((size_t)s->like.n_layers, sizeof **list);
  if (!*list) return kv_no_memory(e, "the layers", 0);
  s->layers = *list;
  for (char *end;; text = end + 1) {
    long l = strtol(text, &end, 10);
    if (end == text || *text < '0' || *text > '9' || l <= last ||
        l >= s->like.n_layers || (*end && *end != ',')) {
      return kv_fail(e, KV_USAGE,
                     "--record wants ascending layers below %d, "
                     "as 8,24",
                     s->like.n_layers);
    }
    (*list)[s->n_recorded++] = last = (int)l;
    if (*end == 0) return KV_OK;
  }
}

static void tick(void *self, int64_t rows) { kv_progress_add(self, rows); }

static kv_rc write_it(const char *path, kv_synth *s, bool quiet, kv_err *e) {
  char a[KV_SHOW];
  const kv_kernels *kernel;
  kv_rc rc = kv_choose_kernels(&kernel, e);
  if (rc) return rc;
  kv_catch_signals(on_signal);
  kv_progress progress;
  kv_progress_start(&progress, stderr, "synth", "rows", kv_synth_rows(s),
                    quiet);
  s->tick = tick;
  s->self = &progress;
  rc = kv_synth_write(s, kernel, path, e);
  kv_progress_end(&progress);
  if (!rc) fprintf(stderr, "kvtrace: wrote %s\n", kv_show(path, a));
  if (rc && interrupted) e->rc = rc = (kv_rc)130;
  return rc;
}

static kv_rc run(const kv_verb_call *call, kv_err *e) {
  kv_synth s = {.n_tokens = 1024, .seed = 1, .stop = &interrupted};
  int *list = NULL;
  const char *path = value(call, "out");
  kv_rc rc = choose_shape(call, &s, e);
  if (!rc && call->n_paths > 0) {
    rc = kv_fail(e, KV_USAGE, "synth takes no trace; name the result with -o");
  }
  if (!rc && !path) rc = kv_fail(e, KV_USAGE, "synth wants -o FILE");
  kv_place out = {.what = "--out", .path = path, .synthetic = true};
  if (!rc) rc = kv_places_apart(0, NULL, 1, &out, e);
  if (!rc) rc = choose_layers(call, &s, &list, e);
  s.output = value(call, "output") != NULL;
  if (!rc) rc = write_it(path, &s, value(call, "quiet"), e);
  free(list);
  return rc;
}

static const char *const examples[] = {
    "kvtrace synth -o s.safetensors --tokens 2048 --seed 7",
    "kvtrace synth -o big.safetensors --like llama-3.1-8b --record 8,24 "
    "-t 8448",
    NULL};

const kv_verb kv_verb_synth = {
    "synth",
    "Makes a synthetic trace, the same on every machine",
    "kvtrace synth -o FILE [OPTION]...",
    examples,
    flags,
    run,
    "Models: llama-3.1-8b, llama-3.1-70b, qwen2.5-7b, mistral-7b, llama-2-7b\n"
    "and tiny. Only their shapes are used; nothing in the result is real."};
