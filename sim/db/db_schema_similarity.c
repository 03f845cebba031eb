/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of the schema, sim/db/db_schema.c: what stands there holds here.
 */
#include "sim/db/db_private.h"

/* 21: how alike a trace's tokens are (sim/inspect/residual.h), by recorded
 * layer and space: their nearest earlier tokens; what is left of them, by kind
 * of residual; histograms of both, whose classes that header names; the squares
 * that single directions hold; what means of references miss, octave -1 for
 * tokens of all positions; and the entropy of coded keys and values
 * (sim/inspect/cachegen.h). */
const char kv_db_step_similarities[] =
    "CREATE TABLE similarity("
    " identity TEXT NOT NULL REFERENCES trace, layer INTEGER NOT NULL,"
    " space TEXT NOT NULL, tokens INTEGER NOT NULL, far INTEGER NOT NULL,"
    " close INTEGER NOT NULL, chance REAL NOT NULL,"
    " chance_bits INTEGER NOT NULL,"
    " PRIMARY KEY (identity, layer, space)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE residual("
    " identity TEXT NOT NULL, layer INTEGER NOT NULL, space TEXT NOT NULL,"
    " kind TEXT NOT NULL, tokens INTEGER NOT NULL,"
    " norm REAL NOT NULL, norm_bits INTEGER NOT NULL,"
    " share REAL NOT NULL, share_bits INTEGER NOT NULL,"
    " PRIMARY KEY (identity, layer, space, kind),"
    " FOREIGN KEY (identity, layer, space) REFERENCES similarity)"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE similarity_class("
    " identity TEXT NOT NULL, layer INTEGER NOT NULL, space TEXT NOT NULL,"
    " kind TEXT NOT NULL, what TEXT NOT NULL, class INTEGER NOT NULL,"
    " items INTEGER NOT NULL,"
    " PRIMARY KEY (identity, layer, space, kind, what, class),"
    " FOREIGN KEY (identity, layer, space) REFERENCES similarity)"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE spectrum("
    " identity TEXT NOT NULL, layer INTEGER NOT NULL, space TEXT NOT NULL,"
    " kind TEXT NOT NULL, direction INTEGER NOT NULL, share REAL NOT NULL,"
    " total REAL NOT NULL,"
    " PRIMARY KEY (identity, layer, space, kind, direction),"
    " FOREIGN KEY (identity, layer, space) REFERENCES similarity)"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE missed("
    " identity TEXT NOT NULL REFERENCES trace, layer INTEGER NOT NULL,"
    " stride INTEGER NOT NULL, k INTEGER NOT NULL, octave INTEGER NOT NULL,"
    " share REAL NOT NULL, share_bits INTEGER NOT NULL,"
    " PRIMARY KEY (identity, layer, stride, k, octave)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE entropy("
    " identity TEXT NOT NULL REFERENCES trace, layer INTEGER NOT NULL,"
    " part TEXT NOT NULL, coding TEXT NOT NULL, bins INTEGER NOT NULL,"
    " elements INTEGER NOT NULL, bits REAL NOT NULL,"
    " bits_bits INTEGER NOT NULL, scales REAL NOT NULL, tables REAL NOT NULL,"
    " error REAL NOT NULL, error_bits INTEGER NOT NULL,"
    " PRIMARY KEY (identity, layer, part, coding)) STRICT, WITHOUT ROWID;";

/* 22: what compressors of deltakv miss (sim/inspect/rebuilt.h), by file, with
 * references or without, and octave, -1 for tokens of all positions. length: of
 * the pieces that it learned from, null where the file does not say. */
const char kv_db_step_rebuilt[] =
    "CREATE TABLE compressor("
    " digest TEXT PRIMARY KEY CHECK (length(digest) = 64),"
    " file TEXT NOT NULL, kind TEXT NOT NULL, width INTEGER NOT NULL,"
    " latent INTEGER NOT NULL, hidden INTEGER NOT NULL, length INTEGER)"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE rebuilt("
    " identity TEXT NOT NULL REFERENCES trace, layer INTEGER NOT NULL,"
    " digest TEXT NOT NULL REFERENCES compressor, refs TEXT NOT NULL,"
    " octave INTEGER NOT NULL, share REAL NOT NULL,"
    " share_bits INTEGER NOT NULL,"
    " PRIMARY KEY (identity, layer, digest, refs, octave))"
    " STRICT, WITHOUT ROWID;";

/* 23: the code of runs of deltakv that read the file (run.code), by the newest
 * kvreplay that looked at it; null in rows of an earlier one. */
const char kv_db_step_codes[] = "ALTER TABLE compressor ADD COLUMN code TEXT;";

/* 24: with which references a compressor learned, as rebuilt.refs says it; null
 * in rows of an earlier kvreplay, which trained none without. */
const char kv_db_step_learned[] =
    "ALTER TABLE compressor ADD COLUMN learned TEXT;";
