/* SPDX-License-Identifier: Apache-2.0
 *
 * A row of each figure of what inspections find in a trace, for a fuzzer to
 * change.
 */
#ifndef KV_TESTS_FUZZ_INSPECTED_H
#define KV_TESTS_FUZZ_INSPECTED_H

#define KV_FOUND(figure, head, series, part, x, y, value)                      \
  "INSERT INTO figure SELECT identity, '" figure "', 0, " #head ", '" series   \
  "', '" part "', " #x ", " #y ", " #value " FROM trace;"

static const char inspected[] = KV_FOUND(
    "attention.rows", 1, "", "", 0, 0,
    9) KV_FOUND("attention.critical", 1, "", "", 0, 0,
                30) KV_FOUND("attention.seen", 1, "", "", 0, 0,
                             90) KV_FOUND("attention.tokens", 1, "", "", 0, 0,
                                          5)
    KV_FOUND("attention.class", 1, "", "", -6, 1, 5) KV_FOUND(
        "selection.lse",
        1, "", "", 3, 0,
        1.5) KV_FOUND("selection.before", 1, "pooled", "", 3, 60,
                      2) KV_FOUND("selection.after", 1, "pooled", "", 3, 60, 2)
        KV_FOUND("selection.temperature", 1, "pooled", "", 3, 60, 1.5) KV_FOUND(
            "selection.map",
            -1, "pooled", "",
            3, 60,
            zeroblob(256)) KV_FOUND("nearest.tokens", -1, "kv", "", 0, 0, 9)
            KV_FOUND("nearest.far", -1, "kv", "", 0, 0, 5) KV_FOUND(
                "nearest.close",
                -1,
                "kv", "", 0,
                0, 4) KV_FOUND("nearest.chance", -1, "kv", "", 0, 0, .5)
                KV_FOUND("residual.tokens", -1, "kv", "raw", 0, 0, 9) KV_FOUND(
                    "residual.norm",
                    -1, "kv", "raw",
                    0, 0,
                    2.5) KV_FOUND("residual.share", -1, "kv", "raw", 0, 0, .5)
                    KV_FOUND("class.distance", -1, "kv", "nearest", 4, 0, 9)
                        KV_FOUND("spectrum.share", -1, "kv", "raw", 1, 0, .5)
                            KV_FOUND("spectrum.total", -1, "kv", "raw", 1, 0,
                                     .5) KV_FOUND("missed", -1, "10", "4", 4, 0,
                                                  .5)
                                KV_FOUND("entropy.bins", -1, "k", "deltas", 0,
                                         0,
                                         16) KV_FOUND("entropy.bits", -1,
                                                      "k", "deltas", 0, 0, 3.5)
                                    KV_FOUND("entropy.error", -1, "k", "deltas",
                                             0, 0, .25)
                                        KV_FOUND("rebuilt", -1, "0123",
                                                 "nearest", -1, 0,
                                                 .5) "INSERT INTO compressor "
                                                     "VALUES (printf('%064d', "
                                                     "7), 'w', 'gelu', 8, 4, 4,"
                                                     " 512, NULL, 'nearest');";

#endif
