/* SPDX-License-Identifier: Apache-2.0
 *
 * Observation, looked at by a made-up method:
 *   - what a lane is shown is computed against what that lane holds, also
 *     where the lanes of a KV head hold different tokens in the middle of a
 *     prompt: every logit, probability and sum again, by plain loops;
 *   - who wants queries alone has no logits computed, and does not fail on one
 *     that is not finite: on the reference and, with the methods of
 *     tests/made/whim.h, on the executor.
 */
#include "ref/backend/attend.h"
#include "sim/run/laws/law_walk.h"
#include "tests/made/whim.h"
#include "tests/support/backend/probe.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/opened.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 60, P = 45, D = 32, HEADS = 4, LAYERS = 2 };

static kv_trace *trace, *prompt; /* prompt: without decode steps */

static int open_traces(void **state) {
  kv_small small = {"observation", LAYERS, HEADS, 2, D, KV_F32, T, P};
  if (scratch_make(state)) return 1;
  trace = opened_trace(&small, 3, kv_law_open);
  small.name = "prompt";
  small.prompt_len = T;
  prompt = opened_trace(&small, 3, kv_law_open);
  return 0;
}

static int close_traces(void **state) {
  kv_trace_close(trace);
  kv_trace_close(prompt);
  return scratch_remove(state);
}

/* --- a method that checks what it is shown ------------------------------ */

static struct {
  kv_needs needs;
  int rows;         /* shown, one a head */
  int wrong;        /* of these */
  int of[2][HEADS]; /* those of a chunk of a layer and lane, once a head */
  bool last;        /* views of the last entry alone, else of everything */
} looks;

static void key_of(const kv_lane *l, int i, float *out) {
  const char *row = kv_lane_raw_key(l, l->id[i]);
  memcpy(out, row, D * sizeof *out);
}

/* Logits of token t's query, head h, by one chain of fma over d. */
static void plain_logits(const kv_lane *l, int h, int t, int n, float *s) {
  const float *q = l->data->q;
  q += ((size_t)h * (size_t)l->data->n_rows + (size_t)t) * D;
  for (int i = 0; i < n; i++) {
    float k[D], a = 0;
    key_of(l, i, k);
    for (int x = 0; x < D; x++) a = fmaf(q[x], k[x], a);
    s[i] = a * l->shape->scale + 0.0f;
  }
}

static bool sums_are(const kv_lane *l, const kv_rows *rows, int h) {
  int64_t sum[T] = {0};
  for (int r = 0; r < rows->rows; r++) {
    float s[T];
    int n = kv_rows_visible(rows, r);
    plain_logits(l, l->first_head + h, rows->first + r, n, s);
    kv_observation_row(kv_kernels_best(), n, s, s);
    for (int i = 0; i < n; i++) sum[i] += kv_fix(s[i]);
  }
  return !memcmp(sum, rows->sum + (size_t)h * rows->stride,
                 (size_t)rows->entries * sizeof *sum);
}

static void look_at_row(const kv_lane *l, const kv_rows *rows, int r, int h) {
  float s[T], p[T];
  int n = kv_rows_visible(rows, r);
  size_t at = kv_rows_at(rows, r, h) * rows->stride, size = (size_t)n * 4;
  plain_logits(l, l->first_head + h, rows->first + r, n, s);
  kv_observation_row(kv_kernels_best(), n, s, p);
  looks.rows++;
  looks.wrong += (rows->s && memcmp(s, rows->s + at, size) != 0) ||
                 (rows->p && memcmp(p, rows->p + at, size) != 0);
}

static void look(const kv_at *at, kv_lane *l, const kv_rows *rows) {
  bool logits = at->needs->want & KV_LOGITS;
  if (rows->first < at->shape->prompt_len)
    looks.of[at->layer][l->lane] += rows->rows;
  if (!logits) looks.rows += rows->rows * rows->heads;
  for (int h = 0; logits && h < rows->heads; h++) {
    if (rows->sum) looks.wrong += !sums_are(l, rows, h);
    for (int r = 0; r < rows->rows; r++) look_at_row(l, rows, r, h);
  }
}

static kv_rc look_open(const kv_shape *shape, void *params, kv_needs *needs,
                       kv_err *e) {
  (void)shape, (void)params, (void)e;
  *needs = looks.needs;
  return KV_OK;
}

/* Of a chunk's end: the last rows asked for, as far back as the lane holds
 * every token. */
static void count_rows(const kv_at *at, const kv_lane *l) {
  int end = at->step, n = 0, *of = &looks.of[at->layer][l->lane];
  while (n < at->needs->prompt_rows && n < l->n &&
         (int)l->id[l->n - 1 - n] == end - 1 - n)
    n++;
  if (at->shape->chunk && end <= P && end == at->shape->prompt_len)
    looks.wrong += *of != n;
  *of = 0;
}

/* Lanes keep other tokens, each as many as it likes. */
static void look_compress(const kv_at *at, kv_lane *l) {
  count_rows(at, l);
  int32_t *list = KV_TAKE(at->work, int32_t, l->n), n = 0;
  for (int i = 0; i < l->n; i++)
    if (i == l->n - 1 || kv_mix((uint64_t)(l->lane * 64 + i)) % 4)
      list[n++] = i;
  if (!looks.last) kv_keep(l, n, list);
}

static void look_view(const kv_at *at, const kv_lane *l, const kv_query *q,
                      kv_view *out) {
  (void)at;
  assert_null(q->s);
  kv_view_add(out, looks.last ? l->n - 1 : 0, looks.last ? 1 : l->n);
}

static kv_method looking = {.abi = KV_METHOD_ABI,
                            .name = "looking",
                            .open = look_open,
                            .view = look_view,
                            .observe = look,
                            .compress_lane = look_compress};

static const kv_method *only_looking(int i) { return i ? NULL : &looking; }

/* --- replays ------------------------------------------------------------ */

static kv_rc replay(kv_registry *methods, const char *text, const kv_trace *t,
                    const kv_backend *backend, const kv_kernels *kernels,
                    kv_law_run *run, kv_err *e) {
  kv_spec spec = {0};
  kv_cell cell = {0};
  assert_int_equal(kv_spec_parse(methods, text, &spec, e), KV_OK);
  kv_law_case c = {
      .backend = backend, .trace = t, .spec = &spec, .entries = -1};
  kv_rc rc = kv_law_replay(&c, &(kv_law_how){.kernels = kernels, .threads = 1},
                           &cell, e);
  if (!rc) *run = kv_law_run_of(&cell);
  kv_cell_close(&cell);
  kv_spec_free(&spec);
  return rc;
}

static kv_rc look_on(const kv_trace *t, const kv_kernels *kernels, kv_err *e) {
  kv_law_run run;
  looks.rows = looks.wrong = 0;
  return replay(only_looking, "looking", t, &kv_backend_ref, kernels, &run, e);
}

/* --- tests -------------------------------------------------------------- */

static void apart(int lanes, int block, const char *chunk, unsigned want) {
  kv_err e = {0};
  char text[32] = "looking";
  kv_law_run run;
  looks.needs = (kv_needs){.block = block,
                           .chunks = true,
                           .prompt_rows = 30,
                           .decode_rows = true,
                           .want = want,
                           .every = 1,
                           .lanes = (kv_lanes)lanes};
  looks.rows = looks.wrong = 0;
  strcat(text, chunk);
  if (replay(only_looking, text, trace, &kv_backend_ref, kv_kernels_best(),
             &run, &e))
    fail_msg("%s", e.text);
  if (!*chunk) assert_int_equal(looks.rows, (30 + T - P) * HEADS * LAYERS);
  if (looks.wrong)
    fail_msg("lanes %d, block %d%s, want %u: %d of %d rows are of other tokens",
             lanes, block, chunk, want, looks.wrong, looks.rows);
}

/* Sums are made in another way where nobody wants the probabilities, and where
 * somebody wants the logits. */
TEST(test_lanes_apart) {
  static const unsigned wants[] = {KV_Q | KV_LOGITS, KV_SUM, KV_S | KV_SUM,
                                   KV_P | KV_SUM, KV_P};
  for (int lanes = KV_HEAD; lanes <= QUERY_HEAD; lanes++)
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
      apart(lanes, 0, "", wants[i]);
      apart(lanes, 7, "", wants[i]);
      apart(lanes, 0, ":prefill=7", wants[i]);
      apart(lanes, 0, ":prefill=44", wants[i]);
    }
}

static int64_t logits; /* computed by the kernels of this test */

static void count_logits(int m, int n, int d, const float *q, size_t ldq,
                         const void *const *k, kv_dtype type, float scale,
                         float *s, size_t lds, float *pack) {
  logits += (int64_t)m * n;
  kv_kernels_best()->logits(m, n, d, q, ldq, k, type, scale, s, lds, pack);
}

/* Queries of all rows, views of one entry: a logit a head and step. */
TEST(test_queries_alone) {
  kv_kernels counting = *kv_kernels_best();
  kv_err e = {0};
  counting.logits = count_logits;
  looks.last = true;
  for (unsigned want = 0; want <= KV_Q; want += KV_Q) {
    looks.needs = (kv_needs){
        .prompt_rows = KV_ALL_ROWS, .decode_rows = true, .want = want};
    logits = 0;
    if (look_on(trace, &counting, &e)) fail_msg("%s", e.text);
    assert_int_equal(looks.rows, T * HEADS * LAYERS);
    assert_int_equal(logits, (T - P) * HEADS * LAYERS);
  }
  looks.last = false;
}

/* The rows of a layer with a third key that no product with it survives. */
static void *spoil(kv_layer_data *data, int n_kv_heads) {
  size_t head = (size_t)T * D, n = (size_t)n_kv_heads * head;
  float *k = malloc(n * sizeof *k);
  memcpy(k, data->k, n * sizeof *k);
  for (int g = 0; g < n_kv_heads; g++)
    for (int x = 0; x < D; x++) k[(size_t)g * head + 2 * D + (size_t)x] = 3e38f;
  data->k = k;
  return k;
}

TEST(test_not_finite) {
  kv_err e = {0};
  const void *was = trace->layer[1].data.k;
  void *bad = spoil(&trace->layer[1].data, 2);
  looks.last = true;
  looks.needs =
      (kv_needs){.prompt_rows = KV_ALL_ROWS, .decode_rows = true, .want = KV_Q};
  if (look_on(trace, kv_kernels_best(), &e)) fail_msg("%s", e.text);
  looks.needs.want = KV_Q | KV_S;
  assert_int_equal(look_on(trace, kv_kernels_best(), &e), KV_REFUSED);
  assert_non_null(strstr(e.text, "not finite"));
  trace->layer[1].data.k = was;
  looks.last = false;
  free(bad);
}

/* Draws that want rows of the prompt all at once, and whose formats do not
 * refuse the key by themselves; of a logit that is not finite both backends
 * make the same. */
TEST(test_not_finite_on_both) {
  const void *was = prompt->layer[1].data.k;
  int ran = 0, refused = 0;
  if (!probe_backend()) skip();
#ifdef __SANITIZE_ADDRESS__ /* signed sums of what is no number wrap around */
  skip();
#endif
  void *bad = spoil(&prompt->layer[1].data, 2);
  for (int i = 0; i < 60; i++) {
    char text[40];
    kv_needs n = {0};
    kv_err a = {0}, b = {0};
    kv_law_run x, y;
    assert_int_equal(
        whim_method.open(&prompt->shape, &(whim_params){i}, &n, NULL), KV_OK);
    if (n.prompt_rows < T || n.block || n.codings) continue;
    snprintf(text, sizeof text, "whim:seed=%d", i);
    kv_rc rc = replay(whim_at, text, prompt, &kv_backend_ref, NULL, &x, &a);
    int64_t before = probe_logit_rows();
    kv_rc other = replay(whim_at, text, prompt, probe_backend(), NULL, &y, &b);
    bool wants = n.want & KV_LOGITS;
    if (rc != other || rc != (wants ? KV_REFUSED : KV_OK))
      fail_msg("%s: ref %d %s, emu %d %s", text, rc, a.text, other, b.text);
    if (!wants && (probe_logit_rows() != before || memcmp(&x, &y, sizeof x)))
      fail_msg("%s: logits, or another end", text);
    ran += !wants;
    refused += wants;
  }
  assert_true(ran > 0 && refused > 0);
  prompt->layer[1].data.k = was;
  free(bad);
}

int main(void) { return tests_run("observation", open_traces, close_traces); }
