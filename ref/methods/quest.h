/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of quest, shared with its CUDA twin (ref/lane/params.h).
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
    "each query head chooses, as in the authors' code, or the query heads of " \
    "a KV head choose together")                                               \
  P(CHOICE, rule, "engine", "engine|paper|twilight",                           \
    "how many pages: as in the authors' engine, their evaluation code (the "   \
    "source of the paper's numbers) or Twilight's code")
KV_PARAMS(PARAMS);

#endif
