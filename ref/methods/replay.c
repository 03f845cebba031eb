/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay: follows decisions that a file holds, such as those of a method in
 * another language.
 *
 *   rows of the file are steps, counted in tokens seen; a list is of token ids
 *   in lane order, or of pages, page p standing for the live tokens
 *   p N .. p N + N - 1
 *   view: at a decode step, if the file has a list for the query head (or its
 *     KV head): attend the live tokens of that list, nothing else
 *   stored: after the compression of a step, if the file has what a lane
 *     stores: keep exactly that, in that order (one verb keep a lane)
 *   a step that the file does not name changes nothing and attends all
 *
 * No paper: the file is the method. ref/lane/decisions.h has its format; `run
 * --decisions` and kvreplay.decisions write it. Compressions are due after the
 * prompt and after every decode step. A file with `block` says that the prompt
 * enters in pieces, and may name steps within it. If the stored lists are of
 * query heads, lanes are too; if `reindex` is 1, lanes are re-indexed
 * (METHODS.md).
 *
 * Before a run `open` checks the file against the trace, so that following it
 * cannot fail. It refuses another trace, a token that is not live, an empty
 * list, a token twice and a missing layer, with one sentence each. For a token
 * that is not live it names step, layer, lane, position and when it was
 * dropped. Bytes are measured as for any method. The file does not hold what
 * else the method would store, so parameters declare it: `columns` of 8 bytes
 * an entry, `meta` bytes a lane. A file cannot express merging and coding.
 *
 * In rows and database the file's SHA-256 is the method's code. Only the last
 * name of its path is part of a row, so ./x.safetensors and x.safetensors are
 * one. Other decisions under that name replace it in tables, as newer code
 * does.
 *
 * Family: baseline. Acts: as the file says. Needs: a file of decisions. Bound:
 * what the file says. Bytes: of what the file keeps. Gather: -. Reduce: -.
 * Sample: what a file decides. Cost: O(entries of the lane) a list.
 */
#include "ref/methods/replay.h"
#include "ref/lane/lane.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_decisions_form *d = &o->form;
  const kv_asset *a = o->file.asset;
  kv_rc rc = kv_decisions_read(a, shape, d, e);
  if (!rc) rc = kv_decisions_fit(a, shape, true, d, e);
  if (rc) return rc;
  if (!*o->name) kv_plain(kv_asset_meta(a, "name"), sizeof o->name, o->name);
  needs->block = d->block;
  needs->every = d->decodes ? 1 : 0;
  needs->reindex = d->reindex;
  needs->lanes = d->stored_heads == shape->n_kv_heads ? KV_HEAD : QUERY_HEAD;
  needs->columns = o->columns;
  needs->metas = o->meta > 0;
  needs->meta[0] = (kv_meta){.name = "declared", .bytes = (size_t)o->meta};
  return KV_OK;
}

/* entry[t]: index of token t in the lane; -1: not there. */
static int32_t *entries(const kv_at *at, const kv_lane *lane) {
  int32_t *entry = KV_TAKE(at->work, int32_t, at->step);
  for (int t = 0; t < at->step; t++) entry[t] = -1;
  for (int i = 0; i < lane->n; i++) entry[lane->id[i]] = i;
  return entry;
}

/* Writes the live entries of item p to list; returns how many. */
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
  kv_lists l = kv_lists_view(&o->form, at->asset);
  int head = l.heads == at->shape->n_heads ? lane->first_head + q->head
                                           : lane->kv_head;
  kv_items items = kv_lists_find(&l, at->step, head);
  if (!items.item) {
    kv_view_add(out, 0, lane->n);
    return;
  }
  int32_t *list = KV_TAKE(at->work, int32_t, lane->n);
  bool *in = KV_TAKE(at->work, bool, lane->n);
  int n = expand_all(at, lane, items, l.page, list);
  for (int i = 0; i < lane->n; i++) in[i] = false;
  for (int i = 0; i < n; i++) in[list[i]] = true;
  kv_view_mask(out, lane->n, in);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_lists l = kv_lists_stored(&o->form, at->asset);
  kv_items items = kv_lists_find(&l, at->step, lane->lane);
  if (!items.item) return;
  int32_t *list = KV_TAKE(at->work, int32_t, lane->n);
  int n = expand_all(at, lane, items, l.page, list);
  kv_keep(lane, n, list);
}

const kv_method kv_method_replay = {
    KV_METHOD_OF(table, params, open),
    .revision = 2,
    .name = "replay",
    .title = "decisions from a file: a method of your own, in any language",
    .paper = "none: the file is the method",
    .lossless = "",
    .declares = true,
    .view = view,
    .compress_lane = compress_lane,
};
