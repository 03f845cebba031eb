-- SPDX-License-Identifier: Apache-2.0
--
-- Means over traces, a view over those of views.sql: what `kvreport table
-- --mean` and the tables below the page's large figures show.

-- Which traces count as one, in a sentence; no row where none do. A unit is a
-- request, the length of its prompt, and what is observed. They are those of
-- the cells in `line`, or all where it is empty.
CREATE TEMP VIEW repeated AS
WITH unit AS
  (SELECT DISTINCT group_concat(trace, ' and ') AS names
  FROM (SELECT DISTINCT trace, request, prompt_len, observe FROM cell
    WHERE (key, basis, asked) IN (SELECT key, basis, asked FROM line)
      OR NOT EXISTS (SELECT 1 FROM line) ORDER BY trace)
  GROUP BY request, prompt_len, observe HAVING count(*) > 1),
counted AS (SELECT names, row_number() OVER (ORDER BY names) AS n FROM unit)
SELECT 'Traces that hold the same request count as one: '
  || group_concat(names, '; ') FILTER (WHERE n <= 4)
  || iif(count(*) > 4, '; and ' || (count(*) - 4) || ' more', '') || '.' AS said
FROM counted HAVING count(*) > 0;

-- What they are about, and what they call each line; filled by the program,
-- for a name is made from all rows.
CREATE TEMP TABLE line(key TEXT, basis TEXT, asked TEXT, label TEXT,
  PRIMARY KEY (key, basis, asked));

-- The mean over traces of what was asked alike, of the cells in `line`, and its
-- standard error, that of the traces' means; null for fewer than five. Traces
-- of one unit (view `repeated`) count as one, which has their means. `traces`
-- have an answer, of `traces_all`: where they differ the mean is one of those
-- that have, and may be compared with that of the same traces alone. `refused`
-- is how many of the others were refused or failed, `reason` that of the first
-- by name; the rest was not run. Needles are of the traces that have any.
-- Shares of dense need it on each trace, and what was scanned a kvreplay that
-- counted it.
CREATE TEMP VIEW summary AS
WITH chosen AS MATERIALIZED
  (SELECT c.*, l.label, c.output_error IS NOT NULL AS met,
    max(c.output_error IS NOT NULL) OVER (PARTITION BY l.label, l.basis,
      l.asked, c.request, c.prompt_len, c.observe) AS answered,
    dense_rank() OVER (ORDER BY c.request, c.prompt_len, c.observe) AS unit
  FROM cell c JOIN line l USING (key, basis, asked)),
every AS
  (SELECT label AS method, basis, asked, sum(met) AS traces,
    (SELECT max(unit) FROM chosen) AS traces_all, sum(refused) AS refused,
    max(conflicts) AS conflicts
  FROM (SELECT label, basis, asked, max(met) AS met, NOT max(met)
      AND max(status IN ('refused', 'failed')) AS refused,
      max(conflicts) AS conflicts
    FROM chosen GROUP BY label, basis, asked, unit)
  GROUP BY label, basis, asked),
one AS
  (SELECT label, basis, asked, avg(kept) AS kept, avg(share_end) AS share_end,
    avg(kr) AS kr, avg(share_read) AS share_read,
    avg(share_scanned) AS share_scanned, avg(needle_share) AS needle_share,
    avg(lse_error) AS lse_error, avg(kl) AS kl,
    avg(output_error) AS output_error,
    avg(output_error_p95) AS output_error_p95, avg(mass) AS mass,
    avg(recall_16) AS recall_16, avg(prompt_error) AS prompt_error,
    avg(prompt_mass) AS prompt_mass, min(confirmed) AS confirmed
  FROM chosen WHERE met GROUP BY label, basis, asked, unit),
mean AS
  (SELECT label AS method, basis, asked, count(needle_share) AS needles,
    count(share_end) = count(*) AS dense,
    count(share_scanned) = count(*) AS scans,
    avg(kept) AS kept, standard_error(kept) AS kept_se,
    avg(share_end) AS share_end, standard_error(share_end) AS share_end_se,
    avg(kr) AS kr, standard_error(kr) AS kr_se,
    avg(share_read) AS share_read, standard_error(share_read) AS share_read_se,
    avg(share_scanned) AS share_scanned,
    standard_error(share_scanned) AS share_scanned_se,
    avg(needle_share) AS needle_share,
    standard_error(needle_share) AS needle_share_se,
    avg(lse_error) AS lse_error, standard_error(lse_error) AS lse_error_se,
    avg(kl) AS kl, standard_error(kl) AS kl_se,
    avg(output_error) AS output_error,
    standard_error(output_error) AS output_error_se,
    avg(output_error_p95) AS output_error_p95,
    standard_error(output_error_p95) AS output_error_p95_se,
    avg(mass) AS mass, standard_error(mass) AS mass_se,
    avg(recall_16) AS recall_16, standard_error(recall_16) AS recall_16_se,
    avg(prompt_error) AS prompt_error,
    standard_error(prompt_error) AS prompt_error_se,
    avg(prompt_mass) AS prompt_mass,
    standard_error(prompt_mass) AS prompt_mass_se,
    min(confirmed) AS confirmed
  FROM one GROUP BY label, basis, asked)
SELECT e.method, e.basis, e.asked, traces, traces_all, refused,
  coalesce(needles, 0) AS needles,
  kept, kept_se,
  iif(dense, share_end, NULL) AS share_end,
  iif(dense, share_end_se, NULL) AS share_end_se,
  kr, kr_se,
  iif(dense, share_read, NULL) AS share_read,
  iif(dense, share_read_se, NULL) AS share_read_se,
  iif(scans, share_scanned, NULL) AS share_scanned,
  iif(scans, share_scanned_se, NULL) AS share_scanned_se,
  needle_share, needle_share_se,
  lse_error, lse_error_se,
  kl, kl_se,
  output_error, output_error_se,
  output_error_p95, output_error_p95_se,
  mass, mass_se,
  recall_16, recall_16_se,
  prompt_error, prompt_error_se,
  prompt_mass, prompt_mass_se,
  coalesce(confirmed, 0) AS confirmed, conflicts,
  (SELECT c.trace || ': ' || c.reason FROM chosen c
   WHERE c.label = e.method AND c.basis = e.basis AND c.asked = e.asked
     AND NOT c.answered AND c.status IN ('refused', 'failed')
   ORDER BY c.trace, c.prompt_len, c.observe LIMIT 1) AS reason
FROM every e LEFT JOIN mean m USING (method, basis, asked)
ORDER BY e.method, e.basis, length(e.asked), e.asked;

-- Why means of lines are not of all traces: a sentence for lines alike in it.
CREATE TEMP VIEW reasons AS
WITH some AS
  (SELECT method, asked, traces || ' of ' || traces_all || ' traces: '
    || coalesce(reason, '')
    || iif(refused > 1, ' (and ' || (refused - 1) || ' more)', '')
    || iif(refused AND traces + refused < traces_all, '; ', '')
    || iif(traces + refused < traces_all,
      'no answer on ' || (traces_all - traces - refused), '') AS why
  FROM summary WHERE traces < traces_all ORDER BY method)
SELECT group_concat(method, ', ') || iif(asked = '', '', ' at ' || asked)
  || ', ' || why AS said
FROM some GROUP BY asked, why ORDER BY min(method), asked;
