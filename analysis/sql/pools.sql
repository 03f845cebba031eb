-- SPDX-License-Identifier: Apache-2.0
--
-- Requests that shared a pool (kvreplay run --together), as views. Times are in
-- steps of the pool: in a step every running request takes a block of its
-- prompt, or a token.

-- Each request: from its arrival to its first token, and to its end.
CREATE TEMP VIEW requests AS
SELECT q.pool, q.place + 1 AS request, t.name AS trace, r.prompt_len, r.observe,
  r.method, r.params, r.spec, r.budget, p.layout, p.bytes, p.arrive, p.every,
  p.wait, q.arrives, q.admitted, q.waited, q.put_back, q.blocks,
  q.first + 1 - q.arrives AS to_first, q.ends - q.arrives AS to_end,
  q.pages_peak, q.refused, q.holds, q.wanted, q.spare, r.key
FROM request q JOIN pool p USING (pool) JOIN run r USING (run_id)
  JOIN trace t USING (identity)
ORDER BY r.method, r.params, p.layout, p.bytes, p.arrive, p.every, p.wait,
  q.pool, q.place;

-- Each pool. utilisation: pages in use / pages, over all steps; unused: bytes
-- without a token / bytes in use; batch, queue: the mean number of requests
-- that took a step, and that took none; batch is also tokens per step. Times
-- are of requests that were not refused; the 95th percentile is the least
-- number that 95 % of them do not exceed.
CREATE TEMP VIEW pools AS
WITH served AS (SELECT *,
    cume_dist() OVER (PARTITION BY pool ORDER BY to_first) AS by_first,
    cume_dist() OVER (PARTITION BY pool ORDER BY to_end) AS by_end
  FROM requests WHERE refused IS NULL),
times AS (SELECT pool, count(*) AS served, avg(to_first) AS to_first,
    min(to_first) FILTER (WHERE by_first >= 0.95) AS to_first_p95,
    avg(to_end) AS to_end,
    min(to_end) FILTER (WHERE by_end >= 0.95) AS to_end_p95
  FROM served GROUP BY pool),
asked AS (SELECT pool, min(method) AS method, min(params) AS params,
    min(spec) AS spec, min(budget) AS budget_min, max(budget) AS budget_max,
    count(refused) AS refused, sum(waited) AS waited, sum(put_back) AS put_back
  FROM requests GROUP BY pool)
SELECT p.pool, a.method, a.params, a.spec, a.budget_min, a.budget_max, p.layout,
  p.bytes, p.page, p.pages, p.arrive, p.every, p.wait, p.requests, a.refused,
  p.steps, p.peak, p.held * 1.0 / nullif(p.steps * p.pages, 0) AS utilisation,
  p.unused * 1.0 / nullif(p.held * p.page, 0) AS unused, p.unused_peak,
  p.running * 1.0 / nullif(p.steps, 0) AS batch, p.running_peak AS batch_peak,
  p.waiting * 1.0 / nullif(p.steps, 0) AS queue, p.waiting_peak AS queue_peak,
  t.to_first, t.to_first_p95, t.to_end, t.to_end_p95, a.waited, a.put_back,
  p.map_peak, p.moved, p.table_entries, p.list_operations
FROM pool p JOIN asked a USING (pool) LEFT JOIN times t USING (pool)
ORDER BY a.method, a.params, a.budget_min, p.arrive, p.every, p.bytes, p.wait,
  p.layout, p.pool;

-- A pool after each of its steps: how full, how many ran and waited.
CREATE TEMP VIEW pool_steps AS
SELECT s.pool, p.spec, p.layout, p.bytes, p.arrive, p.every, p.wait, s.step,
  s.running AS batch, s.waiting AS queue, s.pages,
  s.pages * 1.0 / p.pages AS utilisation, s.unused
FROM pool_step s JOIN pools p USING (pool)
ORDER BY p.method, p.params, p.layout, s.pool, s.step;
