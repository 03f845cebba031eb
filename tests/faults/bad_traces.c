/* SPDX-License-Identifier: Apache-2.0
 *
 * bad_traces FOLDER: writes one trace for each rule of the format that it
 * breaks, one that is right but lacks query rows, two that are right but
 * cannot be re-indexed, and one with foreign text in it, as
 * FOLDER/NAME.safetensors; a line "NAME REASON" each to standard output, where
 * REASON is what the refusal must say.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/tracefile.h"

#define F KV_ST_F32

static const float nan_keys[KV * TOKENS * DIM] = {[37] = NAN};
static const float inf_keys[KV * TOKENS * DIM] = {[155] = -INFINITY};
static const float nan_queries[HEADS * TOKENS * DIM] = {[319] = NAN};
static const float nan_outputs[HEADS * TOKENS * DIM] = {[7] = NAN};
static const float nan_frequency[DIM / 2] = {1, 0.5f, NAN, 0.1f};
static const float nan_sinks[HEADS] = {0, 1, NAN, 2};
static const int64_t minus_sum[HEADS * PROMPT] = {[2 * PROMPT + 4] = -1};
static const int64_t much_sum[HEADS * PROMPT] = {[PROMPT + 4] =
                                                     ((int64_t)2 << 40) + 1};
static const int32_t backwards[TOKENS] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 8};
static const int32_t negative[TOKENS] = {-1, 1, 2, 3, 4, 5, 6, 7, 8, 9};
static const int32_t gap[TOKENS - 1] = {0, 1, 2, 3, 4, 5, 6, 8, 9};

static const struct {
  const char *name, *reason;
  meta m;
  field f; /* name NULL: none */
} bad[] = {
    {"format", "is pt; only kvtrace", {"format", "pt"}, {0}},
    {"version", "is 3; only 1 and 2", {"version", "3"}, {0}},
    {"layers", "must be `all`", {"layers", "1,0"}, {0}},
    {"heads", "do not divide", {"n_heads", "5"}, {0}},
    {"head_dim", "has shape", {"head_dim", "16"}, {0}},
    {"scale", "decimal", {"attn.scale", "nan"}, {0}},
    {"comma", "decimal", {"attn.scale", "0,1"}, {0}},
    {"softcap", "defines no arithmetic", {"attn.softcap", "50"}, {0}},
    {"sliding", "defines no arithmetic", {"attn.sliding_window", "9"}, {0}},
    {"sinks", "defines no arithmetic", {"attn.sinks", "yes"}, {0}},
    {"layout", "must be half or", {"rope.layout", "halves"}, {0}},
    {"prompt0", "from 1 to 10", {"prompt_len", "0"}, {0}},
    {"prompt11", "from 1 to 10", {"prompt_len", "11"}, {0}},
    {"answers", "not valid JSON", {"answers", "x"}, {0}},
    {"segments", "role", {"segments", "[{\"start\":0,\"end\":9}]"}, {0}},
    {"no_k", "missing", {0}, {"layers.1.k", F, -1, {0}, NULL}},
    {"no_q", "missing", {0}, {"layers.0.q", F, -1, {0}, NULL}},
    {"shape", "has shape", {0}, {"layers.1.v", F, 3, {KV, TOKENS, 4}, NULL}},
    {"short", "has shape", {0}, {"layers.1.q", F, 3, {HEADS, 9, DIM}, NULL}},
    {"empty", "no tokens", {0}, {"layers.0.k", F, 3, {KV, 0, DIM}, NULL}},
    {"double",
     "must be F16",
     {0},
     {"layers.0.k", KV_ST_F64, 3, {KV, TOKENS, DIM}, NULL}},
    {"mixed",
     "must have the dtype",
     {0},
     {"layers.1.k", KV_ST_F16, 3, {KV, TOKENS, DIM}, NULL}},
    {"tokens", "must be I32", {0}, {"tokens", KV_ST_I64, 1, {TOKENS}, NULL}},
    {"position",
     "negative",
     {0},
     {"positions", KV_ST_I32, 1, {TOKENS}, negative}},
    {"frequency",
     "NaN",
     {0},
     {"rope.inv_freq", F, 1, {DIM / 2}, nan_frequency}},
    {"sinks_nan",
     "layers.1.sinks holds NaN or Inf",
     {"version", "2"},
     {"layers.1.sinks", F, 1, {HEADS}, nan_sinks}},
    {"sinks_few",
     "layers.1.sinks",
     {"version", "2"},
     {"layers.1.sinks", F, 1, {HEADS - 1}, nan_sinks}},
    {"windowed_nan",
     "rope.inv_freq.windowed holds NaN or Inf",
     {"version", "2"},
     {"rope.inv_freq.windowed", F, 1, {DIM / 2}, nan_frequency}},
    {"windowed_alone",
     "rope.inv_freq.windowed",
     {"version", "2"},
     {"rope.inv_freq.windowed", F, 1, {DIM}, NULL}},
    {"rows",
     "must ascend",
     {0},
     {"layers.0.rows", KV_ST_I32, 1, {TOKENS}, backwards}},
    {"colsum", "must be I64", {0}, {"layers.0.colsum", F, 1, {9}, NULL}},
    {"colsum_minus",
     "layers.0.colsum holds -1 at [2, 4]",
     {0},
     {"layers.0.colsum", KV_ST_I64, 2, {HEADS, PROMPT}, minus_sum}},
    {"colsum_much",
     "layers.0.colsum holds 2199023255553 at [1, 4]; the sum of 2 "
     "probabilities",
     {0},
     {"layers.0.colsum", KV_ST_I64, 2, {HEADS, PROMPT}, much_sum}},
    {"nan_k",
     "holds NaN or Inf at [0, 4, 5]",
     {0},
     {"layers.1.k", F, 3, {KV, TOKENS, DIM}, nan_keys}},
    {"inf_v",
     "holds NaN or Inf at [1, 9, 3]",
     {0},
     {"layers.0.v", F, 3, {KV, TOKENS, DIM}, inf_keys}},
    {"nan_q",
     "holds NaN or Inf at [3, 9, 7]",
     {0},
     {"layers.1.q", F, 3, {HEADS, TOKENS, DIM}, nan_queries}},
};

static void publish(const char *folder, const char *name, const char *reason) {
  char to[700];
  snprintf(to, sizeof to, "%s/%s.safetensors", folder, name);
  if (rename(tracefile, to)) fail_msg("%s cannot be written", to);
  printf("%s %s\n", name, reason);
}

/* A decode row that was not recorded, and an output that kvreplay does not
 * read but a check does. */
static void write_others(const char *folder) {
  const field rows[3] = {{"layers.0.rows", KV_ST_I32, 1, {9}, gap},
                         {"layers.0.q", F, 3, {HEADS, 9, DIM}, NULL},
                         {"layers.1.q", F, 3, {HEADS, TOKENS, DIM}, NULL}};
  const field output = {"layers.1.o", F, 3, {HEADS, TOKENS, DIM}, nan_outputs};
  tracefile_write(NULL, 3, rows, 0);
  publish(folder, "decode_row", "decode");
  tracefile_write(NULL, 1, &output, 0);
  publish(folder, "only_check", "holds NaN or Inf at [0, 0, 7]");
}

/* Right, with a tensor that the format does not know, and in its name and in
 * the metadata what a terminal would obey. */
static void write_foreign(const char *folder) {
  const field capital[3] = {{"layers.0.O\x1b[31m", F, 1, {1}, NULL},
                            {"layers.0.o", F, -1, {0}, NULL},
                            {"layers.1.o", F, -1, {0}, NULL}};
  const meta model = {"model", "a\x1b]0;b\x07\xc2\x9b\u202e"
                               "c\n\u00e9"};
  tracefile_write(&model, 3, capital, 0);
  publish(folder, "foreign", "ignored: layers.0.O\\x1b[31m");
}

/* Angles that re-indexing alone would reach; keys that a turn takes past the
 * range of binary32, under queries so small that their logits are within. */
static void write_turned(const char *folder) {
  static const int32_t nowhere[TOKENS];
  static const float fast[DIM / 2] = {1e7f, 1, 1, 1};
  static const float slow[DIM / 2] = {1, 1, 1, 1};
  static float small[HEADS * TOKENS * DIM], large[KV * TOKENS * DIM];
  for (int i = 0; i < HEADS * TOKENS * DIM; i++) small[i] = 1e-38f;
  for (int i = 0; i < KV * TOKENS * DIM; i++) large[i] = 3e38f;
  const field far[2] = {{"positions", KV_ST_I32, 1, {TOKENS}, nowhere},
                        {"rope.inv_freq", F, 1, {DIM / 2}, fast}};
  const field wide[5] = {{"layers.0.q", F, 3, {HEADS, TOKENS, DIM}, small},
                         {"layers.1.q", F, 3, {HEADS, TOKENS, DIM}, small},
                         {"layers.0.k", F, 3, {KV, TOKENS, DIM}, large},
                         {"layers.1.k", F, 3, {KV, TOKENS, DIM}, large},
                         {"rope.inv_freq", F, 1, {DIM / 2}, slow}};
  tracefile_write(NULL, 2, far, 0);
  publish(folder, "turned_far", "angles of 2^24 or more");
  tracefile_write(NULL, 5, wide, 0);
  publish(folder, "turned_wide", "is not finite");
}

/* Every number finite, and the logits of layer 1, or all outputs, not; what is
 * recorded of these is 0. */
static void write_no_number(const char *folder) {
  static float large[HEADS * TOKENS * DIM], values[KV * TOKENS * DIM];
  static const float zero[HEADS * TOKENS * DIM];
  for (int i = 0; i < HEADS * TOKENS * DIM; i++) large[i] = 1e25f;
  for (int i = 0; i < KV * TOKENS * DIM; i++) values[i] = 3e38f;
  const field o = {"layers.1.o", F, 3, {HEADS, TOKENS, DIM}, zero};
  const field logits[3] = {{"layers.1.q", F, 3, {HEADS, TOKENS, DIM}, large},
                           {"layers.1.k", F, 3, {KV, TOKENS, DIM}, large},
                           o};
  const field outputs[3] = {{"layers.0.v", F, 3, {KV, TOKENS, DIM}, values},
                            {"layers.1.v", F, 3, {KV, TOKENS, DIM}, values},
                            o};
  tracefile_write(NULL, 3, logits, 0);
  publish(folder, "no_logit", "NaN");
  tracefile_write(NULL, 3, outputs, 0);
  publish(folder, "no_output", "Infinity");
}

/* Right: keys of four heads whose last pair is the same in all. */
static void write_expanded(const char *folder) {
  static float key[HEADS * TOKENS * DIM];
  const meta heads = {"n_kv_heads", "4"};
  const meta also[] = {{"attn.latent", "12"}, {NULL, NULL}};
  const char *name[4] = {"layers.0.k", "layers.1.k", "layers.0.v",
                         "layers.1.v"};
  field f[4];
  for (int i = 0; i < HEADS * TOKENS * DIM; i++) {
    int pair = i % DIM / 2 == DIM / 2 - 1;
    key[i] = (float)(pair ? i % (TOKENS * DIM) : i) * 0.001f;
  }
  for (int i = 0; i < 4; i++)
    f[i] = (field){name[i], F, 3, {HEADS, TOKENS, DIM}, i < 2 ? key : NULL};
  tracefile_also = also;
  tracefile_write(&heads, 4, f, 0);
  tracefile_also = NULL;
  publish(
      folder, "expanded",
      "the last 2 of the 8 numbers of a key are the same in all 4 KV heads");
}

int main(int argc, char **argv) {
  void *state = NULL;
  if (argc != 2 || scratch_make(&state)) return 2;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const meta *m = bad[i].m.key ? &bad[i].m : NULL;
    tracefile_write(m, bad[i].f.name != NULL, &bad[i].f, 0);
    publish(argv[1], bad[i].name, bad[i].reason);
  }
  write_others(argv[1]);
  write_foreign(argv[1]);
  write_turned(argv[1]);
  write_no_number(argv[1]);
  write_expanded(argv[1]);
  tracefile_write(NULL, 0, NULL, 0);
  publish(argv[1], "right", "");
  return scratch_remove(&state);
}
