-- SPDX-License-Identifier: Apache-2.0
--
-- Figures of deltakv, as in its paper: one parameter varied with the others
-- fixed, its ablations, and its shares of bytes and tokens next to the paper's
-- equations. Means are over the traces on which any deltakv ran, and exist only
-- if each of them has a result.

CREATE TEMP VIEW residual_run AS
SELECT DISTINCT key, place, kr, cr, output_error, confirmed, params,
  json_extract(params, '$.stride') AS stride,
  json_extract(params, '$.nearest') AS k, json_extract(params, '$.r') AS r,
  json_extract(params, '$.compressor') AS compressor,
  json_extract(params, '$.references') AS refs,
  json_extract(params, '$.full') AS full,
  json_extract(params, '$.kept') IS 'int4' AS four, c.kind, c.latent, c.hidden,
  iif(c.code IS NULL, NULL, coalesce(c.learned, 'nearest')) AS learned
FROM told_once LEFT JOIN (SELECT key, code FROM run) USING (key)
  LEFT JOIN compressor c USING (code) WHERE method = 'deltakv';

-- A parameter and its values, over rows equal in all others; for compressors
-- the bytes stored stand for the width of their latents. Also widths of
-- compressors themselves, over files equal in all else, if kvreplay residuals
-- read the files.
CREATE TEMP VIEW dials AS
WITH one AS MATERIALIZED (SELECT * FROM residual_run),
long AS
  (SELECT 'stride' AS dial, stride AS value, json_remove(params, '$.stride')
    AS rest, one.* FROM one WHERE refs <> 'none'
  UNION ALL SELECT 'nearest', k, json_remove(params, '$.nearest'), one.*
  FROM one WHERE refs <> 'none'
  UNION ALL SELECT 'r', r, json_remove(params, '$.r'), one.*
  FROM one WHERE r > 0
  UNION ALL SELECT 'compressor', compressor,
    json_remove(params, '$.compressor') || coalesce(learned, ''), one.*
  FROM one WHERE compressor <> 'none'
  UNION ALL SELECT 'dc', latent, json_remove(params, '$.compressor') || kind ||
    learned || hidden, one.* FROM one WHERE latent > 0
  UNION ALL SELECT 'd_h', hidden, json_remove(params, '$.compressor') || kind ||
    learned || latent, one.* FROM one WHERE latent > 0),
mean AS
  (SELECT dial, value, rest, count(*) AS traces, avg(kr) AS kr, avg(cr) AS cr,
    avg(output_error) AS output_error, min(confirmed) AS confirmed,
    iif(dial = 'stride', '', 's=' || stride || ' ') ||
    iif(dial = 'nearest', '', 'k=' || k || ' ') ||
    iif(dial = 'r' OR coalesce(r, 0) = 0, '', 'r=' || round(r, 4) || ' ') ||
    json_extract(params, '$.latent') || ' R=' ||
    json_extract(params, '$.recent') ||
    iif(compressor = 'none', ' without compressor', '') ||
    iif(refs = 'none', ' without references', '') ||
    iif(four, ' kept in 4 bits', '') ||
    iif(dial IN ('dc', 'd_h') AND (learned = 'none') <> (refs = 'none'),
      ' (learned with' || iif(refs = 'none', '', 'out') || ')', '') ||
    iif(dial = 'dc', ' ' || kind || ' of ' || hidden, '') ||
    iif(dial = 'd_h', ' ' || kind || ' dc=' || latent, '') AS series
  FROM long GROUP BY dial, rest, value
  HAVING count(*) = (SELECT count(DISTINCT place) FROM one))
SELECT m.*, iif(dial = 'compressor', kr, value) AS turn, dial AS panel,
  '' AS asked
FROM mean m JOIN (SELECT dial, rest FROM mean GROUP BY dial, rest
  HAVING count(*) > 1) USING (dial, rest)
ORDER BY dial, series, rest, turn;

-- With and without references and compressor, equal in all else. An ablation is
-- trained as it is run; weights that kvreplay residuals did not read may have
-- learned otherwise.
CREATE TEMP VIEW ablations AS
WITH one AS MATERIALIZED
  (SELECT *, json_remove(params, '$.compressor', '$.references') AS rest,
    CASE WHEN compressor = 'none' AND refs = 'none' THEN 'neither'
      WHEN compressor = 'none' THEN 'without compressor'
      WHEN refs = 'none' AND learned = 'none' THEN 'without references'
      WHEN refs = 'none' AND learned IS NULL
        THEN 'without references, weights not looked at'
      WHEN refs = 'none' THEN 'without references, learned with'
      WHEN learned = 'none' THEN 'DeltaKV, learned without references'
      ELSE 'DeltaKV' END AS series
  FROM residual_run),
mean AS
  (SELECT rest, compressor, series, 's=' || stride || ' k=' || k ||
      iif(coalesce(r, 0) = 0, '', ' r=' || round(r, 4)) || ' ' ||
      json_extract(params, '$.latent') || ' R=' ||
      json_extract(params, '$.recent') || iif(four, ' kept in 4 bits', '')
      AS panel,
    count(*) AS traces, avg(kr) AS kr, avg(cr) AS cr,
    avg(output_error) AS output_error, min(confirmed) AS confirmed
  FROM one GROUP BY rest, compressor, series
  HAVING count(*) = (SELECT count(DISTINCT place) FROM one))
SELECT m.*, '' AS asked
FROM mean m JOIN (SELECT rest FROM mean GROUP BY rest
  HAVING count(DISTINCT series) > 1) USING (rest)
ORDER BY panel, rest, series, compressor;

-- Shares of bytes and of tokens read, by equations 5 and 6 of the paper
--   KR = F / L + S / L (1 / s + z)    CR = F / L + S / L r
-- (L layers, F of them full, S = L - F, latents of z of a vector), as its
-- tables print them, and as runs of deltakv were counted. Its table 8 names r
-- 0.3 and 0.2 where CR 30 and 20 % need 0.1704 and 0.0857; its appendix B.4
-- says 7.2 % where a quarter of full layers and references with latents that
-- have 4 bits already make 11.3 %.
CREATE TEMP VIEW ratios AS
WITH paper(place, what, layers, full, per_stride, z, part, r, paper_kr,
  paper_cr) AS (VALUES
  (1, 'Llama-3.1-8B, r as printed', 32, 5, .1, .25, 1, .3, .452, .300),
  (2, 'Llama-3.1-8B, r as CR needs', 32, 5, .1, .25, 1, .1704, .452, .300),
  (3, 'Llama-3.1-8B, r as printed', 32, 4, .1, .25, 1, .2, .431, .200),
  (4, 'Llama-3.1-8B, r as CR needs', 32, 4, .1, .25, 1, .0857, .431, .200),
  (5, 'Llama-3.1-8B, latents in 4 bits', 32, 5, .1, .0625, 1, .1704, .29, .3),
  (6, 'Llama-3.1-8B, all in 4 bits', 32, 5, .1, .0625, .25, NULL, .072, NULL),
  (7, 'Llama-3.1-8B, without references', 32, 5, 0, .375, 1, .1704, .47, .3),
  (8, 'Qwen2.5-7B', 28, 6, .1, .25, 1, NULL, .489, NULL),
  (9, 'Qwen2.5-32B', 64, 9, .1, .25, 1, NULL, .44, NULL)),
ran AS MATERIALIZED
  (SELECT 's=' || stride || ' k=' || k || iif(coalesce(d.r, 0) = 0, '',
      ' r=' || round(d.r, 4)) || ' ' || json_extract(d.params, '$.latent') ||
      ' R=' || json_extract(d.params, '$.recent') ||
      iif(compressor = 'none', ' without compressor', '') ||
      iif(refs = 'none', ' without references', '') ||
      iif(four, ' kept in 4 bits', '') AS label, iif(four, .25, 1.0) AS part,
    json_remove(d.params, '$.full') AS rest, place, d.kr, d.cr,
    n_layers AS layers,
    iif(full = '', 0, 1 + length(full) - length(replace(full, '/', '')))
      AS full,
    iif(refs = 'none', 0, 1.0 / stride) AS per_stride, d.r
  FROM residual_run d JOIN run USING (key) JOIN trace USING (identity)
  WHERE n_layers > 0)
SELECT 1 AS part, place AS row, what, layers, full, per_stride, z, r,
  part * (full * 1.0 / layers + (layers - full) * per_stride / layers) +
    (layers - full) * z / layers AS equation_kr,
  full * 1.0 / layers + (layers - full) * r / layers AS equation_cr,
  paper_kr, paper_cr, NULL AS kr, NULL AS cr
FROM paper WHERE EXISTS (SELECT 1 FROM ran)
UNION ALL
SELECT 2, 0, label, layers, full, per_stride,
  (avg(kr) - part * full / layers) * layers / (layers - full) -
    part * per_stride, r,
  NULL, full * 1.0 / layers + (layers - full) * nullif(r, 0) / layers, NULL,
  NULL, avg(kr), avg(cr)
FROM ran WHERE full < layers GROUP BY rest, layers, full
HAVING count(*) = (SELECT count(DISTINCT place) FROM ran)
ORDER BY part, row, what;
