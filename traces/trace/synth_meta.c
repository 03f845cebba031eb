/* SPDX-License-Identifier: Apache-2.0
 *
 * The metadata of a synthetic trace: kv_synth_describe of
 * traces/trace/synth_row.h.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "traces/trace/synth_row.h"

typedef struct job {
  const kv_synth *s;
  const kv_synth_tables *tables;
  kv_st_writer *writer;
} job;

static kv_rc put(job *w, const char *key, kv_err *e, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static kv_rc put(job *w, const char *key, kv_err *e, const char *format, ...) {
  char text[200];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return kv_st_writer_meta(w->writer, key, text, e);
}

static kv_rc put_layers(job *w, kv_err *e) {
  const kv_synth *s = w->s;
  if (s->n_recorded == 0)
    return kv_st_writer_meta(w->writer, "layers", "all", e);
  size_t room = 12 * (size_t)s->n_recorded + 1, at = 0;
  char *text = kv_zalloc(room, 1);
  if (!text) return kv_no_memory(e, "the list of layers", room);
  for (int i = 0; i < s->n_recorded; i++) {
    at += (size_t)snprintf(text + at, room - at, "%s%d", i ? "," : "",
                           s->layers[i]);
  }
  kv_rc rc = kv_st_writer_meta(w->writer, "layers", text, e);
  free(text);
  return rc;
}

/* One number for each layer of the model. */
static kv_rc put_windows(job *w, kv_err *e) {
  const kv_synth *s = w->s;
  size_t room = 12 * (size_t)s->like.n_layers + 1, at = 0;
  if (!s->like.window) return KV_OK;
  char *text = kv_zalloc(room, 1);
  if (!text) return kv_no_memory(e, "the windows", room);
  for (int l = 0; l < s->like.n_layers; l++)
    at += (size_t)snprintf(text + at, room - at, "%s%d", l ? "," : "",
                           kv_geometry_window(&s->like, l));
  kv_rc rc = kv_st_writer_meta(w->writer, "attn.sliding_window", text, e);
  free(text);
  return rc;
}

static size_t add_segment(char *text, size_t at, size_t room, int start,
                          int end, const char *role) {
  if (start >= end) return at;
  int n = snprintf(text + at, room - at,
                   "%s{\"start\":%d,\"end\":%d,\"role\":\"%s\"}",
                   at > 1 ? "," : "", start, end, role);
  return at + (size_t)n;
}

/* The question is in the eight tokens before its answer. */
static kv_rc put_places(job *w, kv_err *e) {
  char answers[16 * 90 + 3] = "[", segments[49 * 60 + 3] = "[";
  size_t a = 1, g = 1;
  int at = 0;
  for (int i = 0; i < w->tables->n_answers; i++) {
    const kv_answer *x = &w->tables->answer[i];
    a += (size_t)snprintf(answers + a, sizeof answers - a,
                          "%s{\"start\":%d,\"end\":%d,\"source_start\":%d,"
                          "\"source_end\":%d}",
                          i ? "," : "", x->start, x->end, x->source_start,
                          x->source_end);
    g = add_segment(segments, g, sizeof segments, at, x->start - 8, "context");
    g = add_segment(segments, g, sizeof segments, x->start - 8, x->start,
                    "question");
    g = add_segment(segments, g, sizeof segments, x->start, x->end, "answer");
    at = x->end;
  }
  g = add_segment(segments, g, sizeof segments, at, w->s->n_tokens, "context");
  strcat(answers, "]");
  strcat(segments, "]");
  (void)g;
  kv_rc rc = kv_st_writer_meta(w->writer, "answers", answers, e);
  return rc ? rc : kv_st_writer_meta(w->writer, "segments", segments, e);
}

/* Does the trace need version 2? */
static bool second(const kv_synth *s) {
  return s->like.window || s->like.sinks || s->softcap > 0 || s->shared;
}

kv_rc kv_synth_describe(const kv_synth *s, const kv_synth_tables *tables,
                        kv_st_writer *writer, kv_err *e) {
  job own = {s, tables, writer}, *w = &own;
  const kv_geometry *g = &s->like;
  float scale = kv_div(1.0f, sqrtf((float)g->d));
  kv_rc rc = put(w, "format", e, "kvtrace");
  if (!rc) rc = put(w, "version", e, second(s) ? "2" : "1");
  if (!rc) rc = put(w, "model", e, "synthetic, shaped like %s", g->name);
  if (!rc) rc = put(w, "n_layers", e, "%d", g->n_layers);
  if (!rc) rc = put(w, "n_heads", e, "%d", g->n_heads);
  if (!rc) rc = put(w, "n_kv_heads", e, "%d", g->n_kv_heads);
  if (!rc) rc = put(w, "head_dim", e, "%d", g->d);
  if (!rc) rc = put_layers(w, e);
  if (!rc) rc = put(w, "attn.scale", e, "%.9g", (double)scale);
  if (!rc && s->softcap > 0)
    rc = put(w, "attn.softcap", e, "%.9g", (double)s->softcap);
  if (!rc && s->shared) rc = put(w, "kv.shared", e, "first");
  if (!rc) rc = put_windows(w, e);
  if (!rc) rc = put(w, "rope.layout", e, "half");
  if (!rc) rc = put(w, "rope.scale", e, "1");
  if (!rc) rc = put(w, "prompt_len", e, "%d", s->prompt_len);
  if (!rc) rc = put(w, "source", e, "synthetic");
  if (!rc) rc = put(w, "seed", e, "%llu", (unsigned long long)s->seed);
  if (!rc) rc = put(w, "recorder", e, "kvtrace synth");
  return rc ? rc : put_places(w, e);
}
