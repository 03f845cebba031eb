/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of the page, in the order in which they stand, each with its
 * section, caption and data. Each writes to p->f and returns an exit code.
 */
#ifndef KV_ANALYSIS_FIGURES_H
#define KV_ANALYSIS_FIGURES_H

#include "analysis/page/page.h"

/* Fidelity against bytes stored and read, a section a measure: what ranks
 * right answers first, output error after it. Needles only where traces have
 * any. */
int kv_page_fidelity(const kv_page *p);
int kv_page_along(const kv_page *p);
int kv_page_gap(const kv_page *p);
/* Maps of what each layer and KV head keeps, a method each, at one budget. */
int kv_page_heads(const kv_page *p);
/* Recall against page size and budget; nothing where no method has a page. */
int kv_page_pages(const kv_page *p);
/* Needles by depth and length; nothing where no two of each are there. */
int kv_page_needles(const kv_page *p);
/* Which tokens survive, and who keeps the same; nothing where no run says. */
int kv_page_tokens(const kv_page *p);
int kv_page_overlap(const kv_page *p);
/* What heads attend to; nothing where no trace was looked at (kvreplay
 * attention): tokens for 95 % of the mass, scores beside norms. */
int kv_page_attention(const kv_page *p);
/* How alike tokens are; nothing where no trace was looked at (kvreplay
 * residuals). */
int kv_page_residuals(const kv_page *p);
/* Runs of deltakv: a parameter turned, ablations, bytes beside equations. */
int kv_page_deltakv(const kv_page *p);
/* What shares of the probability select (kvreplay selection), and how far the
 * log-sum-exp drifts; each nothing where no such rows are. */
int kv_page_selection(const kv_page *p);
/* How tokens are stored; each nothing where no such rows are: bits for keys
 * against bits for values; fewer bits, fewer tokens or both; LeanKV's tokens by
 * head, by layer or the same in all. */
int kv_page_formats(const kv_page *p);
/* What is held: codes alone and everything; pages at each step. */
int kv_page_held(const kv_page *p);
/* Of regular indices; nothing where no such layout was asked for: how full
 * lanes are, and what a rewrite holds against masks, step by step. */
int kv_page_regular(const kv_page *p);

#endif
