/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace synth: writes a synthetic trace. An interrupt ends it between two
 * batches of rows and leaves no file.
 */
#include "traces/cli/kvtrace.h"

#include <stdlib.h>

#include "ref/ground/text.h"
#include "traces/text/progress.h"
#include "traces/trace/synth.h"

enum { ANY = -1 };

typedef struct task {
  const char *out, *record;
  bool output, quiet, sinks, shared;
  int like;                         /* index in kv_geometries */
  int layers, heads, kv_heads, dim; /* 0: as in the model */
  int dtype;                        /* kv_dtype, or ANY */
  int tokens, prompt_len;           /* 0: the default */
  uint64_t seed;
  kv_synth what;
  int window, full_every; /* 0: none */
  const char *softcap;    /* a decimal, or NULL */
  int *list;              /* of layers to record */
} task;

static void begin(void *self, int argc, char **argv) {
  task *s = self;
  int n;
  (void)argc, (void)argv;
  s->like = (int)(kv_geometry_find("tiny") - kv_geometries(&n));
  s->dtype = ANY;
  s->tokens = 1024;
  s->seed = 1;
}

static void take(int given, int *out) {
  if (given) *out = given;
}

static kv_rc choose_shape(task *s, kv_err *e) {
  int n;
  kv_geometry *g = &s->what.like;
  *g = kv_geometries(&n)[s->like];
  take(s->layers, &g->n_layers);
  take(s->heads, &g->n_heads);
  take(s->kv_heads, &g->n_kv_heads);
  take(s->dim, &g->d);
  if (s->window) g->full_every = 0; /* of all layers, unless given */
  take(s->window, &g->window);
  take(s->full_every, &g->full_every);
  take(s->sinks, &g->sinks);
  if (s->full_every && !g->window)
    return kv_fail(e, KV_USAGE,
                   "--full-every selects layers without --window; give both");
  if (s->dtype != ANY) g->dtype = (kv_dtype)s->dtype;
  s->what.prompt_len = kv_synth_prompt(s->tokens);
  take(s->prompt_len, &s->what.prompt_len);
  if (s->what.prompt_len <= s->tokens) return KV_OK;
  return kv_fail(e, KV_USAGE, "--prompt-len %d exceeds the %d of --tokens",
                 s->prompt_len, s->tokens);
}

/* "8,24": ascending layers of the model. */
static kv_rc choose_layers(task *s, kv_err *e) {
  const char *text = s->record;
  int last = -1, most = s->what.like.n_layers;
  if (!text) return KV_OK;
  s->list = calloc((size_t)most, sizeof *s->list);
  if (!s->list) return kv_no_memory(e, "the layers", 0);
  s->what.layers = s->list;
  for (char *end;; text = end + 1) {
    long l = strtol(text, &end, 10);
    if (end == text || *text < '0' || *text > '9' || l <= last || l >= most ||
        (*end && *end != ','))
      return kv_fail(e, KV_USAGE,
                     "--record must list ascending layers below %d, as in 8,24",
                     most);
    s->list[s->what.n_recorded++] = last = (int)l;
    if (*end == 0) return KV_OK;
  }
}

static kv_rc check(void *self, kv_err *e) {
  task *s = self;
  s->what.n_tokens = s->tokens;
  s->what.seed = s->seed;
  s->what.output = s->output;
  s->what.shared = s->shared;
  s->what.stop = &kv_stop_asked;
  if (s->softcap && (!kv_text_float(s->softcap, &s->what.softcap) ||
                     !(s->what.softcap >= 1 && s->what.softcap <= 1000)))
    return kv_fail(e, KV_USAGE,
                   "--softcap must be a number from 1 to 1000, not '%.40s'",
                   s->softcap);
  kv_rc rc = choose_shape(s, e);
  return rc ? rc : choose_layers(s, e);
}

static void tick(void *self, int64_t rows) { kv_progress_add(self, rows); }

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  char a[KV_SHOW], note[KV_SHOW + 16];
  const kv_kernels *kernel;
  kv_progress progress;
  kv_rc rc = kv_compute_setup(&kernel, e);
  if (rc) return rc;
  kv_stop_on_signals();
  kv_progress_start(&progress, stderr, "synth", "rows", kv_synth_rows(&s->what),
                    s->quiet);
  s->what.tick = tick;
  s->what.self = &progress;
  rc = kv_synth_write(&s->what, kernel, s->out, e);
  kv_progress_end(&progress);
  snprintf(note, sizeof note, "wrote %s", kv_show(s->out, a));
  if (!rc) kv_note(note);
  return kv_stop_heard(rc, stopped, e);
}

static void clean(void *self) { free(((task *)self)->list); }

#define AT(member) .offset = offsetof(task, member)

static const kv_option options[] = {
    {KV_SLOT_TEXT, "out", 'o', "FILE", AT(out), .use = KV_USE_SYNTHETIC,
     .must = true, .group = "Result", .help = "where to write it (required)"},
    {KV_SLOT_FLAG, "output", AT(output),
     .help = "also record o; the time is quadratic in tokens"},
    {KV_SLOT_TEXT, "record", 0, "LIST", AT(record),
     .help = "layers to record, such as 8,24 (default: all)"},
    {KV_SLOT_FLAG, "quiet", 'q', AT(quiet), .help = "no progress bar"},
    {KV_SLOT_CHOICE, "like", 0, "MODEL", .words = kv_model_name, AT(like),
     .group = "Shape", .help = "take the shape of this model (default: tiny)"},
    {KV_SLOT_COUNT, "layers", 0, "N", .min = 1, .max = 100000, AT(layers),
     .help = "layers of the model (default, also below: as --like)"},
    {KV_SLOT_COUNT, "heads", 0, "N", .min = 1, .max = 65536, AT(heads),
     .help = "query heads"},
    {KV_SLOT_COUNT, "kv-heads", 0, "N", .min = 1, .max = 65536, AT(kv_heads),
     .help = "KV heads, a divisor of heads"},
    {KV_SLOT_COUNT, "dim", 0, "N", .min = 8, .max = 1024, AT(dim),
     .help = "head dimension, a multiple of 4"},
    {KV_SLOT_CHOICE, "dtype", 0, "TYPE", .choices = KV_DTYPES, AT(dtype),
     .help = "type of q, k and v: F16, BF16 or F32"},
    {KV_SLOT_COUNT, "window", 0, "N", .min = 2, .max = 1 << 23, AT(window),
     .help = "sliding window of the layers, in tokens (trace version 2)"},
    {KV_SLOT_COUNT, "full-every", 0, "N", .min = 1, .max = 100000,
     AT(full_every),
     .help = "every N-th layer has no window (Gemma 3: 6; gpt-oss: 2)"},
    {KV_SLOT_FLAG, "shared", AT(shared),
     .help = "V is K, stored once, as in latent attention (trace version 2)"},
    {KV_SLOT_FLAG, "sinks", AT(sinks),
     .help = "learned sinks for every head, as in gpt-oss (trace version 2)"},
    {KV_SLOT_TEXT, "softcap", 0, "X", AT(softcap),
     .help = "cap on logits (Gemma 2: 50; trace version 2)"},
    {KV_SLOT_COUNT, "tokens", 't', "N", .min = 1, .max = 1 << 23, AT(tokens),
     .group = "Request", .help = "prompt and decode steps (default: 1024)"},
    {KV_SLOT_COUNT, "prompt-len", 'p', "N", .min = 1, .max = 1 << 23,
     AT(prompt_len),
     .help = "tokens of the prompt (default: all but min(256, tokens / 8))"},
    {KV_SLOT_WIDE, "seed", 's', "N", AT(seed),
     .help = "seed of the random numbers (default: 1)"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvtrace synth -o s.safetensors --tokens 2048 --seed 7",
     "a small trace, the same on every machine"},
    {"kvtrace synth -o big.safetensors --like llama-3.1-8b --record 8,24 "
     "-t 8448",
     "two layers with the shape of a large model"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Models: " KV_MODELS ". Only their shapes are used, and the windows, sinks "
    "and frequencies of gemma-3-12b and gpt-oss-20b. The numbers are made up.",
    NULL};

static const kv_task task_synth = {sizeof(task), begin, check, work,
                                   NULL,         NULL,  clean};

const kv_command kv_command_synth = {
    KV_COMMAND(synth, "make a synthetic trace, the same on every machine")};
