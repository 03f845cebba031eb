-- SPDX-License-Identifier: Apache-2.0
--
-- Texts of evaluations: what was asked, and what the model said. Like the other
-- views of evaluations they are empty before kv_results_answers.

-- A row per question, method and budget. Texts that are null are not stored.
-- leaves: the characters of `said` before the first word that differs from
-- dense's; null if none does. marked: `said` for people, with a mark there and
-- at most 20 characters before it. said_tokens: little-endian 32-bit integers
-- in hex digits. place: as in `answers`.
CREATE TEMP VIEW texts AS
WITH dense AS MATERIALIZED
  (SELECT question, platform, min(said) AS said FROM newest_evaluation
  WHERE method = 'dense' GROUP BY question, platform),
one AS
  (SELECT e.*, q.context AS about, q.asked, q.reference, d.said AS dense_said,
    leaves(d.said, e.said) AS leaves, v.value AS exact
  FROM newest_evaluation e JOIN question q USING (question)
    LEFT JOIN dense d ON (d.question, d.platform) = (e.question, e.platform)
    LEFT JOIN evaluated v ON v.evaluation_id = e.evaluation_id
      AND v.name = 'exact')
SELECT task || label AS place, model, task, item, number AS question,
  about AS context, method, spec, basis, target AS asked, budget, status,
  reason, exact, asked AS question_text, reference, dense_said, said,
  CASE WHEN said = dense_said THEN 'as dense' WHEN leaves IS NULL THEN said
    ELSE iif(leaves > 20, '…' || substr(said, leaves - 19, 20),
      substr(said, 1, leaves)) || '»' || substr(said, leaves + 1) END AS marked,
  leaves, iif(said_tokens IS NULL, NULL, hex(said_tokens)) AS said_tokens,
  request_digest, model_digest, platform, key
FROM one JOIN labels USING (model_digest, platform)
ORDER BY place, item, number, request_digest, method <> 'dense', basis, target,
  method, key;

-- Files of lm-evaluation-harness (--log_samples, version 0.4.13), line by line:
-- a folder for each model, platform, method and budget, in it a file of samples
-- for each task, and one of results. Folders that would have one name end in a
-- digest. doc_hash is of the text that Python's json.dumps(doc, indent=2,
-- ensure_ascii=False) makes. lacking: how many answers are left out, because
-- texts are not stored.
CREATE TEMP VIEW sample_lines AS
WITH day AS
  (SELECT file_name(replace(rtrim(max(first_seen), 'Z'), ':', '-')) AS date
  FROM newest_evaluation),
numbered AS MATERIALIZED
  (SELECT *, dense_rank() OVER (PARTITION BY model_digest, task
      ORDER BY item, question, request_digest) - 1 AS doc_id,
    status = 'ok' AND said NOT NULL AND reference NOT NULL AS stored,
    char(10) || '  ' AS nl, coalesce(question_text, '') AS prompt,
    model || ',' || method || iif(asked = '', '', ',' || asked) AS name,
    sha256(json_array(model_digest, platform, method, basis, asked)) AS cell
  FROM texts WHERE exact NOT NULL),
named AS MATERIALIZED
  (SELECT cell, file_name(name) || iif(count(*) OVER (PARTITION BY
      lower(file_name(name))) > 1, '_' || substr(cell, 1, 8), '') AS folder
  FROM (SELECT DISTINCT cell, name FROM numbered)),
sample AS MATERIALIZED
  (SELECT *, sha256(doc) AS doc_hash, sha256(prompt) AS prompt_hash,
    sha256(reference) AS target_hash, (said = reference) * 1.0 AS equal
  FROM (SELECT *, '{' || nl || '"question": ' || json_quote(question_text)
      || ',' || nl || '"answer": ' || json_quote(reference)
      || ',' || nl || '"item": ' || json_quote(item)
      || ',' || nl || '"number": ' || question
      || ',' || nl || '"context": ' || json_quote(context)
      || ',' || nl || '"request_digest": ' || json_quote(request_digest)
      || char(10) || '}' AS doc
    FROM numbered JOIN named USING (cell) WHERE stored)),
whole AS
  (SELECT folder, name, model_digest, task, count(*) AS n,
    avg(exact) AS contains, avg(equal) AS equal
  FROM sample GROUP BY folder, task)
SELECT folder, 'samples_' || file_name(task) || '_' || date || '.jsonl' AS file,
  doc_id AS n, json_object('doc_id', doc_id, 'doc', json(doc),
    'target', reference, 'arguments', json_object('gen_args_0',
      json_object('arg_0', prompt, 'arg_1', json_object('until', json_array(),
        'do_sample', json('false')))),
    'resps', json_array(json_array(said)), 'filtered_resps', json_array(said),
    'filter', 'none', 'metrics', json_array('contains', 'exact_match'),
    'doc_hash', doc_hash, 'prompt_hash', prompt_hash, 'target_hash',
    target_hash, 'contains', exact, 'exact_match', equal) AS line,
  (SELECT sum(status = 'ok' AND NOT stored) FROM numbered) AS lacking
FROM sample, day
UNION ALL
SELECT folder, 'results_' || date || '.json', 0, json_object('results',
    json_group_object(task, json_object('alias', task, 'sample_len', n,
      'contains,none', contains, 'contains_stderr,none', 'N/A',
      'exact_match,none', equal, 'exact_match_stderr,none', 'N/A')),
  'versions', json_group_object(task, 0), 'n-shot', json_group_object(task, 0),
  'higher_is_better', json_group_object(task, json_object('contains',
    json('true'), 'exact_match', json('true'))),
  'n-samples', json_group_object(task, json_object('original',
    (SELECT count(*) FROM question q WHERE q.task = w.task
      AND q.model_digest = w.model_digest), 'effective', n)),
  'config', json_object('model', 'kvreplay', 'model_args', name),
  'model_name', name, 'model_name_sanitized', folder), NULL
FROM whole w, day GROUP BY folder
ORDER BY folder, file, n;
