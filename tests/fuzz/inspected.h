/* SPDX-License-Identifier: Apache-2.0
 *
 * A row in each table of what inspections find in a trace, for a fuzzer to
 * change.
 */
#ifndef KV_TESTS_FUZZ_INSPECTED_H
#define KV_TESTS_FUZZ_INSPECTED_H

static const char inspected[] =
    "INSERT INTO attention SELECT identity, 0, 1, 9, 30, 90, 5 FROM trace;"
    "INSERT INTO spread SELECT identity, 0, 1, -6, 1, 5 FROM trace;"
    "INSERT INTO similarity SELECT identity, 0, 'kv', 9, 5, 4, .5, 0 FROM "
    "trace;"
    "INSERT INTO residual SELECT identity, 0, 'kv', 'raw', 9, 2, 0, 1, 0"
    " FROM trace;"
    "INSERT INTO similarity_class SELECT identity, 0, 'kv', 'nearest',"
    " 'distance', 4, 9 FROM trace;"
    "INSERT INTO spectrum SELECT identity, 0, 'kv', 'raw', 1, .5, .5"
    " FROM trace;"
    "INSERT INTO missed SELECT identity, 0, 10, 4, 4, .5, 0 FROM trace;"
    "INSERT INTO entropy SELECT identity, 0, 'k', 'deltas', 16, 9, 3, 0, 1,"
    " 1, .1, 0 FROM trace;";

#endif
