-- SPDX-License-Identifier: Apache-2.0
--
-- Figures of how tokens are stored: formats, sparsity, kinds of bytes, pages. A
-- mean is over the traces on which any cell of its figure ran, and exists only
-- if each of them has a result. Traces of one unit (view `repeated` of
-- means.sql) count as one.

-- Cells that have an error, with their line's name and where they ran. If
-- tokens are coded by +FORMAT: also the name without it, and the formats of
-- keys and values with their bits. A format alone (k8v4) is dense+FORMAT: it
-- stores the same, and has that name and its settings here.
CREATE TEMP VIEW told AS
WITH named AS
  (SELECT c.*, l.label, request || ' ' || prompt_len || ' ' || observe AS place,
    iif(method = 'quant', 'dense+quant' ||
      replace(substr(label, length('quant') + 1), ' ', ' quant.'), label)
      AS long,
    iif(method = 'quant', (SELECT json_group_object('quant.' || key, value)
      FROM json_each(params)), params) AS settings
  FROM cell c JOIN line l USING (key, basis, asked)
  WHERE output_error IS NOT NULL),
cells AS
  (SELECT *, json_extract(settings, '$."quant.k"') AS k,
    json_extract(settings, '$."quant.v"') AS v FROM named)
SELECT *, method = 'quant' OR method LIKE '%+quant' AS coded,
  replace(replace(replace(long, '+quant', ''),
    ' quant.k=' || coalesce(k, ''), ''), ' quant.v=' || coalesce(v, ''), '')
    AS bare,
  CASE WHEN k = 'raw' THEN 16 WHEN k LIKE 'e%' THEN 8
    ELSE CAST(substr(k, -1) AS INTEGER) END AS k_bits,
  CASE WHEN v = 'raw' THEN 16 WHEN v LIKE 'e%' THEN 8
    ELSE CAST(substr(v, -1) AS INTEGER) END AS v_bits
FROM cells;

-- The same, averaged over traces of one unit.
CREATE TEMP VIEW told_once AS
SELECT label, basis, asked, place, method, params, settings, arithmetic, coded,
  bare, k, v, k_bits, v_bits, avg(1 - kept / n_tokens) AS dropped,
  avg(kr) AS kr, avg(cr) AS cr, avg(output_error) AS output_error,
  min(confirmed) AS confirmed, min(key) AS key
FROM told GROUP BY label, basis, asked, place;

-- More bits for keys, against the mirrored bits: cells for which both ran,
-- equal in all else.
CREATE TEMP VIEW mirrors AS
WITH one AS MATERIALIZED
  (SELECT bare, place, basis, asked, k, v, k_bits, v_bits, kr, output_error,
    max(confirmed) AS confirmed, arithmetic,
    json_remove(settings, '$."quant.k"', '$."quant.v"') AS rest
  FROM told_once WHERE coded
  GROUP BY bare, place, basis, asked, k, v, arithmetic, rest),
two AS MATERIALIZED
  (SELECT a.bare, a.place, a.basis, a.asked, a.k, a.v,
    a.kr AS kr, b.kr AS mirror_kr, a.output_error,
    b.output_error AS mirror_error, min(a.confirmed, b.confirmed) AS confirmed
  FROM one a JOIN one b ON b.place = a.place AND b.rest = a.rest
    AND b.basis = a.basis AND b.asked = a.asked AND b.bare = a.bare
    AND b.arithmetic = a.arithmetic AND b.k = a.v AND b.v = a.k
  WHERE a.k_bits > a.v_bits)
SELECT bare AS method, basis, asked, k AS more, v AS less,
  'K' || replace(replace(k, 'int', ''), 'raw', '16') || 'V' ||
    replace(replace(v, 'int', ''), 'raw', '16') AS pair,
  'K' || replace(replace(v, 'int', ''), 'raw', '16') || 'V' ||
    replace(replace(k, 'int', ''), 'raw', '16') AS mirror,
  count(*) AS traces, avg(kr) AS kr, avg(mirror_kr) AS mirror_kr,
  avg(output_error) AS output_error, avg(mirror_error) AS mirror_error,
  min(confirmed) AS confirmed
FROM two GROUP BY bare, basis, asked, k, v
HAVING count(*) = (SELECT count(DISTINCT place) FROM two)
ORDER BY method, basis, avg(kr) DESC, asked, pair;

-- Fewer bits, fewer tokens, or both: a method that ran at budgets both alone
-- and with +int8, these runs, and dense with +int8.
CREATE TEMP VIEW pruning AS
WITH wide AS MATERIALIZED
  (SELECT replace(replace(replace(replace(replace(bare,
      ' quant.groups=1', ''), ' quant.k_groups=1', ''),
      ' quant.v_groups=1', ''), ' quant.residual=0', ''),
      ' quant.rope=after', '') AS base,
    coded, place, basis, asked, kr, output_error, confirmed
  FROM told_once WHERE NOT coded OR (k = 'int8' AND v = 'int8'
    AND json_extract(settings, '$."quant.k_groups"') = 1
    AND json_extract(settings, '$."quant.v_groups"') = 1
    AND json_extract(settings, '$."quant.residual"') = 0
    AND json_extract(settings, '$."quant.rope"') = 'after')),
whole AS MATERIALIZED
  (SELECT base, coded, place, basis, asked, kr, output_error,
    max(confirmed) AS confirmed
  FROM wide WHERE coded AND base = 'dense' AND asked = '' GROUP BY place),
method AS
  (SELECT base FROM wide WHERE asked <> '' AND place IN
    (SELECT place FROM whole) GROUP BY base
  HAVING count(DISTINCT coded) = 2),
point AS
  (SELECT base, CASE WHEN coded THEN 'both' ELSE 'fewer tokens' END AS series,
    place, basis, asked, kr, output_error, confirmed
  FROM wide JOIN method USING (base) WHERE asked <> ''
  UNION ALL
  SELECT m.base, '8 bit', place, basis, asked, kr, output_error, confirmed
  FROM whole, method m)
SELECT base AS method, series, basis, asked, count(*) AS traces, avg(kr) AS kr,
  avg(output_error) AS output_error, min(confirmed) AS confirmed
FROM point WHERE place IN (SELECT place FROM whole)
GROUP BY base, series, basis, asked
HAVING count(*) = (SELECT count(DISTINCT place) FROM whole)
ORDER BY method, series, kr, asked;

-- LeanKV's tokens by head, by layer, or the same number in every head: rows
-- with equal variant and formats, if at least two of the three ran.
CREATE TEMP VIEW sparsity AS
WITH lean AS MATERIALIZED
  (SELECT 'variant=' || json_extract(params, '$.variant') || ' high=' ||
      json_extract(params, '$.high') || ' low=' ||
      json_extract(params, '$.low') ||
      coalesce(' middle_1=' || json_extract(params, '$.middle_1'), '') ||
      coalesce(' middle_2=' || json_extract(params, '$.middle_2'), '') AS alike,
    json_extract(params, '$.sparsity') AS sparsity, label, place, basis, asked,
    dropped, kr, output_error, confirmed
  FROM told_once WHERE method = 'leankv' AND dropped IS NOT NULL),
several AS
  (SELECT alike FROM lean GROUP BY alike
  HAVING count(DISTINCT sparsity) > 1)
SELECT alike, sparsity, label AS method, basis, asked, count(*) AS traces,
  avg(dropped) AS dropped, avg(kr) AS kr, avg(output_error) AS output_error,
  min(confirmed) AS confirmed
FROM lean JOIN several USING (alike)
GROUP BY alike, sparsity, label, basis, asked
HAVING count(*) = (SELECT count(DISTINCT place) FROM lean)
ORDER BY alike, sparsity, dropped, label, basis, asked;

-- What is stored at the end, by kind, as shares of the dense cache of the same
-- trace: only the codes, as papers count, and everything needed; and the
-- unified pages that would hold it, if that layout ran.
CREATE TEMP VIEW charged AS
WITH shares AS
  (SELECT c.*, bytes_end / share_end AS dense,
    (SELECT l.bytes_end FROM layout l JOIN run r USING (run_id)
    WHERE r.key = c.key AND l.layout = 'unified') AS unified
  FROM told c WHERE share_end > 0),
one AS
  (SELECT label, basis, asked, place, avg(payload / dense) AS codes,
    avg(metadata / dense) AS metadata, avg(columns / dense) AS columns,
    avg(side / dense) AS side, avg(slack / dense) AS slack,
    avg(share_end) AS everything, avg(unified / dense) AS unified,
    min(confirmed) AS confirmed
  FROM shares GROUP BY label, basis, asked, place)
SELECT label AS method, basis, asked, count(*) AS traces, avg(codes) AS codes,
  avg(metadata) AS metadata, avg(columns) AS columns, avg(side) AS side,
  avg(slack) AS slack, avg(everything) AS everything,
  iif(count(unified) = count(*), avg(unified), NULL) AS unified,
  min(confirmed) AS confirmed
FROM one GROUP BY label, basis, asked
HAVING count(*) = (SELECT count(DISTINCT place) FROM one)
ORDER BY everything DESC, label, basis, asked;

-- Runs of every line at the budget of the maps, and every how many steps to
-- draw one, counted from the last, so that at most 121 are drawn.
CREATE TEMP VIEW drawn_run AS
SELECT r.run_id, t.name AS trace, r.prompt_len, r.observe, l.label, l.basis,
  l.asked, coalesce(r.confirmed, 0) AS confirmed,
  max(1, (t.n_tokens - r.prompt_len + 119) / 120) AS every, t.n_tokens
FROM newest r JOIN trace t USING (identity) JOIN line l USING (key)
WHERE l.asked = '' OR (l.basis, l.asked) = (SELECT basis, asked FROM pictured);

-- The memory that each layout would hold (kvreplay run --layout): bytes of K
-- and V as a share of dense's; share_freed: freed / vacated bytes. With a
-- layout is shown the fullest of N ranks (its tp=N), which is a row of its own
-- if the layout without ranks was not requested; rank_even: what that rank
-- holds on average, as a share of an Nth of all.
CREATE TEMP VIEW layouts AS
WITH ranked AS
  (SELECT *, substr(layout, 1, instr(layout, ':tp=') - 1) AS whole,
    CAST(substr(layout, instr(layout, ':tp=') + 4) AS INTEGER) AS ranks
  FROM layout WHERE instr(layout, ':tp='))
SELECT c.trace, c.prompt_len, c.observe, c.method, c.spec, c.basis, c.asked,
  c.budget, c.kept, l.layout, l.pages_end, l.pages_peak, l.pages_mean,
  l.bytes_end, l.bytes_peak, l.bytes_mean, l.slack_end, l.slack_peak,
  l.slack_mean, l.vacated, l.freed, l.map_end, l.map_peak,
  l.bytes_end * 1.0 / n.codes_end AS share_end,
  l.freed * 1.0 / nullif(l.vacated, 0) AS share_freed,
  l.unused_end, l.unused_peak, l.moved, l.table_entries, l.list_operations,
  l.lanes, l.loads, l.rewrites, l.rewritten, l.moves, l.moved_bytes,
  l.mask_end, l.mti, l.break_even,
  l.kept_steps * 1.0 / (l.lanes * l.fullest_steps) AS utilisation,
  c.n_tokens - c.prompt_len AS steps, ranks, k.lanes AS rank_lanes,
  k.bytes_end AS rank_bytes_end, k.bytes_peak AS rank_bytes_peak,
  k.bytes_mean AS rank_bytes_mean, k.loads AS rank_loads,
  k.kept_steps * 1.0 / (k.lanes * k.fullest_steps) AS rank_utilisation,
  ranks * k.bytes_mean / nullif(iif(k.whole = l.layout, l.bytes_mean, NULL), 0)
    AS rank_even, c.params, c.key
FROM layout l JOIN run r USING (run_id) JOIN cell c USING (key)
  LEFT JOIN dense d ON d.identity = r.identity
    AND d.prompt_len = r.prompt_len AND d.observe = r.observe
    AND d.arithmetic = r.arithmetic
  LEFT JOIN counted n ON n.run_id = d.run_id
  LEFT JOIN ranked k ON k.run_id = l.run_id AND l.layout IN (k.whole, k.layout)
WHERE k.layout IS NOT l.layout OR NOT EXISTS
  (SELECT 1 FROM layout w WHERE w.run_id = l.run_id AND w.layout = k.whole)
ORDER BY c.trace, c.prompt_len, c.observe, c.method, c.budget, c.params,
  c.basis, c.asked, c.key, l.layout, ranks;

-- What caches on the device did for entries in host memory (kvreplay run
-- --cache): entries looked up and found, and bytes per decode step of those not
-- found, also as a share of the bytes without a cache.
CREATE TEMP VIEW device_caches AS
SELECT c.trace, c.prompt_len, c.observe, c.method, c.params, c.spec, c.basis,
  c.asked, c.budget, d.cache, d.looked, d.hits,
  d.hits * 1.0 / nullif(d.looked, 0) AS found,
  d.fetched * 1.0 / nullif(t.n_tokens - c.prompt_len, 0) AS fetched,
  d.fetched * 1.0 / nullif(s.value, 0) AS share_fetched,
  d.fetched_peak, d.held_peak, c.key
FROM device_cache d JOIN run r USING (run_id) JOIN cell c USING (key)
  JOIN trace t ON t.identity = r.identity
  LEFT JOIN scalar s ON s.run_id = d.run_id AND s.name = 'bytes.fetched'
ORDER BY c.trace, c.prompt_len, c.observe, c.method, c.budget, c.params,
  c.basis, c.asked, c.key, substr(d.cache, 1, 3) DESC,
  CAST(substr(d.cache, 5) AS INTEGER);

-- The pages that layouts hold at each step.
CREATE TEMP VIEW paged AS
WITH ran AS MATERIALIZED (SELECT * FROM drawn_run)
SELECT s.layout || ', ' || trace || iif(observe = 'recorded', '',
    ', observed ' || observe) AS panel,
  s.layout, trace, prompt_len, observe, label AS method, basis, asked, s.step,
  s.pages, s.bytes, s.slack, confirmed
FROM layout_step s JOIN ran USING (run_id)
WHERE (s.layout LIKE 'pages%' OR s.layout LIKE 'unified%')
  AND ((n_tokens - s.step) % every = 0)
ORDER BY s.layout DESC, trace, prompt_len, observe, label, basis, asked, s.step;

-- Layouts of regular indices: what lanes hold as a share of what they would if
-- all were as long as the longest (utilisation, the paper's), and of the slots
-- that the layout holds (used). Without layouts of ranks (tp=) and of one mask
-- (masks=), which count other lanes or other entries of the same cell.
CREATE TEMP VIEW utilised AS
WITH shares AS
  (SELECT label, l.layout, basis, asked, place, min(confirmed) AS confirmed,
    avg(kept_steps * 1.0 / (lanes * fullest_steps)) AS full,
    avg(kept_steps * 2.0 / (pages_mean * steps)) AS used,
    avg(kept_steps * 2.0 / (seen * steps * lanes)) AS overall,
    avg(fullest_steps * 2.0 / (seen * steps)) AS fullest
  FROM (SELECT *, n_tokens - prompt_len + 1 AS steps,
      n_tokens + prompt_len AS seen FROM told) c
    JOIN run r USING (key) JOIN layout l USING (run_id)
  WHERE lanes * fullest_steps > 0 AND l.layout NOT LIKE '%=%'
  GROUP BY label, l.layout, basis, asked, place)
SELECT label AS method, layout, basis, asked, count(*) AS traces,
  avg(full) AS utilisation, avg(used) AS used, avg(overall) AS overall,
  avg(fullest) AS fullest, min(confirmed) AS confirmed
FROM shares GROUP BY label, layout, basis, asked
HAVING count(*) = (SELECT count(DISTINCT place) FROM shares)
ORDER BY utilisation DESC, label, basis, asked, layout;

-- What these layouts hold at each step, a panel per cell, and when a rewrite
-- has paid: the tokens seen when its memory-time integral was down to that of
-- masks.
CREATE TEMP VIEW rewritten AS
WITH ran AS MATERIALIZED (SELECT * FROM drawn_run),
held AS
  (SELECT ran.*, s.layout, s.step, s.bytes,
    max(l.rewritten, ran.prompt_len) + break_even AS paid
  FROM ran JOIN layout l USING (run_id)
    JOIN layout_step s USING (run_id, layout)
  WHERE lanes IS NOT NULL),
drawn AS
  (SELECT *, layout AS series FROM held WHERE (n_tokens - step) % every = 0
  UNION ALL SELECT *, layout || ' has paid' FROM held WHERE step = paid)
SELECT label || ', ' || trace || iif(observe = 'recorded', '',
    ', observed ' || observe) AS panel,
  series, layout, trace, prompt_len, observe, label AS method, basis, asked,
  step, bytes, paid, confirmed
FROM drawn ORDER BY label, trace, prompt_len, observe, basis, asked, series,
  step;
