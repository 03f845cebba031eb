/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of quest as its open (ref/methods/quest.c) has resolved them,
 * for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters; an enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_QUEST_H
#define KV_REF_METHODS_QUEST_H

enum { HEAD, GROUP_SUM, GROUP_MAX }; /* share */
enum { ENGINE, PAPER, TWILIGHT };    /* rule */
enum { TILE = 16 };                  /* pages with bounds side by side */
enum { PAPER_PAGES = 3 };            /* least, under rule=paper */

typedef struct params {
  int budget;      /* entries that a query head attends to, in whole pages */
  int page;        /* entries of a page */
  int skip;        /* first layers, which attend everything */
  int share, rule; /* of the enums above */
} params;

#endif
