/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of replay, shared with its CUDA twin (ref/lane/params.h). The
 * file is read, and form says what is in it.
 */
#ifndef KV_REF_METHODS_REPLAY_H
#define KV_REF_METHODS_REPLAY_H

#include "ref/lane/decisions.h"
#include "ref/lane/method.h"
#include "ref/lane/params.h"

#define PARAMS(P)                                                              \
  P(FILE, file, NULL, &kv_decisions_kind,                                      \
    "decisions, as `run --decisions` or kvreplay.decisions write them; must "  \
    "be given")                                                                \
  P(TEXT, name, "name of the row; default: the name in the file",              \
    .label = true)                                                             \
  P(INT, columns, "0", 0, KV_MAX_COLUMNS, "numbers",                           \
    "8-byte numbers that the method stores per entry: declared, not measured") \
  P(INT, meta, "0", 0, 1 << 30, "bytes",                                       \
    "bytes that the method stores per lane besides: declared, not measured")   \
  P(ONLY, kv_decisions_form form) /* of file */
KV_PARAMS(PARAMS);

#endif
