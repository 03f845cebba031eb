-- SPDX-License-Identifier: Apache-2.0
--
-- Which traces and runs there are, as views over the tables that kvreplay
-- writes: what traces are called; who computed runs, their numbers, and which
-- are by the newest code. All other views go by these.

-- Traces, each by a name of its own, so that what groups by name groups by
-- identity. Where names are equal the folder stands before the name; where that
-- is equal, too, the first digits of the identity follow. All views ask this
-- one: it stands before the table of that name. A trace whose request is not
-- known is the only one that holds its request.
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
  n_tokens, n_layers, n_heads, n_kv_heads, d, d_v, dtype
FROM placed;

-- Rows of diff are of two kinds: results of ours that contradict each other,
-- and what `kvreplay grade` found wrong in somebody's kernel, which says
-- nothing against the run.
CREATE TEMP VIEW contradiction AS SELECT * FROM diff WHERE backend <> 'theirs';

-- Who computed a run. Confirmed: by two that differ in backend, kernel set or
-- processor, and contradicted by none.
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

-- The numbers of a run (sim/replay/measure/scalar.c); view `scalars` has every
-- one.
CREATE TEMP VIEW counted AS
SELECT
  -- each scalar: max(value) FILTER (WHERE name = '@N') AS @C,
  run_id
FROM scalar GROUP BY run_id;

-- All runs, and how new the code that gave them is: age 1 is the newest code
-- of its method in this database, 2 and up are superseded. This is the one
-- place that says what "newest" means: the larger arithmetic version; then the
-- larger revision; then the code whose latest first result is later, by the
-- start of the program that computed it; then the lesser text. A code counts
-- as a whole: no figure has two codes of one method. Decisions that are
-- replayed are a code for each trace and budget: there others under the same
-- parameters on the same trace are newer. Of weights each name has a newest.
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

-- The run that shares of dense are of: one, though a prompt may have been read
-- whole and in chunks, after which dense holds and reads the same. That of the
-- fewest parameters is the plain one.
CREATE TEMP VIEW dense AS
SELECT *, min(length(params)) FROM newest
WHERE method = 'dense' AND status = 'ok'
GROUP BY identity, prompt_len, observe, arithmetic;
