/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of the page that `kvreport html` writes: rows of tables, whose
 * order on the page is in command_html.c.
 */
#ifndef KV_ANALYSIS_FIGURES_H
#define KV_ANALYSIS_FIGURES_H

#include "analysis/page/figure.h"
#include "analysis/page/maps.h"

/* Asks what a model answered and what ranks it, where the database has
 * evaluations; once, before figures are drawn. An exit code. */
int kv_page_find_answers(const kv_page *p);

/* Tables of figures, ended by id NULL. Each figure is left out where its SQL
 * has no rows. */
extern const kv_figure
    kv_figures_answer[],    /* which method is best at equal bytes */
    kv_figures_beside[],    /* two databases: of a page that has `beside` */
    kv_figures_answers[],   /* what a model answered, and what ranks it */
    kv_figures_fidelity[],  /* needle, LSE error, KL and output error against
                               bytes stored and read, with tables of means */
    kv_figures_cells[],     /* what else there is of cells */
    kv_figures_attention[], /* tokens for 95 % of the mass, scores and norms */
    kv_figures_residuals[], /* how alike tokens are, what compressors miss */
    kv_figures_selection[], /* drift, and what shares of probability select */
    kv_figures_deltakv[],   /* a parameter turned, ablations, equations */
    kv_figures_tables[];    /* the cross-check, every cell, .., machines */

/* Layers down, KV heads across, of the column share: of attention.c. */
extern const kv_maps kv_maps_heads;

#endif
