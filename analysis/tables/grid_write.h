/* SPDX-License-Identifier: Apache-2.0
 *
 * A grid as text: for people, or for programs. All formats are valid UTF-8,
 * whatever the database contains. Table, CSV and LaTeX have no control
 * characters except line ends; those of texts become \xNN (text.h of this
 * folder). JSON escapes those below U+0020.
 */
#ifndef KV_ANALYSIS_GRID_WRITE_H
#define KV_ANALYSIS_GRID_WRITE_H

#include "analysis/database/grid.h"

#include <stdio.h>

typedef enum kv_grid_format {
  KV_TABLE, /* aligned columns, reals to 4 digits; long texts are cut, except
               headings and the last column below them */
  KV_CSV,   /* quoted as in RFC 4180, lines end with \n, names in the first
               one, reals to 17 digits */
  KV_JSON,  /* one array of objects; reals to 17 digits, null if infinite */
  KV_JSONL, /* one object per line */
  KV_LATEX  /* a tabular, for a paper; reals to 4 digits, texts whole */
} kv_grid_format;
/* Writes all rows and columns of g. Lack of memory is printed (kv_tell_short);
 * kv_output_close finds errors of f. */
void kv_grid_write(const kv_grid *g, kv_grid_format format, FILE *f);

#endif
