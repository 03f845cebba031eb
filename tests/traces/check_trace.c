/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the trace. What a writer of traces can get wrong is refused with a
 * sentence that names file, key or tensor and the reason; what is right gives
 * the numbers that were written.
 */
#define _GNU_SOURCE 1
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/tracefile.h"
#include "traces/container/writer.h"

#define F KV_ST_F32

TEST(a_right_trace_is_read) {
  tracefile_write(NULL, 0, NULL, 0);
  kv_trace *t = tracefile_open();
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

static const struct {
  meta m;
  const char *reason;
} bad_metas[] = {
    {{"format", NULL}, "missing"},
    {{"format", "pt"}, "is pt, not kvtrace"},
    {{"version", "3"}, "is 3, neither 1 nor 2"},
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
    {{"segments", "[{\"start\":0,\"end\":11,\"role\":\"context\"}]"}, "item 0"},
    {{"segments", "[{\"start\":0,\"end\":10,\"role\":\"song\"}]"}, "role"},
    {{"segments", "[{\"start\":0,\"end\":10}]"}, "role"},
};

TEST(wrong_metadata_is_refused) {
  for (size_t i = 0; i < sizeof bad_metas / sizeof *bad_metas; i++) {
    tracefile_write(&bad_metas[i].m, 0, NULL, 0);
    tracefile_refused("", bad_metas[i].reason);
  }
}

static const int32_t backwards[TOKENS] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 8};
static const int32_t outside[TOKENS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10};
static const int32_t below[TOKENS] = {-1, 1, 2, 3, 4, 5, 6, 7, 8, 9};
static const float nan_frequency[DIM / 2] = {1, 0.5f, NAN, 0.1f};
static const float fast_frequency[DIM / 2] = {1, 0.5f, 1e7f, 0.1f};

static const struct {
  field f;
  const char *reason;
} bad_fields[] = {
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

TEST(wrong_tensors_are_refused) {
  for (size_t i = 0; i < sizeof bad_fields / sizeof *bad_fields; i++) {
    tracefile_write(NULL, 1, &bad_fields[i].f, 0);
    tracefile_refused(bad_fields[i].f.name, bad_fields[i].reason);
  }
}

/* head_dim 7 throughout, with frequencies or without. */
static const field odd[4] = {{"layers.0.q", F, 3, {HEADS, TOKENS, 7}, NULL},
                             {"layers.0.k", F, 3, {KV, TOKENS, 7}, NULL},
                             {"layers.0.v", F, 3, {KV, TOKENS, 5}, NULL},
                             {"rope.inv_freq", F, 1, {3}, NULL}};

static void write_odd(bool rope) {
  const float zeros[HEADS * TOKENS * 7] = {0};
  kv_st_writer *w;
  snprintf(tracefile, sizeof tracefile, "%s", scratch_path("t.safetensors"));
  works(kv_st_writer_open(tracefile, 0, &w, &told));
  for (int i = 0; i < METAS; i++) {
    const char *value = right_metas[i].value;
    if (strcmp(right_metas[i].key, "head_dim") == 0) value = "7";
    if (strcmp(right_metas[i].key, "layers") == 0) value = "0";
    kv_st_writer_meta(w, right_metas[i].key, value, &told);
  }
  for (int i = 0; i < 3 + rope; i++)
    kv_st_writer_declare(w, odd[i].name, F, odd[i].rank, odd[i].shape, &told);
  for (int i = 0; i < 3 + rope; i++) {
    uint64_t n = sizeof *zeros;
    for (int j = 0; j < odd[i].rank; j++) n *= odd[i].shape[j];
    kv_st_writer_append(w, n, zeros, &told);
  }
  works(kv_st_writer_finish(w, NULL, &told));
  kv_st_writer_close(w);
}

TEST(odd_dimensions_have_no_rope) {
  const meta dim = {"head_dim", "7"};
  tracefile_write(&dim, 4, odd, 0);
  tracefile_refused("layers.1.k", "[2, 10, 8], not [2, 10, 7]");
  write_odd(false);
  kv_trace *t = tracefile_open();
  assert_int_equal(t->shape.d, 7);
  assert_int_equal(t->shape.d_v, 5);
  assert_null(t->rope.inv_freq);
  kv_trace_close(t);
  write_odd(true);
  tracefile_refused("rope.inv_freq", "head_dim is odd");
}

int main(void) { return tests_run("trace", scratch_make, scratch_remove); }
