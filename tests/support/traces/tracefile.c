/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace of tests/support/traces/tracefile.h.
 */
#define _GNU_SOURCE 1
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/tracefile.h"
#include "traces/container/writer.h"

char tracefile[600];

#define F KV_ST_F32
const field right_fields[FIELDS] = {
    {"layers.0.q", F, 3, {HEADS, TOKENS, DIM}, NULL},
    {"layers.0.k", F, 3, {KV, TOKENS, DIM}, NULL},
    {"layers.0.v", F, 3, {KV, TOKENS, DIM}, NULL},
    {"layers.1.q", F, 3, {HEADS, TOKENS, DIM}, NULL},
    {"layers.1.k", F, 3, {KV, TOKENS, DIM}, NULL},
    {"layers.1.v", F, 3, {KV, TOKENS, DIM}, NULL},
    {"layers.1.o", KV_ST_F16, 3, {HEADS, TOKENS, DIM}, NULL},
    {"rope.inv_freq", F, 1, {DIM / 2}, NULL},
    {"tokens", KV_ST_I32, 1, {TOKENS}, NULL},
    {"positions", KV_ST_I32, 1, {TOKENS}, NULL},
};

const meta right_metas[METAS] = {
    {"format", "kvtrace"},  {"version", "1"},      {"n_layers", "2"},
    {"n_heads", "4"},       {"n_kv_heads", "2"},   {"head_dim", "8"},
    {"layers", "all"},      {"attn.scale", "0.1"}, {"rope.layout", "half"},
    {"prompt_len", "6"},    {"source", "made up"}, {"created", "today"},
    {"recorder", "a test"}, {"attn.sinks", "none"}};

/* Bytes of small finite numbers of any type. */
static void fill(const field *f, size_t bytes, unsigned char *to) {
  if (f->data) {
    memcpy(to, f->data, bytes);
    return;
  }
  size_t size = kv_st_dtype_bits(f->dtype) / 8;
  for (size_t i = 0; i < bytes / size; i++) {
    float x = (float)(i % 7) * 0.125f + 0.0625f;
    int32_t n = (int32_t)i;
    uint16_t h = kv_to_f16(x);
    const void *from = f->dtype == F ? (const void *)&x : (const void *)&n;
    if (size == 2) from = &h;
    memset(to + i * size, 0, size);
    memcpy(to + i * size, from, size < 4 ? size : 4);
  }
}

const meta *tracefile_also;

void tracefile_write(const meta *m, int n_more, const field *more,
                     uint64_t shard) {
  field list[FIELDS + MORE];
  int n = FIELDS;
  kv_err e = {0};
  kv_st_writer *w;
  const char *result;
  unsigned char *data = calloc(1, 65536);
  assert_true(n_more <= MORE);
  memcpy(list, right_fields, sizeof right_fields);
  for (int i = 0; i < n_more; i++) list[n++] = more[i];
  snprintf(tracefile, sizeof tracefile, "%s", scratch_path("t.safetensors"));
  assert_int_equal(kv_st_writer_open(tracefile, shard, &w, &e), KV_OK);
  for (int i = 0; i < METAS; i++) {
    if (m && strcmp(m->key, right_metas[i].key) == 0) continue;
    kv_st_writer_meta(w, right_metas[i].key, right_metas[i].value, &e);
  }
  if (m && m->value) kv_st_writer_meta(w, m->key, m->value, &e);
  for (const meta *x = tracefile_also; x && x->key; x++)
    kv_st_writer_meta(w, x->key, x->value, &e);
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < n; i++) {
      uint64_t count = 1;
      int later = 0;
      for (int j = i + 1; j < n; j++) {
        later |= strcmp(list[i].name, list[j].name) == 0;
      }
      if (later || list[i].rank < 0) continue;
      for (int j = 0; j < list[i].rank; j++) count *= list[i].shape[j];
      count *= kv_st_dtype_bits(list[i].dtype) / 8;
      assert_true(count <= 65536);
      kv_rc rc;
      if (pass == 0) {
        rc = kv_st_writer_declare(w, list[i].name, list[i].dtype, list[i].rank,
                                  list[i].shape, &e);
      } else {
        fill(&list[i], count, data);
        rc = kv_st_writer_append(w, count, data, &e);
      }
      assert_int_equal(rc, KV_OK);
    }
  }
  if (kv_st_writer_finish(w, &result, &e)) fail_msg("%s", e.text);
  snprintf(tracefile, sizeof tracefile, "%s", result);
  kv_st_writer_close(w);
  free(data);
}

kv_trace *tracefile_open(void) {
  kv_err e = {0};
  kv_trace *t;
  if (kv_trace_open(tracefile, &t, &e)) fail_msg("%s", e.text);
  return t;
}

void tracefile_refused(const char *name, const char *reason) {
  kv_err e = {0};
  kv_trace *t = (kv_trace *)&e;
  kv_rc rc = kv_trace_open(tracefile, &t, &e);
  if (rc == KV_OK) fail_msg("accepted: %s %s", name, reason);
  assert_int_equal(rc, KV_INPUT);
  assert_null(t);
  if (!strstr(e.text, "t.safetensors") || !strstr(e.text, name) ||
      !strstr(e.text, reason)) {
    fail_msg("\"%s\" names not %s and %s", e.text, name, reason);
  }
}

kv_digest tracefile_identity(void) {
  kv_trace *t = tracefile_open();
  kv_digest d, again;
  kv_err e = {0};
  if (kv_trace_identity(t, &d, &e)) fail_msg("%s", e.text);
  assert_int_equal(kv_trace_identity(t, &again, &e), KV_OK);
  assert_memory_equal(&d, &again, sizeof d);
  kv_trace_close(t);
  return d;
}

int same_digest(kv_digest a, kv_digest b) {
  return memcmp(&a, &b, sizeof a) == 0;
}
