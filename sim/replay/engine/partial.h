/* SPDX-License-Identifier: Apache-2.0
 *
 * What one layer gave to one cell (ledger, layouts, values of fidelity,
 * digests, seconds, the reason of a failure) as bytes, so that an interrupted
 * replay can be continued. A cell that reads the parts of all its layers,
 * whoever replayed them, finishes with the same row as one replay, to the bit.
 *
 * The bytes are in this machine's number formats and begin with what they were
 * made for: layer, lengths, measures, k of recall_budget, layouts. A cell where
 * any of these is another does not read them. They hold neither trace, method
 * and parameters nor a checksum nor the version of the code; the caller must
 * add these (sim/run/sweep/keeper.h).
 */
#ifndef KV_SIM_PARTIAL_H
#define KV_SIM_PARTIAL_H

#include "sim/replay/engine/cell.h"

/* Bytes of a part, the same for every layer: about 8 a measure, query head and
 * decode step. The cell was prepared with its layers apart. */
size_t kv_partial_size(const kv_cell *c);
/* Writes the part of a layer (index) that has ended into kv_partial_size bytes.
 */
void kv_partial_write(const kv_cell *c, int layer, void *out);
/* Reads a part of `size` bytes into the cell as its layer (index); where the
 * part says that the layer failed, the cell fails. False, and nothing changed,
 * if the bytes are not a part of such a cell. */
bool kv_partial_read(kv_cell *c, int layer, size_t size, const void *from);

#endif
