-- SPDX-License-Identifier: Apache-2.0
--
-- How far the log-sum-exp of a pruned cache drifts from that of all tokens, as
-- in Hard-KV's paper.

-- The running sum of lse_error at the budget of the maps, of methods that have
-- any: at most 121 steps per line, including the last.
CREATE TEMP VIEW drifts AS
WITH ran AS MATERIALIZED
  (SELECT d.*, m.mean FROM drawn_run d
    JOIN part w ON w.run_id = d.run_id AND w.part = 0 AND w.drift <> 0
    JOIN step_mean m ON m.run_id = d.run_id AND m.measure = 'lse_error')
SELECT trace || iif(observe = 'recorded', '', ', observed ' || observe)
    AS panel,
  label AS series, basis, asked, prompt_len, step,
  f32_sum(mean, step - prompt_len) AS drift, confirmed
FROM ran JOIN step_cost s USING (run_id)
WHERE step > prompt_len AND (n_tokens - step) % every = 0
ORDER BY panel, series, basis, asked, step;

-- What merging adds to the drift: for two lines that differ in nothing else.
CREATE TEMP VIEW merging AS
WITH drawn AS MATERIALIZED (SELECT * FROM drifts)
SELECT panel, d.series, basis, asked, m.prompt_len, step,
  m.drift - d.drift AS added, min(m.confirmed, d.confirmed) AS confirmed
FROM drawn m JOIN drawn d USING (panel, basis, asked, step)
WHERE m.series <> d.series
  AND d.series = replace(m.series, 'condensed=merge', 'condensed=evict')
ORDER BY panel, d.series, basis, asked, step;
