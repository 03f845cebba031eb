-- SPDX-License-Identifier: Apache-2.0
--
-- The data for ranking open-loop measures (`kvreport rank`). A group is a task
-- at one budget, of one model and platform, in which methods have equal bytes.
-- The program fills rank_cell and rank_answer in this order (ranked.c); before
-- that they are empty.

-- Answered questions of each item. whole: the method answered as many as any
-- method of the group, so that all means are over the same questions.
CREATE TEMP VIEW rank_answered AS
WITH answered AS
  (SELECT model_digest, platform, task, basis, target AS asked, method, item,
    count(*) AS questions
  FROM newest_evaluation WHERE status = 'ok' AND target <> ''
  GROUP BY model_digest, platform, task, basis, target, method, item)
SELECT *, questions = max(questions) OVER (PARTITION BY model_digest, platform,
  task, basis, asked, item) AS whole FROM answered;

-- A row per method and group, numbered within its model from 0: its group, its
-- place (task and platform, whose items are drawn together) and its method; and
-- why it is left out, or null. Bytes are equal within 10 % of the median.
CREATE TEMP VIEW rank_cells AS
WITH asked AS MATERIALIZED
  (SELECT model, model_digest, platform, task, basis, target AS asked, method,
    min(iif(status = 'ok', NULL, reason)) AS reason
  FROM newest_evaluation WHERE target <> '' AND method <> 'dense'
  GROUP BY model, model_digest, platform, task, basis, target, method),
counted AS MATERIALIZED
  (SELECT model_digest, platform, task, basis, asked, method,
    sum(whole) AS items
  FROM rank_answered
  GROUP BY model_digest, platform, task, basis, asked, method),
cell AS MATERIALIZED
  (SELECT a.*, coalesce(c.items, 0) AS items,
    m.mean AS share,
    max(coalesce(c.items, 0)) OVER (PARTITION BY a.model_digest, a.platform,
      a.task, a.basis, a.asked) AS items_all
  FROM asked a LEFT JOIN counted c
    USING (model_digest, platform, task, basis, asked, method)
  LEFT JOIN task_mean m ON m.measure = CASE WHEN a.basis = 'end'
      THEN 'bytes.end' WHEN a.basis IN ('read', 'traffic') THEN 'bytes.read'
      ELSE 'bytes.mean' END
    AND (m.model_digest, m.platform, m.task, m.basis, m.asked, m.method)
    = (a.model_digest, a.platform, a.task, a.basis, a.asked, a.method)),
middle AS
  (SELECT model_digest, platform, task, basis, asked, share AS middle
  FROM (SELECT *, row_number() OVER w AS at, count(*) OVER (PARTITION BY
      model_digest, platform, task, basis, asked) AS n
    FROM cell WHERE items > 0 AND share IS NOT NULL
    WINDOW w AS (PARTITION BY model_digest, platform, task, basis, asked
      ORDER BY share)) WHERE at = (n + 1) / 2),
judged AS
  (SELECT c.*, CASE
      WHEN items = 0 THEN coalesce(reason, 'nothing was answered')
      WHEN items * 4 < items_all * 3
        THEN 'answered ' || items || ' of ' || items_all || ' prompts'
      WHEN share IS NULL THEN 'bytes are not known: ask dense as well'
      WHEN abs(share - middle) > .1 * max(share, middle) THEN 'has '
        || printf('%.3g', 100 * share) || ' % of dense''s bytes, others '
        || printf('%.3g', 100 * middle) || ' %'
    END AS why
  FROM cell c LEFT JOIN middle USING (model_digest, platform, task, basis,
    asked))
SELECT dense_rank() OVER (ORDER BY model, model_digest) - 1 AS of_model,
  row_number() OVER (PARTITION BY model_digest, why IS NULL ORDER BY platform,
    task, basis, asked, method) - 1 AS cell,
  dense_rank() OVER (PARTITION BY model_digest, why IS NULL ORDER BY platform,
    task, basis, asked) - 1 AS in_group,
  dense_rank() OVER (PARTITION BY model_digest, why IS NULL ORDER BY platform,
    task) - 1 AS place,
  dense_rank() OVER (PARTITION BY model_digest, why IS NULL ORDER BY method)
    - 1 AS of_method, j.*, t.measurable, t.dense_exact
FROM judged j LEFT JOIN (SELECT model_digest, platform, task,
    max(measurable) AS measurable, max(dense_exact) AS dense_exact
  FROM task_mean GROUP BY model_digest, platform, task) t
  USING (model_digest, platform, task);
CREATE TEMP TABLE rank_cell AS SELECT * FROM rank_cells LIMIT 0;

-- The evaluations that count: those of items that every method of the group
-- answered. Items are numbered within their place.
CREATE TEMP VIEW rank_answers AS
WITH each AS MATERIALIZED
  (SELECT c.of_model, c.cell, c.in_group, c.place, a.model_digest, a.platform,
    a.task, a.basis, a.asked, a.method, a.item,
    count(*) OVER (PARTITION BY c.of_model, c.in_group, a.item) AS methods,
    (SELECT count(*) FROM rank_cell o WHERE o.why IS NULL
      AND (o.of_model, o.in_group) = (c.of_model, c.in_group)) AS methods_all
  FROM rank_cell c JOIN rank_answered a USING (model_digest, platform, task,
    basis, asked, method)
  WHERE c.why IS NULL AND a.whole),
kept AS MATERIALIZED
  (SELECT *, dense_rank() OVER (PARTITION BY of_model, place ORDER BY item) - 1
    AS item_number FROM each WHERE methods = methods_all)
SELECT k.of_model, k.cell, k.item_number AS item, e.evaluation_id
FROM kept k JOIN newest_evaluation e ON e.status = 'ok' AND (e.model_digest,
    e.platform, e.task, e.basis, e.target, e.method, e.item)
  = (k.model_digest, k.platform, k.task, k.basis, k.asked, k.method, k.item)
ORDER BY k.of_model, k.cell, k.item_number, e.number;
CREATE TEMP TABLE rank_answer AS SELECT * FROM rank_answers LIMIT 0;

-- The results (ranked.c): a row per model, measure of answers and open-loop
-- measure; and pairs of methods that an open-loop measure misorders.
CREATE TEMP TABLE ranked(model TEXT, answer TEXT, measure TEXT, base TEXT,
  statistic TEXT, marked INTEGER, tau REAL, low REAL, high REAL, least REAL,
  least_without TEXT, most REAL, most_without TEXT, groups INTEGER,
  methods INTEGER, prompts INTEGER, pairs INTEGER, pairs_all INTEGER, best TEXT,
  best_tau REAL, difference REAL, difference_low REAL, difference_high REAL);
CREATE TEMP TABLE misranked(model TEXT, answer TEXT, measure TEXT,
  preferred TEXT, better TEXT, wrong INTEGER, groups INTEGER);
-- What people are shown: means and totals, and of the percentiles of each
-- measure the one that ranks best, if better than its mean.
CREATE TEMP VIEW ranked_shown AS
SELECT * FROM
  (SELECT *, row_number() OVER (PARTITION BY model, answer, base, statistic = ''
      ORDER BY tau DESC, measure) AS nth,
    max(iif(statistic = '', tau, -2)) OVER (PARTITION BY model, answer, base)
      AS tau_of_mean
  FROM ranked)
WHERE tau IS NOT NULL
  AND (statistic = '' OR (nth = 1 AND tau > tau_of_mean));

-- What was left out: a row per method and reason; then tasks that are not
-- measurable by right answers.
CREATE TEMP VIEW unranked AS
SELECT model, method AS what, why, group_concat(at, ', ') AS at FROM
  (SELECT model, method, why, task || ' at ' || asked AS at FROM rank_cell
  WHERE why IS NOT NULL ORDER BY model, method, why, task, asked)
GROUP BY model, method, why
UNION ALL SELECT DISTINCT model, 'exact_match', coalesce('dense answers '
  || CAST(round(100 * dense_exact) AS INTEGER) || ' % of it and not 60 %',
  'dense was not asked'), task
FROM rank_cell WHERE measurable = 0 ORDER BY model, what, why, at;
