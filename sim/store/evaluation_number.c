/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of an evaluation, like those of a run in
 * sim/replay/measure/scalar.c: everything that stores, checks or shows them
 * uses this table. Add a number as a row. kvreport, which does not have this
 * table, finds unit and combine in the database (table quantity).
 */
#include "sim/store/evaluation_part.h"

#include <string.h>

static const char mean[] = "mean", of_dense[] = "of dense";

static const struct {
  const char *name, *unit, *combine;
} numbers[] = {
    {"exact", "share", mean}, /* 1: the greedy answer contains the reference */
    {"loglik_token", "nats a token", mean}, /* of the reference answer,
                                               teacher-forced */
    {"loglik", "nats", mean},  /* the same, summed over all its tokens: rows of
                                  earlier versions */
    {"kl", "nats", mean},      /* next token, KL(dense || method), by position
                                  of dense's own continuation */
    {"agree", "tokens", mean}, /* tokens until greedy decoding leaves dense's */
    {"ppl.", "", mean},        /* perplexity less dense's, by position */
    {"bytes.mean", "bytes",
     of_dense}, /* as for a run: sim/replay/measure/result.h */
    {"bytes.end", "bytes", of_dense},
    {"bytes.peak", "bytes", of_dense},
    {"bytes.read", "bytes a step", of_dense},
    {"open.", "", mean}}; /* from a replay of the same prompt, with its name
                             there: open.lse_error.mean, open.needle_share */
enum { NUMBERS = sizeof numbers / sizeof *numbers };

int kv_evaluation_number(int i, const char **name, const char **unit,
                         const char **combine) {
  if (i < 0 || i >= NUMBERS) return 0;
  if (name) *name = numbers[i].name;
  if (unit) *unit = numbers[i].unit;
  if (combine) *combine = numbers[i].combine;
  return 1;
}

/* The unit of a replay's measure: "kl", "kl.p95", "bytes.mean". */
static const char *unit_of_replay(const char *name) {
  for (int i = 0; i < KV_MEASURES; i++) {
    size_t n = strlen(kv_measure_table[i].name);
    if (!strncmp(name, kv_measure_table[i].name, n) &&
        (!name[n] || name[n] == '.'))
      return kv_measure_table[i].unit;
  }
  for (int i = 0; i < kv_n_scalars; i++)
    if (!strcmp(name, kv_scalars[i].name)) return kv_scalars[i].unit;
  return "";
}

bool kv_evaluated_is(const char *name, const char **unit,
                     const char **combine) {
  for (int i = 0; i < NUMBERS; i++) {
    const char *at = numbers[i].name;
    size_t n = strlen(at);
    bool begins = at[n - 1] == '.';
    if (begins ? strncmp(name, at, n) || !name[n] : strcmp(name, at)) continue;
    *unit = strcmp(at, "open.") ? numbers[i].unit : unit_of_replay(name + n);
    *combine = numbers[i].combine;
    return true;
  }
  return false;
}
