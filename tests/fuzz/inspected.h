/* SPDX-License-Identifier: Apache-2.0
 *
 * SQL that adds a row of most figures that inspections of a trace can find, and
 * one of a compressor, for fuzz_database.c, whose fuzzer then changes bytes of
 * the database.
 */
#ifndef KV_TESTS_FUZZ_INSPECTED_H
#define KV_TESTS_FUZZ_INSPECTED_H

/* For sqlite3_exec on a database that has one trace: figure, head, series,
 * part, x, y and value of each row. */
static const char inspected[] =
    "WITH f(figure, head, series, part, x, y, value) AS (VALUES"
    "('attention.rows', 1, '', '', 0, 0, 9),"
    "('attention.critical', 1, '', '', 0, 0, 30),"
    "('attention.seen', 1, '', '', 0, 0, 90),"
    "('attention.tokens', 1, '', '', 0, 0, 5),"
    "('attention.class', 1, '', '', -6, 1, 5),"
    "('selection.lse', 1, '', '', 3, 0, 1.5),"
    "('selection.before', 1, 'pooled', '', 3, 60, 2),"
    "('selection.after', 1, 'pooled', '', 3, 60, 2),"
    "('selection.temperature', 1, 'pooled', '', 3, 60, 1.5),"
    "('selection.map', -1, 'pooled', '', 3, 60, zeroblob(256)),"
    "('nearest.tokens', -1, 'kv', '', 0, 0, 9),"
    "('nearest.far', -1, 'kv', '', 0, 0, 5),"
    "('nearest.close', -1, 'kv', '', 0, 0, 4),"
    "('nearest.chance', -1, 'kv', '', 0, 0, .5),"
    "('residual.tokens', -1, 'kv', 'raw', 0, 0, 9),"
    "('residual.norm', -1, 'kv', 'raw', 0, 0, 2.5),"
    "('residual.share', -1, 'kv', 'raw', 0, 0, .5),"
    "('class.distance', -1, 'kv', 'nearest', 4, 0, 9),"
    "('spectrum.share', -1, 'kv', 'raw', 1, 0, .5),"
    "('spectrum.total', -1, 'kv', 'raw', 1, 0, .5),"
    "('missed', -1, '10', '4', 4, 0, .5),"
    "('entropy.bins', -1, 'k', 'deltas', 0, 0, 16),"
    "('entropy.bits', -1, 'k', 'deltas', 0, 0, 3.5),"
    "('entropy.error', -1, 'k', 'deltas', 0, 0, .25),"
    "('rebuilt', -1, '0123', 'nearest', -1, 0, .5))"
    "INSERT INTO figure SELECT identity, figure, 0, head, series, part, x, y,"
    " value FROM trace, f;"
    "INSERT INTO compressor VALUES (printf('%064d', 7), 'w', 'gelu', 8, 4, 4,"
    " 512, NULL, 'nearest');";

#endif
