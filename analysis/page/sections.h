/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections of the page: a heading, and below it what a figure (figure.h) is of
 * one database, or of two beside each other. A section of which no database has
 * anything is not there. kv_section_write, in the order of the page.
 */
#ifndef KV_ANALYSIS_SECTIONS_H
#define KV_ANALYSIS_SECTIONS_H

#include "analysis/page/figure.h"

/* Writes the section of a figure to f: of pages 0 .. pages - 1, one or two,
 * whose own f is not looked at. folds: it is closed until a reader opens it.
 * *shown: there is one. An exit code (analysis/database/say.h); of what lacked
 * memory nothing is written, which is said (kv_tell_short). */
int kv_section_write(FILE *f, int pages, kv_page *page, const kv_figure *figure,
                     bool folds, bool *shown);

#endif
