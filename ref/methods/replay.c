/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay: somebody else's decisions, followed to the letter.
 *
 *   at a decode step, where the file has a view for the query head (or its
 *   KV head): attend the live tokens of that list, nothing else
 *   after a step, where the file has what a lane stores: keep exactly that,
 *   in that order
 *   a step that the file does not name changes nothing and attends all
 *
 * No paper: the file is the method (traces/decisions.h has the format, and
 * proves before anything runs that every token listed is live). Bytes are
 * measured as for any method; what else the method would hold is not in the
 * file, so it is declared: columns per entry, meta bytes per lane. Merging
 * and coding cannot be said this way.
 * Cost: O(entries of the lane) a list.
 */
#include "ref/methods/replay.h"
#include "ref/lane.h"

static const kv_param table[] = {
    {.name = "file",
     .kind = KV_TEXT,
     .offset = offsetof(params, file),
     .help = "decisions, as `run --decisions` or traces/kvtrace.py write "
             "them; must be given"},
    {.name = "name",
     .kind = KV_TEXT,
     .offset = offsetof(params, name),
     .help = "what the row is called; the name in the file"},
    {.name = "columns",
     .kind = KV_INT,
     .offset = offsetof(params, columns),
     .fallback = "0",
     .min = 0,
     .max = KV_MAX_COLUMNS,
     .unit = "numbers",
     .help = "numbers of 8 bytes that the method holds per entry: declared, "
             "not measured"},
    {.name = "meta",
     .kind = KV_INT,
     .offset = offsetof(params, meta),
     .fallback = "0",
     .min = 0,
     .max = 1 << 30,
     .unit = "bytes",
     .help = "what else the method holds per lane: declared, not measured"},
    {.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  const params *o = p;
  const kv_decisions *d = o->decisions;
  if (!d)
    return kv_fail(e, KV_USAGE,
                   "replay: which decisions? write "
                   "replay:file=DECISIONS.safetensors");
  needs->block = d->block;
  needs->every = d->decodes ? 1 : 0;
  needs->reindex = d->reindex;
  needs->lanes = d->stored_heads == shape->n_kv_heads ? KV_HEAD : QUERY_HEAD;
  needs->columns = o->columns;
  needs->lane_meta = (size_t)o->meta;
  return KV_OK;
}

/* entry[t]: where token t is in the lane, -1 where it is not. */
static int32_t *entries(const kv_at *at, const kv_lane *lane) {
  int32_t *entry = KV_TAKE(at->work, int32_t, at->step);
  for (int t = 0; t < at->step; t++) entry[t] = -1;
  for (int i = 0; i < lane->n; i++) entry[lane->id[i]] = i;
  return entry;
}

/* Live entries of item p, into list; how many. */
static int expand(const int32_t *entry, int step, int32_t p, int page,
                  int32_t *list) {
  int n = 0;
  int64_t first = (int64_t)p * page, end = first + page;
  for (int64_t t = first; t < end && t < step; t++)
    if (entry[t] >= 0) list[n++] = entry[t];
  return n;
}

static int expand_all(const kv_at *at, const kv_lane *lane, kv_items items,
                      int page, int32_t *list) {
  const int32_t *entry = entries(at, lane);
  int n = 0;
  for (int i = 0; i < items.n; i++)
    n += expand(entry, at->step, items.item[i], page, list + n);
  return n;
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  const params *o = at->params;
  const kv_lists *l = &kv_decided_at(o->decisions, at->layer)->view;
  int head = l->heads == at->shape->n_heads ? lane->first_head + q->head
                                            : lane->kv_head;
  kv_items items = kv_lists_find(l, at->step, head);
  if (!items.item) {
    kv_view_add(out, 0, lane->n);
    return;
  }
  int32_t *list = KV_TAKE(at->work, int32_t, lane->n);
  bool *in = KV_TAKE(at->work, bool, lane->n);
  int n = expand_all(at, lane, items, l->page, list);
  for (int i = 0; i < lane->n; i++) in[i] = false;
  for (int i = 0; i < n; i++) in[list[i]] = true;
  kv_view_mask(out, lane->n, in);
}

static void settle_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  const kv_lists *l = &kv_decided_at(o->decisions, at->layer)->stored;
  kv_items items = kv_lists_find(l, at->step, lane->lane);
  if (!items.item) return;
  int32_t *list = KV_TAKE(at->work, int32_t, lane->n);
  int n = expand_all(at, lane, items, l->page, list);
  kv_keep(lane, n, list);
}

const kv_method kv_method_replay = {
    .abi = KV_METHOD_ABI,
    .revision = 1,
    .name = "replay",
    .title = "decisions from a file: a method of your own, in any language",
    .paper = "none: the file is the method",
    .params = table,
    .params_size = sizeof(params),
    .decisions = offsetof(params, decisions),
    .open = open,
    .view = view,
    .settle_lane = settle_lane,
};
