/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the trace. What a writer of traces can get wrong is refused with a
 * sentence that names file, key or tensor and the reason; what is right gives
 * the numbers that were written. Subsets of rows and layers keep every decode
 * row. NaN and Inf are found and placed. A file that shrinks becomes a
 * sentence. The identity looks at content, not at files, and is remembered per
 * file. Two recordings of one request are told by tokens, or by numbers as F16.
 */
#define _GNU_SOURCE 1
#include "ref/ground/arith.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/tracefile.h"
#include "traces/container/writer.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

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
    {{"format", "pt"}, "is pt; only kvtrace"},
    {{"version", "3"}, "is 3; only 1 and 2"},
    {{"n_layers", NULL}, "missing"},
    {{"n_layers", "0"}, "is 0"},
    {{"n_layers", "two"}, "is two"},
    {{"n_heads", "5"}, "5 query heads do not divide by 2"},
    {{"n_heads", "-4"}, "is -4"},
    {{"n_heads", "8"}, "has shape [4, 10, 8], not [8, 10, 8]"},
    {{"n_kv_heads", "1"}, "has shape [2, 10, 8], not [1, 10, 8]"},
    {{"n_kv_heads", "18446744073709551618"}, "is 18446744073709551618"},
    {{"head_dim", "16"}, "has shape [2, 10, 8], not [2, 10, 16]"},
    {{"head_dim", "8.0"}, "is 8.0"},
    {{"layers", NULL}, "missing"},
    {{"layers", ""}, "must be `all`"},
    {{"layers", "2"}, "must be `all`"},
    {{"layers", "1,0"}, "must be `all`"},
    {{"layers", "0,0"}, "must be `all`"},
    {{"layers", "0,"}, "must be `all`"},
    {{"layers", "[0,1"}, "must be `all`"},
    {{"layers", "0,1]"}, "must be `all`"},
    {{"layers", "some"}, "must be `all`"},
    {{"attn.scale", NULL}, "missing"},
    {{"attn.scale", "x"}, "decimal"},
    {{"attn.scale", "inf"}, "decimal"},
    {{"attn.scale", "nan"}, "decimal"},
    {{"attn.scale", "0x1p-3"}, "decimal"},
    {{"attn.scale", "1e99"}, "decimal"},
    {{"attn.scale", "0,1"}, "decimal"},
    {{"attn.scale", "0"}, "above 0"},
    {{"rope.scale", "-1"}, "above 0"},
    {{"rope.scale", "one"}, "decimal"},
    {{"attn.softcap", "50"}, "version 1 defines no arithmetic"},
    {{"attn.sliding_window", "4096"}, "version 1 defines no arithmetic"},
    {{"attn.sinks", "yes"}, "version 1 defines no arithmetic"},
    {{"rope.layout", NULL}, "missing"},
    {{"rope.layout", "halves"}, "must be half or interleaved"},
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
     "after the answer"},
    {{"answers", "[{\"start\":2,\"end\":3.0,\"source_start\":0,"
                 "\"source_end\":1}]"},
     "item 0"},
    {{"answers", "[{\"start\":1,\"start\":2}]"}, "duplicate key"},
    {{"answer_by", "me"}, "must be model or user"},
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
    {{"layers.0.k", F, 2, {KV * TOKENS, DIM}, NULL}, "must be [n_kv_heads"},
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
    {{"layers.1.k", KV_ST_F16, 3, {KV, TOKENS, DIM}, NULL},
     "must have the dtype"},
    {{"layers.0.v", KV_ST_BF16, 3, {KV, TOKENS, DIM}, NULL},
     "must have the dtype"},
    {{"layers.0.q", KV_ST_I32, 3, {HEADS, TOKENS, DIM}, NULL}, "must be F16"},
    {{"layers.0.k", KV_ST_F64, 3, {KV, TOKENS, DIM}, NULL}, "must be F16"},
    {{"layers.1.o", KV_ST_U8, 3, {HEADS, TOKENS, DIM}, NULL}, "must be F16"},
    {{"layers.0.colsum", F, 2, {HEADS, PROMPT}, NULL}, "must be I64"},
    {{"layers.0.colsum", KV_ST_I64, 2, {HEADS, TOKENS}, NULL},
     "has shape [4, 10], not [4, 6]"},
    {{"tokens", KV_ST_I64, 1, {TOKENS}, NULL}, "must be I32"},
    {{"tokens", KV_ST_I32, 1, {9}, NULL}, "has shape [9], not [10]"},
    {{"positions", KV_ST_I32, 1, {11}, NULL}, "has shape [11], not [10]"},
    {{"positions", KV_ST_U32, 1, {TOKENS}, NULL}, "must be I32"},
    {{"positions", KV_ST_I32, 1, {TOKENS}, below}, "negative"},
    {{"rope.inv_freq", F, 1, {DIM}, NULL}, "has shape [8], not [4]"},
    {{"rope.inv_freq", KV_ST_F16, 1, {DIM / 2}, NULL}, "must be F32"},
    {{"rope.inv_freq", F, 1, {DIM / 2}, nan_frequency}, "NaN"},
    {{"rope.inv_freq", F, 1, {DIM / 2}, fast_frequency}, "2^24"},
    {{"layers.0.rows", KV_ST_I32, 1, {9}, NULL}, "has shape [9], not [10]"},
    {{"layers.0.rows", KV_ST_I64, 1, {TOKENS}, NULL}, "must be I32"},
    {{"layers.0.rows", KV_ST_I32, 1, {TOKENS}, backwards}, "must ascend"},
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
  tracefile_refused("rope.inv_freq", "needs an even head_dim");
}

/* --- data --------------------------------------------------------------- */

/* Seven of ten rows: 1, 3, and 5 to 9; the unbroken run begins at 5. */
static const int32_t subset[7] = {1, 3, 5, 6, 7, 8, 9};
static const int32_t gap[7] = {1, 3, 4, 5, 6, 8, 9};

TEST(row_subsets_keep_every_decode_row) {
  field some[4] = {{"layers.1.q", F, 3, {HEADS, 7, DIM}, NULL},
                   {"layers.1.o", F, 3, {HEADS, 7, DIM}, NULL},
                   {"layers.1.rows", KV_ST_I32, 1, {7}, subset},
                   {"layers.1.colsum", KV_ST_I64, 2, {HEADS, PROMPT}, NULL}};
  tracefile_write(NULL, 4, some, 0);
  kv_trace *t = tracefile_open();
  assert_int_equal(t->layer[1].data.n_rows, 7);
  assert_int_equal(t->layer[1].data.rows[2], 5);
  assert_int_equal(t->layer[0].data.n_rows, TOKENS);
  assert_int_equal(t->first_decode, 5);
  assert_non_null(t->layer[1].data.colsum);
  assert_null(t->layer[0].data.colsum);
  kv_trace_close(t);
  some[2].data = gap;
  tracefile_write(NULL, 3, some, 0);
  tracefile_refused("layers.1.rows", "row 7 is missing (prompt_len is 6)");
  const meta all = {"prompt_len", "10"}; /* no decode step: any rows do */
  tracefile_write(&all, 3, some, 0);
  t = tracefile_open();
  assert_int_equal(t->first_decode, 8);
  kv_trace_close(t);
  some[0].shape[1] = some[1].shape[1] = some[2].shape[0] = 0;
  tracefile_write(&all, 3, some, 0);
  tracefile_refused("layers.1.q", "holds no row");
}

TEST(layer_subsets_are_read) {
  const char *lists[] = {"1", "[1]", "[ 1 ]"};
  for (int i = 0; i < 3; i++) {
    const meta one = {"layers", lists[i]};
    tracefile_write(&one, 0, NULL, 0);
    kv_trace *t = tracefile_open();
    assert_int_equal(t->n_layers, 1);
    assert_int_equal(t->layer[0].data.layer, 1);
    assert_int_equal(t->shape.n_layers, 2);
    kv_trace_close(t);
  }
}

TEST(marks_are_read) {
  const meta a = {"answers", "[{\"start\":6,\"end\":8,\"source_start\":2,"
                             "\"source_end\":4,\"key\":\"x\"}]"};
  tracefile_write(&a, 0, NULL, 0);
  kv_trace *t = tracefile_open();
  assert_int_equal(t->n_answers, 1);
  assert_int_equal(t->answer[0].start, 6);
  assert_int_equal(t->answer[0].source_end, 4);
  kv_trace_close(t);
  const meta g = {"segments", "[{\"start\":0,\"end\":6,\"role\":\"context\"},"
                              "{\"start\":6,\"end\":10,\"role\":\"answer\"}]"};
  tracefile_write(&g, 0, NULL, 0);
  t = tracefile_open();
  assert_int_equal(t->n_segments, 2);
  assert_int_equal(t->segment[1].role, KV_ANSWER);
  kv_trace_close(t);
}

/* One bad bit pattern at [1, 3, 5] of a tensor of each type. */
TEST(not_finite_is_found) {
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
        f[k] = right_fields[3 + k];
        f[k].dtype = bad[i].type;
      }
      snprintf(name, sizeof name, "layers.1.%s", what[j]);
      memset(data, 0, sizeof data);
      memcpy(data + at * size, &bad[i].bits, size);
      f[j].data = data;
      const meta one = {"layers", "1"};
      tracefile_write(&one, 4, f, 0);
      kv_trace *t = tracefile_open();
      kv_rc rc = j == 3 ? kv_trace_scan_output(t, 0, &told)
                        : kv_trace_scan_layer(t, 0, &told);
      assert_int_equal(rc, KV_INPUT);
      snprintf(place, sizeof place, "tensor %s holds NaN or Inf at [1, 3, 5]",
               name);
      must_say(place);
      const uint32_t *fine = bad[i].type == F           ? &good[0]
                             : bad[i].type == KV_ST_F16 ? &good[1]
                                                        : &good[2];
      kv_trace_close(t);
      memcpy(data + at * size, fine, size);
      tracefile_write(&one, 4, f, 0);
      t = tracefile_open();
      assert_int_equal(kv_trace_scan_layer(t, 0, NULL), KV_OK);
      assert_int_equal(kv_trace_scan_output(t, 0, NULL), KV_OK);
      kv_trace_close(t);
    }
  }
}

TEST(a_shrunk_trace_is_damaged) {
  tracefile_write(NULL, 0, NULL, 0);
  kv_trace *t = tracefile_open();
  kv_digest d;
  works(kv_trace_damaged(t, &told));
  assert_int_equal(truncate(tracefile, 4096), 0);
  fails(kv_trace_scan_layer(t, 1, &told), KV_INPUT, "t.safetensors");
  assert_int_equal(kv_trace_damaged(t, &told), KV_INPUT);
  assert_int_equal(kv_trace_identity(t, &d, &told), KV_INPUT);
  kv_trace_close(t);
}

static const int32_t reversed[TOKENS] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};

TEST(identity_is_content) {
  tracefile_write(NULL, 0, NULL, 0);
  kv_digest first = tracefile_identity();
  for (uint64_t shard = 64; shard < 5000; shard *= 3) {
    tracefile_write(NULL, 0, NULL, shard);
    assert_true(same_digest(tracefile_identity(), first));
  }
  const meta later = {"created", "tomorrow"}, other = {"recorder", NULL};
  tracefile_write(&later, 0, NULL, 0);
  assert_true(same_digest(tracefile_identity(), first));
  tracefile_write(&other, 0, NULL, 0);
  assert_true(same_digest(tracefile_identity(), first));
  const meta source = {"source", "made up twice"};
  tracefile_write(&source, 0, NULL, 0);
  assert_false(same_digest(tracefile_identity(), first));
  const field tokens = {"tokens", KV_ST_I32, 1, {TOKENS}, reversed};
  tracefile_write(NULL, 1, &tokens, 0);
  assert_false(same_digest(tracefile_identity(), first));
  const field renamed = {"layers.1.x", KV_ST_I32, 1, {TOKENS}, NULL};
  tracefile_write(NULL, 1, &renamed, 0);
  assert_false(same_digest(tracefile_identity(), first));
}

/* With an old file the cache answers, and only for that very file. */
TEST(identity_is_remembered) {
  char command[200];
  struct utimbuf old = {1000000000, 1000000000};
  tracefile_write(NULL, 0, NULL, 0);
  kv_digest first = tracefile_identity();
  assert_int_equal(utime(tracefile, &old), 0);
  assert_true(same_digest(tracefile_identity(), first));
  snprintf(command, sizeof command,
           "cd %s/cache/kvreplay/identity && test \"$(ls | wc -l)\" = 1 && "
           "printf '%%064d\\n' 0 >\"$(ls)\"",
           scratch_folder());
  assert_int_equal(system(command), 0);
  kv_digest zero = {{0}};
  assert_true(same_digest(tracefile_identity(), zero));
  old.modtime++; /* another time: another file */
  assert_int_equal(utime(tracefile, &old), 0);
  assert_true(same_digest(tracefile_identity(), first));
  snprintf(command, sizeof command,
           "cd %s/cache/kvreplay/identity && test \"$(ls | wc -l)\" = 2 && "
           "for f in *; do echo x >$f; done",
           scratch_folder());
  assert_int_equal(system(command), 0);
  assert_true(same_digest(tracefile_identity(), first));
}

static kv_digest request(const meta *m, int n, const field *f) {
  kv_digest out, again;
  tracefile_write(m, n, f, 0);
  kv_trace *t = tracefile_open();
  works(kv_trace_request(t, &out, &told));
  works(kv_trace_request(t, &again, &told));
  assert_true(same_digest(out, again));
  kv_trace_close(t);
  return out;
}

/* q, k and v of both layers in a type, each from x. */
static void qkv(kv_st_dtype type, const void *x, field f[6]) {
  for (int i = 0; i < 6; i++) {
    f[i] = right_fields[i];
    f[i].dtype = type;
    f[i].data = x;
  }
}

TEST(a_request_is_told_by_its_numbers) {
  enum { N = HEADS * TOKENS * DIM };
  static float wide[N], brain[N];
  static uint16_t half[N + 1], bf16[N];
  for (int i = 0; i < N; i++) {
    wide[i] = kv_div((float)(i - 100), 7.0f); /* none is one of F16 */
    half[i] = kv_to_f16(wide[i]);
    bf16[i] = kv_to_bf16(wide[i]);
    brain[i] = kv_from_bf16(bf16[i]);
  }
  const meta other = {"source", "another"};
  field f[7];
  qkv(KV_ST_F32, wide, f);
  kv_digest first = request(NULL, 6, f);
  qkv(KV_ST_F16, half, f);
  assert_true(same_digest(request(&other, 6, f), first));
  f[6] = (field){"tokens", KV_ST_I32, 1, {TOKENS}, reversed};
  assert_true(same_digest(request(NULL, 7, f), first));
  for (int i = 0; i < 6; i++) { /* other numbers in one of them */
    f[i].data = half + 1;
    assert_false(same_digest(request(NULL, 6, f), first));
    f[i].data = half;
  }
  qkv(KV_ST_BF16, bf16, f);
  kv_digest third = request(NULL, 6, f);
  qkv(KV_ST_F32, brain, f);
  assert_true(same_digest(request(NULL, 6, f), third));
}

TEST(a_request_is_told_by_model_and_tokens) {
  const meta model = {"model_digest", "abc"}, another = {"model_digest", "abd"};
  const meta longer = {"prompt_len", "7"};
  static const float x[HEADS * TOKENS * DIM] = {1};
  const field some[2] = {{"layers.1.q", F, 3, {HEADS, TOKENS, DIM}, x},
                         {"tokens", KV_ST_I32, 1, {TOKENS}, reversed}};
  field none = some[1];
  kv_digest numbers = request(NULL, 0, NULL), first = request(&model, 0, NULL);
  assert_false(same_digest(numbers, first));
  assert_true(same_digest(request(&model, 1, some), first));
  assert_false(same_digest(request(&model, 1, some + 1), first));
  assert_false(same_digest(request(&another, 0, NULL), first));
  tracefile_also = (const meta[]){model, {NULL, NULL}};
  assert_true(same_digest(request(&longer, 0, NULL), first));
  tracefile_also = NULL;
  none.rank = -1; /* without ids the numbers count */
  assert_true(same_digest(request(&model, 1, &none), numbers));
  char hex[66];
  kv_digest_hex(&first, hex);
  const meta said = {"request_digest", hex};
  assert_true(same_digest(request(&said, 1, &none), first));
  assert_true(same_digest(request(&said, 0, NULL), numbers)); /* with ids */
  static const char *const bad[] = {"000", "0A", "0"}; /* 65 digits, A, 63 */
  for (int i = 0; i < 3; i++) {
    kv_trace *t;
    strcpy(hex + 62, bad[i]);
    tracefile_write(&said, 1, &none, 0);
    fails(kv_trace_open(tracefile, &t, &told), KV_INPUT, "request_digest is ");
  }
}

int main(void) { return tests_run("trace", scratch_make, scratch_remove); }
