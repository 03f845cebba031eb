-- SPDX-License-Identifier: Apache-2.0
--
-- Traces and runs, as views over the tables that kvreplay writes: the names of
-- traces; who computed runs, their numbers, and which are by the newest code.
-- All other views use these.

-- Traces with unique names, so that grouping by name groups by identity. If
-- names are equal, the folder is added before the name; if that is equal, too,
-- the first digits of the identity follow. All views read this one, since it
-- hides the table of the same name. A trace whose request is unknown counts as
-- the only one with its request.
CREATE TEMP VIEW trace AS
WITH lies AS
  (SELECT t.*, (SELECT rtrim(rtrim(min(path), replace(min(path), '/', '')), '/')
     FROM artefact a WHERE a.identity = t.identity AND kind = 'trace') AS way
  FROM main.trace t),
placed AS
  (SELECT *, coalesce(substr(way, 1 + length(rtrim(way, replace(way, '/', ''))))
    || '/', '') || name AS place FROM lies)
SELECT identity, coalesce(request, identity) AS request,
  CASE WHEN count(*) OVER (PARTITION BY name) = 1 THEN name
    WHEN count(*) OVER (PARTITION BY name, place) = 1 THEN place
    ELSE place || ' (' || substr(identity, 1, 8) || ')' END AS name,
  n_tokens, n_layers, n_heads, n_kv_heads, d, d_v, dtype, answer_by
FROM placed;

-- Rows of diff are of two kinds: our results that contradict each other, and
-- errors that `kvreplay grade` found in another kernel, which say nothing
-- against the run.
CREATE TEMP VIEW contradiction AS SELECT * FROM diff WHERE backend <> 'theirs';

-- Who computed a run. Confirmed: by two that differ in backend, kernel set or
-- processor, without a contradiction.
CREATE TEMP VIEW confirmed AS
SELECT run_id, count(*) AS confirmations, min(started) AS first_seen,
  (count(DISTINCT backend) > 1 OR count(DISTINCT c.isa) > 1
    OR count(DISTINCT cpu) > 1)
    AND NOT EXISTS (SELECT 1 FROM contradiction d WHERE d.run_id = c.run_id)
    AS confirmed,
  replace(group_concat(DISTINCT backend || ' ' || c.isa || ' ' || threads),
    ',', ', ') AS by_whom
FROM (SELECT c.*, v.started, v.cpu FROM confirmation c
      JOIN environment v USING (environment_id)
      ORDER BY c.backend, c.isa, c.threads) c
GROUP BY run_id;

-- The numbers of a run (sim/replay/measure/scalar.c); `scalars` has all.
CREATE TEMP VIEW counted AS
SELECT
  -- each scalar: max(value) FILTER (WHERE name = '@N') AS @C,
  run_id
FROM scalar GROUP BY run_id;

-- All runs, and how new their code is: age 1 is the newest code of its method
-- in this database, 2 and up are superseded. Only here is "newest" defined: the
-- larger arithmetic version; then the larger revision; then the code whose
-- latest first result is later, by the start of the program that computed it;
-- then the lesser text. A code counts as a whole: no figure has two codes of
-- one method. Replayed decisions are a code for each trace and budget,
-- superseded only by others with the same parameters on the same trace. Each
-- name of weights (the parameter `compressor`) has its own newest code.
CREATE TEMP VIEW aged AS
SELECT *, dense_rank() OVER (PARTITION BY family
  ORDER BY arithmetic DESC, revision DESC, code_seen DESC, code) AS age
FROM (SELECT *, max(first_seen) OVER
        (PARTITION BY family, arithmetic, revision, code) AS code_seen
      FROM (SELECT r.*, c.confirmations, c.confirmed, c.by_whom,
              coalesce(c.first_seen, '') AS first_seen,
              (SELECT count(*) FROM contradiction d WHERE d.run_id = r.run_id)
                AS conflicts,
              iif(method = 'replay', subject, method ||
                coalesce(json_extract(params, '$.compressor'), '')) AS family
            FROM run r LEFT JOIN confirmed c USING (run_id)));

CREATE TEMP VIEW newest AS SELECT * FROM aged WHERE age = 1;

-- The dense run for shares of dense. There may be several, since a prompt may
-- have been read whole and in chunks, after which dense holds and reads the
-- same; the one with the fewest parameters is taken.
CREATE TEMP VIEW dense AS
SELECT *, min(length(params)) FROM newest
WHERE method = 'dense' AND status = 'ok'
GROUP BY identity, prompt_len, observe, arithmetic;
