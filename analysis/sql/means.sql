-- SPDX-License-Identifier: Apache-2.0
--
-- Means over traces, for `kvreport table --mean` and the tables below the
-- page's large figures.

-- Which traces count as one, in a sentence; no row if none do. A unit is a
-- request, the length of its prompt, and what is observed. Units are those of
-- the cells in `line`, or of all cells if it is empty.
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

-- The cells of the means, and the name of each cell's line. The program fills
-- it, since a name depends on all rows.
CREATE TEMP TABLE line(key TEXT, basis TEXT, asked TEXT, label TEXT,
  PRIMARY KEY (key, basis, asked));

-- The mean over traces of cells in `line` with the same name and budget, and
-- its standard error, that of the traces' means; null for fewer than five.
-- Traces of one unit (view `repeated`) count as one, with their mean. `traces`
-- of `traces_all` have a result. If the numbers differ, the mean is over those
-- that have one, and may only be compared with means of the same traces.
-- `refused` is how many of the others were refused or failed, with the `reason`
-- of the first by name; the rest did not run. `by_user`: on how many traces the
-- model does not give the marked answer. Needles are means over the traces
-- that have any. Shares of dense need dense on each trace, and share_scanned a
-- kvreplay that counted it.
-- list share: share_end share_read share_scanned
-- list mean: kept kr
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
    max(conflicts) AS conflicts, sum(by_user) AS by_user
  FROM (SELECT label, basis, asked, max(met) AS met, NOT max(met)
      AND max(status IN ('refused', 'failed')) AS refused,
      max(conflicts) AS conflicts, max(met AND answer_by = 'user') AS by_user
    FROM chosen GROUP BY label, basis, asked, unit)
  GROUP BY label, basis, asked),
one AS
  (SELECT label, basis, asked,
    -- each mean: avg(@N) AS @N,
    -- each share: avg(@N) AS @N,
    -- each shown: avg(@N) AS @N,
    min(confirmed) AS confirmed
  FROM chosen WHERE met GROUP BY label, basis, asked, unit),
mean AS
  (SELECT label AS method, basis, asked, count(needle_share) AS needles,
    -- each mean: avg(@N) AS @N, standard_error(@N) AS @N_se,
    -- each shown: avg(@N) AS @N, standard_error(@N) AS @N_se,
    -- each share: iif(count(@N) < count(*), NULL, avg(@N)) AS @N,
    -- each share: iif(count(@N) < count(*), NULL, standard_error(@N)) AS @N_se,
    min(confirmed) AS confirmed
  FROM one GROUP BY label, basis, asked)
SELECT e.method, e.basis, e.asked, traces, traces_all, refused,
  coalesce(needles, 0) AS needles,
  kept, kept_se, share_end, share_end_se, kr, kr_se, share_read, share_read_se,
  share_scanned, share_scanned_se,
  -- each shown: @N, @N_se,
  coalesce(confirmed, 0) AS confirmed, conflicts,
  coalesce(by_user, 0) AS by_user,
  (SELECT c.trace || ': ' || c.reason FROM chosen c
   WHERE c.label = e.method AND c.basis = e.basis AND c.asked = e.asked
     AND NOT c.answered AND c.status IN ('refused', 'failed')
   ORDER BY c.trace, c.prompt_len, c.observe LIMIT 1) AS reason
FROM every e LEFT JOIN mean m USING (method, basis, asked)
ORDER BY e.method, e.basis, length(e.asked), e.asked;

-- Why means of lines are not over all traces: one sentence for all lines with
-- the same reason.
CREATE TEMP VIEW reasons AS
WITH some AS
  (SELECT method, asked, traces || ' of ' || traces_all || ' traces: '
    || coalesce(reason, '')
    || iif(refused > 1, ' (and ' || (refused - 1) || ' more)', '')
    || iif(refused AND traces + refused < traces_all, '; ', '')
    || iif(traces + refused < traces_all,
      'no result on ' || (traces_all - traces - refused), '') AS why
  FROM summary WHERE traces < traces_all ORDER BY method)
SELECT group_concat(method, ', ') || iif(asked = '', '', ' at ' || asked)
  || ', ' || why AS said
FROM some GROUP BY asked, why ORDER BY min(method), asked;
