/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of the page that `kvreport html` writes: rows of tables, whose
 * order on the page is in command_html.c.
 */
#ifndef KV_ANALYSIS_FIGURES_H
#define KV_ANALYSIS_FIGURES_H

#include "analysis/page/figure.h"

/* Reads the evaluations, if the database has any, and sets p->answers. Call it
 * once, before figures are drawn. Returns an exit code. */
int kv_page_find_answers(kv_page *p);

/* Tables of figures, each ended by id NULL. Figures without rows are
 * omitted. */
extern const kv_figure
    kv_figures_closed[],   /* how many answers are right under each method */
    kv_figures_texts[],    /* what was asked and said */
    kv_figures_answer[],   /* which method is best at equal bytes */
    kv_figures_beside[],   /* two databases: of a page that has `beside` */
    kv_figures_answers[],  /* what a model answered */
    kv_figures_fidelity[], /* needle, LSE error, KL and output error against
                              bytes stored and read, with tables of means */
    kv_figures_cells[],    /* further figures of cells */
    kv_figures_deltakv[],  /* a varied parameter, ablations, equations */
    kv_figures_tables[];   /* the cross-check, every cell, .., machines */

#endif
