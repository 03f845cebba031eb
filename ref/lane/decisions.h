/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions made elsewhere, step by step: what a cache held, or what a query
 * attended. The method `replay` follows them; `kvreplay grade` judges them.
 * They are an asset (ref/lane/asset.h): a safetensors file with the metadata
 * format=kvdecisions, version=1, name, trace (the trace's identity in hex),
 * kind = stored | view | stored+view, head = kv | query (whose lists), unit =
 * token | page:N, and optionally reindex (0|1), block (most prompt tokens that
 * enter at once; absent: the whole prompt), prompt_len (absent: the trace's).
 * Per recorded layer L:
 *
 *   layers.L.steps     I32 [S]      tokens seen, ascending
 *   layers.L.indptr    I64 [S*H+1]  list of step s, head h: s*H+h .. +1
 *   layers.L.positions I32 [..]     token ids in lane order, or page numbers
 *
 * kind=stored: what each lane holds after that step's compression. kind=view:
 * what that decode step attends. stored+view: the lists above are the stored
 * ones, in tokens; layers.L.view.steps, .indptr and .positions are the views,
 * in `unit`, and view_head says whose they are (default query).
 *
 * Order of calls: kv_decisions_read, then kv_decisions_fit, both when the file
 * is opened. Then, at each step, kv_lists_stored or kv_lists_view of the layer
 * and kv_lists_find, which cannot fail. Only kv_decisions_fit allocates, and it
 * frees that before it returns.
 */
#ifndef KV_REF_DECISIONS_H
#define KV_REF_DECISIONS_H

#include "ref/ground/arith.h"
#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "ref/lane/asset.h"

/* Lists of one kind on one layer: list h of step[i] is item[start[k]] ..
 * item[start[k + 1]), k = i * heads + h. An item is a page of `page` tokens (1:
 * a token). Item p names the live tokens among p * page .. p * page + page - 1.
 */
typedef struct kv_lists {
  int heads;            /* lists a step */
  int page;             /* tokens of an item */
  int steps;            /* 0: no decisions */
  const int32_t *step;  /* [steps] tokens seen, ascending */
  const int64_t *start; /* [steps * heads + 1] */
  const int32_t *item;  /* [start[steps * heads]] */
} kv_lists;

/* The decisions on one layer. */
typedef struct kv_decided {
  int layer;       /* the model's number */
  kv_lists stored; /* held after a step's compression; no list: unchanged */
  kv_lists view;   /* attended by a step; no list: everything */
} kv_decided;

/* The metadata, which holds for all layers. */
typedef struct kv_decisions_form {
  bool stores, views;        /* which of the two kinds the file has */
  bool decodes;              /* decode steps drop something, too (set by
                                kv_decisions_fit) */
  bool reindex;              /* entry i is attended at the i-th position */
  int block;                 /* most prompt tokens that enter at once; 0: all */
  int stored_heads;          /* lanes a layer: KV heads, or query heads */
  int stored_page;           /* tokens of an item of `stored` */
  int view_heads, view_page; /* heads that have a view; tokens of an item */
} kv_decisions_form;

/* Input of the writer (traces/decisions/decisions_write.h); fields as above. */
typedef struct kv_decisions {
  bool stores, views, reindex;
  int block, stored_heads;
  int layers;
  const kv_decided *layer; /* [layers] ascending */
} kv_decisions;

/* Tensors of a layer in kv_decisions_kind's table: steps, indptr, positions of
 * the only kind, or of stored; then view.steps, view.indptr, view.positions if
 * the file has both kinds. */
enum { KV_LIST_TENSORS = 3 };
extern const kv_asset_kind kv_decisions_kind;

/* Reads the metadata of an opened file into *out; shape is the trace's.
 * KV_INPUT, with a sentence that names the key, if a key is missing or wrong;
 * *out is then undefined. */
kv_rc kv_decisions_read(const kv_asset *a, const kv_shape *shape,
                        kv_decisions_form *out, kv_err *e);
/* Checks that every recorded layer has well-formed lists and that their steps
 * fit the blocks of the prompt. With `lists` it also checks that they can be
 * followed: each names a token, none twice, and every token (of a page, at
 * least one) is live at that step. form is from kv_decisions_read; sets
 * form->decodes.
 *
 * KV_INPUT or KV_REFUSED names the first wrong list. KV_REFUSED also if views
 * belong to KV heads while each query head stores its own. KV_RESOURCE: no
 * memory. Time is linear in the file and, for each lane, in tokens; memory is
 * 12 bytes a token. */
kv_rc kv_decisions_fit(const kv_asset *a, const kv_shape *shape, bool lists,
                       kv_decisions_form *form, kv_err *e);

/* The lists in three tensors t[0..2] (steps, indptr, positions), `heads` lists
 * a step, items of `page` tokens. No steps if the tensors are absent. */
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
 * (kv_asset_layer). No steps if the file lacks that kind. */
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

/* The list of `head`, 0 <= head < l->heads, at `step` tokens. O(log steps). */
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
