# SPDX-License-Identifier: Apache-2.0
"""What DeltaKV's paper claims (arXiv 2602.08005; Sparse-vLLM is its engine).

Bytes and tokens by its equations 5 and 6: F of L layers keep all (full), the
others a reference every s tokens and latents of a share z of a vector, and read
a share r of the tokens:

    KR = F / L + S / L (1 / s + z)    CR = F / L + S / L r,    S = L - F
"""

from __future__ import annotations

from .claim import Claim, Look

P = "DeltaKV"
RESIDUALS = ("kvreplay residuals {traces}",)
# Of each trace the mean over its layers, keys before their rotation, as in the
# paper's figure; then the traces of a model.
NEAREST = """WITH l AS (SELECT of, trace, layer,
    max(value) FILTER (WHERE figure = 'nearest.tokens') * 1.0 AS n,
    max(value) FILTER (WHERE figure = 'nearest.far') AS far,
    max(value) FILTER (WHERE figure = 'nearest.close') AS close,
    max(value) FILTER (WHERE figure = 'nearest.chance') AS chance
    FROM found WHERE series = 'k' GROUP BY of, trace, layer HAVING n > 0),
  t AS (SELECT of, trace, avg(far / n) AS far, avg(close / n) AS close,
    avg(chance) AS chance FROM l GROUP BY of, trace)
  SELECT of, min(far) AS least, max(far) AS most, avg(chance) AS chance,
    min(close) AS close_least, max(close) AS close_most
  FROM t GROUP BY of"""
RESIDUAL = """WITH t AS (SELECT of, trace,
    avg(value) FILTER (WHERE figure = 'residual.share' AND part = 'nearest')
      AS nearest,
    avg(value) FILTER (WHERE figure = 'residual.share' AND part = 'random')
      AS random,
    avg(value) FILTER (WHERE figure = 'spectrum.share' AND x = 1
      AND part = 'raw') AS raw_first,
    avg(value) FILTER (WHERE figure = 'spectrum.share' AND x = 1
      AND part = 'nearest') AS nearest_first
    FROM found WHERE series = 'kv' GROUP BY of, trace)
  SELECT of, max(nearest) AS nearest, min(random) AS random,
    min(raw_first) AS raw_first, max(nearest_first) AS nearest_first
  FROM t WHERE nearest IS NOT NULL GROUP BY of"""
# Its tables: layers, full ones, 1 / s, z, the share of full layers' and
# references' bytes that is stored, and what is printed, in percent, to how many
# digits.
KR = """WITH p(n, what, l, f, s, z, part, printed, digits) AS (VALUES
    (1, 'Llama-3.1-8B', 32, 5, .1, .25, 1, 45.2, 1),
    (2, '4 full layers', 32, 4, .1, .25, 1, 43.1, 1),
    (3, '4-bit latents', 32, 5, .1, .0625, 1, 29, 0),
    (4, 'Qwen2.5-7B', 28, 6, .1, .25, 1, 48.9, 1),
    (5, 'Qwen2.5-32B', 64, 9, .1, .25, 1, 44, 0)),
  k AS (SELECT *, 100 * (part * (f * 1.0 / l + (l - f) * s / l) +
    (l - f) * z / l) AS kr FROM p ORDER BY n)
  SELECT group_concat(printf('%.2f', kr), ', ') AS computed,
    group_concat(printf('%g', printed), ', ') AS printed,
    sum(round(kr, digits) <> printed) AS differ,
    max(abs(kr - printed)) AS off FROM k"""
# What of it is run: by the compressor beside a trace, whose run names its full
# layers. Sinks and the newest R to 2 R - 1 tokens, scales, ids and positions
# are counted, which are not in the equation.
FOUR = ("kvreplay run {trace} -m deltakv:kept=int4:latent=int4:recent=16",)
KEPT = """WITH c AS (SELECT of, kr, n_layers AS layers,
    1 + length(json_extract(params, '$.full')) -
      length(replace(json_extract(params, '$.full'), '/', '')) AS full
    FROM cell JOIN r.trace t ON t.name = cell.trace WHERE method = 'deltakv'
    AND json_extract(params, '$.kept') = 'int4' AND kr IS NOT NULL
    AND json_extract(params, '$.latent') = 'int4')
  SELECT of, full, layers, min(kr) AS least, max(kr) AS most,
    .25 * (full + .1 * (layers - full)) / layers AS whole
  FROM c GROUP BY of, full, layers"""
CR = """SELECT 100 * (5 + 27 * .3) / 32 AS cr3, 100 * (4 + 28 * .2) / 32 AS cr2,
  100 * (.3 * 32 - 5) / 27 AS r3, 100 * (.2 * 32 - 4) / 28 AS r2"""
CAPACITY = tuple(
    f"kvreplay capacity -M qwen2.5-7b -g rtx-pro-6000 -c {c} --users {n} "
    "-m dense" for c, n in ((131072, 8), (262144, 4), (524288, 2), (900000, 1))
)
TOKENS = """WITH p(context, theirs, deltakv) AS (VALUES (131072, 143.2, 187.0),
    (262144, 70.2, 120.6), (524288, 33.1, 67.7), (900000, 18.6, 38.9))
  SELECT min(theirs / tokens_per_s) AS least,
    max(theirs / tokens_per_s) AS most,
    min(deltakv / theirs) AS times_least, max(deltakv / theirs) AS times_most
  FROM p JOIN capacity c USING (context) WHERE c.model = 'qwen2.5-7b'
    AND c.method = 'dense' GROUP BY c.model
  HAVING count(*) = 4"""
DELTA = """SELECT max(measured) FILTER (WHERE what = 'one kernel') AS one,
  max(measured) FILTER (WHERE what = 'stages through memory') AS stages
  FROM device WHERE theme = 'delta' GROUP BY theme HAVING one IS NOT NULL"""
# 3,277 references of 2,048 elements for 32,768 tokens; GFLOP/s are measured.
SEARCH = """SELECT
  max(2e-3 * 2048 * 3277 / measured)
    FILTER (WHERE what LIKE 'search of the prompt%') AS p,
  max(2e-3 * 2048 * 3277 / measured)
    FILTER (WHERE what LIKE 'search of 128%') AS b,
  max(measured) FILTER (WHERE what LIKE 'attention over every%') AS all_rows
  FROM device WHERE theme = 'delta' GROUP BY theme HAVING b IS NOT NULL"""

CLAIMS = (
    Claim("1", P, "Figure 2b", "More than 60 % of nearest tokens lie more than "
          "16 tokens back.", (
        Look("replay", NEAREST, "{least:.0%} to {most:.0%} of nearest tokens "
             "do; of all earlier tokens {chance:.0%} do", "least > 0.6",
             runs=RESIDUALS),), shown=True),
    Claim("2", P, "Figure 2a", "The cosine with the nearest token is "
          "frequently above 0.9.", (
        Look("replay", NEAREST, "{close_least:.0%} to {close_most:.0%} of "
             "tokens", "close_least > 0.5", "close_least > 0.25",
             RESIDUALS),)),
    Claim("3", P, "Figure 2c, d", "Without its nearest token a token is much "
          "smaller, and its spectrum flatter.", (
        Look("replay", RESIDUAL, "at most {nearest:.0%} of the squares are "
             "left ({random:.0%} without a random token); the first direction "
             "holds {nearest_first:.0%} for {raw_first:.0%}",
             "nearest < 0.5 AND nearest < random AND nearest_first * 2 < "
             "raw_first", "nearest < random AND nearest_first < raw_first",
             RESIDUALS),)),
    Claim("4", P, "Tables 8, 11", "45.2, 43.1, 29, 48.9 and 44 % of bytes are "
          "kept.", (
        Look("arithmetic", KR, "its equation gives {computed} %",
                "differ = 0", "off < 2"),)),
    Claim("5", P, "Table 8", "30 and 20 % of tokens are read, with r = .3 and "
          ".2.", (
        Look("arithmetic", CR, "its equation gives {cr3:.1f} and {cr2:.1f} %; "
             "30 and 20 % need r = {r3:.2f} and {r2:.2f} %",
             "round(cr3, 1) = 30 AND round(cr2, 1) = 20"),)),
    Claim("6", P, "Table 4", "Decoding 128k tokens: 143.2 tokens/s of vLLM, "
          "187 with DeltaKV; twice as many from 512k on.", (
        Look("arithmetic", TOKENS, "vLLM's numbers are {least:.0%} to "
             "{most:.0%} of the roofline of full attention; DeltaKV is "
             "{times_least:.2f} to {times_most:.2f} times as fast as printed",
             "1", "1", CAPACITY, beside=True),),
        why="tokens/s of an engine on an RTX PRO 6000, and a compressor "
            "trained for its model: nothing here runs that engine"),
    Claim("7", P, "Appendix B.5", "Of a step of 91 ms, 37.3 rebuild tokens and "
          "24.7 keep books; one fused kernel would leave 55 to 60.", (
        Look("arithmetic", "SELECT 100 * (37.3 + 24.7) / 91 AS share, "
             "16 / .091 AS speed", "both are {share:.0f} % of it; 16 sequences "
             "a step are {speed:.0f} tokens/s", "1", beside=True),
        Look("device", DELTA, "kvreplay's kernel that does all at once takes "
             "{one:.0f} us, its stages one after another {stages:.0f} us",
             "one < stages", beside=True)),
        why="a breakdown of their engine on their device; what is measured "
            "here is another kernel, alone"),
    Claim("8", P, "Appendix B.3", "An exact search of 100,000 references, of "
          "1M tokens, is affordable.", (
        Look("arithmetic", "SELECT 2 * 2048 / 10.0 / (4 * 32 * 128) AS share, "
             "2e-9 * 2048 * 100000 AS gflop", "{gflop:.2f} GFLOP a token and "
             "layer of Llama-3.1-8B, {share:.1%} of the products of attention "
             "over the same tokens", "share < 0.1"),
        Look("device", SEARCH, "of 32,768 tokens a token's search takes "
             "{p:.1f} us in a prompt and {b:.0f} us in decoding; a layer's "
             "step of attention over all rows {all_rows:.0f} us",
             "b < 0.1 * all_rows", "p < 0.1 * all_rows"))),
    Claim("9", P, "Introduction", "The full cache of 8 requests of 128k tokens "
          "of Llama-3.1-8B is more than 130 GB.", (
        Look("arithmetic", "SELECT 8e-9 * bytes AS gb FROM capacity WHERE "
             "model = 'llama-3.1-8b' AND context = 131071", "{gb:.1f} GB",
             "gb > 130", runs=("kvreplay capacity -M llama-3.1-8b -g made-80g "
                               "--gpus 8 -c 131071 -o 1 -m dense",)),)),
    Claim("10", P, "Appendix B.4", "With 4 bits everywhere 7.2 % are kept.", (
        Look("arithmetic", "SELECT 100 * (.25 * (5 + 27 * .1) + 27 * .0625) / "
             "32 AS kr", "its equation gives {kr:.1f} %",
             "round(kr, 1) = 7.2"),
        Look("replay", KEPT, "{least:.1%} to {most:.1%} counted, latent "
             "vectors, scales and the newest tokens included, where {full} of "
             "{layers} layers are full: these and references alone are "
             "{whole:.1%} by the equation", "most < .072", "0", FOUR,
             beside=True))),
    Claim("11", P, "Section 2", "At most 10 % of tokens are rebuilt.", (
        Look("arithmetic", CR, "{r3:.1f} % where 30 % are read, {r2:.1f} % "
             "where 20 % are", "r3 <= 10 AND r2 <= 10"),), shown=True),
)
