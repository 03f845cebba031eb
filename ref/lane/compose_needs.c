/* SPDX-License-Identifier: Apache-2.0
 *
 * What two methods on a lane need together, and why some cannot share one:
 * ref/lane/compose.h.
 */
#include "ref/lane/compose.h"

#include <stdlib.h>

/* What a lane has once, and both ask for. */
static kv_rc check_once(const char *whole,
                        const kv_method *const part[KV_MOST_PARTS],
                        const kv_needs *a, const kv_needs *b, kv_err *e) {
  const struct {
    bool both;
    const char *what;
  } once[] = {
      {a->codings > 0, "code keys and values"}, /* the second does */
      {a->classes > 1 && b->classes > 1,
       "give entries a class, and an entry has one"},
      {part[0]->chunk && part[1]->chunk,
       "add a chunk of their own to attention, which has room for one"},
      {a->across == KV_DOWN && b->across == KV_DOWN,
       "publish messages for the layers below, and a step has room for one"}};
  for (size_t i = 0; i < sizeof once / sizeof *once; i++)
    if (once[i].both)
      return kv_fail(e, KV_REFUSED,
                     "%s: %s and %s both %s; one of them is enough", whole,
                     part[0]->name, part[1]->name, once[i].what);
  return KV_OK;
}

/* A second that narrows reads keys as they were recorded, and has a copy of its
 * own for each token. */
static kv_rc check_narrowing(const char *whole,
                             const kv_method *const part[KV_MOST_PARTS],
                             const kv_needs *a, kv_err *e) {
  const char *does = a->merges    ? "merges entries"
                     : a->reindex ? "gives entries other positions"
                     : a->codings ? "codes keys"
                                  : NULL;
  if (!does) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: %s %s, and %s knows keys as they came; take a method "
                 "that leaves them as they are",
                 whole, part[0]->name, does, part[1]->name);
}

/* Why the two cannot be on one lane, in KV_REFUSED; they are named. */
static kv_rc check(const char *whole,
                   const kv_method *const part[KV_MOST_PARTS],
                   const kv_needs *a, const kv_needs *b, kv_err *e) {
  const char *first = part[0]->name, *second = part[1]->name;
  if (b->narrows) {
    kv_rc rc = check_narrowing(whole, part, a, e);
    if (rc) return rc;
  } else if (b->codings == 0 || part[1]->view)
    return kv_fail(e, KV_REFUSED,
                   "%s: %s codes nothing, so it is no format for what %s "
                   "keeps; name a format second, such as kivi, or what narrows "
                   "a choice, such as twilight",
                   whole, second, first);
  for (int i = 0; i < b->codings; i++)
    if (b->coding[i].format->layered)
      return kv_fail(e, KV_REFUSED,
                     "%s: %s codes a token of all KV heads at once, and %s may "
                     "keep others in each; take %s alone",
                     whole, second, first, second);
  if (a->merges)
    return kv_fail(e, KV_REFUSED,
                   "%s: %s merges entries, and what is merged cannot be coded; "
                   "take a method that drops them",
                   whole, first);
  if (a->block && b->block && a->block != b->block)
    return kv_fail(e, KV_REFUSED,
                   "%s: %s takes the prompt %d tokens at a time and %s %d; "
                   "they must agree",
                   whole, first, a->block, second, b->block);
  bool rows = a->prompt_rows > 0 && b->prompt_rows > 0;
  if (rows && a->prompt_rows != b->prompt_rows)
    return kv_fail(e, KV_REFUSED,
                   "%s: %s looks at the last %d prompt rows and %s at %d, "
                   "whose sums cannot be shared; make them agree",
                   whole, first, a->prompt_rows, second, b->prompt_rows);
  if (a->metas + b->metas > KV_MAX_META)
    return kv_fail(e, KV_REFUSED,
                   "%s: %d kinds of memory of their own are more than the %d "
                   "that there is room for",
                   whole, a->metas + b->metas, (int)KV_MAX_META);
  if (b->lanes == QUERY_HEAD && a->lanes == KV_HEAD)
    return kv_fail(e, KV_REFUSED,
                   "%s: %s keeps tokens for each query head and %s for each KV "
                   "head; they must agree",
                   whole, second, first);
  if (a->columns + b->columns > KV_MAX_COLUMNS)
    return kv_fail(e, KV_REFUSED,
                   "%s: %d numbers an entry are more than the %d that there "
                   "is room for",
                   whole, a->columns + b->columns, (int)KV_MAX_COLUMNS);
  return check_once(whole, part, a, b, e);
}

static int common(int a, int b) { return b == 0 ? a : common(b, a % b); }
static int most(int a, int b) { return a > b ? a : b; }

/* The least rhythm in which each of both is due. */
static void add_rhythm(kv_needs *sum, const kv_needs *b) {
  if (b->every == 0) return;
  if (sum->every == 0)
    sum->phase = b->phase;
  else
    sum->every = common(sum->every, abs(sum->phase - b->phase));
  sum->every = common(sum->every, b->every);
}

/* A meta of the second's. One that narrows looks at what the first chose for
 * each of the lane's query heads, `queries` of them. */
static void add_meta(kv_needs *sum, const kv_needs *b, int m, int queries) {
  kv_meta *to = &sum->meta[sum->metas++];
  *to = b->meta[m];
  if (!b->narrows || to->per != KV_PER_ENTRY || !sum->viewed) return;
  int64_t most_of_all = (int64_t)sum->viewed * queries;
  to->most = most_of_all < INT32_MAX ? (int)most_of_all : INT32_MAX;
}

/* sum is the first's; the second's are added. */
static void add(kv_needs *sum, const kv_needs *b, int queries) {
  sum->block = most(sum->block, b->block);
  sum->prompt_rows = most(sum->prompt_rows, b->prompt_rows);
  sum->decode_rows |= b->decode_rows;
  sum->want |= b->want;
  for (int c = 0; c < b->columns; c++)
    sum->column[sum->columns++] = b->column[c];
  add_rhythm(sum, b);
  sum->merges = b->merges; /* the first does not */
  sum->merged = b->merged;
  sum->merge_bias = b->merge_bias;
  sum->classes = most(sum->classes, b->classes);
  if (b->narrows) sum->unread = 0; /* what is read is chosen at each step */
  sum->host |= b->host;
  sum->reindex |= b->reindex;
  sum->rope |= b->rope;
  sum->ahead = most(sum->ahead, b->ahead);
  if (b->across == KV_DOWN) {
    sum->across = b->across;
    sum->message = b->message;
  }
  for (int c = 0; c < b->codings; c++)
    sum->coding[sum->codings++] = b->coding[c];
  sum->tiers = b->tiers;
  if (sum->changes || b->changes)
    sum->changes = kv_needs_changes(sum) + kv_needs_changes(b);
  sum->lane_state = KV_COMPOSE_ALIGNED(sum->lane_state) + b->lane_state;
  for (int m = 0; m < b->metas; m++) add_meta(sum, b, m, queries);
  sum->view_logits |= b->view_logits;
  if (b->work > sum->work) sum->work = b->work;
  sum->slides &= b->slides;
  sum->chunks &= b->chunks;
  sum->future |= b->future;
  sum->lengths &= b->lengths;
}

kv_rc kv_compose_needs(const char *whole,
                       const kv_method *const part[KV_MOST_PARTS],
                       const kv_shape *shape, kv_needs *sum, const kv_needs *b,
                       kv_err *e) {
  kv_rc rc = check(whole, part, sum, b, e);
  if (!rc) add(sum, b, sum->lanes == QUERY_HEAD ? 1 : kv_group(shape));
  return rc;
}
