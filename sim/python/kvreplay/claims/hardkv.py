# SPDX-License-Identifier: Apache-2.0
"""What Hard-KV's paper claims (arXiv 2606.28831; HARDInfer is its engine).

There is no claim 20: 12.5 % of tokens, 50 % in the fullest lane, are settings.
"""

from __future__ import annotations

from .claim import Claim, Look

P = "Hard-KV"
SELECTION = ("kvreplay selection {traces}",)
QUARTER = "kvreplay run {trace} -p {start} -b {quarter}"
# Lanes of the three tiers, as they would be rewritten; lanes that are rewritten
# and never masked; and the top-p of one query at a time, which the paper starts
# from and the method never rewrites.
STORES = "--layout ls:max,la:max,hs:max,ha:max"
OWN = f"{QUARTER} -m hardkv {STORES}"
REWRITTEN = f"{QUARTER} -m hardkv:lower={{quarter}} {STORES}"
BASE = ("kvreplay run {trace} -m hardkv:upper={tokens}:lower=128:window=1:"
        "sinks=0:local=0:every=1:adapter=vanilla:variant=code --layout ha:max"
        )  # fmt: skip
PRUNED = (f"{QUARTER} -m h2o,zsmerge,rkv:every=16,hardkv:every=16:window=16,"
          "hardkv:every=16:window=16:condensed=merge")  # fmt: skip
UTILISED = """WITH u AS (SELECT of,
    json_extract(c.params, '$.window') = 1 AS base,
    l.kept_steps * 1.0 / (l.lanes * l.fullest_steps) AS su
    FROM cell c JOIN r.run n USING (key) JOIN r.layout l USING (run_id)
    WHERE c.method = 'hardkv' AND l.layout = 'ha:max' AND l.fullest_steps > 0
      AND json_extract(c.params, '$.condensed') = 'evict'
      AND (json_extract(c.params, '$.window') = 1 OR
        c.prompt_len = start AND json_extract(c.params, '$.every') = 128 AND
        json_extract(c.params, '$.lower') < quarter))
  SELECT of, avg(su) FILTER (WHERE base) AS base,
    avg(su) FILTER (WHERE NOT base) AS own,
    min(su) FILTER (WHERE NOT base) AS own_least,
    max(su) FILTER (WHERE NOT base) AS own_most FROM u
  GROUP BY of HAVING base IS NOT NULL AND own IS NOT NULL"""
# A setting: a trace and a layout, of those that were rewritten at all. Of a
# rewrite that has not paid when the trace ends there is no number.
PAID = """SELECT of, min(l.break_even) AS least, max(l.break_even) AS most,
    count(*) AS settings, count(*) - count(l.break_even) AS never,
    count(*) FILTER (WHERE l.break_even < 5) AS under
    FROM cell c JOIN r.run n USING (key) JOIN r.layout l USING (run_id)
  WHERE c.method = 'hardkv' AND l.layout LIKE '__:max' AND c.prompt_len = start
    AND json_extract(c.params, '$.condensed') = 'evict'
    AND json_extract(c.params, '$.every') = 128 AND l.rewrites > 0
    AND json_extract(c.params, '$.lower') {lower} quarter
  GROUP BY of"""
MASKS = """SELECT max(measured) FILTER (WHERE what LIKE '%against masks')
    AS masks, max(measured) FILTER (WHERE what LIKE '%against all places')
    AS places, min(ratio) FILTER (WHERE what LIKE '%rewritten') AS step
  FROM device WHERE theme = 'regular' GROUP BY theme"""
# Tokens that hold 90 %: of attention itself, of SnapKV's pooled logits before
# and after calibration. Ratios by trace.
CHOSEN = """WITH n AS (SELECT of, trace,
    avg(value) FILTER (WHERE figure = 'selection.before' AND series = 'vanilla')
      AS own,
    avg(value) FILTER (WHERE figure = 'selection.before' AND series = 'snapkv')
      AS pooled,
    avg(value) FILTER (WHERE figure = 'selection.after' AND series = 'snapkv')
      AS after,
    avg(value) FILTER (WHERE figure = 'selection.after' AND series = 'rkv')
      AS rkv
    FROM found WHERE figure LIKE 'selection.%' AND y = 90 GROUP BY of, trace)
  SELECT of, min(pooled / own) AS least, max(pooled / own) AS most,
    max(max(abs(after / own - 1), abs(rkv / own - 1))) AS off,
    avg(own) AS own, avg(pooled) AS pooled
  FROM n WHERE own > 0 GROUP BY of"""
# The log-sum-exp error of a step, nats, mean of layers and heads: of the first
# and the last quarter of the decode steps of the traces with enough of them.
DRIFT = """WITH b AS (SELECT of, c.method, c.key, p.bin, m.mean
    FROM cell c JOIN r.run n USING (key) JOIN r.part p USING (run_id)
    JOIN r.metric m USING (run_id, part)
    WHERE c.prompt_len = start AND CAST(c.asked AS TEXT) = CAST(quarter AS TEXT)
      AND p.layer < 0 AND p.head < 0 AND p.bin >= 0 AND m.measure = 'lse_error'
      AND c.method IN ('h2o', 'rkv', 'zsmerge')),
  q AS (SELECT of, method, avg(mean) FILTER (WHERE bin < 4) AS early,
    avg(mean) FILTER (WHERE bin >= 12) AS late FROM b GROUP BY of, method)
  SELECT of, max(late) AS least, min(late) AS most,
    max(late - early) AS slowest, min(late - early) AS fastest
  FROM q GROUP BY of"""
MERGED = """WITH d AS (SELECT of, json_extract(params, '$.condensed') AS how,
    avg(lse_drift / (n_tokens - prompt_len)) AS step FROM cell
    WHERE method = 'hardkv' AND prompt_len = start AND output_error IS NOT NULL
      AND json_extract(params, '$.every') = 16 GROUP BY of, how)
  SELECT of, max(step) FILTER (WHERE how = 'merge') AS merged,
    max(step) FILTER (WHERE how = 'evict') AS dropped
  FROM d GROUP BY of HAVING merged IS NOT NULL AND dropped IS NOT NULL"""
QWEN = ("kvreplay capacity -M qwen3-8b -g a100-80g -c 256 -o 25600 -m dense",)
TABLE_3 = """SELECT 477.0 / 346 AS graph, 806.0 / 346 AS pruned,
  732.0 / 279 AS regular, 346 / tokens_per_s AS base, 806 / tokens_per_s AS top
  FROM capacity WHERE model = 'qwen3-8b'"""

CLAIMS = (
    Claim("16", P, "Table 3, Figure 9", "Calibrated lanes are utilised to 83 % "
          "and more, those of plain top-p to 33 %.", (
        Look("replay", UTILISED, "{own:.0%} ({own_least:.0%} to "
             "{own_most:.0%} by trace) for {base:.0%}",
             "own >= 0.83 AND base <= 0.33", "own > base", (OWN, BASE)),)),
    Claim("16b", P, "Table 3", "That gives 2.6 times the tokens/s.", (
        Look("arithmetic", TABLE_3, "its table has {graph:.2f} times by a CUDA "
             "graph, {pruned:.2f} with pruning, {regular:.2f} over plain "
             "top-p; its base runs at {base:.0%}, the pruned one at {top:.0%} "
             "of the roofline of the full cache", "1", runs=QWEN,
             beside=True),),
        unasked="nothing here runs an engine"),
    Claim("17", P, "Figures 5, 16", "Rewriting lanes has paid after fewer than "
          "5 steps in most settings.", (
        Look("replay", PAID.format(lower="="), "after {least} to {most} steps, "
             "in bytes for time: below 5 in {under} of {settings} traces and "
             "layouts that rewrite; {never} never pay",
             "2 * under > settings", "least < 5", (REWRITTEN,)),
        Look("replay", PAID.format(lower="<"), "where a masked tier is "
             "rewritten, too: after {least} to {most} steps, below 5 in "
             "{under} of {settings}; {never} never pay", "2 * under > settings",
             "least < 5", (OWN,), beside=True),
        Look("device", MASKS, "after at most {masks:.2f} steps against masks, "
             "{places:.2f} against all places; a step takes {step:.2f} of all "
             "places", "masks < 5 AND places < 5", "places < 5"))),
    Claim("18", P, "Figure 2", "What holds 90 % of SnapKV's pooled logits "
          "collapses to some 10 tokens for some 1,000.", (
        Look("replay", CHOSEN, "{pooled:.0f} tokens for {own:.0f}; by trace "
             "{least:.2f} to {most:.2f} times as many", "most < 0.1",
             "most < 1", SELECTION),)),
    Claim("18b", P, "Figure 2", "Calibrated, SnapKV's and R-KV's scores select "
          "as many as attention.", (
        Look("replay", CHOSEN, "at most {off:.0%} off", "off < 0.1",
             "off < abs(most - 1)", SELECTION),)),
    Claim("19", P, "Figure 20", "The log-sum-exp of a pruned cache is too low, "
          "and falls as the sequence grows.", (
        Look("replay", DRIFT, "in the last quarter of steps {most:.2f} to "
             "{least:.2f} nats, {fastest:+.2f} to {slowest:+.2f} from the "
             "first",
             "least < 0 AND slowest < 0", "least < 0 AND fastest < 0",
             (PRUNED,)),)),
    Claim("19b", P, "Figure 21", "Merging suppresses that drift.", (
        Look("replay", MERGED, "{merged:.3f} nats a step, {dropped:.3f} where "
             "the same is dropped", "abs(merged) < 0.5 * abs(dropped)",
             "abs(merged) < 0.95 * abs(dropped)", (PRUNED,)),)),
)
