/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of laws.
 */
#include "sim/law_lane.h"

static const kv_law list[] = {
    {"tokens",
     "a lane is never empty, holds no token twice and none of the future, and "
     "no more entries than tokens seen",
     kv_law_tokens},
    {"views",
     "a view is ascending maximal runs of live entries, of tokens up to the "
     "query's, and is what the journal says",
     kv_law_views},
    {"weights",
     "weights are at least 1 and add up, with what was dropped, to the tokens "
     "seen; every token is a member of one entry, and members are as many as "
     "the weight says",
     kv_law_weights},
    {"journal",
     "whoever carries out the records of the journal arrives at the lane that "
     "the store holds: ids, weights, formats, order",
     kv_law_journal},
    {"bytes",
     "the ledger charges what the entries of the lane, their groups, columns "
     "and declared memory cost",
     kv_law_bytes},
    {"full", "a budget of every token gives the output of dense to the bit",
     kv_law_full},
    {"repeat",
     "digests are the same again: other threads, other kernels, the other "
     "walk, with and without measures",
     kv_law_repeat},
    {"evidence",
     "probabilities are computed for the prompt rows that were asked for, and "
     "at decode steps only if they were",
     kv_law_evidence}};

const kv_law *kv_law_at(int index) {
  int count = (int)(sizeof list / sizeof *list);
  return index >= 0 && index < count ? &list[index] : NULL;
}
