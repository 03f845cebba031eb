/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the trace. What a writer of traces can get wrong is refused with a
 * sentence that names file, key or tensor and the reason; what is right gives
 * the numbers that were written. NaN and Inf are found and placed. A file that
 * shrinks becomes a sentence. The identity looks at content, not at files.
 * Recorded outputs agree with recomputed ones, and wrong ones do not. A
 * synthetic trace is one for any number of threads and has its structures.
 */
#define _GNU_SOURCE 1
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <cmocka.h>

#include "ref/arith.h"
#include "traces/check.h"
#include "traces/safetensors.h"
#include "traces/synth.h"
#include "traces/trace.h"
#include "traces/writer.h"

static char folder[] = "/tmp/kv_check_trace_XXXXXX";
static char path[600];

typedef struct field {
  const char *name;
  kv_st_dtype dtype;
  int rank;
  uint64_t shape[4];
  const void *data; /* NULL: small numbers */
} field;

typedef struct meta {
  const char *key, *value;
} meta;

enum { LAYERS = 2, HEADS = 4, KV = 2, DIM = 8, TOKENS = 10, PROMPT = 6 };

#define F KV_ST_F32
static const field fields[] = {
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

static const meta metas[] = {
    {"format", "kvtrace"},  {"version", "1"},      {"n_layers", "2"},
    {"n_heads", "4"},       {"n_kv_heads", "2"},   {"head_dim", "8"},
    {"layers", "all"},      {"attn.scale", "0.1"}, {"rope.layout", "half"},
    {"prompt_len", "6"},    {"source", "made up"}, {"created", "today"},
    {"recorder", "a test"}, {"attn.sinks", "none"}};

enum {
  FIELDS = sizeof fields / sizeof *fields,
  METAS = sizeof metas / sizeof *metas
};

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

/* The trace above with one pair (value NULL: without it), one tensor (rank
 * -1: without it) changed or added, shuffled into shards where asked. */
static void write_trace(const meta *m, const field *f, int n_more,
                        const field *more, uint64_t shard) {
  field list[FIELDS + 4];
  int n = FIELDS;
  kv_err e = {0};
  kv_st_writer *w;
  const char *result;
  unsigned char *data = calloc(1, 65536);
  memcpy(list, fields, sizeof fields);
  if (f) list[n++] = *f;
  for (int i = 0; i < n_more; i++) list[n++] = more[i];
  snprintf(path, sizeof path, "%s/t.safetensors", folder);
  assert_int_equal(kv_st_writer_open(path, shard, &w, &e), KV_OK);
  for (int i = 0; i < METAS; i++) {
    if (m && strcmp(m->key, metas[i].key) == 0) continue;
    kv_st_writer_meta(w, metas[i].key, metas[i].value, &e);
  }
  if (m && m->value) kv_st_writer_meta(w, m->key, m->value, &e);
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
  snprintf(path, sizeof path, "%s", result);
  kv_st_writer_close(w);
  free(data);
}

static kv_trace *take(void) {
  kv_err e = {0};
  kv_trace *t;
  if (kv_trace_open(path, &t, &e)) fail_msg("%s", e.text);
  return t;
}

static void refuse(const char *name, const char *reason) {
  kv_err e = {0};
  kv_trace *t = (kv_trace *)&e;
  kv_rc rc = kv_trace_open(path, &t, &e);
  if (rc == KV_OK) fail_msg("accepted: %s %s", name, reason);
  assert_int_equal(rc, KV_INPUT);
  assert_null(t);
  if (!strstr(e.text, "t.safetensors") || !strstr(e.text, name) ||
      !strstr(e.text, reason)) {
    fail_msg("\"%s\" names not %s and %s", e.text, name, reason);
  }
}

static void a_right_trace_is_read(void **state) {
  (void)state;
  write_trace(NULL, NULL, 0, NULL, 0);
  kv_trace *t = take();
  assert_string_equal(t->name, "t");
  assert_int_equal(t->shape.n_layers, 2);
  assert_int_equal(t->shape.n_heads, HEADS);
  assert_int_equal(t->shape.n_kv_heads, KV);
  assert_int_equal(t->shape.d, DIM);
  assert_int_equal(t->shape.d_v, DIM);
  assert_int_equal(t->shape.n_tokens, TOKENS);
  assert_int_equal(t->shape.prompt_len, PROMPT);
  assert_int_equal(t->shape.dtype, KV_F32);
  assert_true(t->shape.scale == 0.1f);
  assert_true(t->rope_scale == 1.0f);
  assert_int_equal(t->n_layers, 2);
  assert_int_equal(t->layer[1].data.layer, 1);
  assert_null(t->layer[0].o);
  assert_non_null(t->layer[1].o);
  assert_int_equal(t->layer[1].o_type, KV_F16);
  assert_null(t->layer[0].data.rows);
  assert_int_equal(t->layer[0].data.n_rows, TOKENS);
  assert_int_equal(t->tokens[3], 3);
  assert_int_equal(t->rope.positions[9], 9);
  assert_true(t->rope.inv_freq[1] == 0.1875f);
  assert_int_equal(t->first_decode, 0);
  assert_string_equal(kv_trace_meta(t, "source"), "made up");
  assert_null(kv_trace_meta(t, "sources"));
  assert_int_equal(kv_trace_scan_layer(t, 0, NULL), KV_OK);
  assert_int_equal(kv_trace_scan_output(t, 1, NULL), KV_OK);
  kv_trace_release_layer(t, 0);
  float first;
  memcpy(&first, t->layer[0].data.k, 4);
  assert_true(first == 0.0625f);
  kv_trace_close(t);
  kv_trace_close(NULL);
}

static void wrong_metadata_is_refused(void **state) {
  (void)state;
  static const struct {
    meta m;
    const char *reason;
  } bad[] = {
      {{"format", NULL}, "missing"},
      {{"format", "pt"}, "is pt, not kvtrace"},
      {{"version", "2"}, "is 2, not 1"},
      {{"n_layers", NULL}, "missing"},
      {{"n_layers", "0"}, "is 0"},
      {{"n_layers", "two"}, "is two"},
      {{"n_heads", "5"}, "5 query heads do not divide among 2"},
      {{"n_heads", "-4"}, "is -4"},
      {{"n_heads", "8"}, "has shape [4, 10, 8], not [8, 10, 8]"},
      {{"n_kv_heads", "1"}, "has shape [2, 10, 8], not [1, 10, 8]"},
      {{"n_kv_heads", "18446744073709551618"}, "is 18446744073709551618"},
      {{"head_dim", "16"}, "has shape [2, 10, 8], not [2, 10, 16]"},
      {{"head_dim", "8.0"}, "is 8.0"},
      {{"layers", NULL}, "missing"},
      {{"layers", ""}, "neither"},
      {{"layers", "2"}, "neither"},
      {{"layers", "1,0"}, "neither"},
      {{"layers", "0,0"}, "neither"},
      {{"layers", "0,"}, "neither"},
      {{"layers", "[0,1"}, "neither"},
      {{"layers", "0,1]"}, "neither"},
      {{"layers", "some"}, "neither"},
      {{"attn.scale", NULL}, "missing"},
      {{"attn.scale", "x"}, "decimal"},
      {{"attn.scale", "inf"}, "decimal"},
      {{"attn.scale", "nan"}, "decimal"},
      {{"attn.scale", "0x1p-3"}, "decimal"},
      {{"attn.scale", "1e99"}, "decimal"},
      {{"attn.scale", "0,1"}, "decimal"},
      {{"attn.scale", "0"}, "above zero"},
      {{"rope.scale", "-1"}, "above zero"},
      {{"rope.scale", "one"}, "decimal"},
      {{"attn.softcap", "50"}, "version 1 defines no arithmetic"},
      {{"attn.sliding_window", "4096"}, "version 1 defines no arithmetic"},
      {{"attn.sinks", "yes"}, "version 1 defines no arithmetic"},
      {{"rope.layout", NULL}, "missing"},
      {{"rope.layout", "halves"}, "neither half nor interleaved"},
      {{"prompt_len", NULL}, "missing"},
      {{"prompt_len", "0"}, "from 1 to 10"},
      {{"prompt_len", "11"}, "from 1 to 10"},
      {{"prompt_len", "4294967302"}, "from 1 to 10"},
      {{"answers", "x"}, "not valid JSON"},
      {{"answers", "{}"}, "not a list"},
      {{"answers", "[1]"}, "item 0"},
      {{"answers", "[{\"start\":1,\"end\":2,\"source_start\":0}]"}, "item 0"},
      {{"answers", "[{\"start\":0,\"end\":2,\"source_start\":0,"
                   "\"source_end\":1}]"},
       "item 0"},
      {{"answers", "[{\"start\":2,\"end\":11,\"source_start\":0,"
                   "\"source_end\":1}]"},
       "item 0"},
      {{"answers", "[{\"start\":2,\"end\":1,\"source_start\":0,"
                   "\"source_end\":1}]"},
       "item 0"},
      {{"answers", "[{\"start\":2,\"end\":3,\"source_start\":5,"
                   "\"source_end\":6}]"},
       "behind the answer"},
      {{"answers", "[{\"start\":2,\"end\":3.0,\"source_start\":0,"
                   "\"source_end\":1}]"},
       "item 0"},
      {{"answers", "[{\"start\":1,\"start\":2}]"}, "duplicate key"},
      {{"segments", "[{\"start\":0,\"end\":11,\"role\":\"context\"}]"},
       "item 0"},
      {{"segments", "[{\"start\":0,\"end\":10,\"role\":\"song\"}]"}, "role"},
      {{"segments", "[{\"start\":0,\"end\":10}]"}, "role"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    write_trace(&bad[i].m, NULL, 0, NULL, 0);
    refuse("", bad[i].reason);
  }
}

static const int32_t backwards[TOKENS] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 8};
static const int32_t outside[TOKENS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10};
static const int32_t below[TOKENS] = {-1, 1, 2, 3, 4, 5, 6, 7, 8, 9};
static const float nan_frequency[DIM / 2] = {1, 0.5f, NAN, 0.1f};
static const float fast_frequency[DIM / 2] = {1, 0.5f, 1e7f, 0.1f};

static void wrong_tensors_are_refused(void **state) {
  (void)state;
  static const struct {
    field f;
    const char *reason;
  } bad[] = {
      {{"layers.0.k", F, -1, {0}, NULL}, "missing"},
      {{"layers.0.v", F, -1, {0}, NULL}, "missing"},
      {{"layers.0.q", F, -1, {0}, NULL}, "missing"},
      {{"layers.1.k", F, -1, {0}, NULL}, "missing"},
      {{"layers.0.k", F, 2, {KV * TOKENS, DIM}, NULL}, "is not [n_kv_heads"},
      {{"layers.1.k", F, 2, {KV * TOKENS, DIM}, NULL},
       "has shape [20, 8], not [2, 10, 8]"},
      {{"layers.1.v", F, 3, {KV, TOKENS, 4}, NULL},
       "has shape [2, 10, 4], not [2, 10, 8]"},
      {{"layers.1.q", F, 3, {HEADS, 9, DIM}, NULL},
       "has shape [4, 9, 8], not [4, 10, 8]"},
      {{"layers.1.q", F, 3, {HEADS, 11, DIM}, NULL}, "has shape [4, 11, 8]"},
      {{"layers.1.o", F, 3, {HEADS, TOKENS, 4}, NULL}, "has shape"},
      {{"layers.0.k", F, 3, {KV, 0, DIM}, NULL}, "holds no tokens"},
      {{"layers.0.v", F, 3, {KV, TOKENS, 0}, NULL}, "impossible"},
      {{"layers.1.k", KV_ST_F16, 3, {KV, TOKENS, DIM}, NULL}, "another dtype"},
      {{"layers.0.v", KV_ST_BF16, 3, {KV, TOKENS, DIM}, NULL}, "another dtype"},
      {{"layers.0.q", KV_ST_I32, 3, {HEADS, TOKENS, DIM}, NULL}, "neither F16"},
      {{"layers.0.k", KV_ST_F64, 3, {KV, TOKENS, DIM}, NULL}, "neither F16"},
      {{"layers.1.o", KV_ST_U8, 3, {HEADS, TOKENS, DIM}, NULL}, "neither F16"},
      {{"layers.0.colsum", F, 2, {HEADS, PROMPT}, NULL}, "is not I64"},
      {{"layers.0.colsum", KV_ST_I64, 2, {HEADS, TOKENS}, NULL},
       "has shape [4, 10], not [4, 6]"},
      {{"tokens", KV_ST_I64, 1, {TOKENS}, NULL}, "is not I32"},
      {{"tokens", KV_ST_I32, 1, {9}, NULL}, "has shape [9], not [10]"},
      {{"positions", KV_ST_I32, 1, {11}, NULL}, "has shape [11], not [10]"},
      {{"positions", KV_ST_U32, 1, {TOKENS}, NULL}, "is not I32"},
      {{"positions", KV_ST_I32, 1, {TOKENS}, below}, "negative"},
      {{"rope.inv_freq", F, 1, {DIM}, NULL}, "has shape [8], not [4]"},
      {{"rope.inv_freq", KV_ST_F16, 1, {DIM / 2}, NULL}, "is not F32"},
      {{"rope.inv_freq", F, 1, {DIM / 2}, nan_frequency}, "NaN"},
      {{"rope.inv_freq", F, 1, {DIM / 2}, fast_frequency}, "2^24"},
      {{"layers.0.rows", KV_ST_I32, 1, {9}, NULL}, "has shape [9], not [10]"},
      {{"layers.0.rows", KV_ST_I64, 1, {TOKENS}, NULL}, "is not I32"},
      {{"layers.0.rows", KV_ST_I32, 1, {TOKENS}, backwards}, "not ascending"},
      {{"layers.0.rows", KV_ST_I32, 1, {TOKENS}, outside}, "outside"},
      {{"layers.0.rows", KV_ST_I32, 1, {TOKENS}, below}, "outside"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    write_trace(NULL, &bad[i].f, 0, NULL, 0);
    refuse(bad[i].f.name, bad[i].reason);
  }
}

/* head_dim 7 throughout, with frequencies and without. */
static void odd_dimensions_have_no_rope(void **state) {
  (void)state;
  field odd[4] = {{"layers.0.q", F, 3, {HEADS, TOKENS, 7}, NULL},
                  {"layers.0.k", F, 3, {KV, TOKENS, 7}, NULL},
                  {"layers.0.v", F, 3, {KV, TOKENS, 5}, NULL},
                  {"rope.inv_freq", F, 1, {3}, NULL}};
  const meta dim = {"head_dim", "7"};
  write_trace(&dim, NULL, 4, odd, 0);
  refuse("layers.1.k", "[2, 10, 8], not [2, 10, 7]");
  kv_st_writer *w;
  kv_err e = {0};
  for (int rope = 0; rope < 2; rope++) {
    snprintf(path, sizeof path, "%s/t.safetensors", folder);
    assert_int_equal(kv_st_writer_open(path, 0, &w, &e), KV_OK);
    for (int i = 0; i < METAS; i++) {
      const char *value = metas[i].value;
      if (strcmp(metas[i].key, "head_dim") == 0) value = "7";
      if (strcmp(metas[i].key, "layers") == 0) value = "0";
      kv_st_writer_meta(w, metas[i].key, value, &e);
    }
    for (int i = 0; i < 3 + rope; i++) {
      kv_st_writer_declare(w, odd[i].name, F, odd[i].rank, odd[i].shape, &e);
    }
    float zeros[HEADS * TOKENS * 7] = {0};
    for (int i = 0; i < 3 + rope; i++) {
      uint64_t n = 4;
      for (int j = 0; j < odd[i].rank; j++) n *= odd[i].shape[j];
      kv_st_writer_append(w, n, zeros, &e);
    }
    assert_int_equal(kv_st_writer_finish(w, NULL, &e), KV_OK);
    kv_st_writer_close(w);
    if (rope) {
      refuse("rope.inv_freq", "head_dim is odd");
      continue;
    }
    kv_trace *t = take();
    assert_int_equal(t->shape.d, 7);
    assert_int_equal(t->shape.d_v, 5);
    assert_null(t->rope.inv_freq);
    kv_trace_close(t);
  }
}

/* Seven of ten rows: 1, 3, and 5 to 9; the unbroken run begins at 5. */
static const int32_t subset[7] = {1, 3, 5, 6, 7, 8, 9};
static const int32_t gap[7] = {1, 3, 4, 5, 6, 8, 9};

static void row_subsets_keep_every_decode_row(void **state) {
  (void)state;
  field some[4] = {{"layers.1.q", F, 3, {HEADS, 7, DIM}, NULL},
                   {"layers.1.o", F, 3, {HEADS, 7, DIM}, NULL},
                   {"layers.1.rows", KV_ST_I32, 1, {7}, subset},
                   {"layers.1.colsum", KV_ST_I64, 2, {HEADS, PROMPT}, NULL}};
  write_trace(NULL, NULL, 4, some, 0);
  kv_trace *t = take();
  assert_int_equal(t->layer[1].data.n_rows, 7);
  assert_int_equal(t->layer[1].data.rows[2], 5);
  assert_int_equal(t->layer[0].data.n_rows, TOKENS);
  assert_int_equal(t->first_decode, 5);
  assert_non_null(t->layer[1].colsum);
  assert_null(t->layer[0].colsum);
  kv_trace_close(t);
  some[2].data = gap;
  write_trace(NULL, NULL, 3, some, 0);
  refuse("layers.1.rows", "row 7 is missing and prompt_len is 6");
  const meta all = {"prompt_len", "10"}; /* no decode step: any rows do */
  write_trace(&all, NULL, 3, some, 0);
  t = take();
  assert_int_equal(t->first_decode, 8);
  kv_trace_close(t);
  some[0].shape[1] = some[1].shape[1] = some[2].shape[0] = 0;
  write_trace(&all, NULL, 3, some, 0);
  refuse("layers.1.q", "holds no row");
}

static void layer_subsets_are_read(void **state) {
  (void)state;
  const char *lists[] = {"1", "[1]", "[ 1 ]"};
  for (int i = 0; i < 3; i++) {
    const meta one = {"layers", lists[i]};
    write_trace(&one, NULL, 0, NULL, 0);
    kv_trace *t = take();
    assert_int_equal(t->n_layers, 1);
    assert_int_equal(t->layer[0].data.layer, 1);
    assert_int_equal(t->shape.n_layers, 2);
    kv_trace_close(t);
  }
}

static void marks_are_read(void **state) {
  (void)state;
  const meta a = {"answers", "[{\"start\":6,\"end\":8,\"source_start\":2,"
                             "\"source_end\":4,\"key\":\"x\"}]"};
  write_trace(&a, NULL, 0, NULL, 0);
  kv_trace *t = take();
  assert_int_equal(t->n_answers, 1);
  assert_int_equal(t->answer[0].start, 6);
  assert_int_equal(t->answer[0].source_end, 4);
  kv_trace_close(t);
  const meta g = {"segments", "[{\"start\":0,\"end\":6,\"role\":\"context\"},"
                              "{\"start\":6,\"end\":10,\"role\":\"answer\"}]"};
  write_trace(&g, NULL, 0, NULL, 0);
  t = take();
  assert_int_equal(t->n_segments, 2);
  assert_int_equal(t->segment[1].role, KV_ANSWER);
  kv_trace_close(t);
}

/* One bad bit pattern at [1, 3, 5] of a tensor of each type. */
static void not_finite_is_found(void **state) {
  (void)state;
  static const struct {
    kv_st_dtype type;
    uint32_t bits;
  } bad[] = {{F, 0x7f800000},     {F, 0xffc00001},     {F, 0x7f800001},
             {KV_ST_F16, 0x7c00}, {KV_ST_F16, 0xfe00}, {KV_ST_BF16, 0xff80},
             {KV_ST_BF16, 0x7f81}};
  static const uint32_t good[] = {0x7f7fffff, 0x7bff, 0xff7f, 0x80000001};
  static const char *const what[] = {"q", "k", "v", "o"};
  static unsigned char data[65536];
  const size_t at = ((size_t)1 * TOKENS + 3) * DIM + 5;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    for (int j = 0; j < 4; j++) {
      field f[4];
      char name[16], place[64];
      size_t size = bad[i].type == F ? 4 : 2;
      for (int k = 0; k < 4; k++) {
        f[k] = fields[3 + k];
        f[k].dtype = bad[i].type;
      }
      snprintf(name, sizeof name, "layers.1.%s", what[j]);
      memset(data, 0, sizeof data);
      memcpy(data + at * size, &bad[i].bits, size);
      f[j].data = data;
      const meta one = {"layers", "1"};
      write_trace(&one, NULL, 4, f, 0);
      kv_trace *t = take();
      kv_err e = {0};
      kv_rc rc = j == 3 ? kv_trace_scan_output(t, 0, &e)
                        : kv_trace_scan_layer(t, 0, &e);
      assert_int_equal(rc, KV_INPUT);
      snprintf(place, sizeof place, "tensor %s holds NaN or Inf at [1, 3, 5]",
               name);
      if (!strstr(e.text, place)) fail_msg("%s", e.text);
      const uint32_t *fine = bad[i].type == F           ? &good[0]
                             : bad[i].type == KV_ST_F16 ? &good[1]
                                                        : &good[2];
      kv_trace_close(t);
      memcpy(data + at * size, fine, size);
      write_trace(&one, NULL, 4, f, 0);
      t = take();
      assert_int_equal(kv_trace_scan_layer(t, 0, NULL), KV_OK);
      assert_int_equal(kv_trace_scan_output(t, 0, NULL), KV_OK);
      kv_trace_close(t);
    }
  }
}

static kv_digest identity(void) {
  kv_trace *t = take();
  kv_digest d, again;
  kv_err e = {0};
  if (kv_trace_identity(t, &d, &e)) fail_msg("%s", e.text);
  assert_int_equal(kv_trace_identity(t, &again, &e), KV_OK);
  assert_memory_equal(&d, &again, sizeof d);
  kv_trace_close(t);
  return d;
}

static int same(kv_digest a, kv_digest b) {
  return memcmp(&a, &b, sizeof a) == 0;
}

static void identity_is_content(void **state) {
  (void)state;
  write_trace(NULL, NULL, 0, NULL, 0);
  kv_digest first = identity();
  for (uint64_t shard = 64; shard < 5000; shard *= 3) {
    write_trace(NULL, NULL, 0, NULL, shard);
    assert_true(same(identity(), first));
  }
  const meta later = {"created", "tomorrow"}, other = {"recorder", NULL};
  write_trace(&later, NULL, 0, NULL, 0);
  assert_true(same(identity(), first));
  write_trace(&other, NULL, 0, NULL, 0);
  assert_true(same(identity(), first));
  const meta source = {"source", "made up twice"};
  write_trace(&source, NULL, 0, NULL, 0);
  assert_false(same(identity(), first));
  const field tokens = {"tokens", KV_ST_I32, 1, {TOKENS}, backwards};
  write_trace(NULL, &tokens, 0, NULL, 0);
  assert_false(same(identity(), first));
  const field renamed = {"layers.1.x", KV_ST_I32, 1, {TOKENS}, NULL};
  write_trace(NULL, &renamed, 0, NULL, 0);
  assert_false(same(identity(), first));
}

/* With an old file the cache answers, and only for that very file. */
static void identity_is_remembered(void **state) {
  (void)state;
  char command[200];
  struct utimbuf old = {1000000000, 1000000000};
  write_trace(NULL, NULL, 0, NULL, 0);
  kv_digest first = identity();
  assert_int_equal(utime(path, &old), 0);
  assert_true(same(identity(), first));
  snprintf(command, sizeof command,
           "cd %s/cache/kvreplay/identity && test \"$(ls | wc -l)\" = 1 && "
           "printf '%%064d\\n' 0 >\"$(ls)\"",
           folder);
  assert_int_equal(system(command), 0);
  kv_digest zero = {{0}};
  assert_true(same(identity(), zero));
  snprintf(command, sizeof command,
           "cd %s/cache/kvreplay/identity && echo x >\"$(ls)\"", folder);
  assert_int_equal(system(command), 0);
  assert_true(same(identity(), first));
  old.modtime++;
  assert_int_equal(utime(path, &old), 0);
  assert_true(same(identity(), first));
}

static void a_shrunk_trace_is_damaged(void **state) {
  (void)state;
  write_trace(NULL, NULL, 0, NULL, 0);
  kv_trace *t = take();
  kv_err e = {0};
  kv_digest d;
  assert_int_equal(kv_trace_damaged(t, &e), KV_OK);
  assert_int_equal(truncate(path, 4096), 0);
  assert_int_equal(kv_trace_scan_layer(t, 1, &e), KV_INPUT);
  assert_non_null(strstr(e.text, "t.safetensors"));
  assert_int_equal(kv_trace_damaged(t, &e), KV_INPUT);
  assert_int_equal(kv_trace_identity(t, &d, &e), KV_INPUT);
  kv_trace_close(t);
}

static void make(const kv_synth *s, const char *name) {
  kv_err e = {0};
  snprintf(path, sizeof path, "%s/%s", folder, name);
  if (kv_synth_write(s, kv_kernels_best(), path, NULL, &e)) {
    fail_msg("%s", e.text);
  }
}

static kv_synth small(int tokens) {
  kv_synth s = {.like = *kv_geometry_find("tiny"),
                .n_tokens = tokens,
                .prompt_len = kv_synth_prompt(tokens),
                .seed = 7,
                .output = 1};
  return s;
}

static void outputs_agree_and_wrong_ones_do_not(void **state) {
  (void)state;
  for (int type = 0; type < 3; type++) {
    kv_synth s = small(300);
    s.like.n_layers = 1;
    s.like.dtype = (kv_dtype)type;
    make(&s, "o.safetensors");
    kv_trace *t = take();
    kv_check c;
    kv_second second;
    assert_int_equal(kv_check_layer(t, 0, kv_kernels_best(), &c, NULL), KV_OK);
    assert_true(c.has_o);
    assert_true(c.relative < (type == 1 ? 3e-3 : 4e-4));
    assert_true(type != 2 || c.relative == 0.0);
    assert_int_equal(kv_second_layer(t, 0, kv_kernels_best(), &second, NULL),
                     KV_OK);
    assert_true(second.relative < 1e-6);
    assert_true(!second.by || second.relative > 0);
    /* The other KV heads' keys: right shape, wrong numbers. */
    size_t rows = (size_t)s.n_tokens * 32 * kv_dtype_size(s.like.dtype);
    t->layer[0].data.k = (const char *)t->layer[0].data.k - rows;
    assert_int_equal(kv_check_layer(t, 0, kv_kernels_best(), &c, NULL), KV_OK);
    assert_true(c.relative > 10 * c.tolerance);
    kv_trace_close(t);
  }
}

static void check_any_threads(void **state) {
  (void)state;
  kv_synth s = small(200);
  kv_check a, b;
  make(&s, "o.safetensors");
  kv_trace *t = take();
  omp_set_num_threads(1);
  assert_int_equal(kv_check_layer(t, 0, kv_kernels_best(), &a, NULL), KV_OK);
  omp_set_num_threads(5);
  assert_int_equal(kv_check_layer(t, 0, kv_kernels_best(), &b, NULL), KV_OK);
  assert_memory_equal(&a.relative, &b.relative, sizeof a.relative);
  assert_memory_equal(&a.error, &b.error, sizeof a.error);
  kv_trace_close(t);
}

static void synthetic_traces_are_one(void **state) {
  (void)state;
  kv_synth s = small(777);
  make(&s, "a.safetensors");
  kv_digest five = identity();
  omp_set_num_threads(2);
  make(&s, "b.safetensors");
  assert_true(same(identity(), five));
  kv_err e = {0};
  const kv_kernels *portable;
  assert_int_equal(kv_kernels_named("portable", &portable, NULL, &e), KV_OK);
  assert_int_equal(kv_synth_write(&s, portable, path, NULL, &e), KV_OK);
  assert_true(same(identity(), five));
  s.seed++;
  make(&s, "c.safetensors");
  assert_false(same(identity(), five));
}

/* Rows do not know how long the tensor around them is: a layer subset holds
 * the same numbers as the whole. */
static void recorded_layers_stay_themselves(void **state) {
  (void)state;
  kv_synth s = small(100);
  const int list[] = {1, 3};
  make(&s, "all.safetensors");
  kv_trace *all = take();
  s.n_recorded = 2;
  s.layers = list;
  make(&s, "some.safetensors");
  kv_trace *some = take();
  assert_int_equal(some->n_layers, 2);
  assert_int_equal(some->layer[1].data.layer, 3);
  assert_memory_equal(some->layer[1].data.q, all->layer[3].data.q,
                      8 * 100 * 32 * 2);
  assert_memory_equal(some->layer[0].o, all->layer[1].o, 8 * 100 * 32 * 2);
  kv_trace_close(all);
  kv_trace_close(some);
}

/* Probability of each token for row t of query head h, in binary64. */
static void attend(const kv_trace *t, int i, int h, int row, double *p) {
  const kv_shape *s = &t->shape;
  const uint16_t *q = t->layer[i].data.q, *k = t->layer[i].data.k;
  size_t d = (size_t)s->d, n = (size_t)s->n_tokens;
  q += ((size_t)h * n + (size_t)row) * d;
  k += (size_t)(h / kv_group(s)) * n * d;
  double sum = 0, most = -1e300;
  for (int j = 0; j <= row; j++) {
    p[j] = 0;
    for (size_t c = 0; c < d; c++) {
      p[j] +=
          (double)kv_from_f16(q[c]) * (double)kv_from_f16(k[(size_t)j * d + c]);
    }
    p[j] *= (double)s->scale;
    most = p[j] > most ? p[j] : most;
  }
  for (int j = 0; j <= row; j++) sum += p[j] = exp(p[j] - most);
  for (int j = 0; j <= row; j++) p[j] /= sum;
}

/* Head h of layer l is of kind (h + 2 l) mod 6: 0 local, 1 sink, 2
 * retrieval. Mass where each kind looks, averaged over the decode rows. */
static void structures_are_there(void **state) {
  (void)state;
  kv_synth s = small(2048);
  s.output = 0;
  s.like.n_layers = 1;
  s.like.d = 64;
  make(&s, "s.safetensors");
  kv_trace *t = take();
  double *p = calloc(2048, sizeof *p), sink = 0, local = 0, needle = 0,
         cold = 0;
  int rows = 0, asked = 0;
  assert_int_equal(t->n_answers, 16);
  for (int row = t->shape.prompt_len; row < 2048; row += 8, rows++) {
    attend(t, 0, 1, row, p);
    sink += p[0];
    attend(t, 0, 0, row, p);
    for (int j = row - 31; j <= row; j++) local += p[j];
  }
  for (int a = 0; a < t->n_answers; a++) {
    const kv_answer *x = &t->answer[a];
    assert_int_equal(t->tokens[x->start], t->tokens[x->source_start]);
    for (int i = 0; i < x->end - x->start; i++, asked++) {
      attend(t, 0, 2, x->start - 1 + i, p);
      needle += p[x->source_start + i];
      attend(t, 0, 1, x->start - 1 + i, p);
      cold += p[x->source_start + i];
    }
  }
  assert_true(sink / rows > 0.4);
  assert_true(local / rows > 0.25);
  assert_true(needle / asked > 0.7);
  assert_true(cold / asked < 0.01);
  free(p);
  kv_trace_close(t);
}

static void odd_requests_are_made(void **state) {
  (void)state;
  static const int tokens[] = {1, 2, 7, 33, 128, 129};
  for (int i = 0; i < 6; i++) {
    for (int dim = 8; dim <= 256; dim *= 2) {
      kv_synth s = small(tokens[i]);
      s.like.d = dim + (dim == 32 ? 48 : 0);
      s.like.n_layers = 1;
      s.like.n_heads = 7;
      s.like.n_kv_heads = i % 2 ? 7 : 1;
      s.prompt_len = i % 3 ? tokens[i] : 1;
      make(&s, "odd.safetensors");
      kv_trace *t = take();
      kv_check c;
      assert_int_equal(kv_check_layer(t, 0, kv_kernels_best(), &c, NULL),
                       KV_OK);
      assert_true(c.relative <= c.tolerance);
      kv_trace_close(t);
    }
  }
  kv_synth bad = small(10);
  kv_err e = {0};
  bad.like.n_kv_heads = 3;
  assert_int_equal(kv_synth_write(&bad, kv_kernels_best(), path, NULL, &e),
                   KV_USAGE);
}

static int make_folder(void **state) {
  (void)state;
  char cache[100];
  if (!mkdtemp(folder)) return 1;
  snprintf(cache, sizeof cache, "%s/cache", folder);
  return setenv("XDG_CACHE_HOME", cache, 1);
}

static int remove_folder(void **state) {
  (void)state;
  char command[100];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(identity_is_remembered),
      cmocka_unit_test(a_right_trace_is_read),
      cmocka_unit_test(wrong_metadata_is_refused),
      cmocka_unit_test(wrong_tensors_are_refused),
      cmocka_unit_test(odd_dimensions_have_no_rope),
      cmocka_unit_test(row_subsets_keep_every_decode_row),
      cmocka_unit_test(layer_subsets_are_read),
      cmocka_unit_test(marks_are_read),
      cmocka_unit_test(not_finite_is_found),
      cmocka_unit_test(identity_is_content),
      cmocka_unit_test(a_shrunk_trace_is_damaged),
      cmocka_unit_test(outputs_agree_and_wrong_ones_do_not),
      cmocka_unit_test(check_any_threads),
      cmocka_unit_test(synthetic_traces_are_one),
      cmocka_unit_test(recorded_layers_stay_themselves),
      cmocka_unit_test(structures_are_there),
      cmocka_unit_test(odd_requests_are_made),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
