/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of the page that `kvreport html` writes. Most are rows of tables,
 * drawn by kv_figures_draw; four need more than one query or drawing and are
 * functions. command_html.c has their order. All write HTML and SVG to p->f,
 * and return an exit code (analysis/database/say.h): KV_EXIT_OK, or, after it
 * was said, what went wrong with a query; where only drawing lacked memory, it
 * is said (kv_tell_short), which kv_output_close makes no success.
 */
#ifndef KV_ANALYSIS_FIGURES_H
#define KV_ANALYSIS_FIGURES_H

#include "analysis/page/maps.h"
#include "analysis/page/panels.h"

/* What a model answered, of a database with evaluations; nothing in another. */
int kv_page_answers(const kv_page *p);
bool kv_page_has_answers(const kv_page *p);
/* Needle and output error against bytes stored and bytes read, LSE error and KL
 * against bytes stored: what ranks right answers first, output error last, with
 * tables of means. Needles only where traces have answers. */
int kv_page_fidelity(const kv_page *p);
/* The error along decode, a plot a budget, of eight budgets at most. */
int kv_page_along(const kv_page *p);
/* How far each method goes from random to the oracle, and the commands that run
 * what is missing for it. */
int kv_page_gap(const kv_page *p);
/* Maps of what each layer and KV head keeps, a method each, at one budget; what
 * is alike in all of them is a number instead. */
int kv_page_heads(const kv_page *p);

/* Tables of figures, ended by id NULL. Each figure is left out where its SQL
 * has no rows. */
extern const kv_figure
    kv_figures_ranks[],     /* what ranks answers; after kv_ranked_fill */
    kv_figures_pages[],     /* recall against page size and budget */
    kv_figures_tokens[],    /* which tokens survive, who keeps the same ones */
    kv_figures_needles[],   /* needles by depth and length */
    kv_figures_attention[], /* tokens for 95 % of the mass, scores and norms */
    kv_figures_residuals[], /* how alike tokens are, what compressors miss */
    kv_figures_selection[], /* drift, and what shares of probability select */
    kv_figures_formats[],   /* bits of keys and values, bits against tokens */
    kv_figures_deltakv[],   /* a parameter turned, ablations, equations */
    kv_figures_held[],      /* codes alone and everything, pages at each step */
    kv_figures_regular[];   /* of layouts with regular indices */

/* Layers down, KV heads across, of the column share: shared by heads.c and
 * attention.c. */
extern const kv_maps kv_maps_heads;

#endif
