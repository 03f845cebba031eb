/* SPDX-License-Identifier: Apache-2.0
 *
 * A grid as text: for people, or for programs. Whatever the database holds, all
 * formats are valid UTF-8. Table, CSV and LaTeX have no control characters but
 * the ends of their lines: those of a text stand as \xNN (text.h of this
 * folder); JSON escapes those below U+0020.
 */
#ifndef KV_ANALYSIS_GRID_WRITE_H
#define KV_ANALYSIS_GRID_WRITE_H

#include "analysis/database/grid.h"

#include <stdio.h>

typedef enum kv_grid_format {
  KV_TABLE, /* aligned columns, reals to 4 digits, long texts cut */
  KV_CSV,   /* quoted as in RFC 4180, lines end with \n, names in the first
               one, reals to 17 digits */
  KV_JSON,  /* one array of objects; reals to 17 digits, null if infinite */
  KV_JSONL, /* an object a line */
  KV_LATEX  /* a tabular, for a paper; reals to 4 digits, texts whole */
} kv_grid_format;
/* Writes all rows and columns of g. Want of memory is said (kv_tell_short);
 * errors of f are for kv_output_close to find. */
void kv_grid_write(const kv_grid *g, kv_grid_format format, FILE *f);

#endif
