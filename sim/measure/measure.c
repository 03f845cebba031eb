/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of measures, one line each, in the order of kv_measure, and what
 * is made of two of them.
 */
#include "sim/measure/measure.h"

#include <math.h>
#include <stdbool.h>

const kv_measure_info kv_measure_table[KV_MEASURES] = {
    [KV_OUTPUT_ERROR] = {"output_error", "relative output error", "", -1},
    [KV_OUTPUT_ABS] = {"output_abs", "largest output error", "", -1},
    [KV_MASS] = {"mass", "exact mass of the view", "", 1},
    [KV_MASS_STORED] = {"mass_stored", "exact mass of what is stored", "", 1},
    [KV_MASS_MERGED] = {"mass_merged", "exact mass of merged tokens", "", 0},
    [KV_TV] = {"tv", "total variation", "", -1},
    [KV_KL] = {"kl", "KL of compressed from exact", "nats", -1},
    [KV_LSE_ERROR] = {"lse_error", "log-sum-exp drift", "nats", 0},
    [KV_RECALL_1] = {"recall_1", "top-1 recall", "", 1},
    [KV_RECALL_16] = {"recall_16", "top-16 recall", "", 1},
    [KV_RECALL_B] = {"recall_budget", "top-budget recall", "", 1},
    [KV_NEEDLE_STORED] = {"needle_stored", "needle stored", "", 1},
    [KV_NEEDLE_MERGED] = {"needle_merged", "needle merged", "", 0},
    [KV_NEEDLE_VIEW] = {"needle_view", "needle in the view", "", 1},
    [KV_NEEDLE_MASS] = {"needle_mass", "mass on the needle", "", 1},
    [KV_NEEDLE_ALL] = {"needle_all", "whole answers in the view", "", 1},
    [KV_NEEDLE_DENSE] = {"needle_dense", "exact mass on the needle", "", 0},
    [KV_PROMPT_ERROR] = {"prompt_error", "output error of the prompt's rows",
                         "", -1},
    [KV_PROMPT_MASS] = {"prompt_mass", "exact mass of their views", "", 1},
    [KV_PROMPT_ATTENDED] = {"prompt_attended", "share that they attended", "",
                            0},
};

double kv_needle_share(const kv_stat *s) {
  const kv_stat *got = &s[KV_NEEDLE_MASS], *dense = &s[KV_NEEDLE_DENSE];
  bool there = got->count && dense->count && dense->mean > 0;
  return there ? got->mean / dense->mean : (double)NAN;
}
