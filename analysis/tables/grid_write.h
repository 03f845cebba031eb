/* SPDX-License-Identifier: Apache-2.0
 *
 * A grid as text.
 */
#ifndef KV_ANALYSIS_GRID_WRITE_H
#define KV_ANALYSIS_GRID_WRITE_H

#include "analysis/database/grid.h"

#include <stdio.h>

typedef enum kv_grid_format {
  KV_TABLE,
  KV_CSV,
  KV_JSON,
  KV_JSONL
} kv_grid_format;
/* Everything in the grid; KV_TABLE aligns columns. */
void kv_grid_write(const kv_grid *g, kv_grid_format format, FILE *f);

#endif
