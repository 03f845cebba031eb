/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace plan: what a trace of a geometry will cost, in full and made smaller,
 * from a model of the table, a config.json or a trace. Nothing is written.
 */
#define _GNU_SOURCE 1
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/ground/text.h"
#include "traces/cli/kvtrace.h"
#include "traces/container/index.h"
#include "traces/text/json.h"
#include "traces/trace/plan.h"
#include "traces/trace/synth.h"

enum { ANY = -1, TOKENS = 8192 };

typedef struct task {
  kv_one_trace of;    /* first; its path may be a model's name */
  int tokens, decode; /* 0, ANY: as in the trace, or the default */
  int dtype;          /* kv_dtype, or ANY */
  kv_keeping what;
  kv_plan plan;
  kv_cost full, slim;
} task;

static const char *const type_name[] = {"F16", "BF16", "F32"};

static void begin(void *self, int argc, char **argv) {
  task *s = self;
  (void)argc, (void)argv;
  s->dtype = s->decode = ANY;
}

static kv_rc check(void *self, kv_err *e) {
  return kv_keeping_read(&((task *)self)->what, e);
}

/* --- the source of the geometry ------------------------------------------ */

static bool ends(const char *text, const char *tail) {
  size_t n = strlen(text), m = strlen(tail);
  return n >= m && strcmp(text + n - m, tail) == 0;
}

static kv_rc from_trace(const char *path, kv_plan *out, kv_err *e) {
  kv_trace *t = NULL;
  kv_rc rc = kv_trace_open(path, &t, e);
  if (!rc) rc = kv_plan_of_trace(t, out, e);
  if (!rc) rc = kv_trace_damaged(t, e);
  kv_trace_close(t);
  return rc;
}

static kv_rc from_folder(const char *folder, kv_plan *out, kv_err *e) {
  char *path = NULL;
  if (asprintf(&path, "%s/config.json", folder) < 0)
    return kv_no_memory(e, "a file name", 0);
  kv_rc rc = kv_plan_of_config(path, out, e);
  free(path);
  return rc;
}

static kv_rc no_such(const char *text, kv_err *e) {
  const char *names[64];
  int n = 0;
  while (n < 64 && (names[n] = kv_model_name(n))) n++;
  return kv_no_such("model, config.json or trace", text, n, names,
                    "the models are " KV_MODELS, e);
}

static kv_rc read_source(const char *from, kv_plan *out, kv_err *e) {
  const kv_geometry *g = kv_geometry_find(from);
  struct stat there;
  if (g) return kv_plan_of_model(g, out, e);
  if (stat(from, &there)) return no_such(from, e);
  if (S_ISDIR(there.st_mode)) return from_folder(from, out, e);
  if (ends(from, ".json") && !kv_st_is_index(from))
    return kv_plan_of_config(from, out, e);
  return from_trace(from, out, e);
}

/* --- the request ---------------------------------------------------------- */

static kv_rc choose(task *s, kv_err *e) {
  kv_shape *p = &s->plan.shape;
  char a[KV_SHOW];
  int decode = p->n_tokens - p->prompt_len;
  if (s->tokens || !p->n_tokens) {
    p->n_tokens = s->tokens ? s->tokens : TOKENS;
    decode = p->n_tokens - kv_synth_prompt(p->n_tokens);
  }
  if (s->decode != ANY) decode = s->decode;
  if (s->tokens || s->decode != ANY) kv_plan_anew(&s->plan);
  p->prompt_len = p->n_tokens - decode;
  if (p->prompt_len < 1)
    return kv_fail(e, KV_USAGE,
                   "--decode %d leaves no prompt; the request has %d tokens, "
                   "decode steps included",
                   decode, p->n_tokens);
  if (s->dtype != ANY) kv_plan_type(&s->plan, (kv_dtype)s->dtype);
  if (s->plan.typed) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "%s: names no dtype that a trace can have; give --dtype",
                 kv_show(s->of.path.item[0], a));
}

/* --- printing ------------------------------------------------------------ */

static const char *const kinds[] = {"k", "v", "q", "o", "sums", "rest", "all"};
static const char *const titles[] = {"K",           "V",    "q",     "o",
                                     "column sums", "rest", "in all"};
enum { KINDS = 7 };

static int64_t of_kind(const kv_cost *c, int i) {
  const int64_t x[] = {c->k, c->v, c->q, c->o, c->sums, c->rest, c->all};
  return x[i];
}

static bool smaller(const task *s) {
  const kv_keep *k = &s->what.keep;
  return k->last != KV_KEEP_ALL || k->n_layers || k->no_o || k->no_tokens ||
         k->no_sums;
}

static json_t *cost_json(const kv_cost *c) {
  json_t *x =
      json_pack("{s:i,s:i}", "layers", c->layers, "query_rows", c->rows);
  json_t *bytes = json_object();
  for (int i = 0; i < KINDS; i++)
    json_object_set_new(bytes, kinds[i], json_integer(of_kind(c, i)));
  json_object_set_new(x, "bytes", bytes);
  return x;
}

static kv_rc print_json(const task *s, kv_err *e) {
  const kv_shape *p = &s->plan.shape;
  kv_json_begin();
  json_t *out = json_pack(
      "{s:s,s:i,s:i,s:i,s:i,s:i,s:s,s:i,s:i,s:o,s:o}", "source",
      s->of.path.item[0], "n_layers", p->n_layers, "n_heads", p->n_heads,
      "n_kv_heads", p->n_kv_heads, "head_dim", p->d, "value_dim", p->d_v,
      "dtype", type_name[p->dtype], "tokens", p->n_tokens, "prompt_len",
      p->prompt_len, "full", cost_json(&s->full), "slim",
      smaller(s) ? cost_json(&s->slim) : json_null());
  char *text = out ? json_dumps(out, JSON_INDENT(1)) : NULL;
  json_decref(out);
  return kv_print_json(s->of.path.item[0], text, e);
}

static void print_table(const task *s) {
  const kv_shape *p = &s->plan.shape;
  bool two = smaller(s);
  printf("%-10s ", "geometry");
  kv_put_plain(stdout, s->of.path.item[0]);
  printf("\n%-10s %d, %d of them recorded\n", "layers", p->n_layers, s->plan.n);
  printf("%-10s %d query, %d KV; dimension %d", "heads", p->n_heads,
         p->n_kv_heads, p->d);
  if (p->d_v != p->d) printf(", values %d", p->d_v);
  printf("; %s\n%-10s %d tokens: %d prompt, %d decode steps\n",
         type_name[p->dtype], "request", p->n_tokens, p->prompt_len,
         p->n_tokens - p->prompt_len);
  printf("\n%-12s %18s", "bytes", "full");
  printf(two ? " %18s\n" : "\n", "slim");
  for (int i = 0; i < KINDS; i++) {
    printf("%-12s %18" PRId64, titles[i], of_kind(&s->full, i));
    if (two) printf(" %18" PRId64, of_kind(&s->slim, i));
    putchar('\n');
  }
  printf("%-12s %15.4g GB", "", 1e-9 * (double)s->full.all);
  if (two) printf(" %15.4g GB", 1e-9 * (double)s->slim.all);
  putchar('\n');
  if (two)
    printf("\n%-10s %d of %d layers, %d of %d query rows; %.1f %% of full\n",
           "slim", s->slim.layers, s->full.layers, s->slim.rows, s->full.rows,
           100 * (double)s->slim.all / (double)s->full.all);
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  const kv_keep all = {.last = KV_KEEP_ALL};
  (void)stopped;
  kv_rc rc = read_source(s->of.path.item[0], &s->plan, e);
  if (!rc) rc = choose(s, e);
  if (!rc) rc = kv_plan_cost(&s->plan, &all, &s->full, e);
  if (!rc) rc = kv_plan_cost(&s->plan, &s->what.keep, &s->slim, e);
  if (!rc && s->of.json) rc = print_json(s, e);
  if (!rc && !s->of.json) print_table(s);
  return rc;
}

static void clean(void *self) {
  task *s = self;
  kv_plan_free(&s->plan);
  kv_keep_free(&s->what.keep);
}

/* --- the command --------------------------------------------------------- */

#define AT(member) .offset = offsetof(task, member)

static const kv_option options[] = {
    KV_OPTION_FORMAT,
    {KV_SLOT_COUNT, "tokens", 't', "N", .min = 1, .max = 1 << 23, AT(tokens),
     .group = "Request",
     .help = "prompt and decode steps together (default: the trace's, or "
             "8192)"},
    {KV_SLOT_COUNT, "decode", 0, "N", .min = 0, .max = 1 << 23, AT(decode),
     .help = "decode steps among them (default: the trace's, or with --tokens "
             "min(256, tokens / 8))"},
    {KV_SLOT_CHOICE, "dtype", 'd', "TYPE", .choices = KV_DTYPES, AT(dtype),
     .help =
         "type of q, k, v and o: F16, BF16 or F32 (default: the model's own)"},
    KV_KEEPING_OPTIONS(task, what),
    {KV_SLOT_FLAG, "drop-tokens", AT(what.keep.no_tokens),
     .help = "leave out token ids"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvtrace plan llama-3.1-8b -t 131072", "a long prompt of a listed model"},
    {"kvtrace plan ~/models/mine/config.json -t 8192 --rows last=256,decode",
     "any model, with all query rows and with fewer"},
    {"kvtrace plan chat.safetensors --layers 0,8-11 --no-o --format json",
     "the size that kvtrace slim would reach, as JSON"},
    {NULL, NULL}};

static const char *const notes[] = {
    "SOURCE is a model (" KV_MODELS "), the config.json of a model or its "
    "folder, or a trace.",
    "Bytes are those of the tensors that kvreplay record and kvtrace slim "
    "write, without the file's header of some kilobytes. In a config.json only "
    "layers with attention count. Multi-head latent attention counts as a "
    "forward pass expands it. For a trace, full is the trace itself. With "
    "--tokens or --decode it is a recording of such a request with all query "
    "rows.",
    NULL};

static const kv_task task_plan = {.size = sizeof(task),
                                  .begin = begin,
                                  .check = check,
                                  .work = work,
                                  .free = clean};

const kv_command kv_command_plan = {
    KV_COMMAND(plan, "how large a trace of a model would be"),
    KV_TAKES("SOURCE", 1, 1, kv_one_trace, path, KV_USE_READ),
    .words = kv_model_name};
