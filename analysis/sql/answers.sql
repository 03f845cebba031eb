-- SPDX-License-Identifier: Apache-2.0
--
-- Evaluations: what a model answered while a method held its cache. Closed
-- loop, so these are no cells. As for runs, the newest code of a method counts,
-- here per method as typed and model; code includes its file. The program fills
-- newest_evaluation, item_mean and task_mean once, when they are needed
-- (kv_results_answers), because a large database has a million numbers. Before
-- that the views over them are empty.

CREATE TEMP VIEW newest_evaluations AS
WITH found AS MATERIALIZED
  (SELECT evaluation_id, count(*) AS confirmations, min(started) AS first_seen
  FROM evaluator JOIN environment USING (environment_id)
  GROUP BY evaluation_id),
asked AS
  (SELECT e.*, m.model, q.model_digest, q.task, q.item, q.context, q.number,
    q.prompt_len, q.n_tokens, q.request_digest,
    coalesce(f.confirmations, 0) AS confirmations,
    coalesce(f.first_seen, '') AS first_seen
  FROM evaluation e JOIN question q USING (question)
    JOIN model m USING (model_digest) LEFT JOIN found f USING (evaluation_id)),
aged AS
  (SELECT *, dense_rank() OVER (PARTITION BY model_digest, method ORDER BY
    arithmetic DESC, revision DESC, code_seen DESC, code) AS age
  FROM (SELECT *, max(first_seen) OVER (PARTITION BY model_digest, method,
          arithmetic, revision, code) AS code_seen FROM asked))
SELECT a.*, (SELECT count(*) FROM evaluation_diff d
   WHERE d.evaluation_id = a.evaluation_id) AS conflicts
FROM aged a WHERE age = 1;
CREATE TEMP TABLE newest_evaluation AS SELECT * FROM newest_evaluations LIMIT 0;

-- One row per question, method and budget.
CREATE TEMP VIEW evaluations AS
SELECT e.model, e.task, e.item, e.number AS question, e.prompt_len, e.n_tokens,
  e.method, e.spec, e.basis, e.target AS asked, e.budget, e.status, e.reason,
  p.torch, p.transformers, p.processor, p.threads, p.dtype, e.confirmations,
  e.conflicts, e.arithmetic, e.code, e.answer, e.request_digest,
  e.model_digest, e.key
FROM newest_evaluation e JOIN platform p USING (platform)
ORDER BY model, task, item, question, method, basis, asked, key;

-- Every number of these evaluations.
CREATE TEMP VIEW answer_values AS
SELECT e.key, v.name, n.unit, v.value
FROM newest_evaluation e JOIN evaluated v USING (evaluation_id)
  JOIN quantity n USING (name)
ORDER BY e.key, v.name;

-- The mean over the questions of an item. A number that is compared with dense
-- becomes a share of dense's for the same question. bytes.read is what a decode
-- step reads and scans in the replay of the same tokens: a session counts held
-- bytes only.
CREATE TEMP VIEW item_means AS
WITH number AS MATERIALIZED
  (SELECT e.model, e.model_digest, e.platform, e.task, e.item, e.method,
    e.basis, e.target AS asked, e.question, v.name AS measure, n.unit,
    n.combine = 'of dense' AS shared, v.value
  FROM newest_evaluation e JOIN evaluated v USING (evaluation_id)
    JOIN quantity n USING (name)
  WHERE e.status = 'ok'
  UNION ALL
  SELECT e.model, e.model_digest, e.platform, e.task, e.item, e.method,
    e.basis, e.target, e.question, 'bytes.read', 'bytes', 1, sum(v.value)
  FROM newest_evaluation e JOIN evaluated v USING (evaluation_id)
  WHERE e.status = 'ok' AND v.name IN ('open.bytes.read', 'open.bytes.scanned')
  GROUP BY e.evaluation_id),
dense AS MATERIALIZED
  (SELECT question, platform, measure, value FROM number
  WHERE method = 'dense' AND shared)
SELECT n.model, n.model_digest, n.platform, n.task, n.item, n.method, n.basis,
  n.asked, n.measure, iif(n.shared, 'of dense', n.unit) AS unit,
  avg(iif(n.shared, n.value / nullif(d.value, 0), n.value)) AS value,
  count(*) AS questions
FROM number n LEFT JOIN dense d ON n.shared
  AND (d.question, d.platform, d.measure) = (n.question, n.platform, n.measure)
GROUP BY n.model, n.model_digest, n.platform, n.task, n.method, n.basis,
  n.asked, n.measure, n.item;
CREATE TEMP TABLE item_mean AS SELECT * FROM item_means LIMIT 0;

-- Means over the items of a task, each with its standard error. A task is
-- measurable for a model if dense answers at least 60 % of it, or if nothing is
-- answered, as in prose.
CREATE TEMP VIEW task_means AS
WITH mean AS MATERIALIZED
  (SELECT model, model_digest, platform, task, method, basis, asked, measure,
    unit, avg(value) AS mean, standard_error(value) AS se, count(*) AS items,
    sum(questions) AS questions
  FROM item_mean WHERE value IS NOT NULL
  GROUP BY model, model_digest, platform, task, method, basis, asked, measure),
answered AS
  (SELECT model_digest, platform, task,
    max(iif(method = 'dense', mean, NULL)) AS dense_exact
  FROM mean WHERE measure = 'exact' GROUP BY model_digest, platform, task)
SELECT m.*, a.dense_exact,
  iif(a.task IS NULL, 1, coalesce(a.dense_exact >= .6, 0)) AS measurable
FROM mean m LEFT JOIN answered a USING (model_digest, platform, task);
CREATE TEMP TABLE task_mean AS SELECT * FROM task_means LIMIT 0;

-- Intervals of right answers, over contexts; no row below five.
CREATE TEMP VIEW right_intervals AS
WITH context AS MATERIALIZED
  (SELECT model_digest, platform, task, method, basis, target AS asked,
    sum(value) AS right, count(*) AS n
  FROM newest_evaluation JOIN evaluated USING (evaluation_id)
  WHERE status = 'ok' AND name = 'exact'
  GROUP BY model_digest, platform, task, method, basis, target,
    coalesce(nullif(context, ''), item)),
found AS
  (SELECT model_digest, platform, task, method, basis, asked,
    right_interval(right, n) AS ends
  FROM context GROUP BY model_digest, platform, task, method, basis, asked)
SELECT model_digest, platform, task, method, basis, asked,
  CAST(substr(ends, 1, instr(ends, ' ')) AS REAL) AS low,
  CAST(substr(ends, instr(ends, ' ')) AS REAL) AS high
FROM found WHERE ends IS NOT NULL;
CREATE TEMP TABLE right_interval AS SELECT * FROM right_intervals LIMIT 0;

CREATE TEMP VIEW answer_means AS
SELECT m.model, p.torch, p.transformers, p.processor, p.threads, p.dtype,
  m.task, m.method, m.basis, m.asked, m.measure, m.unit, m.mean, m.se, m.items,
  m.questions, m.dense_exact, m.measurable, m.model_digest
FROM task_mean m JOIN platform p USING (platform)
ORDER BY m.model, p.platform, m.task, m.method, m.basis, m.asked, m.measure;

-- What tells models and platforms apart for people, if there are several. Two
-- models of one name also show the beginning of their digests.
CREATE TEMP VIEW labels AS
SELECT m.model_digest, p.platform,
  iif((SELECT count(*) FROM model) > 1, ', ' || m.model, '')
  || iif((SELECT count(*) FROM model n WHERE n.model = m.model) > 1,
    ' (' || substr(m.model_digest, 1, 8) || ')', '')
  || iif((SELECT count(*) FROM platform) > 1, ', ' || p.dtype || ' on '
    || p.threads || ' threads of ' || p.processor || ', torch ' || p.torch
    || ', transformers ' || p.transformers, '') AS label
FROM model m, platform p;

-- The same, a row per method, budget and task, with the number of questions
-- answered, the number of items with an answer, and `place`, a name for people:
-- the task, and the model and platform if there are several. loglik: the sum
-- over an answer's tokens, in rows of earlier versions; loglik_some:
-- loglik_token does not cover all questions that have either. reason: why a
-- question has no answer, or an answer lacks a number. press: a press that
-- kvpress/NAME ran; its arguments can differ by question.
-- list answer: exact loglik_token loglik kl agree
CREATE TEMP VIEW answers AS
WITH row AS MATERIALIZED
  (SELECT model, model_digest, platform, task, method, basis, target AS asked,
    count(DISTINCT iif(status = 'ok', item, NULL)) AS items,
    sum(status = 'ok') AS questions,
    sum(status = 'ok' AND EXISTS (SELECT 1 FROM evaluated v WHERE
      v.evaluation_id = e.evaluation_id AND v.name IN ('loglik', 'loglik_token')
      )) AS likely,
    coalesce(min(iif(status = 'ok', NULL, reason)), min(nullif(reason, '')))
      AS reason,
    max(conflicts) AS conflicts, min(confirmations) AS confirmations,
    min(iif(method GLOB 'kvpress/*', nullif(spec, method), NULL)) AS press
  FROM newest_evaluation e
  GROUP BY model, model_digest, platform, task, method, basis, target),
whole AS
  (SELECT model_digest, platform, task, count(DISTINCT item) AS items_all,
    count(DISTINCT question) AS questions_all
  FROM newest_evaluation GROUP BY model_digest, platform, task),
wide AS
  (SELECT model_digest, platform, task, method, basis, asked,
    max(dense_exact) AS dense_exact, max(measurable) AS measurable,
    max(iif(measure = 'bytes.mean', mean, NULL)) AS share_mean,
    max(iif(measure = 'bytes.end', mean, NULL)) AS share_end,
    max(iif(measure = 'bytes.read', mean, NULL)) AS share_read,
    -- each answer: max(iif(measure = '@N', mean, NULL)) AS @N,
    -- each answer: max(iif(measure = '@N', se, NULL)) AS @N_se,
    max(iif(measure = 'loglik_token', questions, NULL)) AS token_questions,
    coalesce(max(iif(measure = 'ppl.all', mean, NULL)),
      avg(iif(measure GLOB 'ppl.*', mean, NULL))) AS ppl
  FROM task_mean GROUP BY model_digest, platform, task, method, basis, asked)
SELECT r.task || l.label AS place, r.model, p.torch, p.transformers,
  p.processor, p.threads, p.dtype, r.task, r.method,
  r.basis, r.asked, r.items, a.items_all, r.questions,
  a.questions_all, w.share_mean, w.share_end, w.share_read,
  w.exact, w.exact_se, i.low AS exact_low, i.high AS exact_high,
  w.loglik_token, w.loglik_token_se, w.loglik, w.loglik_se,
  w.token_questions < r.likely AS loglik_some,
  w.kl, w.kl_se, w.agree, w.agree_se, w.ppl, w.dense_exact,
  w.measurable, r.confirmations, r.conflicts, r.reason, r.press,
  r.model_digest
FROM row r JOIN whole a USING (model_digest, platform, task)
  JOIN platform p USING (platform)
  JOIN labels l USING (model_digest, platform)
  LEFT JOIN wide w USING (model_digest, platform, task, method, basis, asked)
  LEFT JOIN right_interval i
    USING (model_digest, platform, task, method, basis, asked)
ORDER BY place, w.measurable DESC, r.basis, r.asked, w.exact DESC,
  coalesce(w.loglik_token, w.loglik) DESC, w.ppl, r.method;

-- Why tasks are not measurable.
CREATE TEMP VIEW unmeasured AS
SELECT DISTINCT place, 'not measurable: ' || coalesce('dense answers '
  || CAST(round(100 * dense_exact) AS INTEGER) || ' % of it and not 60 %',
  'dense was not asked') AS why
FROM answers WHERE measurable = 0;
