/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of quest, for it and its CUDA twin; its open resolves what
 * has no default. An enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_QUEST_H
#define KV_REF_METHODS_QUEST_H

#include "ref/lane/params.h"

enum { HEAD, GROUP_SUM, GROUP_MAX }; /* share */
enum { ENGINE, PAPER, TWILIGHT };    /* rule */
enum { TILE = 16 };                  /* pages with bounds side by side */
enum { PAPER_PAGES = 3 };            /* least, under rule=paper */

#define PARAMS(P)                                                              \
  P(BUDGET, "tokens attended per query head, in whole pages; must be given")   \
  P(INT, page, "16", 1, 1 << 20, "tokens",                                     \
    "tokens of a page; 16 as in the paper")                                    \
  P(INT, skip, "2", 0, 1 << 20, "layers",                                      \
    "first layers that attend everything; 2 as in the paper")                  \
  P(CHOICE, share, "head", "head|group_sum|group_max",                         \
    "who chooses: each query head, as in the authors' code, or all that read " \
    "one KV head together")                                                    \
  P(CHOICE, rule, "engine", "engine|paper|twilight",                           \
    "how many pages: as the authors' engine, as their evaluation code, which " \
    "the paper's numbers come from, or as Twilight's")
KV_PARAMS(PARAMS);

#endif
