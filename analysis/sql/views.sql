-- SPDX-License-Identifier: Apache-2.0
--
-- Results for people, as views over the tables that kvreplay writes. They are
-- TEMP views: a database is read, never changed. Exact numbers are the *_bits
-- columns of the tables; these views show readable ones.

-- A line `-- each` becomes one line per measure (each.awk). Derived measures
-- are made here: needle_share, the share of the mass that dense attention puts
-- on the needles, and lse_drift.
CREATE TEMP VIEW measured AS
SELECT run_id,
  -- each stat: max(CASE measure WHEN '@N' THEN @S END) AS @C,
  max(CASE measure WHEN 'needle_mass' THEN mean END)
    / nullif(max(CASE measure WHEN 'needle_dense' THEN mean END), 0)
    AS needle_share,
  drift AS lse_drift
FROM run CROSS JOIN part USING (run_id) CROSS JOIN metric USING (run_id, part)
WHERE part = 0 GROUP BY run_id;

-- What a run holds at the end: the total, and the kinds that every database
-- has. The view `kinds` has every kind.
CREATE TEMP VIEW stored AS
SELECT run_id, sum(iif(total, bytes, 0)) AS bytes_end,
  max(CASE kind WHEN 'payload' THEN bytes END) AS payload,
  max(CASE kind WHEN 'metadata' THEN bytes END) AS metadata,
  max(CASE kind WHEN 'columns' THEN bytes END) AS columns,
  max(CASE kind WHEN 'side' THEN bytes END) AS side,
  max(CASE kind WHEN 'slack' THEN bytes END) AS slack
FROM held GROUP BY run_id;

-- Means over layers and heads in each bin of decode steps, for measures that
-- have a standard error.
CREATE TEMP VIEW binned AS
SELECT run_id, bin, first_step, last_step,
  -- each se: max(CASE measure WHEN '@N' THEN mean END) AS @N,
  max(CASE measure WHEN 'needle_mass' THEN mean END) AS needle_mass,
  max(CASE measure WHEN 'needle_dense' THEN mean END) AS needle_dense
FROM part JOIN metric USING (run_id, part) WHERE bin >= 0 AND head < 0
GROUP BY run_id, part;

-- Standard errors of a run's means. Consecutive steps are alike, so neither
-- values nor steps count as independent: the error is that of the means of 16
-- bins of steps (batch means). needle_share is a ratio: its error is that of
-- the deviations of the bins from the run's share of dense (delta method).
CREATE TEMP VIEW unsure AS
SELECT run_id,
  -- each se: standard_error(b.@N) AS @C,
  standard_error(b.needle_mass - b.needle_dense
    * m.needle_mass / nullif(m.needle_dense, 0)) / m.needle_dense
    AS needle_share_se
FROM binned b JOIN measured m USING (run_id) GROUP BY run_id;

-- One row per requested cell and code that computed it. Shares are relative to
-- the dense cache of the same trace, if dense ran.
CREATE TEMP VIEW every_cell AS
SELECT t.name AS trace, r.prompt_len, r.observe, t.n_tokens, r.method, r.spec,
  a.status, r.reason, a.basis, a.target AS asked, r.budget, a.achieved,
  n.kept, n.kept_min, n.kept_max, n.attended,
  b.bytes_end, b.bytes_end * 1.0 / e.bytes_end AS share_end,
  b.payload, b.metadata, b.columns, b.side, b.slack, n.codes_end,
  n.mean AS bytes_mean, n.codes_mean, n.kr, n.peak, n.codes_peak, n.mti,
  n.read AS bytes_read, n.read / o.read AS share_read,
  n.scanned AS bytes_scanned, n.scanned / o.read AS share_scanned,
  n.fetched * 1.0 / (t.n_tokens - r.prompt_len) AS bytes_fetched,
  n.asset AS asset_bytes, n.cr, n.moved, n.verbs, n.needle_kept, n.needle_worst,
  -- each column: @T.@C,
  r.confirmations, coalesce(r.confirmed, 0) AS confirmed,
  r.by_whom, r.conflicts, r.arithmetic, r.code, r.params, r.journal, r.state,
  r.output, r.identity, t.request, t.answer_by, r.key, r.age
FROM aged r JOIN trace t USING (identity) JOIN ask a USING (run_id)
  LEFT JOIN counted n USING (run_id)
  LEFT JOIN measured m USING (run_id)
  LEFT JOIN unsure u USING (run_id)
  LEFT JOIN dense d ON d.identity = r.identity
    AND d.prompt_len = r.prompt_len AND d.observe = r.observe
    AND d.arithmetic = r.arithmetic
  LEFT JOIN counted o ON o.run_id = d.run_id
  LEFT JOIN stored b ON b.run_id = r.run_id
  LEFT JOIN stored e ON e.run_id = d.run_id
ORDER BY trace, r.prompt_len, r.observe, r.method, r.budget, r.params,
  a.basis, asked,
  r.age, r.key;

-- What tables and figures show: cells of the newest code of each method.
CREATE TEMP VIEW cell AS SELECT * FROM every_cell WHERE age = 1;

-- Cells that no other cell of the trace beats in both bytes and error.
CREATE TEMP VIEW pareto AS
WITH ran AS MATERIALIZED
  (SELECT * FROM cell WHERE output_error IS NOT NULL AND kr IS NOT NULL)
SELECT trace, prompt_len, observe, method, asked, budget, kr, share_read,
  output_error, confirmed, key
FROM ran c WHERE NOT EXISTS
  (SELECT 1 FROM ran b
   WHERE b.trace = c.trace AND b.prompt_len = c.prompt_len
     AND b.observe = c.observe
     AND b.kr <= c.kr AND b.output_error <= c.output_error
     AND (b.kr < c.kr OR b.output_error < c.output_error))
ORDER BY trace, prompt_len, observe, kr, method, key;

-- The output error in bins of decode steps, averaged over layers and heads.
CREATE TEMP VIEW along AS
SELECT t.name AS trace, r.prompt_len, r.observe, t.n_tokens, r.method, r.params,
  r.budget, a.basis, a.target AS asked, b.bin, b.first_step, b.last_step,
  b.output_error,
  (b.first_step + b.last_step - 2.0 * r.prompt_len)
    / (2.0 * (t.n_tokens - r.prompt_len)) AS progress,
  coalesce(r.confirmed, 0) AS confirmed, t.request, r.key
FROM newest r JOIN trace t USING (identity) JOIN ask a USING (run_id)
  JOIN binned b USING (run_id)
WHERE b.output_error IS NOT NULL
ORDER BY trace, r.prompt_len, r.observe, r.method, r.budget, r.params, a.basis,
  a.target, b.bin;

-- How far each cell x gets from random to its baseline, an oracle, at the
-- entries that x attends. gap = (random - x) / (random - baseline) in mean
-- output error; mass_gap is the same in retained mass. The baseline depends on
-- what the cell did, compared with dense if dense ran:
--   fewer entries at the end: oracle-evict, with a lane for each query head if
--     x has such lanes;
--   else fewer attended: oracle-topk, or oracle-topp if x reads a share p of
--     the probability;
--   else none.
--
-- Random and the baseline ran at one budget: the mean entries that x attends,
-- or one fewer. A method that evicts to B, such as random and oracle-evict,
-- attends B + 1 with the current token, which oracle-topk counts in B.
-- oracle-topp has no budget: its value is interpolated between its two cells
-- that attend the nearest fewer and more entries. That line is below its curve,
-- so nearer shares raise it. Random has its defaults and one budget.
CREATE TEMP VIEW gap AS
WITH ran AS MATERIALIZED
  (SELECT * FROM cell WHERE output_error IS NOT NULL),
whole AS MATERIALIZED
  (SELECT trace, prompt_len, observe, arithmetic, min(kept) AS all_kept,
    min(attended) AS all_attended
  FROM ran WHERE method = 'dense' GROUP BY 1, 2, 3, 4),
ruled AS MATERIALIZED
  (SELECT c.*, CAST(round(c.attended) AS INTEGER) AS equal_budget,
    CASE WHEN c.kept < coalesce(all_kept, c.n_tokens) THEN 'oracle-evict'
      || iif(json_extract(c.params, '$.group') = 'query_head',
        ':group=query_head', '')
    WHEN c.attended >= coalesce(all_attended, (c.prompt_len + 1 + c.n_tokens)
      / 2.0) THEN NULL
    WHEN c.params LIKE '%"p"%' THEN 'oracle-topp' ELSE 'oracle-topk' END
    AS baseline
  FROM ran c LEFT JOIN whole USING (trace, prompt_len, observe, arithmetic)
  WHERE c.method NOT IN
    ('dense', 'random', 'oracle-evict', 'oracle-topk', 'oracle-topp')),
chance AS MATERIALIZED
  (SELECT DISTINCT trace, prompt_len, observe, arithmetic, budget,
    output_error AS random, mass AS random_mass, confirmed AS random_confirmed
  FROM ran
  WHERE method = 'random' AND json_type(params, '$.budget') = 'integer'
    AND coalesce(json_extract(params, '$.variant'), 'drop') = 'drop'
    AND json_extract(params, '$.seed') = 1
    AND json_extract(params, '$.recent') = min(32, max(1, budget / 2))),
oracle AS MATERIALIZED
  (SELECT DISTINCT trace, prompt_len, observe, arithmetic, budget AS at_budget,
    method || iif(json_extract(params, '$.group') = 'query_head',
      ':group=query_head', '') AS baseline,
    attended, output_error, mass, confirmed, key
  FROM ran
  WHERE method = 'oracle-topp' OR (method IN ('oracle-evict', 'oracle-topk')
    AND json_type(params, '$.budget') = 'integer')),
beside AS MATERIALIZED
  (SELECT c.key, c.basis, c.asked, n.budget AS reference_budget, n.random,
    n.random_mass, n.random_confirmed,
    (SELECT o.key FROM oracle o
     WHERE o.trace = c.trace AND o.prompt_len = c.prompt_len
       AND o.observe = c.observe AND o.arithmetic = c.arithmetic
       AND o.baseline = c.baseline
       AND iif(c.baseline = 'oracle-topp', o.attended <= c.attended,
         o.at_budget = n.budget)
     ORDER BY o.attended DESC, o.key LIMIT 1) AS below,
    (SELECT o.key FROM oracle o
     WHERE o.trace = c.trace AND o.prompt_len = c.prompt_len
       AND o.observe = c.observe AND o.arithmetic = c.arithmetic
       AND o.baseline = c.baseline
       AND iif(c.baseline = 'oracle-topp', o.attended >= c.attended,
         o.at_budget = n.budget)
     ORDER BY o.attended, o.key LIMIT 1) AS above
  FROM ruled c JOIN chance n
    ON n.trace = c.trace AND n.prompt_len = c.prompt_len
      AND n.observe = c.observe AND n.arithmetic = c.arithmetic
      AND n.budget BETWEEN c.equal_budget - 1 AND c.equal_budget),
lined AS
  (SELECT c.*, reference_budget, random, random_mass,
    min(c.confirmed, random_confirmed, l.confirmed, h.confirmed) AS all_run,
    l.output_error + (h.output_error - l.output_error) * coalesce(
      (c.attended - l.attended) / nullif(h.attended - l.attended, 0), 0)
      AS oracle,
    l.mass + (h.mass - l.mass) * coalesce(
      (c.attended - l.attended) / nullif(h.attended - l.attended, 0), 0)
      AS oracle_mass,
    max(reference_budget) OVER (PARTITION BY c.key, c.basis, c.asked) AS nearest
  FROM ruled c LEFT JOIN (beside b JOIN oracle l ON l.key = b.below
      JOIN oracle h ON h.key = b.above)
    ON b.key = c.key AND b.basis IS c.basis AND b.asked IS c.asked)
SELECT trace, prompt_len, observe, method, params, basis, asked, budget,
  equal_budget, reference_budget, baseline, output_error, random, oracle,
  (random - output_error) / nullif(random - oracle, 0) AS gap,
  mass, random_mass, oracle_mass,
  (mass - random_mass) / nullif(oracle_mass - random_mass, 0) AS mass_gap,
  coalesce(all_run, 0) AS confirmed, key
FROM lined WHERE reference_budget IS nearest
ORDER BY trace, prompt_len, observe, method, budget, params, basis, asked;

-- The cross-check: digests, and who confirmed them.
CREATE TEMP VIEW crosscheck AS
SELECT t.name AS trace, r.prompt_len, r.observe, r.method, r.spec, r.budget,
  r.status,
  r.journal, r.state, r.output, r.confirmations,
  coalesce(r.confirmed, 0) AS confirmed, r.by_whom, r.conflicts, r.key
FROM newest r JOIN trace t USING (identity)
ORDER BY trace, prompt_len, observe, method, budget, params, r.key;

-- Results that contradict the first one.
CREATE TEMP VIEW conflict AS
SELECT t.name AS trace, r.prompt_len, r.observe, r.spec, d.what, d.layer,
  d.status,
  d.backend, d.isa, d.threads, v.cpu, v.commit_name, v.started,
  r.journal AS first_journal, d.journal AS other_journal,
  r.state AS first_state, d.state AS other_state,
  r.output AS first_output, d.output AS other_output, r.key
FROM contradiction d JOIN run r USING (run_id)
  JOIN trace t USING (identity)
  JOIN environment v USING (environment_id)
ORDER BY trace, r.prompt_len, r.observe, r.spec, v.started, d.backend, d.isa,
  d.threads,
  d.what, r.key;

-- Graded kernels of others: the first error of each layer.
CREATE TEMP VIEW graded AS
SELECT t.name AS trace, r.prompt_len, r.observe, r.spec, d.isa AS theirs,
  d.layer, d.what,
  v.started, r.key
FROM diff d JOIN run r USING (run_id) JOIN trace t USING (identity)
  JOIN environment v USING (environment_id)
WHERE d.backend = 'theirs'
ORDER BY trace, r.prompt_len, r.observe, r.spec, theirs, v.started, d.layer,
  d.what, r.key;

-- All runs, the newest code of each first.
CREATE TEMP VIEW history AS
SELECT t.name AS trace, r.prompt_len, r.observe, r.method, r.budget, r.spec,
  r.params,
  r.code,
  r.arithmetic, CASE age WHEN 1 THEN 'current' ELSE 'superseded' END AS state,
  r.status, r.first_seen, r.confirmations, r.conflicts,
  (SELECT mean FROM metric m WHERE m.run_id = r.run_id AND part = 0
    AND measure = 'output_error') AS output_error, r.output, r.key
FROM aged r JOIN trace t USING (identity)
ORDER BY trace, r.prompt_len, r.observe, r.method, r.budget, r.spec, age, r.key;

-- Every measure of every part, for other plots.
CREATE TEMP VIEW metrics AS
SELECT t.name AS trace, r.method, r.budget, p.layer, p.head, p.bin,
  p.first_step, p.last_step, m.measure, m.count, m.mean, m.p50, m.p95, m.p99,
  m.max, m.squares, r.key
FROM newest r JOIN trace t USING (identity) JOIN part p USING (run_id)
  JOIN metric m USING (run_id, part)
ORDER BY trace, r.method, r.budget, r.key, m.part, m.measure;

CREATE TEMP VIEW costs AS
SELECT t.name AS trace, r.method, r.budget, s.step, s.bytes, s.codes, s.read,
  s.scanned, r.key
FROM newest r JOIN trace t USING (identity) JOIN step_cost s USING (run_id)
ORDER BY trace, r.method, r.budget, r.key, s.step;

-- The means of each decode step over layers and query heads, to compare methods
-- step by step. f32_at gives the i-th number of a row of step_mean.
CREATE TEMP VIEW steps AS
WITH means AS MATERIALIZED
  (SELECT run_id,
    -- each steps: max(CASE measure WHEN '@N' THEN mean END) AS @N,
    count(*) AS measures
  FROM step_mean GROUP BY run_id)
SELECT t.name AS trace, r.method, r.spec, r.budget, s.step,
  -- each steps: f32_at(m.@N, s.step - r.prompt_len - 1) AS @N,
  r.key
FROM newest r JOIN trace t USING (identity) JOIN step_cost s USING (run_id)
  JOIN means m USING (run_id)
WHERE s.step > r.prompt_len
ORDER BY trace, r.method, r.budget, r.key, s.step;

CREATE TEMP VIEW scalars AS
SELECT t.name AS trace, r.method, r.budget, s.name, s.value, r.key
FROM newest r JOIN trace t USING (identity) JOIN scalar s USING (run_id)
ORDER BY trace, r.method, r.budget, r.key, s.name;

CREATE TEMP VIEW kinds AS
SELECT t.name AS trace, r.method, r.budget, h.kind, h.total, h.bytes, r.key
FROM newest r JOIN trace t USING (identity) JOIN held h USING (run_id)
ORDER BY trace, r.method, r.budget, r.key, h.kind;

-- What the entries of each class hold at the end, if a method assigns classes.
CREATE TEMP VIEW classes AS
SELECT c.trace, c.prompt_len, c.observe, c.method, c.spec, c.basis, c.asked,
  c.budget,
  c.kept, h.kind, substr(h.kind, 6) AS class, h.bytes,
  h.bytes * 1.0 / c.bytes_end AS share, c.key
FROM held h JOIN run r USING (run_id) JOIN cell c USING (key)
WHERE h.kind LIKE 'tier\_%' ESCAPE '\' AND h.bytes > 0
ORDER BY c.trace, c.prompt_len, c.observe, c.method, c.budget, c.params,
  c.basis, c.asked,
  c.key, h.kind;

CREATE TEMP VIEW confirmations AS
SELECT t.name AS trace, r.spec, c.backend, c.isa, c.threads, c.seconds,
  v.version, v.commit_name, v.dirty, v.compiler, v.flags, v.cpu, v.cores,
  v.os, v.locale, v.ftz, v.daz, v.rounding, v.command, v.started, r.key
FROM confirmation c JOIN run r USING (run_id) JOIN trace t USING (identity)
  JOIN environment v USING (environment_id)
ORDER BY trace, r.spec, r.key, v.started, v.digest, c.backend, c.isa,
  c.threads;
