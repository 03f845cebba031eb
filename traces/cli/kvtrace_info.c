/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace info: describes a trace, from headers, metadata and a few rows of
 * keys (traces/trace/expanded.h); with --identity also its SHA-256, which reads
 * the whole file once; with --attention what its heads attend to, which
 * computes every recorded row.
 */
#define _GNU_SOURCE 1
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "ref/ground/text.h"
#include "traces/cli/kvtrace.h"
#include "traces/cli/kvtrace_attention.h"
#include "traces/container/safetensors.h"
#include "traces/text/json.h"
#include "traces/trace/expanded.h"
#include "traces/trace/trace.h"

typedef struct task {
  kv_one_trace of; /* first */
  bool identity, attention;
  char id[65];
  kv_attention *heads; /* of --attention */
  kv_expanded expanded;
} task;

static const char *const type_name[] = {"F16", "BF16", "F32"};
static const char *const role_name[] = {"context", "question", "answer"};

static uint64_t bytes_on_disk(const kv_trace *t) {
  uint64_t n = 0;
  const kv_st *s = kv_trace_files(t);
  for (int f = 0; f < kv_st_files(s); f++) {
    n += (uint64_t)kv_st_file_stat(s, f)->st_size;
  }
  return n;
}

static json_t *answers_of(const kv_trace *t) {
  json_t *list = json_array();
  for (int i = 0; i < t->n_answers; i++) {
    const kv_answer *a = &t->answer[i];
    json_array_append_new(list, json_pack("{s:i,s:i,s:i,s:i}", "start",
                                          a->start, "end", a->end,
                                          "source_start", a->source_start,
                                          "source_end", a->source_end));
  }
  return list;
}

static json_t *segments_of(const kv_trace *t) {
  json_t *list = json_array();
  for (int i = 0; i < t->n_segments; i++) {
    const kv_segment *g = &t->segment[i];
    json_array_append_new(list,
                          json_pack("{s:i,s:i,s:s}", "start", g->start, "end",
                                    g->end, "role", role_name[g->role]));
  }
  return list;
}

static json_t *layers_of(const kv_trace *t) {
  json_t *list = json_array();
  for (int i = 0; i < t->n_layers; i++) {
    const kv_recorded *r = &t->layer[i];
    json_array_append_new(
        list,
        json_pack("{s:i,s:i,s:b,s:b,s:i,s:b,s:b}", "layer", r->data.layer,
                  "rows", r->data.n_rows, "o", r->o != NULL, "colsum",
                  r->data.colsum != NULL, "window", r->data.window, "sinks",
                  r->data.sinks != NULL, "k_bias", r->data.k_bias != NULL));
  }
  return list;
}

static json_t *meta_of(const kv_trace *t) {
  json_t *all = json_object();
  const kv_st *s = kv_trace_files(t);
  for (size_t i = 0; i < kv_st_meta_count(s); i++) {
    const char *key = kv_st_meta_key(s, i);
    json_object_set_new(all, key, json_string(kv_st_meta(s, key)));
  }
  return all;
}

/* Names of tensors that the format does not know. */
static json_t *unread_of(const kv_trace *t) {
  json_t *list = json_array();
  const kv_st *s = kv_trace_files(t);
  const char *part;
  for (size_t i = 0; i < kv_st_count(s); i++) {
    const char *name = kv_st_at(s, i)->name;
    if (kv_trace_part(t, name, &part) >= 0 || part) continue;
    json_array_append_new(list, json_string(name));
  }
  return list;
}

/* The binary32 scale as the shortest decimal that gives it back. */
static json_t *number(float x) {
  char text[32];
  for (int digits = 1; digits < 10; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, (double)x);
    if (strtof(text, NULL) == x) break;
  }
  return json_real(strtod(text, NULL));
}

static json_t *expanded_of(const kv_expanded *x) {
  if (!x->shared) return json_null();
  return json_pack("{s:i,s:s,s:o}", "shared", x->shared, "end",
                   x->first ? "first" : "last", "latent",
                   x->latent ? json_integer(x->latent) : json_null());
}

static json_t *info_of(const kv_trace *t, const task *s) {
  const kv_shape *p = &t->shape;
  json_t *out =
      json_pack("{s:s,s:s,s:I,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:s,s:o}", "trace",
                t->name, "path", t->path, "bytes", (json_int_t)bytes_on_disk(t),
                "n_layers", p->n_layers, "n_heads", p->n_heads, "n_kv_heads",
                p->n_kv_heads, "head_dim", p->d, "value_dim", p->d_v, "tokens",
                p->n_tokens, "prompt_len", p->prompt_len, "dtype",
                type_name[p->dtype], "scale", number(p->scale));
  json_object_set_new(out, "softcap",
                      p->softcap > 0 ? number(p->softcap) : json_null());
  json_object_set_new(out, "shared", json_boolean(p->shared));
  json_object_set_new(out, "first_decode", json_integer(t->first_decode));
  json_object_set_new(
      out, "rope",
      t->rope.inv_freq
          ? json_string(t->rope.interleaved ? "interleaved" : "half")
          : json_null());
  json_object_set_new(out, "identity",
                      s->identity ? json_string(s->id) : json_null());
  json_object_set_new(out, "layers", layers_of(t));
  json_object_set_new(out, "answers", answers_of(t));
  json_object_set_new(out, "segments", segments_of(t));
  json_object_set_new(out, "metadata", meta_of(t));
  json_object_set_new(out, "unread", unread_of(t));
  json_object_set_new(out, "expanded", expanded_of(&s->expanded));
  if (s->heads)
    json_object_set_new(out, "attention", kv_attention_json(t, s->heads));
  return out;
}

static kv_rc print_json(const kv_trace *t, const task *s, kv_err *e) {
  kv_json_begin();
  json_t *out = info_of(t, s);
  char *text = out ? json_dumps(out, JSON_INDENT(1)) : NULL;
  json_decref(out);
  return kv_print_json(t->path, text, e);
}

static void line(const char *name, const char *text) {
  if (!text) return;
  printf("%-10s ", name);
  kv_put_plain(stdout, text);
  putchar('\n');
}

static void print_layers(const kv_trace *t) {
  int outputs = 0, sums = 0, rows = t->shape.n_tokens;
  for (int i = 0; i < t->n_layers; i++) {
    outputs += t->layer[i].o != NULL;
    sums += t->layer[i].data.colsum != NULL;
    if (t->layer[i].data.n_rows < rows) rows = t->layer[i].data.n_rows;
  }
  printf("%-10s %d of %d recorded; outputs in %d, column sums in %d\n",
         "layers", t->n_layers, t->shape.n_layers, outputs, sums);
  printf("%-10s %d of %d; decoding may start at %d\n", "query rows", rows,
         t->shape.n_tokens, t->first_decode);
}

/* "window 128 tokens in 3 of 4 recorded layers"; of several sizes the range. */
static void print_windows(const kv_trace *t) {
  int n = 0, least = 0, most = 0;
  for (int i = 0; i < t->n_layers; i++) {
    int w = t->layer[i].data.window;
    if (!w) continue;
    least = n && least < w ? least : w;
    most = most > w ? most : w;
    n++;
  }
  if (n == 0) return;
  printf("%-10s %d", "window", least);
  if (most > least) printf(" to %d", most);
  printf(" tokens in %d of %d recorded layers\n", n, t->n_layers);
}

static void print_learned(const kv_trace *t) {
  int sinks = 0, bias = 0;
  for (int i = 0; i < t->n_layers; i++) {
    sinks += t->layer[i].data.sinks != NULL;
    bias += t->layer[i].data.k_bias != NULL;
  }
  if (sinks)
    printf("%-10s learned, in %d of %d recorded layers\n", "sinks", sinks,
           t->n_layers);
  if (bias)
    printf("%-10s of keys, in %d of %d recorded layers\n", "bias", bias,
           t->n_layers);
}

static void print_table(const kv_trace *t, const task *s) {
  char unread[KV_UNREAD_TEXT], expanded[KV_EXPANDED_TEXT];
  const kv_shape *p = &t->shape;
  line("trace", t->name);
  line("model", kv_trace_meta(t, "model"));
  line("digest", kv_trace_meta(t, "model_digest"));
  printf("%-10s %d tokens: %d prompt, %d decode steps\n", "request",
         p->n_tokens, p->prompt_len, p->n_tokens - p->prompt_len);
  print_layers(t);
  line("left out", kv_trace_meta(t, "left"));
  printf("%-10s %d query, %d KV; dimension %d", "heads", p->n_heads,
         p->n_kv_heads, p->d);
  if (p->d_v != p->d) printf(", values %d", p->d_v);
  printf("\n%-10s %s; scale %.9g", "numbers", type_name[p->dtype],
         (double)p->scale);
  if (p->softcap > 0) printf("; logits capped at %.9g", (double)p->softcap);
  if (p->shared) printf("; V is the first %d of K, stored once", p->d_v);
  putchar('\n');
  printf("%-10s %s%s\n", "RoPE",
         !t->rope.inv_freq     ? "none"
         : t->rope.interleaved ? "interleaved"
                               : "half",
         t->windowed_inv_freq ? "; other frequencies in windowed layers" : "");
  print_windows(t);
  print_learned(t);
  printf("%-10s %d answers, %d segments\n", "marks", t->n_answers,
         t->n_segments);
  line("answer by", kv_trace_answer_by(t));
  printf("%-10s %.1f MB in %d file%s\n", "size",
         (double)bytes_on_disk(t) * 1e-6, kv_st_files(kv_trace_files(t)),
         kv_st_files(kv_trace_files(t)) > 1 ? "s" : "");
  line("task", kv_trace_meta(t, "task"));
  line("source", kv_trace_meta(t, "source"));
  line("recorder", kv_trace_meta(t, "recorder"));
  line("created", kv_trace_meta(t, "created"));
  line("identity", s->identity ? s->id : NULL);
  if (kv_trace_unread(t, unread)) line("note", unread);
  if (s->expanded.shared)
    line("note", kv_expanded_text(t, &s->expanded, expanded));
  if (s->heads) kv_attention_print(t, s->heads);
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  kv_trace *t = NULL;
  kv_digest id;
  (void)stopped;
  kv_rc rc = kv_trace_open(s->of.path.item[0], &t, e);
  if (!rc) s->expanded = kv_trace_expanded(t);
  if (!rc) rc = kv_trace_damaged(t, e);
  if (!rc && s->identity) rc = kv_trace_identity(t, &id, e);
  if (!rc && s->identity) kv_digest_hex(&id, s->id);
  if (!rc && s->attention) rc = kv_attention_take(t, &s->heads, e);
  if (!rc && s->of.json) rc = print_json(t, s, e);
  if (!rc && !s->of.json) print_table(t, s);
  kv_trace_close(t);
  return rc;
}

static void release(void *self) { free(((task *)self)->heads); }

/* --- the command -------------------------------------------------------- */

static const kv_option options[] = {
    KV_OPTION_FORMAT,
    {KV_SLOT_FLAG, "identity", 'i', .offset = offsetof(task, identity),
     .help = "also print the trace's SHA-256, which reads the whole file"},
    {KV_SLOT_FLAG, "attention", 'a', .offset = offsetof(task, attention),
     .help = "also print what each head attends to, which takes a computation"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvtrace info traces/tiny/haystack_8.safetensors",
     "what the trace contains"},
    {"kvtrace info --format json big.safetensors.index.json",
     "a set of shards, as JSON"},
    {"kvtrace info --attention traces/tiny/haystack_8.safetensors",
     "which heads attend nearby, to token 0, or to an answer"},
    {NULL, NULL}};

static const char *const notes[] = {
    "With --attention: means over the recorded rows from token 64 on. "
    "entropy: in nats. first: mass on token 0. recent: mass on the 32 newest "
    "tokens. tokens: share of the tokens that 95 % of the mass needs. needle: "
    "mass on the token that the answer repeats, over the rows that predict an "
    "answer.",
    "The word after each head is the first that applies: retrieval (needle of "
    "at least 0.3), sink (first of at least 0.3), local (recent of at least "
    "0.5) or broad.",
    NULL};

static const kv_task task_info = {
    .size = sizeof(task), .work = work, .free = release};

const kv_command kv_command_info = {
    KV_COMMAND(info, "show what a trace contains"), KV_ONE_TRACE};
