/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of the page that `kvreport html` writes: rows of tables, whose
 * order on the page is in command_html.c. Those that need more than one query
 * or drawing have a function (kv_figure's write), which returns an exit code
 * (analysis/database/say.h): KV_EXIT_OK, or, after it was said, what went wrong
 * with a query; where only drawing lacked memory, it is said (kv_tell_short),
 * which kv_output_close makes no success.
 */
#ifndef KV_ANALYSIS_FIGURES_H
#define KV_ANALYSIS_FIGURES_H

#include "analysis/page/maps.h"
#include "analysis/page/panels.h"

/* Asks what a model answered and what ranks it, where the database has
 * evaluations; once, before figures are drawn. An exit code. */
int kv_page_find_answers(const kv_page *p);

/* Tables of figures, ended by id NULL. Each figure is left out where its SQL
 * has no rows. */
extern const kv_figure
    kv_figures_answer[],   /* which method is best at equal bytes */
    kv_figures_beside[],   /* two databases: of a page that has `beside` */
    kv_figures_fidelity[], /* needle, LSE error, KL and output error against
                              bytes stored and read, with tables of means */
    kv_figures_answers[],  /* what a model answered */
    kv_figures_ranks[],    /* what ranks answers */
    kv_figures_along[],    /* the error along decode, a plot a budget */
    kv_figures_gap[],      /* how far each method goes from random to its
                              ruler, and what runs the rest */
    kv_figures_heads[],    /* what each layer and KV head keeps */
    kv_figures_pages[],    /* recall against page size and budget */
    kv_figures_tokens[],   /* which tokens survive, who keeps the same ones */
    kv_figures_needles[],  /* needles by depth and length */
    kv_figures_drifts[],   /* drift of the log-sum-exp */
    kv_figures_formats[],  /* bits of keys and values, bits against tokens */
    kv_figures_deltakv[],  /* a parameter turned, ablations, equations */
    kv_figures_held[],     /* codes alone and everything, pages at each step */
    kv_figures_regular[];  /* of layouts with regular indices */

#endif
