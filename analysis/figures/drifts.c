/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift of the log-sum-exp, after figures 20 and 21 of Hard-KV's paper. Nothing
 * where no such rows are.
 */
#include "analysis/figures/figures.h"

const kv_figure kv_figures_drifts[] = {
    {"drifts", "Drift of the log-sum-exp", "SELECT * FROM drifts",
     "What the log-sum-exp of the stored tokens lacks of that of all, summed "
     "over the steps since the prompt, mean over layers and query heads: the "
     "further down, the more of the softmax's denominator is gone. Who only "
     "drops never rises; how much of it merging holds is the distance to a "
     "line that drops. Tokens behind a mask are stored. At the budget of the "
     "maps above; at most 121 steps of a line.",
     .panels = KV_PANELS("step", "drift", KV_LINEAR("tokens seen"),
                         KV_LINEAR("sum of LSE(stored) - LSE(all), nats"),
                         "Drift", .apart = true, .bare = true)},
    {"merging", "What merging does to the drift", "SELECT * FROM merging",
     "The drift with condensed=merge less that without, of runs that differ in "
     "nothing else: above 0 merging holds what dropping loses, below 0 it "
     "loses "
     "more. A merged pair's logit is a mean, so for the queries that gave its "
     "weights the sum falls at least as much as by dropping the smaller one.",
     .panels = KV_PANELS("step", "added", KV_LINEAR("tokens seen"),
                         KV_LINEAR("drift with merging - without, nats"),
                         "Merging and drift", .apart = true, .bare = true)},
    {.id = NULL}};
