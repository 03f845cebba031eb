/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of quest: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/quest.c).
 */
#ifndef KV_REF_METHODS_QUEST_H
#define KV_REF_METHODS_QUEST_H

enum { HEAD, GROUP_SUM, GROUP_MAX }; /* share */
enum { ENGINE, PAPER, TWILIGHT };    /* rule */
enum { TILE = 16 };                  /* boxes, side by side */
enum { PAPER_PAGES = 3 };            /* least, under rule=paper */

typedef struct params {
  int budget, page, skip, share, rule;
} params;

#endif
