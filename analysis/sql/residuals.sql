-- SPDX-License-Identifier: Apache-2.0
--
-- What the page draws of how alike a trace's tokens are (kvreplay residuals).
-- Means are over traces of one shape, each trace alike; `drawn`: of the layers
-- at a quarter, half and three quarters of those recorded, as the page shows.

-- Traces by shape, with the layers that are drawn, and what a space is called.
CREATE TEMP VIEW alike AS
WITH layers AS MATERIALIZED
  (SELECT identity, layer, row_number() OVER trace - 1 AS i,
    count(*) OVER (PARTITION BY identity) AS n
  FROM (SELECT DISTINCT identity, layer FROM figure
    WHERE figure = 'nearest.tokens')
  WINDOW trace AS (PARTITION BY identity ORDER BY layer)),
shaped AS MATERIALIZED
  (SELECT l.*, n || ' layers, ' || coalesce(n_kv_heads, '?') ||
    ' KV heads of ' || coalesce(d, '?') AS shape
  FROM layers l JOIN trace t USING (identity))
SELECT identity, layer, shape, i IN (n / 4, n / 2, 3 * n / 4) AS drawn,
  count(*) OVER (PARTITION BY shape, layer) AS traces
FROM shaped;

CREATE TEMP VIEW space_name AS
SELECT 'kv' AS space, 'K and V, by distance' AS how
UNION ALL SELECT 'k', 'K, by cosine';

CREATE TEMP VIEW kind_name AS
SELECT 'raw' AS kind, 'as it is' AS what
UNION ALL SELECT 'nearest', 'without the nearest'
UNION ALL SELECT 'random', 'without a random one'
UNION ALL SELECT 'references', 'without the mean of 4 references'
UNION ALL SELECT 'z', 'latent z';

-- Numbers of tokens in a space, and of one kind of residual of them.
CREATE TEMP VIEW similarity AS
SELECT identity, layer, series AS space, part AS kind, x AS direction,
  max(value) FILTER (WHERE figure LIKE '%.tokens') AS tokens,
  max(value) FILTER (WHERE figure = 'nearest.far') AS far,
  max(value) FILTER (WHERE figure = 'nearest.close') AS close,
  max(value) FILTER (WHERE figure = 'nearest.chance') AS chance,
  max(value) FILTER (WHERE figure = 'residual.norm') AS norm,
  max(value) FILTER (WHERE figure LIKE '%.share') AS share,
  max(value) FILTER (WHERE figure = 'spectrum.total') AS total
FROM figure WHERE figure LIKE 'nearest.%' OR figure LIKE 'residual.%'
  OR figure LIKE 'spectrum.%'
GROUP BY identity, layer, series, part, x;

-- How large latent vectors are, by token and element: a cell in root mean
-- squares of its layer, and as a share of the layer's largest. A layer has up
-- to 32 ranges of tokens, called by the first, and 64 of elements.
CREATE TEMP VIEW sizes AS
WITH RECURSIVE parts(part) AS
  (SELECT 0 UNION ALL SELECT part + 1 FROM parts WHERE part < 63),
cells AS MATERIALIZED
  (SELECT identity, layer, x AS token, parts.part,
    i32_at(value, parts.part) / 1000.0 AS size
  FROM figure JOIN parts ON parts.part < length(value) / 4
  WHERE figure = 'latent.size')
SELECT t.name AS trace, c.layer, token, part, size,
  size / max(size) OVER one AS share, max(size) OVER one AS most
FROM cells c JOIN alike a USING (identity, layer) JOIN trace t USING (identity)
WHERE a.drawn
WINDOW one AS (PARTITION BY identity, c.layer)
ORDER BY t.name, c.layer, token, part;

-- How many nearest tokens are more than 16 tokens back, how many of all
-- earlier ones are, and how many have a cosine above 0.9.
CREATE TEMP VIEW nearest AS
WITH one AS MATERIALIZED
  (SELECT a.shape, a.layer, how, far * 1.0 / tokens AS far,
    close * 1.0 / tokens AS close, chance
  FROM similarity l JOIN alike a USING (identity, layer)
    JOIN space_name USING (space) WHERE kind = ''),
long AS
  (SELECT shape, layer, 'far: ' || how AS series, far AS share FROM one
  UNION ALL SELECT shape, layer, 'far: any earlier token', chance FROM one
  UNION ALL SELECT shape, layer, 'cosine above 0.9: ' || how, close FROM one)
SELECT shape, layer, series, avg(share) AS share,
  deviation(share) AS deviation, '' AS asked, 1 AS confirmed
FROM long GROUP BY shape, layer, series ORDER BY shape, series, layer;

-- Histograms: the mean share of tokens, or elements, in each class.
CREATE TEMP VIEW histogram AS
SELECT a.shape, a.layer, a.drawn, c.space, how, c.kind, k.what AS residual,
  c.what, class, sum(items * 1.0 / all_items) / a.traces AS share, a.traces
FROM (SELECT identity, layer, series AS space, part AS kind,
    substr(figure, 7) AS what, x AS class, value AS items,
    sum(value) OVER (PARTITION BY identity, layer, series, part, figure)
      AS all_items
  FROM figure WHERE figure LIKE 'class.%' AND value > 0) c
  JOIN alike a USING (identity, layer) JOIN space_name USING (space)
  JOIN kind_name k USING (kind)
GROUP BY a.shape, a.layer, c.space, c.kind, c.what, class;

-- From 2^class tokens back on.
CREATE TEMP VIEW distances AS
SELECT shape || ', layer ' || layer AS panel, how AS series, shape, layer,
  drawn, space, 1 << class AS distance, share, traces, '' AS asked,
  1 AS confirmed
FROM histogram WHERE what = 'distance' AND class BETWEEN 0 AND 40
ORDER BY shape, layer, space, class;

-- The middle of a class of a twentieth.
CREATE TEMP VIEW cosines AS
SELECT shape || ', layer ' || layer AS panel, how AS series, shape, layer,
  drawn, space, (class + 0.5) / 20 AS cosine, share, traces, '' AS asked,
  1 AS confirmed
FROM histogram WHERE what = 'cosine'
ORDER BY shape, layer, space, class;

-- Squares that the first directions hold together.
CREATE TEMP VIEW spectra AS
SELECT a.shape || ', layer ' || a.layer || ', ' || how AS panel,
  k.what AS series, a.shape, a.layer, a.drawn, space, kind, direction,
  avg(share) AS share, avg(total) AS total, a.traces, '' AS asked,
  1 AS confirmed
FROM similarity s JOIN alike a USING (identity, layer)
  JOIN space_name USING (space) JOIN kind_name k USING (kind)
WHERE direction > 0 GROUP BY a.shape, a.layer, space, kind, direction
ORDER BY a.shape, a.layer, space DESC, kind, direction;

-- Norms in quarters of octaves: the middle of one, as a power of two.
CREATE TEMP VIEW norms AS
SELECT shape || ', layer ' || layer || ', ' || how AS panel,
  residual AS series, shape, layer, drawn, space, kind,
  (class + 0.5) / 4 AS octave, share, traces, '' AS asked, 1 AS confirmed
FROM histogram WHERE what = 'norm'
ORDER BY shape, layer, space DESC, kind, class;

-- Elements, in eighths of the root mean square of raw ones (of z, of its own).
CREATE TEMP VIEW elements AS
SELECT shape || ', layer ' || layer || ', ' || how AS panel,
  residual AS series, shape, layer, drawn, space, kind,
  (class + 0.5) / 8 AS element, share, traces, '' AS asked, 1 AS confirmed
FROM histogram WHERE what = 'value'
ORDER BY shape, layer, space DESC, kind, class;

-- What is left, by layer: mean norms, and squares as a share of the raw ones.
CREATE TEMP VIEW residuals AS
SELECT a.shape || ', ' || how AS panel, k.what AS series, a.shape, a.layer,
  space, kind, avg(r.tokens) AS tokens, avg(norm) AS norm, avg(share) AS share,
  deviation(share) AS deviation, a.traces, '' AS asked, 1 AS confirmed
FROM similarity r JOIN alike a USING (identity, layer)
  JOIN space_name USING (space) JOIN kind_name k USING (kind)
WHERE kind <> 'z' AND direction = 0 GROUP BY a.shape, a.layer, space, kind
ORDER BY a.shape, space DESC, kind, a.layer;

-- What means of k references miss, by stride; and by position.
CREATE TEMP VIEW missed AS
SELECT identity, layer, CAST(series AS INTEGER) AS stride,
  CAST(part AS INTEGER) AS k, x AS octave, value AS share
FROM figure WHERE figure = 'missed';

CREATE TEMP VIEW strides AS
SELECT a.shape || ', layer ' || a.layer AS panel,
  CASE stride WHEN 1 THEN 'all earlier tokens'
    ELSE printf('stride %2d', stride) END AS series,
  a.shape, a.layer, a.drawn, stride, k, avg(share) AS share,
  deviation(share) AS deviation, a.traces, '' AS asked, 1 AS confirmed
FROM missed m JOIN alike a USING (identity, layer) WHERE octave < 0
GROUP BY a.shape, a.layer, stride, k ORDER BY a.shape, a.layer, stride, k;

CREATE TEMP VIEW positions AS
SELECT a.shape AS panel, 'layer ' || a.layer AS series, a.shape, a.layer,
  stride, k, 1 << octave AS position, avg(share) AS share,
  count(*) AS traces, '' AS asked, 1 AS confirmed
FROM missed m JOIN alike a USING (identity, layer)
WHERE octave BETWEEN 0 AND 40
GROUP BY a.shape, a.layer, stride, k, octave
ORDER BY a.shape, a.layer, stride, k, octave;

-- Bits that coded keys and values need at least, beside what the codes miss.
CREATE TEMP VIEW entropy AS
SELECT identity, layer, series AS part, part AS coding,
  max(value) FILTER (WHERE figure = 'entropy.bins') AS bins,
  max(value) FILTER (WHERE figure = 'entropy.bits') AS bits,
  max(value) FILTER (WHERE figure = 'entropy.scales') AS scales,
  max(value) FILTER (WHERE figure = 'entropy.tables') AS tables,
  max(value) FILTER (WHERE figure = 'entropy.error') AS error
FROM figure WHERE figure LIKE 'entropy.%'
GROUP BY identity, layer, series, part;

CREATE TEMP VIEW entropies AS
SELECT a.shape AS panel, upper(part) || ', ' || CASE coding
    WHEN 'deltas' THEN 'anchors and deltas' ELSE 'tokens as they are' END
    AS series,
  a.shape, a.layer, part, coding, bins, avg(bits) AS bits,
  deviation(bits) AS deviation, avg(scales) AS scales, avg(tables) AS tables,
  avg(error) AS error, a.traces, '' AS asked, 1 AS confirmed
FROM entropy n JOIN alike a USING (identity, layer)
GROUP BY a.shape, a.layer, part, coding, bins
ORDER BY a.shape, part, coding, a.layer;

-- Squares that a token rebuilt misses, of its own, by file (its compressor) and
-- octave, -1 for all positions: with the mean of its references, without
-- references, and that mean alone. A file is asked for what it learned: what
-- one that learned with references makes without any is another part, and what
-- one that learned without makes with some is not told.
CREATE TEMP VIEW rebuilt_token AS
WITH rebuilt AS
  (SELECT identity, layer, series AS digest, part AS refs, x AS octave,
    value AS share FROM figure WHERE figure = 'rebuilt')
SELECT identity, layer, digest, octave, share,
  CASE WHEN refs <> 'none' THEN 'DeltaKV'
    WHEN learned = 'none' THEN 'without references'
    ELSE 'without references, learned with' END AS part
FROM rebuilt JOIN (SELECT digest, learned FROM compressor) USING (digest)
WHERE refs = 'none' OR coalesce(learned, '') <> 'none'
UNION ALL SELECT identity, layer, digest, -1, share, 'without compressor'
FROM (SELECT DISTINCT identity, layer, digest FROM rebuilt)
  JOIN similarity USING (identity, layer)
WHERE space = 'kv' AND kind = 'references' AND direction = 0
UNION ALL SELECT identity, layer, digest, octave, share, 'without compressor'
FROM (SELECT DISTINCT identity, layer, digest, octave FROM rebuilt)
  JOIN missed USING (identity, layer, octave)
WHERE octave >= 0 AND stride = 10 AND k = 4;

-- Of compressors alike in all but one width, over that width. Means over
-- layers and traces, of files that were asked on each trace of the shape.
CREATE TEMP VIEW compressors AS
WITH one AS MATERIALIZED
  (SELECT a.shape, identity, a.layer, digest, c.kind, c.latent, c.hidden,
    iif(c.length > 0, ', pieces of ' || c.length, '')
      AS learned, part, share
  FROM rebuilt_token CROSS JOIN alike a USING (identity, layer)
    JOIN compressor c USING (digest) WHERE octave < 0),
long AS
  (SELECT 'latent' AS dial, latent AS turn, kind || ' of ' || hidden AS rest,
    one.* FROM one
  UNION ALL SELECT 'hidden', hidden, kind || ', latent ' || latent, one.*
  FROM one),
mean AS
  (SELECT shape || learned AS panel, shape, dial, turn, part, rest,
    avg(share) AS share,
    count(DISTINCT identity) AS traces, count(DISTINCT digest) AS files
  FROM long l GROUP BY shape, learned, dial, part, rest, turn
  HAVING traces = (SELECT count(DISTINCT identity) FROM one
    WHERE one.shape = l.shape))
SELECT m.*, rest || ': ' || part AS series, '' AS asked, 1 AS confirmed
FROM mean m JOIN (SELECT panel, dial, part, rest FROM mean
  GROUP BY panel, dial, part, rest HAVING count(*) > 1)
  USING (panel, dial, part, rest)
ORDER BY dial, panel, rest, part, turn;

-- By position, a panel a file. Means over layers and traces.
CREATE TEMP VIEW rebuilt_at AS
WITH file AS
  (SELECT *, kind || ' of ' || hidden || ', latent ' || latent || ' of ' ||
    width || iif(length > 0, ', pieces of ' || length, '') ||
    iif(learned = 'none', ', learned without references', '') ||
    iif(count(*) OVER
      (PARTITION BY kind, width, latent, hidden, length, learned = 'none') > 1,
      ' (' || substr(digest, 1, 8) || ')', '') AS what
  FROM compressor)
SELECT a.shape || ', ' || f.what AS panel, part AS series, a.shape, digest,
  f.file, f.kind, f.latent, f.hidden, f.length, 1 << octave AS position,
  avg(share) AS share, count(DISTINCT identity) AS traces, '' AS asked,
  1 AS confirmed
FROM rebuilt_token JOIN alike a USING (identity, layer)
  JOIN file f USING (digest)
WHERE octave BETWEEN 0 AND 40
GROUP BY a.shape, digest, part, octave
ORDER BY a.shape, f.kind, f.latent, f.hidden, digest, part, octave;
