/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace check: structure, every number, the recorded outputs and column sums
 * against recomputed ones, layer by layer, with pages released on the way. Exit
 * 1 if a difference is larger than rounding of the recording explains. Unused
 * tensors are listed, which changes no exit code.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "ref/ground/text.h"
#include "traces/cli/kvtrace.h"
#include "traces/text/json.h"
#include "traces/trace/check.h"
#include "traces/trace/trace.h"

/* The canonical arithmetic and another library differ by rounding only. */
static const double SECOND_MOST = 1e-4;

typedef struct report {
  int n;
  kv_check *layer;
  kv_second *second;
  kv_check_sums *sums;
  size_t unread;
  char unread_text[KV_UNREAD_TEXT];
  bool bad, bad_sums; /* outputs, column sums */
} report;

static kv_rc look(const kv_trace *t, report *r, kv_err *e) {
  const kv_kernels *kernel;
  kv_rc rc = kv_compute_setup(&kernel, e);
  for (int i = 0; !rc && i < t->n_layers; i++) {
    rc = kv_check_layer(t, i, kernel, &r->layer[i], e);
    if (!rc) rc = kv_second_layer(t, i, kernel, &r->second[i], e);
    if (!rc) rc = kv_check_sums_layer(t, i, kernel, &r->sums[i], e);
    if (!rc) kv_trace_release_layer(t, i);
    r->bad |= !(r->layer[i].relative <= r->layer[i].tolerance);
    r->bad |= !(r->second[i].relative <= SECOND_MOST);
    r->bad_sums |= r->sums[i].different > 0;
    r->n = i + 1;
  }
  r->unread = kv_trace_unread(t, r->unread_text);
  return rc;
}

static void sums_json(json_t *x, const kv_check_sums *s) {
  if (!s->recorded) return;
  json_t *sums =
      json_pack("{s:b,s:I,s:f}", "recomputed", s->recomputed, "different",
                (json_int_t)s->different, "tolerance", s->tolerance);
  if (s->different) {
    json_object_set_new(sums, "head", json_integer(s->head));
    json_object_set_new(sums, "column",
                        s->column < 0 ? json_null() : json_integer(s->column));
    json_object_set_new(sums, "recorded", json_real(s->theirs));
    json_object_set_new(sums, "expected", json_real(s->ours));
  }
  json_object_set_new(x, "column_sums", sums);
}

static kv_rc print_json(const kv_trace *t, const report *r, kv_err *e) {
  kv_json_begin();
  json_t *list = json_array();
  for (int i = 0; i < r->n; i++) {
    const kv_check *c = &r->layer[i];
    const kv_second *s = &r->second[i];
    json_t *x = json_pack("{s:i,s:b}", "layer", c->layer, "recorded", c->has_o);
    if (c->has_o) {
      json_object_set_new(x, "max_abs", kv_json_found(c->error));
      json_object_set_new(x, "relative", kv_json_found(c->relative));
      json_object_set_new(x, "tolerance", json_real(c->tolerance));
    }
    if (s->by) {
      json_object_set_new(x, "second",
                          json_pack("{s:s,s:I,s:o,s:o}", "by", s->by, "rows",
                                    (json_int_t)s->rows, "max_abs",
                                    kv_json_found(s->error), "relative",
                                    kv_json_found(s->relative)));
    }
    sums_json(x, &r->sums[i]);
    json_array_append_new(list, x);
  }
  json_t *out = json_pack("{s:s,s:b,s:I,s:o}", "trace", t->name, "ok",
                          !r->bad && !r->bad_sums, "unread",
                          (json_int_t)r->unread, "layers", list);
  char *text = out ? json_dumps(out, JSON_INDENT(1)) : NULL;
  json_decref(out);
  return kv_print_json(t->path, text, e);
}

static void print_second(const report *r) {
  double error = 0, relative = 0;
  long rows = 0;
  if (r->n == 0 || !r->second[0].by) {
    puts("second opinion: none (built without BLIS)");
    return;
  }
  for (int i = 0; i < r->n; i++) {
    const kv_second *s = &r->second[i];
    error = kv_check_worse(error, s->error);
    relative = kv_check_worse(relative, s->relative);
    rows += s->rows;
  }
  printf("second opinion: %s and a binary64 softmax, %ld rows: max abs %.1e, "
         "relative L2 %.1e %s\n",
         r->second[0].by, rows, error, relative,
         relative <= SECOND_MOST ? "ok" : "DIFFERENT");
}

static void print_sums_of(int layer, const kv_check_sums *s) {
  if (s->column >= 0)
    printf("column sums: layer %d, query head %d, column %d: %.0f, recomputed "
           "%.0f; %lld differ\n",
           layer, s->head, s->column, s->theirs, s->ours,
           (long long)s->different);
  else
    printf("column sums: layer %d, query head %d: %.0f in all, but its rows "
           "add up to %.0f; %lld heads differ\n",
           layer, s->head, s->theirs, s->ours, (long long)s->different);
}

static void print_sums(const report *r) {
  int again = 0, weighed = 0;
  for (int i = 0; i < r->n; i++) {
    const kv_check_sums *s = &r->sums[i];
    again += s->recorded && s->recomputed && !s->different;
    weighed += s->recorded && !s->recomputed && !s->different;
    if (s->different) print_sums_of(r->layer[i].layer, s);
  }
  if (again) printf("column sums: recomputed in %d layers, ok\n", again);
  if (weighed)
    printf("column sums: %d layers lack prompt rows, but each head's total is "
           "ok\n",
           weighed);
}

static void print_table(const kv_trace *t, const report *r) {
  kv_put_plain(stdout, t->name);
  puts(": structure ok, all numbers finite");
  printf("%5s  %10s  %11s  %9s\n", "layer", "max abs", "relative L2",
         "tolerance");
  for (int i = 0; i < r->n; i++) {
    const kv_check *c = &r->layer[i];
    if (!c->has_o) {
      printf("%5d  no output recorded\n", c->layer);
      continue;
    }
    printf("%5d  %10.2e  %11.2e  %9.0e  %s\n", c->layer, c->error, c->relative,
           c->tolerance, c->relative <= c->tolerance ? "ok" : "DIFFERENT");
  }
  print_second(r);
  print_sums(r);
  if (r->unread) printf("note: %s\n", r->unread_text);
}

static kv_rc make_room(int layers, report *r, kv_err *e) {
  r->layer = calloc((size_t)layers, sizeof *r->layer);
  r->second = calloc((size_t)layers, sizeof *r->second);
  r->sums = calloc((size_t)layers, sizeof *r->sums);
  return r->layer && r->second && r->sums ? KV_OK
                                          : kv_no_memory(e, "the report", 0);
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  const kv_one_trace *s = self;
  kv_trace *t = NULL;
  report r = {0};
  (void)stopped;
  kv_rc rc = kv_trace_open(s->path.item[0], &t, e);
  if (!rc) rc = make_room(t->n_layers, &r, e);
  if (!rc) rc = look(t, &r, e);
  if (!rc && s->json) rc = print_json(t, &r, e);
  if (!rc && !s->json) print_table(t, &r);
  if (!rc && (r.bad || r.bad_sums)) {
    rc = kv_fail(e, KV_DIFFERENT,
                 "%s: recomputed %s%s%s differ by more than the tolerance",
                 t->path, r.bad ? "outputs" : "",
                 r.bad && r.bad_sums ? " and " : "",
                 r.bad_sums ? "column sums" : "");
  }
  free(r.sums);
  free(r.layer);
  free(r.second);
  kv_trace_close(t);
  return rc;
}

static const kv_option options[] = {KV_OPTION_FORMAT, {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvtrace check traces/tiny/haystack_8.safetensors",
     "the largest difference of each layer"},
    {"kvtrace check --format json recording.safetensors", "for programs"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Column sums are recomputed if every prompt row was recorded. Tensors "
    "outside the format are named in a note; they are no error.",
    "The exit code is 1 if outputs or column sums differ by more than the "
    "rounding of the recording.",
    NULL};

static const kv_task task_check = {.size = sizeof(kv_one_trace), .work = work};

const kv_command kv_command_check = {
    KV_COMMAND(check, "scan every number, recompute outputs and column sums"),
    KV_ONE_TRACE};
