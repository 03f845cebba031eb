/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions made elsewhere: what a cache held, or a query attended, written
 * down step by step. The method `replay` follows them; `kvreplay grade` judges
 * them. They are an asset (ref/lane/asset.h): a safetensors file whose metadata
 * has format=kvdecisions, version=1, name, trace (the trace's identity in hex),
 * kind = stored | view | stored+view, head = kv | query (whose lists these
 * are), unit = token | page:N, and perhaps reindex (0|1), block (most prompt
 * tokens that enter at once; absent: the whole prompt), prompt_len (absent:
 * the trace's). Per recorded layer L:
 *
 *   layers.L.steps     I32 [S]      tokens seen, ascending
 *   layers.L.indptr    I64 [S*H+1]  list of step s, head h: s*H+h .. +1
 *   layers.L.positions I32 [..]     token ids in lane order, or page numbers
 *
 * kind=stored: what each lane holds after that step's compression; view: what
 * is attended at that decode step. stored+view: these are the stored ones, in
 * tokens, and layers.L.view.steps, .indptr and .positions the views, in
 * `unit`, their heads in view_head (query where absent).
 *
 * Order of calls: kv_decisions_read, then kv_decisions_fit, both when the file
 * is opened; then, a step at a time, kv_lists_stored or kv_lists_view of the
 * layer and kv_lists_find, which cannot fail. Nothing here allocates but
 * kv_decisions_fit, which frees it again.
 */
#ifndef KV_REF_DECISIONS_H
#define KV_REF_DECISIONS_H

#include "ref/ground/arith.h"
#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "ref/lane/asset.h"

/* Lists of one kind on one layer: list h of step[i] is item[start[k]] ..
 * item[start[k + 1]), k = i * heads + h. An item is a page of `page` tokens
 * (1: a token): item p stands for the live ones of tokens
 * p * page .. p * page + page - 1. */
typedef struct kv_lists {
  int heads;            /* lists a step */
  int page;             /* tokens an item stands for */
  int steps;            /* 0: nothing was decided */
  const int32_t *step;  /* [steps] tokens seen, ascending */
  const int64_t *start; /* [steps * heads + 1] */
  const int32_t *item;  /* [start[steps * heads]] */
} kv_lists;

/* What was decided on one layer. */
typedef struct kv_decided {
  int layer;       /* the model's number */
  kv_lists stored; /* after the compression of a step; absent: unchanged */
  kv_lists view;   /* in the attention of a step; absent: all */
} kv_decided;

/* What holds for all layers: the metadata. */
typedef struct kv_decisions_form {
  bool stores, views;        /* which of the two kinds are there */
  bool decodes;              /* something is dropped after the prompt, too
                                (kv_decisions_fit says so) */
  bool reindex;              /* entry i is attended at the i-th position */
  int block;                 /* most prompt tokens that enter at once; 0: all */
  int stored_heads;          /* lanes a layer: KV heads, or query heads */
  int stored_page;           /* tokens of an item of `stored` */
  int view_heads, view_page; /* heads that have a view; tokens of an item */
} kv_decisions_form;

/* What a writer is given (traces/decisions/decisions_write.h); fields as above.
 */
typedef struct kv_decisions {
  bool stores, views, reindex;
  int block, stored_heads;
  int layers;
  const kv_decided *layer; /* [layers] ascending */
} kv_decisions;

/* Tensors of a layer in kv_decisions_kind's table: steps, indptr, positions of
 * the one kind that is there, or of stored; then view.steps, view.indptr,
 * view.positions where both kinds are there. */
enum { KV_LIST_TENSORS = 3 };
extern const kv_asset_kind kv_decisions_kind;

/* Reads the metadata of an opened file into *out; shape is the trace's.
 * KV_INPUT, with a sentence that names the key, where one is missing or is not
 * as above; *out then means nothing. */
kv_rc kv_decisions_read(const kv_asset *a, const kv_shape *shape,
                        kv_decisions_form *out, kv_err *e);
/* Checks that the lists of every recorded layer are there and well-formed, and
 * that their steps fit the blocks of the prompt; with `lists` also that they
 * can be followed: that each names a token, none twice, and every token or, of
 * a page, at least one is live then. KV_REFUSED, too, where views are of KV
 * heads and each query head stores its own. KV_INPUT or KV_REFUSED names the
 * first list that is not as it should be, KV_RESOURCE: no memory. form: of
 * kv_decisions_read; sets form->decodes. Cost: linear in the file, and in
 * tokens for each lane; memory 12 bytes a token. */
kv_rc kv_decisions_fit(const kv_asset *a, const kv_shape *shape, bool lists,
                       kv_decisions_form *form, kv_err *e);

/* The lists that stand in three tensors t[0..2] (steps, indptr, positions),
 * `heads` a step, items of `page` tokens; no steps where they are absent. */
KV_FN kv_lists kv_lists_in(const kv_tensor *t, int heads, int page) {
  kv_lists l;
  l.heads = heads;
  l.page = page;
  l.steps = (int)t[0].count;
  l.step = (const int32_t *)t[0].data;
  l.start = (const int64_t *)t[1].data;
  l.item = (const int32_t *)t[2].data;
  return l;
}

/* The stored lists, and the views, of the layer whose tensors are t
 * (kv_asset_layer); no steps where the form has none of that kind. */
KV_FN kv_lists kv_lists_stored(const kv_decisions_form *f, const kv_tensor *t) {
  kv_lists l = kv_lists_in(t, f->stored_heads, f->stored_page);
  if (!f->stores) l.steps = 0;
  return l;
}
KV_FN kv_lists kv_lists_view(const kv_decisions_form *f, const kv_tensor *t) {
  const kv_tensor *own = f->stores ? t + KV_LIST_TENSORS : t;
  kv_lists l = kv_lists_in(own, f->view_heads, f->view_page);
  if (!f->views) l.steps = 0;
  return l;
}

/* One list. */
typedef struct kv_items {
  int n;               /* items */
  const int32_t *item; /* [n]; NULL: nothing was decided at the step */
} kv_items;

/* The list of a head, 0 <= head < l->heads, at `step` tokens seen.
 * O(log steps). */
KV_FN kv_items kv_lists_find(const kv_lists *l, int step, int head) {
  int low = 0, high = l->steps;
  kv_items none = {0, NULL};
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (l->step[middle] < step)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == l->steps || l->step[low] != step) return none;
  const int64_t *start = l->start + (size_t)low * (size_t)l->heads + head;
  kv_items found = {(int)(start[1] - start[0]), l->item + start[0]};
  return found;
}

#endif
