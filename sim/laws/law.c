/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of laws: contract in sim/laws/law.h.
 */
#include "sim/laws/law_lane.h"
#include "traces/trace/trace.h"

#include <string.h>

/* A law either checks the replay that all such laws share, or makes its own. */
typedef struct rule {
  kv_law law;
  const kv_law_look *look;
  kv_law_check *check;
} rule;

static const rule list[] = {
    {{"tokens",
      "a lane is never empty, holds no token twice and none of the future, and "
      "no more entries than tokens seen"},
     &kv_law_tokens,
     NULL},
    {{"views",
      "a view is ascending maximal runs of live entries, of tokens up to the "
      "query's, and is what the journal says"},
     &kv_law_views,
     NULL},
    {{"weights",
      "weights are at least 1 and add up, with what was dropped, to the tokens "
      "seen; every token is a member of one entry, and members are as many as "
      "the weight says"},
     &kv_law_weights,
     NULL},
    {{"journal",
      "whoever carries out the records of the journal arrives at the lane that "
      "the store holds: ids, weights, formats, order"},
     &kv_law_journal,
     NULL},
    {{"bytes",
      "the ledger charges what the entries of the lane, their groups, columns "
      "and declared memory cost"},
     &kv_law_bytes,
     NULL},
    {{"full", "a budget of every token gives the output of dense to the bit"},
     NULL,
     kv_law_full},
    {{"repeat",
      "digests are the same again: other threads, other kernels, the other "
      "walk, with and without measures"},
     NULL,
     kv_law_repeat},
    {{"observation",
      "probabilities are computed for the prompt rows that were asked for, and "
      "at decode steps only if they were"},
     NULL,
     kv_law_observation},
    {{"lengths",
      "the replays of a search for bytes, which compute no output, store and "
      "read the same; so does who says that lengths decide, shown no query"},
     NULL,
     kv_law_lengths}};

enum { LAWS = sizeof list / sizeof *list };

const kv_law *kv_law_at(int index) {
  return index >= 0 && index < LAWS ? &list[index].law : NULL;
}

int kv_law_named(const char *name) {
  for (int i = 0; i < LAWS; i++)
    if (strcmp(list[i].law.name, name) == 0) return i;
  return -1;
}

kv_rc kv_law_open(const char *path, kv_trace **out, kv_err *e) {
  kv_rc rc = kv_trace_open(path, out, e);
  if (!rc) (*out)->shape.scale *= 0.25f;
  return rc;
}

/* Runs the laws that share a replay; *looked: there were any. */
static kv_rc look(const kv_law_case *c, uint32_t laws, int *broken,
                  bool *looked, kv_law_run *run, kv_err *e) {
  kv_law_look some[LAWS];
  int index[LAWS], n = 0, at;
  for (int i = 0; i < LAWS; i++)
    if (laws >> i & 1 && list[i].look) {
      some[n] = *list[i].look;
      index[n++] = i;
    }
  *looked = n > 0;
  if (n == 0) return KV_OK;
  kv_rc rc = kv_law_walk(c, n, some, &at, run, e);
  if (rc) *broken = index[at];
  return rc;
}

kv_rc kv_law_ask(const kv_law_case *c, uint32_t laws, int *broken, kv_err *e) {
  kv_law_run run;
  bool looked, held;
  kv_err why = {0}, no = {0};
  *broken = -1;
  kv_rc rc = look(c, laws, broken, &looked, &run, &why);
  held = looked;
  for (int i = 0; !rc && i < LAWS; i++)
    if (laws >> i & 1 && list[i].check) {
      rc = list[i].check(c, looked ? &run : NULL, &why);
      if (rc) *broken = i;
      held |= !rc;
      if (rc == KV_REFUSED) { /* only this law cannot be checked */
        no = why;
        rc = KV_OK;
      }
    }
  if (rc || held || !no.rc) return rc ? kv_fail(e, rc, "%s", why.text) : KV_OK;
  return kv_fail(e, KV_REFUSED, "%s", no.text);
}
