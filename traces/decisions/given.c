/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions in memory: traces/decisions/given.h. The tensors are those that a
 * file would have, in one block that only this file writes.
 */
#include "traces/decisions/given.h"

#include "ref/ground/text.h"
#include "ref/lane/decisions.h"
#include "traces/decisions/asset_part.h"
#include <stdlib.h>
#include <string.h>

/* The tensors of a layer, writable. */
typedef struct lists {
  int32_t *step;  /* [1] the prompt's end */
  int64_t *start; /* [heads + 1] */
  int32_t *item;  /* [heads][prompt_len] at most */
} lists;

static lists lists_of(const kv_asset *a, int index) {
  const kv_tensor *t = a->tensor + (size_t)index * (size_t)a->asked;
  return (lists){(int32_t *)(uintptr_t)t[0].data,
                 (int64_t *)(uintptr_t)t[1].data,
                 (int32_t *)(uintptr_t)t[2].data};
}

static int heads_of(const kv_asset *a) {
  return (int)a->tensor[1].count - 1; /* the same on all layers */
}

static bool say(kv_asset *a) {
  static const kv_asset_text said[] = {
      {"format", "kvdecisions"}, {"version", "1"}, {"name", "session"},
      {"kind", "stored"},        {"head", "kv"},   {"unit", "token"}};
  enum { SAID = sizeof said / sizeof *said };
  kv_asset_text *text = kv_zalloc(SAID, sizeof *text);
  a->text = text;
  for (int i = 0; text && i < SAID; i++) {
    text[i].key = kv_text_copy(strlen(said[i].key), said[i].key);
    text[i].value = kv_text_copy(strlen(said[i].value), said[i].value);
    a->texts = i + 1;
    if (!text[i].key || !text[i].value) return false;
  }
  return text != NULL;
}

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Places a tensor of n elements at *at and moves *at past it. */
static kv_tensor place(char **at, int64_t n, size_t size) {
  kv_tensor t = {.data = *at, .count = n, .dim = {n}};
  *at += aligned((size_t)n * size);
  return t;
}

static void name_all(lists l, int heads, int prompt_len) {
  int32_t *item = l.item;
  *l.step = prompt_len;
  l.start[0] = 0;
  for (int h = 0; h < heads; h++) {
    l.start[h + 1] = l.start[h] + prompt_len;
    for (int i = 0; i < prompt_len; i++) *item++ = i;
  }
}

static bool fill(const kv_trace *t, int prompt_len, kv_asset_own *own) {
  kv_asset *a = &own->asset;
  int heads = t->shape.n_kv_heads, n = t->n_layers;
  int64_t items = (int64_t)heads * prompt_len;
  size_t each = aligned(4) + aligned((size_t)(heads + 1) * 8) +
                aligned((size_t)items * 4);
  int *layer = kv_zalloc((size_t)n, sizeof *layer);
  a->layer = layer;
  a->layers = n;
  a->ask = kv_decisions_kind.tensors;
  a->asked = kv_tensors_asked(a->ask);
  kv_tensor *tensor = kv_zalloc((size_t)n * (size_t)a->asked, sizeof *tensor);
  a->tensor = tensor;
  own->block = kv_zalloc((size_t)n, each);
  a->path = kv_text_copy(7, "session");
  if (!layer || !tensor || !own->block || !a->path || !say(a)) return false;
  char *at = own->block;
  for (int i = 0; i < n; i++, tensor += a->asked) {
    layer[i] = t->layer[i].data.layer;
    tensor[0] = place(&at, 1, 4);
    tensor[1] = place(&at, heads + 1, 8);
    tensor[2] = place(&at, items, 4);
    name_all(lists_of(a, i), heads, prompt_len);
  }
  a->of_trace = true;
  a->bytes = (size_t)n * each;
  return true;
}

kv_rc kv_given_open(const kv_trace *t, int prompt_len, kv_asset **out,
                    kv_err *e) {
  kv_asset_own *own = kv_zalloc(1, sizeof *own);
  size_t heads = (size_t)t->shape.n_kv_heads;
  *out = NULL;
  if (own && fill(t, prompt_len, own)) {
    *out = &own->asset;
    return KV_OK;
  }
  if (own) kv_asset_close(&own->asset);
  return kv_no_memory(e, "decisions",
                      (size_t)t->n_layers * heads * (size_t)prompt_len * 4);
}

/* Are the ids tokens of the prompt, each named once? */
static kv_rc check(int layer, int head, int prompt_len, int n,
                   const uint32_t *id, kv_err *e) {
  kv_rc rc = KV_OK;
  bool *named = kv_zalloc((size_t)prompt_len, sizeof *named);
  if (!named) return kv_no_memory(e, "decisions", (size_t)prompt_len);
  if (n < 1)
    rc = kv_fail(e, KV_USAGE,
                 "layer %d, lane %d: nothing is kept; name at least one token",
                 layer, head);
  for (int i = 0; !rc && i < n; i++) {
    if (id[i] >= (uint32_t)prompt_len)
      rc = kv_fail(e, KV_USAGE,
                   "layer %d, lane %d: token %u is outside the prompt's %d",
                   layer, head, id[i], prompt_len);
    else if (named[id[i]])
      rc = kv_fail(e, KV_USAGE, "layer %d, lane %d: token %u appears twice",
                   layer, head, id[i]);
    else
      named[id[i]] = true;
  }
  free(named);
  return rc;
}

kv_rc kv_given_keep(kv_asset *a, int index, int head, int n, const uint32_t *id,
                    kv_err *e) {
  lists l = lists_of(a, index);
  int heads = heads_of(a);
  kv_rc rc = check(a->layer[index], head, *l.step, n, id, e);
  if (rc) return rc;
  int64_t *start = l.start + head, more = n - (start[1] - start[0]);
  memmove(l.item + start[1] + more, l.item + start[1],
          (size_t)(l.start[heads] - start[1]) * sizeof *l.item);
  for (int i = 0; i < n; i++) l.item[start[0] + i] = (int32_t)id[i];
  for (int h = head + 1; h <= heads; h++) l.start[h] += more;
  return KV_OK;
}

void kv_given_copy(const kv_asset *from, kv_asset *to) {
  memcpy(((kv_asset_own *)to)->block,
         ((const kv_asset_own *)(const void *)from)->block, from->bytes);
}
