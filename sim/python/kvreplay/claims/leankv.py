# SPDX-License-Identifier: Apache-2.0
"""What LeanKV's paper claims (arXiv 2412.03131)."""

from __future__ import annotations

from .claim import Claim, Look

P = "LeanKV"
ATTENTION = ("kvreplay attention {traces}",)
SPAN = """WITH c AS (SELECT of, axis, c, sum(n) AS n FROM
    (SELECT of, 'score' AS axis, x AS c, value AS n FROM found
      WHERE figure = 'attention.class' UNION ALL
    SELECT of, 'norm', y, value FROM found WHERE figure = 'attention.class')
    GROUP BY of, axis, c),
  u AS (SELECT *, sum(n) OVER (PARTITION BY of, axis ORDER BY c) AS upto,
    sum(n) OVER (PARTITION BY of, axis) AS whole FROM c),
  s AS (SELECT of, axis, (max(c) - min(c) + 1) / 3.0 AS every,
    (max(c) FILTER (WHERE upto - n < 0.995 * whole) -
      min(c) FILTER (WHERE upto > 0.005 * whole) + 1) / 3.0 AS middle
    FROM u GROUP BY of, axis)
  SELECT of, max(every) FILTER (WHERE axis = 'score') AS scores,
    max(middle) FILTER (WHERE axis = 'score') AS most_scores,
    max(every) FILTER (WHERE axis = 'norm') AS norms,
    max(middle) FILTER (WHERE axis = 'norm') AS most_norms
  FROM s GROUP BY of"""
# Of what a row sees, the share that 95 % of its mass needs: by layer, KV head
# and request.
CRITICAL = """WITH h AS (SELECT of, trace, layer, head,
    max(value) FILTER (WHERE figure = 'attention.critical') * 1.0 AS c,
    max(value) FILTER (WHERE figure = 'attention.seen') AS seen
    FROM found WHERE figure LIKE 'attention.%' GROUP BY of, trace, layer, head),
  l AS (SELECT of, layer, sum(c) / sum(seen) AS x FROM h WHERE seen > 0
    GROUP BY of, layer),
  g AS (SELECT of, layer, head, sum(c) / sum(seen) AS x FROM h WHERE seen > 0
    GROUP BY of, layer, head),
  t AS (SELECT of, trace, sum(c) / sum(seen) AS x FROM h WHERE seen > 0
    GROUP BY of, trace)
  SELECT of, (SELECT min(x) FROM l WHERE l.of = t.of) AS layer_least,
    (SELECT max(x) FROM l WHERE l.of = t.of) AS layer_most,
    (SELECT min(x) FROM g WHERE g.of = t.of) AS head_least,
    (SELECT max(x) FROM g WHERE g.of = t.of) AS head_most,
    min(x) AS request_least, max(x) AS request_most FROM t GROUP BY of"""
MIRROR = """WITH f AS (SELECT of, m, avg(output_error) AS e,
    avg(needle_share) AS needle FROM (SELECT of, CASE
        WHEN json_extract(params, '$.k') || json_extract(params, '$.v') =
          'int8int4' THEN 'k8v4'
        WHEN json_extract(params, '$.k') || json_extract(params, '$.v') =
          'int4int8' THEN 'k4v8' END AS m, output_error, needle_share
      FROM cell WHERE output_error IS NOT NULL AND method = 'quant')
    WHERE m IS NOT NULL GROUP BY of, m)
  SELECT of, max(e) FILTER (WHERE m = 'k8v4') AS more,
    max(e) FILTER (WHERE m = 'k4v8') AS less,
    max(needle) FILTER (WHERE m = 'k8v4') AS needle_more,
    max(needle) FILTER (WHERE m = 'k4v8') AS needle_less
  FROM f GROUP BY of HAVING more IS NOT NULL AND less IS NOT NULL"""
# A row a task; of prose nothing is right or wrong.
ANSWERS = """WITH a AS (SELECT model || ', ' || task AS of, how,
    max(coalesce(questions, items)) AS n,
    max(x) FILTER (WHERE method = 'dense') AS dense,
    max(x) FILTER (WHERE method = 'k8v4') AS k8v4,
    max(x) FILTER (WHERE method = 'k4v8') AS k4v8,
    max(exact) FILTER (WHERE method = 'dense') AS right,
    max(exact) FILTER (WHERE method = 'k8v4') AS right_k8v4,
    max(exact) FILTER (WHERE method = 'k4v8') AS right_k4v8
    FROM likely WHERE measurable = 1 GROUP BY model, task, how)
  SELECT of, how, k8v4 - dense AS more, k4v8 - dense AS less,
    CASE WHEN right IS NULL THEN '' ELSE printf('; right of %d: dense %.0f, '
      || 'K8V4 %.0f, K4V8 %.0f', n, right * n, right_k8v4 * n, right_k4v8 * n)
    END AS right
  FROM a WHERE more IS NOT NULL AND less IS NOT NULL"""
COMPACT = """SELECT min(ratio) AS least, max(ratio) AS most FROM device
  WHERE theme = 'compact' AND what LIKE 'a step%' GROUP BY theme"""
KERNEL = """SELECT
  max(measured) FILTER (WHERE what LIKE 'K8V4, 32768%group 1') AS g1,
  max(ceiling) FILTER (WHERE what LIKE 'K8V4, 32768%group 1') AS bytes,
  max(measured) FILTER (WHERE what LIKE 'K8V4, 32768%group 4') AS g4,
  max(measured) FILTER (WHERE what LIKE 'K4V2, 32768%group 1') AS k4
  FROM device WHERE theme = 'paged' GROUP BY theme"""
CHARGED = """SELECT of, avg(d.bytes_end / c.codes_end) AS codes,
    avg(d.bytes_end / c.bytes_end) AS everything,
    avg(d.bytes_end / l.bytes_end) AS pages
  FROM cell c JOIN r.run n USING (key) JOIN r.layout l USING (run_id)
    JOIN (SELECT trace, prompt_len, bytes_end * 1.0 AS bytes_end FROM exported
      WHERE method = 'dense') d USING (trace, prompt_len)
  WHERE c.method = 'leankv' AND l.layout = 'unified' GROUP BY of"""
TABLES = """SELECT bytes / 1073741824.0 AS gib,
    128 * page_tables / 1048576.0 AS mib FROM capacity
  WHERE model = 'llama-2-7b' AND context = 4095 AND page_tables > 0"""
RAW = "leankv:high=k16v16:low=k16v16"
PRUNING = ("kvreplay run {traces} -m dense",
           "kvreplay run {traces} -m " + ",".join(
               [f"{RAW}:alpha_l={a}" for a in (.1, .2, .4)] +
               [f"{RAW}:sparsity=static:high_share={a}"
                for a in (.7, .5, .3)]))  # fmt: skip
# Of each trace the thresholds that drop nearest to half; the error of as many
# tokens dropped by fixed shares is read off the line through two of their runs.
PRUNED = """WITH p AS (SELECT of, trace, json_extract(params, '$.sparsity') AS
    how, 1 - kept * 1.0 / n_tokens AS dropped, output_error AS error, mass
    FROM cell WHERE method = 'leankv' AND output_error IS NOT NULL
      AND json_extract(params, '$.high') = 'k16v16' AND prompt_len =
        (SELECT prompt_len FROM source WHERE source.trace = cell.trace)),
  two AS (SELECT d.*, a.error + (b.error - a.error) * (d.dropped - a.dropped) /
      (b.dropped - a.dropped) AS fixed,
    row_number() OVER (PARTITION BY d.trace ORDER BY abs(d.dropped - .5),
      b.dropped - a.dropped) AS place
    FROM p d JOIN p a USING (trace) JOIN p b USING (trace)
    WHERE d.how = 'head' AND a.how = 'static' AND b.how = 'static'
      AND a.dropped <= d.dropped AND b.dropped > d.dropped)
  SELECT of, count(*) AS traces, avg(dropped) AS dropped, avg(error) AS error,
    avg(mass) AS mass, avg(fixed) AS fixed, sum(error < fixed) AS better
  FROM two WHERE place = 1 GROUP BY of"""

CLAIMS = (
    Claim("21", P, "Figure 1", "Scores of tokens span 7 orders of magnitude, "
          "norms of values at most 2.", (
        Look("replay", SPAN, "{scores:.1f} and {norms:.1f} powers of ten; the "
             "middle 99 % of tokens {most_scores:.1f} and {most_norms:.1f}",
             "scores >= 6.5 AND norms < 2.5", "scores > norms + 2",
             ATTENTION),)),
    Claim("22", P, "Figures 3, 4", "How many tokens hold 95 % of the mass "
          "varies by layer, head and request.", (
        Look("replay", CRITICAL, "layers {layer_least:.0%} to {layer_most:.0%} "
             "of what a row sees, heads {head_least:.1%} to {head_most:.0%}, "
             "requests {request_least:.0%} to {request_most:.0%}",
             "layer_most > 2 * layer_least AND head_most > 2 * head_least",
             "layer_most > layer_least AND head_most > head_least",
             ATTENTION),)),
    Claim("23", P, "Figure 7", "K8V4 answers like 16 bits; K4V8, as large, is "
          "much worse.", (
        Look("replay", MIRROR, "output error {more:.3f} of K8V4, {less:.3f} of "
             "K4V8; needles {needle_more:.2f} and {needle_less:.2f}",
             "less > 2 * more", "less > more",
             ("kvreplay run {traces} -m k8v4,k4v8",)),
        Look("answers", ANSWERS, "log-likelihood of the right answer, {how} "
             "its tokens, less dense's, nats: K8V4 {more:+.2f}, K4V8 "
             "{less:+.2f}{right}", "0", beside=True))),
    Claim("24", P, "Figure 12", "Compaction takes less than 0.9 % of a step on "
          "the device.", (
        Look("device", COMPACT, "{least:.2%} to {most:.2%} of a step",
             "most < 0.009"),)),
    Claim("24b", P, "Figure 11", "On a CPU it takes up to three orders more.",
          unasked="no manager of pages on a CPU is timed here"),
    Claim("25", P, "Figure 13", "Attention over K8V8 is 1.7 times as fast as "
          "over fp16, nearly as bytes are fewer.", (
        Look("device", KERNEL, "kvreplay's kernel, which adds in one order, "
             "over K8V4, not K8V8: {g1:.2f} times at {bytes:.2f} times fewer "
             "bytes, {g4:.2f} in groups of 4 (K4V2 {k4:.2f})",
             "min(g1, g4) >= 0.85 * bytes",
             "min(g1, g4) > 1 AND min(g1, g4) > 0.5 * bytes"),), shown=True),
    Claim("26", P, "Section 7", "KV takes 2.7 to 5.7 times fewer bytes.", (
        Look("replay", CHARGED, "{codes:.1f} times by codes, {everything:.1f} "
             "by all that is stored, {pages:.1f} by its pages", "pages >= 2.7",
             "pages > 1 AND codes >= 2.7",
             ("kvreplay run {traces} -m dense",
              "kvreplay run {traces} -m leankv --layout unified")),)),
    Claim("26b", P, "Section 7", "Throughput is 1.9 to 5.4 times as high.",
          unasked="nothing here runs an engine"),
    Claim("27", P, "Section 6", "Tables of pages of 128 requests take 64 MB, "
          "where one request of 4,096 tokens has 2 GB (Llama-2-7B).", (
        Look("arithmetic", TABLES, "{mib:.1f} MiB and {gib:.2f} GiB",
             "mib = 64 AND gib = 2", "mib < 128 AND gib = 2",
             ("kvreplay capacity -M llama-2-7b -g a100-80g -c 4095 -o 1 "
              "-m dense",)),)),
    Claim("28", P, "Figure 8", "Half of the tokens can be dropped, and better "
          "by thresholds than by fixed shares.", (
        Look("replay", PRUNED, "{dropped:.0%} dropped: mass {mass:.3f}, output "
             "error {error:.3f}, {fixed:.3f} by fixed shares; better on "
             "{better} of {traces} traces", "dropped > 0.4 AND mass > 0.95 AND "
             "error < 0.95 * fixed", "mass > 0.95 AND error < fixed",
             PRUNING),)),
)
