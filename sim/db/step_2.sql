-- SPDX-License-Identifier: Apache-2.0
--
-- Step 2 of the schema, from 0.1.0: which request a trace holds, bytes of the
-- tables of layouts, queues of requests, and caches on the device. kvreplay
-- takes it when it opens a database of 0.1.0 to write (db_schema.c), kvreport
-- in a copy of one that it reads. Null in rows from before is what nobody took
-- then.

-- The same of two recordings of one request (kv_trace_request).
ALTER TABLE trace ADD COLUMN request TEXT CHECK (length(request) = 64);

-- Bytes of what says where rows lie; null too of layouts of regular indices.
ALTER TABLE layout ADD COLUMN map_end INTEGER;
ALTER TABLE layout ADD COLUMN map_peak INTEGER;

-- wait: 1 where requests wait in place of leaving, 2 where each can stay;
-- running, waiting: requests, summed over the pool's steps.
ALTER TABLE pool ADD COLUMN arrive TEXT NOT NULL DEFAULT 'every';
ALTER TABLE pool ADD COLUMN wait INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pool ADD COLUMN map_peak INTEGER;
ALTER TABLE pool ADD COLUMN running INTEGER;
ALTER TABLE pool ADD COLUMN running_peak INTEGER;
ALTER TABLE pool ADD COLUMN waiting INTEGER;
ALTER TABLE pool ADD COLUMN waiting_peak INTEGER;

-- A pool after each of its steps.
CREATE TABLE pool_step(
  pool TEXT NOT NULL REFERENCES pool, step INTEGER NOT NULL,
  running INTEGER NOT NULL, waiting INTEGER NOT NULL,
  pages INTEGER NOT NULL, unused INTEGER NOT NULL,
  PRIMARY KEY (pool, step)) STRICT, WITHOUT ROWID;

-- blocks: of its prompt, and tokens behind it; admitted, first: the steps of
-- its first block and of its first token, null too where it came to none;
-- waited: steps; put_back: how often.
ALTER TABLE request ADD COLUMN blocks INTEGER;
ALTER TABLE request ADD COLUMN admitted INTEGER;
ALTER TABLE request ADD COLUMN first INTEGER;
ALTER TABLE request ADD COLUMN waited INTEGER NOT NULL DEFAULT 0;
ALTER TABLE request ADD COLUMN put_back INTEGER NOT NULL DEFAULT 0;

-- What a cache on the device did for what lies in the host's memory (kvreplay
-- run --cache), over all decode steps: entries looked up and found, bytes of
-- the others, of all and of a step at most, and the most bytes in the caches.
CREATE TABLE device_cache(
  run_id INTEGER NOT NULL REFERENCES run, cache TEXT NOT NULL,
  looked INTEGER NOT NULL, hits INTEGER NOT NULL,
  fetched INTEGER NOT NULL, fetched_peak INTEGER NOT NULL,
  held_peak INTEGER NOT NULL,
  PRIMARY KEY (run_id, cache)) STRICT, WITHOUT ROWID;
