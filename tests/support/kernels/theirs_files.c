/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions and outputs of somebody else's kernel, as files.
 */
#include "tests/support/kernels/theirs_part.h"

#include <stdio.h>
#include <stdlib.h>

#include "ref/ground/arith.h"
#include "tests/support/test.h"
#include "traces/container/writer.h"
#include "traces/decisions/decisions_write.h"

book *book_open(void) {
  book *b = calloc(1, sizeof *b);
  assert_non_null(b);
  return b;
}

void list_put(lists *l, int32_t item) {
  size_t n = (size_t)l->start[l->n + 1];
  if (n == l->room) {
    l->room = l->room * 2 + 4096;
    l->item = realloc(l->item, l->room * sizeof *l->item);
    assert_non_null(l->item);
  }
  l->item[n] = item;
  l->start[l->n + 1]++;
}

/* The next list may follow. */
void list_end(lists *l) {
  l->n++;
  l->start[l->n + 1] = l->start[l->n];
}

/* An order that is nobody's. */
void list_permute(lists *l) {
  int64_t first = l->start[l->n - 1], n = l->start[l->n] - first;
  for (int64_t i = 0; i < n; i++) {
    int64_t j = first + (i * 7 + 3) % n, k = first + i;
    int32_t x = l->item[j];
    l->item[j] = l->item[k];
    l->item[k] = x;
  }
}

/* Writes and frees. */
void book_close(const theirs *t, book *b, bool views, int heads,
                const char *path) {
  kv_decided layer[LAYERS_MOST] = {{0}};
  kv_digest identity;
  kv_err e = {0};
  kv_decisions d = {.stores = !views,
                    .views = views,
                    .stored_heads = heads,
                    .layers = t->trace->n_layers,
                    .layer = layer};
  for (int i = 0; i < d.layers; i++) {
    lists *l = &b->list[i];
    kv_lists out = {heads,  views ? t->page : 1, l->steps, l->step, l->start,
                    l->item};
    layer[i].layer = t->trace->layer[i].data.layer;
    *(views ? &layer[i].view : &layer[i].stored) = out;
  }
  assert_int_equal(kv_trace_identity(t->trace, &identity, &e), KV_OK);
  if (kv_decisions_write(path, "their kernel", &identity, &t->trace->shape, &d,
                         &e))
    fail_msg("%s", e.text);
  for (int i = 0; i < d.layers; i++) free(b->list[i].item);
  free(b);
}

void answers_open(const theirs *t, answers *a) {
  const kv_shape *s = &t->trace->shape;
  a->rows = (size_t)s->n_heads * (size_t)(s->n_tokens - s->prompt_len);
  a->elements = a->rows * (size_t)s->d_v;
  for (int i = 0; i < t->trace->n_layers; i++) {
    a->o[i] = calloc(a->elements, sizeof(float));
    a->lse[i] = calloc(a->rows, sizeof(float));
    assert_true(a->o[i] && a->lse[i]);
  }
}

static void put_answer(const theirs *t, kv_st_writer *w, const float *x) {
  kv_err e = {0};
  size_t n = (size_t)t->trace->shape.n_heads *
             (size_t)(t->trace->shape.n_tokens - t->trace->shape.prompt_len) *
             (size_t)t->trace->shape.d_v;
  uint16_t *half = calloc(n, sizeof *half);
  assert_non_null(half);
  for (size_t i = 0; i < n; i++)
    half[i] = t->output == KV_F16 ? kv_to_f16(x[i]) : kv_to_bf16(x[i]);
  bool wide = t->output == KV_F32;
  assert_int_equal(kv_st_writer_append(w, n * (wide ? 4 : 2),
                                       wide ? (const void *)x : half, &e),
                   KV_OK);
  free(half);
}

void answers_close(const theirs *t, answers *a, const char *path) {
  static const kv_st_dtype type[] = {KV_ST_F16, KV_ST_BF16, KV_ST_F32};
  const kv_shape *s = &t->trace->shape;
  uint64_t shape[3] = {(uint64_t)s->n_heads,
                       (uint64_t)(s->n_tokens - s->prompt_len),
                       (uint64_t)s->d_v};
  kv_st_writer *w = NULL;
  kv_err e = {0};
  char name[64];
  kv_rc rc = kv_st_writer_open(path, 0, &w, &e);
  for (int i = 0; !rc && i < t->trace->n_layers; i++) {
    int layer = t->trace->layer[i].data.layer;
    snprintf(name, sizeof name, "layers.%d.o", layer);
    rc = kv_st_writer_declare(w, name, type[t->output], 3, shape, &e);
    snprintf(name, sizeof name, "layers.%d.lse", layer);
    if (!rc) rc = kv_st_writer_declare(w, name, KV_ST_F32, 2, shape, &e);
  }
  assert_int_equal(rc, KV_OK);
  for (int i = 0; i < t->trace->n_layers; i++) {
    put_answer(t, w, a->o[i]);
    rc = kv_st_writer_append(w, a->rows * 4, a->lse[i], &e);
    assert_int_equal(rc, KV_OK);
    free(a->o[i]);
    free(a->lse[i]);
  }
  assert_int_equal(kv_st_writer_finish(w, NULL, &e), KV_OK);
  kv_st_writer_close(w);
}
