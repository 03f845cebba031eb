-- SPDX-License-Identifier: Apache-2.0
--
-- The page's maps, as views over those of views.sql. The table `line`, which
-- the program fills (lines.c), has the names of lines. Traces of one unit (view
-- `repeated` of means.sql) count as one, with their mean.

-- The budget of the maps: the one with most lines and, of several, the least,
-- where most is given up.
CREATE TEMP VIEW pictured AS
SELECT basis, asked FROM line JOIN cell USING (key, basis, asked)
WHERE asked <> '' AND output_error IS NOT NULL
GROUP BY basis, asked
ORDER BY count(DISTINCT label) DESC, avg(budget), basis, asked LIMIT 1;

-- What each layer and KV head keeps at the end, as a share of all tokens: the
-- mean over the traces of one shape, if each of them has a result.
CREATE TEMP VIEW heads AS
WITH ran AS MATERIALIZED
  (SELECT r.run_id, count(*) / (max(head) + 1) AS layers,
    max(head) + 1 AS kv_heads, r.key, t.n_tokens,
    t.request || ' ' || r.prompt_len || r.observe AS place
  FROM newest r JOIN trace t USING (identity) JOIN part p USING (run_id)
  WHERE head >= 0 AND bin < 0 AND p.kept IS NOT NULL GROUP BY r.run_id),
shape AS MATERIALIZED
  (SELECT layers, kv_heads, count(DISTINCT place) AS traces_all
  FROM ran GROUP BY layers, kv_heads),
one AS
  (SELECT layers, kv_heads, label, basis, asked, layer, head, avg(kept) AS kept,
    avg(kept / n_tokens) AS share
  FROM ran JOIN line USING (key) CROSS JOIN part p USING (run_id)
  WHERE head >= 0 AND bin < 0 AND kept IS NOT NULL
  GROUP BY layers, kv_heads, label, basis, asked, layer, head, place)
SELECT layers, kv_heads, label AS method, basis, asked, layer, head,
  count(*) AS traces, avg(kept) AS kept, avg(share) AS share
FROM one JOIN shape USING (layers, kv_heads)
GROUP BY layers, kv_heads, label, basis, asked, layer, head
HAVING count(*) = traces_all
ORDER BY layers, kv_heads, label, basis, length(asked), asked, layer, head;

-- Recall by page size, of methods that select pages. A line is one of the
-- figures without its page. Its means are over the traces on which most of its
-- pages and budgets ran, if each of them has a result.
CREATE TEMP VIEW pages AS
WITH ran AS MATERIALIZED
  (SELECT replace(label, ' page=' || json_extract(params, '$.page'), '')
      AS method, json_extract(params, '$.page') AS page, basis, asked,
    avg(c.budget) AS budget, avg(recall_1) AS recall_1,
    avg(recall_16) AS recall_16, avg(recall_budget) AS recall_budget,
    request || ' ' || prompt_len || observe AS place
  FROM cell c JOIN line USING (key, basis, asked)
  WHERE json_type(params, '$.page') = 'integer'
    AND recall_budget IS NOT NULL
  GROUP BY method, page, basis, asked, place),
place AS MATERIALIZED
  (SELECT *, max(cells) OVER (PARTITION BY method) AS most
  FROM (SELECT method, place, count(*) AS cells FROM ran
        GROUP BY method, place)),
wide AS (SELECT * FROM place WHERE cells = most)
SELECT method, page, basis, asked, count(*) AS traces, avg(budget) AS budget,
  avg(recall_1) AS recall_1, avg(recall_16) AS recall_16,
  avg(recall_budget) AS recall_budget
FROM ran r JOIN wide USING (method, place) GROUP BY method, page, basis, asked
HAVING count(*) = (SELECT count(*) FROM wide w WHERE w.method = r.method)
ORDER BY method, page, basis, avg(budget), asked;

-- The mass kept on needles, as a share of dense's, by the needle's depth and
-- the prompt's length: for traces with both in their names
-- (traces/examples/needles.py), averaged over traces equal in both.
CREATE TEMP VIEW needles AS
WITH placed AS MATERIALIZED
  (SELECT needle_place(t.name, 0) AS depth, needle_place(t.name, 1) AS length,
    c.* FROM cell c JOIN main.trace t USING (identity)),
one AS
  (SELECT label, basis, asked, depth, length,
    avg(needle_share) AS needle_share, avg(needle_stored) AS needle_stored
  FROM placed JOIN line USING (key, basis, asked)
  WHERE depth IS NOT NULL AND needle_share IS NOT NULL
  GROUP BY label, basis, asked, depth, length, request, prompt_len, observe)
SELECT label AS method, basis, asked, depth, length, count(*) AS traces,
  avg(needle_share) AS needle_share, avg(needle_stored) AS needle_stored
FROM one GROUP BY label, basis, asked, depth, length
ORDER BY label, basis, length(asked), asked, depth, length;

-- From the newest run with --tokens of each line and budget: means over layers,
-- lanes and traces. stored: by 24 bins of the tokens and 25 moments, from the
-- prompt's end (moment 0) to the last step (24), the share of the bin's tokens
-- that had entered and are still stored. shown: the share of the decode steps
-- since they entered, the same in every moment of a bin.
CREATE TEMP VIEW tokens AS
WITH RECURSIVE bins(bin) AS
  (SELECT 0 UNION ALL SELECT bin + 1 FROM bins WHERE bin < 23),
moments(moment) AS
  (SELECT 0 UNION ALL SELECT moment + 1 FROM moments WHERE moment < 24),
kept AS
  (SELECT l.label AS method, l.basis, l.asked, t.request, r.prompt_len,
    r.observe, t.n_tokens, s.layer, s.lane, s.gone, s.shown
  FROM survival s JOIN newest r USING (run_id) JOIN trace t USING (identity)
    JOIN line l USING (key)
  WHERE l.asked = '' OR (l.basis, l.asked) =
    (SELECT basis, asked FROM pictured)),
one AS
  (SELECT method, basis, asked, bin, moment,
    avg(stored(gone, n_tokens * bin / 24, n_tokens * (bin + 1) / 24,
      prompt_len + (n_tokens - prompt_len) * moment / 24)) AS stored,
    avg(shown_share(shown, n_tokens * bin / 24, n_tokens * (bin + 1) / 24,
      prompt_len)) AS shown
  FROM kept, bins, moments GROUP BY method, basis, asked, bin, moment, request,
    prompt_len, observe, layer, lane)
SELECT method, basis, asked, bin, moment, count(*) AS lanes,
  avg(stored) AS stored, avg(shown) AS shown
FROM one GROUP BY method, basis, asked, bin, moment
ORDER BY method, basis, asked, bin, moment;

-- The overlap of two lines' stored tokens (Jaccard), after the prompt and at
-- the end: the mean over traces, layers and lanes that both have.
CREATE TEMP VIEW overlap AS
WITH kept AS MATERIALIZED
  (SELECT l.label, l.basis, l.asked, r.identity, t.request, r.prompt_len,
    r.observe, t.n_tokens, s.layer, s.lane, s.gone
  FROM survival s JOIN newest r USING (run_id) JOIN trace t USING (identity)
    JOIN line l USING (key)
  WHERE l.asked = '' OR (l.basis, l.asked) =
    (SELECT basis, asked FROM pictured)),
one AS
  (SELECT a.label AS method, b.label AS other,
    avg(overlap_of(a.gone, b.gone, a.prompt_len)) AS after_prompt,
    avg(overlap_of(a.gone, b.gone, a.n_tokens)) AS at_end
  FROM kept a JOIN kept b USING (identity, prompt_len, observe, layer, lane)
  GROUP BY a.label, b.label, a.request, prompt_len, observe, layer, lane)
SELECT method, other, count(*) AS lanes, avg(after_prompt) AS after_prompt,
  avg(at_end) AS at_end
FROM one GROUP BY method, other ORDER BY method, other;
