-- SPDX-License-Identifier: Apache-2.0
--
-- What the page draws of Hard-KV's questions: what a share of the probability
-- selects before and after calibration (kvreplay selection), and how far the
-- log-sum-exp of a pruned cache drifts from that of all.

CREATE TEMP VIEW selection AS
SELECT identity, layer, head, x AS token, series AS adapter, y AS share,
  max(value) FILTER (WHERE figure = 'selection.before') AS before,
  max(value) FILTER (WHERE figure = 'selection.after') AS after,
  max(value) FILTER (WHERE figure = 'selection.temperature') AS temperature
FROM figure WHERE figure IN
  ('selection.before', 'selection.after', 'selection.temperature')
GROUP BY identity, layer, head, x, series, y;

-- Rows by adapter, as it is and calibrated; attention itself needs no
-- calibration.
CREATE TEMP VIEW selected AS
WITH both AS
  (SELECT identity, layer, head, token, adapter, share, before AS tokens,
    CASE adapter WHEN 'vanilla' THEN 'attention itself'
      ELSE adapter || ', as it is' END AS series
  FROM selection
  UNION ALL
  SELECT identity, layer, head, token, adapter, share, after,
    adapter || ', calibrated'
  FROM selection WHERE adapter <> 'vanilla')
SELECT t.name AS trace, b.*, t.name || ', P' || share AS panel
FROM both b JOIN trace t USING (identity);

-- Tokens selected of a row, over layers and KV heads: mean and both bounds.
CREATE TEMP VIEW collapse AS
SELECT panel, series, share, token, avg(tokens) AS tokens,
  min(tokens) AS least, max(tokens) AS most, '' AS asked, 1 AS confirmed
FROM selected GROUP BY panel, series, share, token
ORDER BY panel, series, token;

CREATE TEMP VIEW temperatures AS
SELECT t.name || ', P' || share AS panel, adapter AS series, token,
  avg(temperature) AS temperature, min(temperature) AS least,
  max(temperature) AS most, '' AS asked, 1 AS confirmed
FROM selection JOIN trace t USING (identity) WHERE adapter <> 'vanilla'
GROUP BY t.name, share, adapter, token ORDER BY panel, series, token;

-- The log-sum-exp of a row beside what it selects, means over layers and heads.
CREATE TEMP VIEW densities AS
SELECT panel, s.series, token, avg(r.value) AS lse, avg(tokens) AS tokens,
  '' AS asked, 1 AS confirmed
FROM selected s JOIN figure r USING (identity, layer, head)
WHERE r.figure = 'selection.lse' AND r.x = token AND share = 60
GROUP BY panel, s.series, token ORDER BY panel, s.series, avg(r.value);

-- Selection maps of all KV heads on top of each other: the share of them, and
-- of the tokens of a 64th of the trace that the row sees, that is selected.
CREATE TEMP VIEW stacked AS
WITH RECURSIVE bins(bin) AS
  (SELECT 0 UNION ALL SELECT bin + 1 FROM bins WHERE bin < 63),
sums AS MATERIALIZED
  (SELECT identity, series AS adapter, x AS token, bin,
    sum(iif(y = 60, i32_at(value, bin), 0)) AS p60,
    sum(iif(y = 90, i32_at(value, bin), 0)) AS p90,
    count(DISTINCT layer) AS layers
  FROM figure, bins WHERE figure = 'selection.map'
  GROUP BY identity, series, x, bin),
parts AS
  (SELECT *, 'P60' AS part, p60 AS chosen FROM sums
  UNION ALL SELECT *, 'P90 - P60', p90 - p60 FROM sums),
seen AS
  (SELECT t.name AS trace, p.*, layers * n_kv_heads *
    max(0, min(token + 1, ((bin + 1) * n_tokens + 63) / 64) -
      (bin * n_tokens + 63) / 64) AS seen
  FROM parts p JOIN trace t USING (identity))
SELECT trace, adapter, part, token, bin,
  iif(seen > 0, chosen * 1.0 / seen, NULL) AS share
FROM seen ORDER BY trace, adapter <> 'vanilla', adapter, part, token, bin;

-- The share of tokens that a head selects, calibrated, mean over rows.
CREATE TEMP VIEW shares AS
WITH rows AS
  (SELECT identity, layer, head, token, adapter,
    max(iif(share = 60, after, 0)) * 1.0 / (token + 1) AS p60,
    max(iif(share = 90, after, 0)) * 1.0 / (token + 1) AS p90
  FROM selection GROUP BY identity, layer, head, token, adapter),
parts AS
  (SELECT *, 'P60' AS part, p60 AS own FROM rows
  UNION ALL SELECT *, 'P90 - P60', p90 - p60 FROM rows)
SELECT t.name AS trace, adapter, part, layer, head, avg(own) AS share
FROM parts JOIN trace t USING (identity)
GROUP BY t.name, adapter, part, layer, head
ORDER BY trace, adapter <> 'vanilla', adapter, part, layer, head;

-- The running sum of lse_error at the budget of the pictures, of methods that
-- have any: at most 121 steps of a line, the last among them.
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

-- What merging adds to it: of two lines that differ in nothing else.
CREATE TEMP VIEW merging AS
WITH drawn AS MATERIALIZED (SELECT * FROM drifts)
SELECT panel, d.series, basis, asked, m.prompt_len, step,
  m.drift - d.drift AS added, min(m.confirmed, d.confirmed) AS confirmed
FROM drawn m JOIN drawn d USING (panel, basis, asked, step)
WHERE m.series <> d.series
  AND d.series = replace(m.series, 'condensed=merge', 'condensed=evict')
ORDER BY panel, d.series, basis, asked, step;
