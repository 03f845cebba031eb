-- SPDX-License-Identifier: Apache-2.0
--
-- What papers claim, as a table: a claim has looks. A look has a query, a view
-- whose rows are the numbers; `shows`, a str.format of one row, where a null is
-- -; and two conditions in SQL over the columns of that row. Where `holds` is
-- true the row's verdict is that the claim holds, else where `direction` is
-- true that the direction holds and the size does not, else that it does not
-- hold. A bound has a size and no direction. A row without a number that
-- `holds` asks for is no row: a query returns none where it found nothing.
--
-- `runs` are the commands that find the numbers, with semicolons between them,
-- as a user would type them, but that
--
--     {traces}   is every trace, {trace} one after another: the command is run
--                for each
--     {quarter}  is a quarter of that trace's tokens, {tokens} all of them
--     {start}    is where decoding begins so that much is decoded: at a quarter
--                of the tokens, of a trace without all query rows at its
--                prompt's end
--
-- Blanks and ends of lines within a text are one blank. Of a database of
-- results, r, the tables are those of analysis/README.md, read only.
CREATE TABLE claim (number, paper, place, says,
  why,      -- not '': it cannot be checked here, because
  unasked,  -- not '': nothing here asks for it, because
  shown);   -- 1: its rows stand beside its verdict, too
CREATE TABLE look (number, kind, query, runs, shows, holds, direction,
  beside);  -- 1: shown, but decides nothing

-- The numbers. A row a trace; start and quarter as above:
CREATE TABLE source (trace, path, model, n_tokens, prompt_len, start, quarter);
-- Rows of `kvreplay capacity`:
CREATE TABLE capacity (model, context, output, gpu, method, budget, bytes,
  weights, users, decoding, tokens_per_s, page_tables, why);
-- Heads of `kvtrace info --attention`; first: mass on token 0.
CREATE TABLE heads (trace, layer, head, first);
-- What the benchmark of a device printed:
CREATE TABLE device (theme, what, measured, unit, ceiling, ratio);
-- Rows of `kvreport table --answers`, and the same with x, the log-likelihood a
-- token, or of older rows the sum, and which; without those whose tokens are of
-- some questions only, which no other method was asked alone:
CREATE TABLE answers (model, task, method, basis, asked, items, items_all,
  questions, exact, loglik_token, loglik, loglik_some, kl, dense_exact,
  measurable);
CREATE VIEW likely AS SELECT *, coalesce(loglik_token, loglik) AS x,
  CASE WHEN loglik_token IS NULL THEN 'summed over'
    ELSE 'averaged over' END AS how FROM answers
  WHERE loglik_some IS NOT 1;
-- A row a run, of `kvreport export`, with the model beside it:
CREATE TEMP VIEW cell AS SELECT e.*, s.model AS of, s.start, s.quarter
  FROM exported e LEFT JOIN source s USING (trace);
-- A row a figure, with trace and model:
CREATE TEMP VIEW found AS SELECT f.*, t.name AS trace, s.model AS of
  FROM r.figure f JOIN r.trace t USING (identity)
    JOIN source s ON s.trace = t.name;

-- What DeltaKV's paper claims (arXiv 2602.08005; Sparse-vLLM is its engine).
--
-- Bytes and tokens by its equations 5 and 6: F of L layers keep all (full). The
-- others keep a reference every s tokens and latents of a share z of a vector,
-- and read a share r of the tokens:
--
--     KR = F / L + S / L (1 / s + z)    CR = F / L + S / L r,    S = L - F
-- Of each trace the mean over its layers, keys before their rotation, as in the
-- paper's figure; then the traces of a model.
CREATE TEMP VIEW nearest AS
WITH l AS (SELECT of, trace, layer,
    max(value) FILTER (WHERE figure = 'nearest.tokens') * 1.0 AS n,
    max(value) FILTER (WHERE figure = 'nearest.far') AS far,
    max(value) FILTER (WHERE figure = 'nearest.close') AS close,
    max(value) FILTER (WHERE figure = 'nearest.chance') AS chance
    FROM found WHERE series = 'k' GROUP BY of, trace, layer HAVING n > 0),
  t AS (SELECT of, trace, avg(far / n) AS far, avg(close / n) AS close,
    avg(chance) AS chance FROM l GROUP BY of, trace)
  SELECT of, min(far) AS least, max(far) AS most, avg(chance) AS chance,
    min(close) AS close_least, max(close) AS close_most
  FROM t GROUP BY of;
CREATE TEMP VIEW residual AS
WITH t AS (SELECT of, trace,
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
  FROM t WHERE nearest IS NOT NULL GROUP BY of;
-- Its tables: layers, full ones, 1 / s, z, the share of full layers' and
-- references' bytes that is stored, and what is printed, in percent, to how
-- many digits.
CREATE TEMP VIEW kr AS
WITH p(n, what, l, f, s, z, part, printed, digits) AS (VALUES
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
    max(abs(kr - printed)) AS off FROM k;
CREATE TEMP VIEW kept AS
WITH c AS (SELECT of, kr, n_layers AS layers,
    1 + length(json_extract(params, '$.full')) -
      length(replace(json_extract(params, '$.full'), '/', '')) AS full
    FROM cell JOIN r.trace t ON t.name = cell.trace WHERE method = 'deltakv'
    AND json_extract(params, '$.kept') = 'int4' AND kr IS NOT NULL
    AND json_extract(params, '$.latent') = 'int4')
  SELECT of, full, layers, min(kr) AS least, max(kr) AS most,
    .25 * (full + .1 * (layers - full)) / layers AS whole
  FROM c GROUP BY of, full, layers;
CREATE TEMP VIEW cr AS
SELECT 100 * (5 + 27 * .3) / 32 AS cr3, 100 * (4 + 28 * .2) / 32 AS cr2,
  100 * (.3 * 32 - 5) / 27 AS r3, 100 * (.2 * 32 - 4) / 28 AS r2;
CREATE TEMP VIEW tokens AS
WITH p(context, theirs, deltakv) AS (VALUES (131072, 143.2, 187.0),
    (262144, 70.2, 120.6), (524288, 33.1, 67.7), (900000, 18.6, 38.9))
  SELECT min(theirs / tokens_per_s) AS least,
    max(theirs / tokens_per_s) AS most,
    min(deltakv / theirs) AS times_least, max(deltakv / theirs) AS times_most
  FROM p JOIN capacity c USING (context) WHERE c.model = 'qwen2.5-7b'
    AND c.method = 'dense' GROUP BY c.model
  HAVING count(*) = 4;
CREATE TEMP VIEW delta AS
SELECT max(measured) FILTER (WHERE what = 'one kernel') AS one,
  max(measured) FILTER (WHERE what = 'stages through memory') AS stages
  FROM device WHERE theme = 'delta' GROUP BY theme HAVING one IS NOT NULL;
-- 3,277 references of 2,048 elements for 32,768 tokens; GFLOP/s are measured.
CREATE TEMP VIEW search AS
SELECT
  max(2e-3 * 2048 * 3277 / measured)
    FILTER (WHERE what LIKE 'search of the prompt%') AS p,
  max(2e-3 * 2048 * 3277 / measured)
    FILTER (WHERE what LIKE 'search of 128%') AS b,
  max(measured) FILTER (WHERE what LIKE 'attention over every%') AS all_rows
  FROM device WHERE theme = 'delta' GROUP BY theme HAVING b IS NOT NULL;
INSERT INTO claim VALUES ('1', 'DeltaKV', 'Figure 2b', 'More than 60 % of
  nearest tokens are more than 16 tokens back.', '', '', 1);
INSERT INTO look VALUES ('1', 'replay', 'nearest', 'kvreplay residuals
  {traces}', '{least:.0%} to {most:.0%} of nearest tokens; {chance:.0%} of all
  earlier tokens', 'least > 0.6', '0', 0);
INSERT INTO claim VALUES ('2', 'DeltaKV', 'Figure 2a', 'The cosine with the
  nearest token is frequently above 0.9.', '', '', 0);
INSERT INTO look VALUES ('2', 'replay', 'nearest', 'kvreplay residuals
  {traces}', '{close_least:.0%} to {close_most:.0%} of tokens', 'close_least >
  0.5', 'close_least > 0.25', 0);
INSERT INTO claim VALUES ('3', 'DeltaKV', 'Figure 2c, d', 'Subtracting its
  nearest token makes a token much smaller and its spectrum flatter.', '', '',
  0);
INSERT INTO look VALUES ('3', 'replay', 'residual', 'kvreplay residuals
  {traces}', 'at most {nearest:.0%} of the squared norm is left ({random:.0%}
  after subtracting a random token); the first direction holds
  {nearest_first:.0%} instead of {raw_first:.0%}', 'nearest < 0.5 AND nearest <
  random AND nearest_first * 2 < raw_first', 'nearest < random AND nearest_first
  < raw_first', 0);
INSERT INTO claim VALUES ('4', 'DeltaKV', 'Tables 8, 11', '45.2, 43.1, 29, 48.9
  and 44 % of bytes are kept.', '', '', 0);
INSERT INTO look VALUES ('4', 'arithmetic', 'kr', '', 'its equation gives
  {computed} %', 'differ = 0', 'off < 2', 0);
INSERT INTO claim VALUES ('5', 'DeltaKV', 'Table 8', '30 and 20 % of tokens are
  read, with r = .3 and .2.', '', '', 0);
INSERT INTO look VALUES ('5', 'arithmetic', 'cr', '', 'its equation gives
  {cr3:.1f} and {cr2:.1f} %; 30 and 20 % need r = {r3:.2f} and {r2:.2f} %',
  'round(cr3, 1) = 30 AND round(cr2, 1) = 20', '0', 0);
INSERT INTO claim VALUES ('6', 'DeltaKV', 'Table 4', 'Decoding 128k tokens:
  143.2 tokens/s of vLLM, 187 with DeltaKV; twice as many from 512k on.',
  'tokens/s of an engine on an RTX PRO 6000, and a compressor trained for its
  model: nothing here runs that engine', '', 0);
INSERT INTO look VALUES ('6', 'arithmetic', 'tokens', 'kvreplay capacity -M
  qwen2.5-7b -g rtx-pro-6000 -c 131072 --users 8 -m dense; kvreplay capacity -M
  qwen2.5-7b -g rtx-pro-6000 -c 262144 --users 4 -m dense; kvreplay capacity -M
  qwen2.5-7b -g rtx-pro-6000 -c 524288 --users 2 -m dense; kvreplay capacity -M
  qwen2.5-7b -g rtx-pro-6000 -c 900000 --users 1 -m dense', 'vLLM''s numbers
  are {least:.0%} to {most:.0%} of the roofline of full attention; DeltaKV is
  {times_least:.2f} to {times_most:.2f} times as fast as printed', '1', '1',
  1);
INSERT INTO claim VALUES ('7', 'DeltaKV', 'Appendix B.5', 'Of a step of 91 ms,
  rebuilding tokens takes 37.3 and bookkeeping 24.7; one fused kernel would
  leave 55 to 60.', 'a breakdown of their engine on their device; what is
  measured here is another kernel, alone', '', 0);
CREATE TEMP VIEW share AS SELECT 100 * (37.3 + 24.7) / 91 AS share, 16 / .091
  AS speed;
INSERT INTO look VALUES ('7', 'arithmetic', 'share', '', 'both are {share:.0f}
  % of it; 16 sequences a step are {speed:.0f} tokens/s', '1', '0', 1);
INSERT INTO look VALUES ('7', 'device', 'delta', '', 'kvreplay''s fused kernel
  takes {one:.0f} us, its stages one after another {stages:.0f} us', 'one <
  stages', '0', 1);
INSERT INTO claim VALUES ('8', 'DeltaKV', 'Appendix B.3', 'An exact search of
  100,000 references, of 1M tokens, is affordable.', '', '', 0);
CREATE TEMP VIEW exact AS SELECT 2 * 2048 / 10.0 / (4 * 32 * 128) AS share,
  2e-9 * 2048 * 100000 AS gflop;
INSERT INTO look VALUES ('8', 'arithmetic', 'exact', '', '{gflop:.2f} GFLOP a
  token and layer of Llama-3.1-8B, {share:.1%} of the products of attention
  over the same tokens', 'share < 0.1', '0', 0);
INSERT INTO look VALUES ('8', 'device', 'search', '', 'a search among 32,768
  tokens takes {p:.1f} us in a prompt and {b:.0f} us in decoding; a layer''s
  attention over all rows takes {all_rows:.0f} us', 'b < 0.1 * all_rows', 'p <
  0.1 * all_rows', 0);
INSERT INTO claim VALUES ('9', 'DeltaKV', 'Introduction', 'The full cache of 8
  requests of 128k tokens of Llama-3.1-8B is more than 130 GB.', '', '', 0);
CREATE TEMP VIEW full AS SELECT 8e-9 * bytes AS gb FROM capacity WHERE model =
  'llama-3.1-8b' AND context = 131071;
INSERT INTO look VALUES ('9', 'arithmetic', 'full', 'kvreplay capacity -M
  llama-3.1-8b -g made-80g --gpus 8 -c 131071 -o 1 -m dense', '{gb:.1f} GB',
  'gb > 130', '0', 0);
INSERT INTO claim VALUES ('10', 'DeltaKV', 'Appendix B.4', 'With 4 bits
  everywhere 7.2 % are kept.', '', '', 0);
CREATE TEMP VIEW everywhere AS SELECT 100 * (.25 * (5 + 27 * .1) + 27 * .0625)
  / 32 AS kr;
INSERT INTO look VALUES ('10', 'arithmetic', 'everywhere', '', 'its equation
  gives {kr:.1f} %', 'round(kr, 1) = 7.2', '0', 0);
INSERT INTO look VALUES ('10', 'replay', 'kept', 'kvreplay run {trace} -m
  deltakv:kept=int4:latent=int4:recent=16', '{least:.1%} to {most:.1%} counted,
  latent vectors, scales and the newest tokens included, where {full} of
  {layers} layers are full: these and references alone are {whole:.1%} by the
  equation', 'most < .072', '0', 1);
INSERT INTO claim VALUES ('11', 'DeltaKV', 'Section 2', 'At most 10 % of tokens
  are rebuilt.', '', '', 1);
INSERT INTO look VALUES ('11', 'arithmetic', 'cr', '', '{r3:.1f} % where 30 %
  are read, {r2:.1f} % where 20 % are', 'r3 <= 10 AND r2 <= 10', '0', 0);

-- What ZSMerge's paper claims (arXiv 2503.10714).
CREATE TEMP VIEW speed AS
WITH p(context, users, full, theirs) AS (VALUES
    (4096, 4, 62.4, 77.0), (4096, 8, 65.5, 146.7), (2048, 16, 133.1, 281.9))
  SELECT group_concat(printf('%.2f', theirs / full), ', ') AS times,
    min(full / tokens_per_s) AS least, max(full / tokens_per_s) AS most
  FROM p JOIN capacity c ON c.context = p.context AND c.decoding = p.users
  WHERE c.model = 'llama-2-7b' AND c.output = c.context
  GROUP BY c.model HAVING count(*) = 3;
CREATE TEMP VIEW gib AS
SELECT
  max((bytes + weights) / 1073741824.0) FILTER (WHERE context = 19999
    AND method = 'dense') AS at_20k,
  max((bytes + weights) / 1073741824.0) FILTER (WHERE context = 53999
    AND method = 'dense') AS at_54k,
  max((bytes + weights) / 1073741824.0) FILTER (WHERE method = 'window')
    AS bounded,
  max((bytes + weights) / 2147483648.0) FILTER (WHERE method = 'window')
    AS half,
  max(users) FILTER (WHERE context = 53999 AND method = 'dense') AS users
  FROM capacity WHERE model = 'llama-2-7b' AND output = 1
  GROUP BY model HAVING bounded IS NOT NULL;
-- Bytes from the first decode step to the last, of each run the most over the
-- least; of how many steps the shortest run is.
CREATE TEMP VIEW constant AS
WITH s AS (SELECT of, c.method, c.trace,
    max(k.bytes) * 1.0 / min(k.bytes) AS grows, count(*) AS steps
    FROM cell c JOIN r.run n USING (key) JOIN r.step_cost k USING (run_id)
    WHERE c.output_error IS NOT NULL AND k.step > c.prompt_len
      AND (c.method = 'dense' AND c.prompt_len = (SELECT prompt_len FROM source
        WHERE source.trace = c.trace) OR c.method = 'zsmerge'
        AND c.asked = '90%') GROUP BY c.key)
  SELECT of, min(steps) AS steps,
    max(grows) FILTER (WHERE method = 'zsmerge') AS grows,
    max(grows) FILTER (WHERE method = 'dense') AS dense
  FROM s GROUP BY of HAVING grows IS NOT NULL;
-- A row a task, with a number a budget: answers of two tasks have different
-- lengths.
CREATE TEMP VIEW likelier AS
SELECT model || ', ' || task AS of, how,
    group_concat(printf('%+.2f at %s', z.x - h.x, asked), ', ') AS gains
  FROM likely z JOIN likely h USING (model, task, asked, how)
  WHERE z.method = 'zsmerge' AND h.method = 'h2o' AND z.x - h.x IS NOT NULL
    AND z.measurable = 1 GROUP BY model, task, how;
INSERT INTO claim VALUES ('12', 'ZSMerge', 'Table 1', '1.23, 2.24 and 2.1 times
  as many tokens/s as the full cache.', 'tokens/s of an eager forward on an
  A800, where launches take the time, not bytes', '', 0);
INSERT INTO look VALUES ('12', 'arithmetic', 'speed', 'kvreplay capacity -M
  llama-2-7b -g a100-80g -c 4096 -o 4096 --users 4 -m dense; kvreplay capacity
  -M llama-2-7b -g a100-80g -c 4096 -o 4096 --users 8 -m dense; kvreplay
  capacity -M llama-2-7b -g a100-80g -c 2048 -o 2048 --users 16 -m dense', 'its
  table has {times} times; its full cache ran at {least:.0%} to {most:.0%} of
  the roofline', '1', '1', 1);
INSERT INTO claim VALUES ('13', 'ZSMerge', 'Figure 3', 'A budget of 18k tokens
  holds a constant 43 GB.', '', '', 0);
INSERT INTO look VALUES ('13', 'arithmetic', 'gib', 'kvreplay capacity -M
  llama-2-7b -g a100-80g -c 19999 -o 1 --cache F32 --weights fp32 -m dense;
  kvreplay capacity -M llama-2-7b -g a100-80g -c 53999 -o 1 --cache F32
  --weights fp32 -m dense,window -b 18000', '{bounded:.1f} GiB with weights, all
  in 32 bits, like its 25 GB of weights; in 16 bits {half:.1f} GiB',
  'abs(bounded - 43) < 0.5', 'bounded < at_54k', 0);
INSERT INTO look VALUES ('13', 'replay', 'constant', 'kvreplay run {traces} -m
  dense; kvreplay run {traces} -m zsmerge -b 90%', 'over at least {steps}
  decode steps the bytes of zsmerge grow {grows:.3f} fold, of dense {dense:.2f}
  fold', 'grows < 1.01', 'grows < dense', 0);
INSERT INTO claim VALUES ('13b', 'ZSMerge', 'Figure 3', 'The full cache reaches
  79 GB at 54k tokens.', '', '', 0);
INSERT INTO look VALUES ('13b', 'arithmetic', 'gib', 'kvreplay capacity -M
  llama-2-7b -g a100-80g -c 19999 -o 1 --cache F32 --weights fp32 -m dense;
  kvreplay capacity -M llama-2-7b -g a100-80g -c 53999 -o 1 --cache F32
  --weights fp32 -m dense,window -b 18000', '{at_54k:.1f} GiB with weights, all
  in 32 bits; {at_20k:.1f} at 20k tokens; an 80 GB device then has room for
  {users} of them', 'abs(at_54k - 79) < 1.5 AND users = 0', 'at_54k > at_20k',
  0);
INSERT INTO claim VALUES ('13c', 'ZSMerge', 'Figure 3', 'At 54k tokens it
  decodes 9 tokens/s, the full cache 4.', '', 'nothing here runs an engine',
  0);
INSERT INTO claim VALUES ('14', 'ZSMerge', 'Section 4', 'A value that is 300
  steps old weighs about 0.002.', '', '', 0);
CREATE TEMP VIEW faded AS SELECT power(.98, 300) AS x;
INSERT INTO look VALUES ('14', 'arithmetic', 'faded', '', '0.98 to the 300th
  is {x:.5f}', 'round(x, 3) = 0.002', '0', 0);
INSERT INTO claim VALUES ('15', 'ZSMerge', 'Table 2', 'At equal budgets answers
  are better than H2O''s (ROUGE of summaries).', 'ROUGE of summaries by models
  of 7 to 13 billion parameters; here only the likelihood of small models''
  short answers', '', 0);
INSERT INTO look VALUES ('15', 'answers', 'likelier', '', 'log-likelihood of the
  right answer, {how} its tokens, zsmerge minus h2o, nats: {gains}', '0', '0',
  1);

-- What Hard-KV's paper claims (arXiv 2606.28831; HARDInfer is its engine).
--
-- There is no claim 20: 12.5 % of tokens, 50 % in the fullest lane, are
-- settings.
CREATE TEMP VIEW utilised AS
WITH u AS (SELECT of,
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
  GROUP BY of HAVING base IS NOT NULL AND own IS NOT NULL;
-- A setting: a trace and a layout, of those that were rewritten at all. Of a
-- rewrite that has not paid when the trace ends there is no number. masked: a
-- masked tier is rewritten, too.
CREATE TEMP VIEW paid AS
SELECT of, json_extract(c.params, '$.lower') < quarter AS masked,
    min(l.break_even) AS least, max(l.break_even) AS most,
    count(*) AS settings, count(*) - count(l.break_even) AS never,
    count(*) FILTER (WHERE l.break_even < 5) AS under
    FROM cell c JOIN r.run n USING (key) JOIN r.layout l USING (run_id)
  WHERE c.method = 'hardkv' AND l.layout LIKE '__:max' AND c.prompt_len = start
    AND json_extract(c.params, '$.condensed') = 'evict'
    AND json_extract(c.params, '$.every') = 128 AND l.rewrites > 0
    AND json_extract(c.params, '$.lower') <= quarter
  GROUP BY of, masked;
CREATE TEMP VIEW masks AS
SELECT max(measured) FILTER (WHERE what LIKE '%against masks')
    AS masks, max(measured) FILTER (WHERE what LIKE '%against all places')
    AS places, min(ratio) FILTER (WHERE what LIKE '%rewritten') AS step
  FROM device WHERE theme = 'regular' GROUP BY theme;
-- Tokens that hold 90 %: of attention itself, of SnapKV's pooled logits before
-- and after calibration. Ratios by trace.
CREATE TEMP VIEW chosen AS
WITH n AS (SELECT of, trace,
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
  FROM n WHERE own > 0 GROUP BY of;
-- The log-sum-exp error of a step, nats, mean of layers and heads: of the first
-- and the last quarter of the decode steps of the traces with enough of them.
CREATE TEMP VIEW drift AS
WITH b AS (SELECT of, c.method, c.key, p.bin, m.mean
    FROM cell c JOIN r.run n USING (key) JOIN r.part p USING (run_id)
    JOIN r.metric m USING (run_id, part)
    WHERE c.prompt_len = start AND CAST(c.asked AS TEXT) = CAST(quarter AS TEXT)
      AND p.layer < 0 AND p.head < 0 AND p.bin >= 0 AND m.measure = 'lse_error'
      AND c.method IN ('h2o', 'rkv', 'zsmerge')),
  q AS (SELECT of, method, avg(mean) FILTER (WHERE bin < 4) AS early,
    avg(mean) FILTER (WHERE bin >= 12) AS late FROM b GROUP BY of, method)
  SELECT of, max(late) AS least, min(late) AS most,
    max(late - early) AS slowest, min(late - early) AS fastest
  FROM q GROUP BY of;
CREATE TEMP VIEW merged AS
WITH d AS (SELECT of, json_extract(params, '$.condensed') AS how,
    avg(lse_drift / (n_tokens - prompt_len)) AS step FROM cell
    WHERE method = 'hardkv' AND prompt_len = start AND output_error IS NOT NULL
      AND json_extract(params, '$.every') = 16 GROUP BY of, how)
  SELECT of, max(step) FILTER (WHERE how = 'merge') AS merged,
    max(step) FILTER (WHERE how = 'evict') AS dropped
  FROM d GROUP BY of HAVING merged IS NOT NULL AND dropped IS NOT NULL;
CREATE TEMP VIEW table_3 AS
SELECT 477.0 / 346 AS graph, 806.0 / 346 AS pruned,
  732.0 / 279 AS regular, 346 / tokens_per_s AS base, 806 / tokens_per_s AS top
  FROM capacity WHERE model = 'qwen3-8b';
INSERT INTO claim VALUES ('16', 'Hard-KV', 'Table 3, Figure 9', 'Calibrated
  lanes are utilized to 83 % and more, lanes of plain top-p to 33 %.', '', '',
  0);
INSERT INTO look VALUES ('16', 'replay', 'utilised', 'kvreplay run {trace} -p
  {start} -b {quarter} -m hardkv --layout ls:max,la:max,hs:max,ha:max; kvreplay
  run {trace} -m
  hardkv:upper={tokens}:lower=128:window=1:sinks=0:local=0:every=1' ||
  ':adapter=vanilla:variant=code --layout ha:max', '{own:.0%} ({own_least:.0%}
  to {own_most:.0%} by trace); plain top-p {base:.0%}', 'own >= 0.83 AND base <=
  0.33', 'own > base', 0);
INSERT INTO claim VALUES ('16b', 'Hard-KV', 'Table 3', 'That gives 2.6 times
  the tokens/s.', '', 'nothing here runs an engine', 0);
INSERT INTO look VALUES ('16b', 'arithmetic', 'table_3', 'kvreplay capacity -M
  qwen3-8b -g a100-80g -c 256 -o 25600 -m dense', 'its table has {graph:.2f}
  times by a CUDA graph, {pruned:.2f} with pruning, {regular:.2f} over plain
  top-p; its base runs at {base:.0%}, the pruned one at {top:.0%} of the
  roofline of the full cache', '1', '0', 1);
INSERT INTO claim VALUES ('17', 'Hard-KV', 'Figures 5, 16', 'Rewriting lanes
  pays after fewer than 5 steps in most settings.', '', '', 0);
INSERT INTO look VALUES ('17', 'replay', '(SELECT of, least, most, settings,
  never, under FROM paid WHERE masked = 0)', 'kvreplay run {trace} -p {start} -b
  {quarter} -m hardkv:lower={quarter} --layout ls:max,la:max,hs:max,ha:max',
  'after {least} to {most} steps, counting bytes as time: below 5 in {under} of
  {settings} traces and layouts that rewrite; {never} never pay', '2 * under >
  settings', 'least < 5', 0);
INSERT INTO look VALUES ('17', 'replay', '(SELECT of, least, most, settings,
  never, under FROM paid WHERE masked)', 'kvreplay run {trace} -p {start} -b
  {quarter} -m hardkv --layout ls:max,la:max,hs:max,ha:max', 'if a masked tier
  is rewritten, too: after {least} to {most} steps, below 5 in {under} of
  {settings}; {never} never pay', '2 * under > settings', 'least < 5', 1);
INSERT INTO look VALUES ('17', 'device', 'masks', '', 'after at most {masks:.2f}
  steps against masks, {places:.2f} against reading all places; a step takes
  {step:.2f} of the time for all places', 'masks < 5 AND places < 5', 'places <
  5', 0);
INSERT INTO claim VALUES ('18', 'Hard-KV', 'Figure 2', 'The tokens that hold 90
  % of SnapKV''s pooled logits collapse to about 10, where attention has about
  1,000.', '', '', 0);
INSERT INTO look VALUES ('18', 'replay', 'chosen', 'kvreplay selection
  {traces}', '{pooled:.0f} tokens, attention {own:.0f}; by trace {least:.2f} to
  {most:.2f} times as many', 'most < 0.1', 'most < 1', 0);
INSERT INTO claim VALUES ('18b', 'Hard-KV', 'Figure 2', 'Calibrated, SnapKV''s
  and R-KV''s scores select as many as attention.', '', '', 0);
INSERT INTO look VALUES ('18b', 'replay', 'chosen', 'kvreplay selection
  {traces}', 'at most {off:.0%} off', 'off < 0.1', 'off < abs(most - 1)', 0);
INSERT INTO claim VALUES ('19', 'Hard-KV', 'Figure 20', 'The log-sum-exp of a
  pruned cache is too low, and falls as the sequence grows.', '', '', 0);
INSERT INTO look VALUES ('19', 'replay', 'drift', 'kvreplay run {trace} -p
  {start} -b {quarter} -m
  h2o,zsmerge,rkv:every=16,hardkv:every=16:window=16' ||
  ',hardkv:every=16:window=16:condensed=merge',
  'in the last quarter of steps {most:.2f} to {least:.2f} nats, {fastest:+.2f}
  to {slowest:+.2f} from the first', 'least < 0 AND slowest < 0', 'least < 0
  AND fastest < 0', 0);
INSERT INTO claim VALUES ('19b', 'Hard-KV', 'Figure 21', 'Merging suppresses
  that drift.', '', '', 0);
INSERT INTO look VALUES ('19b', 'replay', 'merged', 'kvreplay run {trace} -p
  {start} -b {quarter} -m h2o,zsmerge,rkv:every=16,hardkv:every=16:window=16' ||
  ',hardkv:every=16:window=16:condensed=merge', '{merged:.3f} nats a step with
  merging, {dropped:.3f} with dropping', 'abs(merged) < 0.5 * abs(dropped)',
  'abs(merged) < 0.95 * abs(dropped)', 0);

-- What LeanKV's paper claims (arXiv 2412.03131).
CREATE TEMP VIEW span AS
WITH c AS (SELECT of, axis, c, sum(n) AS n FROM
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
  FROM s GROUP BY of;
-- Of what a row sees, the share that 95 % of its mass needs: by layer, KV head
-- and request.
CREATE TEMP VIEW critical AS
WITH h AS (SELECT of, trace, layer, head,
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
    min(x) AS request_least, max(x) AS request_most FROM t GROUP BY of;
CREATE TEMP VIEW mirror AS
WITH f AS (SELECT of, m, avg(output_error) AS e,
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
  FROM f GROUP BY of HAVING more IS NOT NULL AND less IS NOT NULL;
-- A row a task; of prose nothing is right or wrong.
CREATE TEMP VIEW likelihood AS
WITH a AS (SELECT model || ', ' || task AS of, how,
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
  FROM a WHERE more IS NOT NULL AND less IS NOT NULL;
CREATE TEMP VIEW compact AS
SELECT min(ratio) AS least, max(ratio) AS most FROM device
  WHERE theme = 'compact' AND what LIKE 'a step%' GROUP BY theme;
CREATE TEMP VIEW kernel AS
SELECT
  max(measured) FILTER (WHERE what LIKE 'K8V4, 32768%group 1') AS g1,
  max(ceiling) FILTER (WHERE what LIKE 'K8V4, 32768%group 1') AS bytes,
  max(measured) FILTER (WHERE what LIKE 'K8V4, 32768%group 4') AS g4,
  max(measured) FILTER (WHERE what LIKE 'K4V2, 32768%group 1') AS k4
  FROM device WHERE theme = 'paged' GROUP BY theme;
CREATE TEMP VIEW charged AS
SELECT of, avg(d.bytes_end / c.codes_end) AS codes,
    avg(d.bytes_end / c.bytes_end) AS everything,
    avg(d.bytes_end / l.bytes_end) AS pages
  FROM cell c JOIN r.run n USING (key) JOIN r.layout l USING (run_id)
    JOIN (SELECT trace, prompt_len, bytes_end * 1.0 AS bytes_end FROM exported
      WHERE method = 'dense') d USING (trace, prompt_len)
  WHERE c.method = 'leankv' AND l.layout = 'unified' GROUP BY of;
CREATE TEMP VIEW tables AS
SELECT bytes / 1073741824.0 AS gib,
    128 * page_tables / 1048576.0 AS mib FROM capacity
  WHERE model = 'llama-2-7b' AND context = 4095 AND page_tables > 0;
-- Of each trace the thresholds that drop nearest to half. The error of as many
-- tokens dropped by fixed shares is read off the line through two of their
-- runs.
CREATE TEMP VIEW pruned AS
WITH p AS (SELECT of, trace, json_extract(params, '$.sparsity') AS
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
  FROM two WHERE place = 1 GROUP BY of;
INSERT INTO claim VALUES ('21', 'LeanKV', 'Figure 1', 'Scores of tokens span 7
  orders of magnitude, norms of values at most 2.', '', '', 0);
INSERT INTO look VALUES ('21', 'replay', 'span', 'kvreplay attention {traces}',
  '{scores:.1f} and {norms:.1f} powers of ten; the middle 99 % of tokens
  {most_scores:.1f} and {most_norms:.1f}', 'scores >= 6.5 AND norms < 2.5',
  'scores > norms + 2', 0);
INSERT INTO claim VALUES ('22', 'LeanKV', 'Figures 3, 4', 'How many tokens hold
  95 % of the mass varies by layer, head and request.', '', '', 0);
INSERT INTO look VALUES ('22', 'replay', 'critical', 'kvreplay attention
  {traces}', 'layers {layer_least:.0%} to {layer_most:.0%} of what a row sees,
  heads {head_least:.1%} to {head_most:.0%}, requests {request_least:.0%} to
  {request_most:.0%}', 'layer_most > 2 * layer_least AND head_most > 2 *
  head_least', 'layer_most > layer_least AND head_most > head_least', 0);
INSERT INTO claim VALUES ('23', 'LeanKV', 'Figure 7', 'K8V4 answers like 16
  bits; K4V8, of the same size, is much worse.', '', '', 0);
INSERT INTO look VALUES ('23', 'replay', 'mirror', 'kvreplay run {traces} -m
  k8v4,k4v8', 'output error {more:.3f} of K8V4, {less:.3f} of K4V8; needles
  {needle_more:.2f} and {needle_less:.2f}', 'less > 2 * more', 'less > more',
  0);
INSERT INTO look VALUES ('23', 'answers', 'likelihood', '', 'log-likelihood of
  the right answer, {how} its tokens, minus dense''s, nats: K8V4 {more:+.2f},
  K4V8 {less:+.2f}{right}', '0', '0', 1);
INSERT INTO claim VALUES ('24', 'LeanKV', 'Figure 12', 'Compaction takes less
  than 0.9 % of a step on the device.', '', '', 0);
INSERT INTO look VALUES ('24', 'device', 'compact', '', '{least:.2%} to
  {most:.2%} of a step', 'most < 0.009', '0', 0);
INSERT INTO claim VALUES ('24b', 'LeanKV', 'Figure 11', 'On a CPU it takes up to
  three orders of magnitude more.', '', 'no page manager on a CPU is timed
  here', 0);
INSERT INTO claim VALUES ('25', 'LeanKV', 'Figure 13', 'Attention over K8V8 is
  1.7 times as fast as over fp16, almost in proportion to the bytes.', '', '',
  1);
INSERT INTO look VALUES ('25', 'device', 'kernel', '', 'kvreplay''s kernel over
  K8V4, not K8V8, is {g1:.2f} times as fast at {bytes:.2f} times fewer bytes,
  {g4:.2f} in groups of 4 (K4V2 {k4:.2f})', 'min(g1, g4) >= 0.85 * bytes',
  'min(g1, g4) > 1 AND min(g1, g4) > 0.5 * bytes', 0);
INSERT INTO claim VALUES ('26', 'LeanKV', 'Section 7', 'KV takes 2.7 to 5.7
  times fewer bytes.', '', '', 0);
INSERT INTO look VALUES ('26', 'replay', 'charged', 'kvreplay run {traces} -m
  dense; kvreplay run {traces} -m leankv --layout unified', '{codes:.1f} times
  counting codes, {everything:.1f} counting everything, {pages:.1f} counting
  pages', 'pages >= 2.7', 'pages > 1 AND codes >= 2.7', 0);
INSERT INTO claim VALUES ('26b', 'LeanKV', 'Section 7', 'Throughput is 1.9 to
  5.4 times as high.', '', 'nothing here runs an engine', 0);
INSERT INTO claim VALUES ('27', 'LeanKV', 'Section 6', 'Page tables of 128
  requests take 64 MB, and one request of 4,096 tokens takes 2 GB
  (Llama-2-7B).', '', '', 0);
INSERT INTO look VALUES ('27', 'arithmetic', 'tables', 'kvreplay capacity -M
  llama-2-7b -g a100-80g -c 4095 -o 1 -m dense', '{mib:.1f} MiB and {gib:.2f}
  GiB', 'mib = 64 AND gib = 2', 'mib < 128 AND gib = 2', 0);
INSERT INTO claim VALUES ('28', 'LeanKV', 'Figure 8', 'Half of the tokens can be
  dropped, with less error by thresholds than by fixed shares.', '', '', 0);
INSERT INTO look VALUES ('28', 'replay', 'pruned', 'kvreplay run {traces} -m
  dense; kvreplay run {traces} -m leankv:high=k16v16:low=k16v16:alpha_l=0.1' ||
  ',leankv:high=k16v16:low=k16v16:alpha_l=0.2' ||
  ',leankv:high=k16v16:low=k16v16:alpha_l=0.4' ||
  ',leankv:high=k16v16:low=k16v16:sparsity=static:high_share=0.7' ||
  ',leankv:high=k16v16:low=k16v16:sparsity=static:high_share=0.5' ||
  ',leankv:high=k16v16:low=k16v16:sparsity=static:high_share=0.3',
  '{dropped:.0%} dropped: mass {mass:.3f}, output error {error:.3f}, with fixed
  shares {fixed:.3f}; better on {better} of {traces} traces', 'dropped > 0.4 AND
  mass > 0.95 AND error < 0.95 * fixed', 'mass > 0.95 AND error < fixed', 0);

-- What figures of older papers show of attention itself, which the others build
-- on: StreamingLLM's sinks (arXiv 2309.17453) and PyramidKV's funnel
-- (2406.02069).
-- A layer has a sink where token 0 has .3 of the mass, mean of its heads.
-- Layers are those that are recorded, by depth.
CREATE TEMP VIEW sinks AS
WITH h AS (SELECT s.model AS of, layer, avg(first) AS first
    FROM heads JOIN source s USING (trace) WHERE head IS NOT NULL
    GROUP BY trace, layer HAVING avg(first) IS NOT NULL),
  l AS (SELECT of, layer, avg(first) AS first FROM h GROUP BY of, layer),
  n AS (SELECT *, row_number() OVER (PARTITION BY of ORDER BY layer) AS place
    FROM l)
  SELECT of, count(*) AS layers, sum(first >= 0.3) AS sinks,
    sum(first >= 0.3 AND place > 2) AS above FROM n GROUP BY of;
CREATE TEMP VIEW funnel AS
WITH l AS (SELECT of, layer,
    sum(value) FILTER (WHERE figure = 'attention.critical') * 1.0 /
      sum(value) FILTER (WHERE figure = 'attention.seen') AS x
    FROM found WHERE figure LIKE 'attention.%' GROUP BY of, layer),
  t AS (SELECT *, ntile(3) OVER (PARTITION BY of ORDER BY layer) AS third
    FROM l)
  SELECT of, avg(x) FILTER (WHERE third = 1) AS low,
    avg(x) FILTER (WHERE third = 2) AS middle,
    avg(x) FILTER (WHERE third = 3) AS high
  FROM t GROUP BY of HAVING count(*) >= 3;
INSERT INTO claim VALUES ('F1', 'StreamingLLM', 'Figure 2', 'All layers except
  the lowest two have a sink in token 0.', '', '', 0);
INSERT INTO look VALUES ('F1', 'replay', 'sinks', 'kvtrace info --attention
  {trace}', '{sinks} of {layers} recorded layers', 'above = layers - 2', '2 *
  sinks > layers', 0);
INSERT INTO claim VALUES ('F2', 'PyramidKV', 'Figure 2', 'Attention is spread
  in low layers and narrow in high ones.', '', '', 0);
INSERT INTO look VALUES ('F2', 'replay', 'funnel', 'kvreplay attention
  {traces}', '95 % of the mass needs {low:.0%} of what a row sees in the lowest
  third of layers, {middle:.0%} in the middle, {high:.0%} in the highest', 'low
  > middle AND middle > high AND low > 2 * high', 'low > high', 0);
