/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ref/lane/needs.h, and the functions that walk it.
 */
#include "ref/lane/needs.h"

#include <limits.h>
#include <string.h>

#define PLACE(name) offsetof(kv_needs, name), sizeof((kv_needs *)0)->name
#define ONE(name, kind, layers, least, most)                                   \
  { #name, KV_NEED_##kind, KV_NEED_##layers, PLACE(name), 1, 0, least, most }
#define ARRAY(name, kind, layers, n, used, least, most)                        \
  {                                                                            \
#    name, KV_NEED_##kind, KV_NEED_##layers, PLACE(name), n,                   \
        offsetof(kv_needs, used), least, most                                  \
  }
#define TERABYTE ((double)((int64_t)1 << 40))

const kv_need kv_need_list[] = {
    ONE(block, INT, SAME, 0, INT_MAX),
    ONE(prompt_rows, INT, MOST, 0, INT_MAX),
    ONE(decode_rows, BOOL, MOST, 0, 1),
    ONE(want, BITS, MOST, 0, KV_Q | KV_S | KV_P | KV_SUM),
    ONE(narrows, BOOL, SAME, 0, 1),
    ONE(viewed, INT, OWN, 0, INT_MAX),
    ONE(view_logits, BOOL, MOST, 0, 1),
    ONE(columns, INT, SAME, 0, KV_MAX_COLUMNS),
    ARRAY(column, INT, SAME, KV_MAX_COLUMNS, columns, KV_INT64, KV_FLOAT),
    ONE(every, INT, OWN, 0, INT_MAX),
    ONE(phase, INT, OWN, INT_MIN, INT_MAX),
    ONE(merges, BOOL, SAME, 0, 1),
    ONE(merged, INT, SAME, KV_MEANS_TRACE, KV_MEANS_FP32),
    ONE(merge_bias, FLOAT, OWN, 0, 0),
    ONE(classes, INT, SAME, 0, KV_MAX_CLASSES),
    ONE(unread, BITS, SAME, 0, (1 << KV_MAX_CLASSES) - 1),
    ONE(host, BITS, SAME, 0, (1 << KV_MAX_CLASSES) - 1),
    ONE(reindex, BOOL, SAME, 0, 1),
    ONE(rope, BOOL, SAME, 0, 1),
    ONE(key_bias, BOOL, SAME, 0, 1),
    ONE(ahead, INT, MOST, 0, 1 << 16),
    ONE(lanes, INT, SAME, KV_HEAD, QUERY_HEAD),
    ONE(across, INT, SAME, KV_ALONE, KV_DOWN),
    ONE(message, SIZE, SAME, 0, TERABYTE),
    ONE(codings, INT, SAME, 0, KV_MAX_CODINGS),
    ARRAY(coding, CODING, SAME, KV_MAX_CODINGS, codings, 0, 0),
    ONE(tiers, INT, SAME, 0, KV_MAX_CODINGS),
    ONE(changes, INT, MOST, 0, 64),
    ONE(lane_state, SIZE, MOST, 0, TERABYTE),
    ONE(metas, INT, SAME, 0, KV_MAX_META),
    ARRAY(meta, META, OWN, KV_MAX_META, metas, 0, 0),
    ONE(work, SIZE, MOST, 0, TERABYTE),
    ONE(slides, BOOL, ALL, 0, 1),
    ONE(slid, INT, OWN, 0, 1 << 16),
    ONE(chunks, BOOL, ALL, 0, 1),
    ONE(arrive_in_prompt, BOOL, ALL, 0, 1),
    ONE(future, BOOL, MOST, 0, 1),
    ONE(lengths, BOOL, ALL, 0, 1),
    ONE(lanes_apart, BOOL, ALL, 0, 1),
    {.name = NULL}};

static size_t element(const kv_need *f) {
  return f->size / (size_t)f->elements;
}

static int used(const kv_need *f, const kv_needs *n) {
  int count = f->elements;
  if (f->used) memcpy(&count, (const char *)n + f->used, sizeof count);
  return count < f->elements ? count : f->elements;
}

static const void *at(const kv_need *f, const kv_needs *n, int i) {
  return (const char *)n + f->offset + (size_t)i * element(f);
}

static double number(kv_need_kind kind, const void *from) {
  switch (kind) {
  case KV_NEED_INT:
    return *(const int *)from;
  case KV_NEED_BITS:
    return *(const unsigned *)from;
  case KV_NEED_SIZE:
    return (double)*(const size_t *)from;
  case KV_NEED_BOOL: /* a plugin may have left another number than 0 and 1 */
    return *(const unsigned char *)from;
  default:
    return 0;
  }
}

static bool same_table(const uint32_t *x, const uint32_t *y) {
  size_t bytes = (KV_BY_LAYER + 1) * sizeof *x;
  return x == y || (x && y && memcmp(x, y, bytes) == 0);
}

static bool same_meta(const kv_meta *x, const kv_meta *y) {
  return same_table(x->in_layer, y->in_layer) && x->per == y->per &&
         x->page == y->page && x->bytes == y->bytes &&
         x->scanned == y->scanned && x->from_layer == y->from_layer &&
         x->above == y->above && x->most == y->most;
}

static bool same_element(const kv_need *f, const void *x, const void *y) {
  if (f->kind == KV_NEED_CODING) return kv_coding_alike(x, y);
  if (f->kind == KV_NEED_META) return same_meta(x, y);
  return memcmp(x, y, element(f)) == 0;
}

static bool same(const kv_need *f, const kv_needs *a, const kv_needs *b) {
  for (int i = 0; i < used(f, a) || i < used(f, b); i++)
    if (!same_element(f, at(f, a, i), at(f, b, i))) return false;
  return true;
}

const char *kv_needs_unlike(const kv_needs *a, const kv_needs *b) {
  for (const kv_need *f = kv_need_list; f->name; f++)
    if (!same(f, a, b)) return f->name;
  return NULL;
}

static kv_rc check_meta(const kv_meta *m, kv_err *e) {
  if (m->per == KV_PER_PAGE && m->page < 1)
    return kv_fail(e, KV_REFUSED, "needs.meta says pages of 0 entries");
  if (m->in_layer && m->scanned)
    return kv_fail(e, KV_REFUSED,
                   "needs.meta is scanned, but its bytes depend on the layer");
  if (m->scanned > m->bytes || (double)m->bytes > TERABYTE)
    return kv_fail(e, KV_REFUSED,
                   "needs.meta says %zu bytes held and %zu scanned; hold at "
                   "most a terabyte, and scan no more than is held",
                   m->bytes, m->scanned);
  return KV_OK;
}

static kv_rc check_coding(const kv_coding *c, kv_err *e) {
  if (!c->format || !c->settings)
    return kv_fail(e, KV_REFUSED, "needs.coding has no %s",
                   c->format ? "settings" : "format");
  if ((unsigned)c->sides > KV_VALUES_ONLY)
    return kv_fail(e, KV_REFUSED,
                   "needs.coding codes sides %d; it must be KV_BOTH_SIDES, "
                   "KV_KEYS_ONLY or KV_VALUES_ONLY",
                   (int)c->sides);
  return KV_OK;
}

static kv_rc check(const kv_need *f, const void *from, kv_err *e) {
  if (f->kind == KV_NEED_FLOAT) return KV_OK;
  if (f->kind == KV_NEED_META) return check_meta(from, e);
  if (f->kind == KV_NEED_CODING) return check_coding(from, e);
  double is = number(f->kind, from);
  if (is >= f->least && is <= f->most) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "needs.%s is %.0f; it must be from %.0f to %.0f", f->name, is,
                 f->least, f->most);
}

kv_rc kv_needs_check(const kv_needs *n, kv_err *e) {
  kv_rc rc = KV_OK;
  for (const kv_need *f = kv_need_list; !rc && f->name; f++)
    for (int i = 0; !rc && i < used(f, n); i++) rc = check(f, at(f, n, i), e);
  for (int i = 0; !rc && i < n->codings; i++)
    if ((n->coding[i].pre_rope || n->coding[i].shifted) && !n->rope)
      rc = kv_fail(e, KV_REFUSED,
                   "needs.coding codes before RoPE or shifts keys, so "
                   "needs.rope must be set");
  if (!rc && n->host >> (n->classes > 1 ? n->classes : 0))
    rc = kv_fail(e, KV_REFUSED,
                 "needs.host is %#x but needs.classes is %d; entries in host "
                 "memory need a class",
                 n->host, n->classes);
  if (!rc && n->unread >> (n->classes > 1 ? n->classes : 0))
    rc = kv_fail(e, KV_REFUSED,
                 "needs.unread is %#x but needs.classes is %d; unread entries "
                 "need a class",
                 n->unread, n->classes);
  if (!rc && (n->across == KV_DOWN) != (n->message > 0))
    rc = kv_fail(e, KV_REFUSED,
                 "needs.message is %zu bytes but needs.across is %s; set a "
                 "message size if and only if it is KV_DOWN",
                 n->message, n->across == KV_DOWN ? "KV_DOWN" : "KV_ALONE");
  return rc;
}

static void widen(const kv_need *f, kv_needs *wide, const kv_needs *n) {
  void *to = (char *)wide + f->offset;
  const void *from = at(f, n, 0);
  bool all = f->layers == KV_NEED_ALL;
  if (f->layers == KV_NEED_OWN) return;
  if (f->kind == KV_NEED_BITS) {
    *(unsigned *)to |= *(const unsigned *)from;
  } else if (all ? number(f->kind, from) < number(f->kind, to)
                 : number(f->kind, from) > number(f->kind, to)) {
    memcpy(to, from, f->size);
  }
}

const char *kv_needs_widen(kv_needs *wide, const kv_needs *n) {
  for (const kv_need *f = kv_need_list; f->name; f++) {
    if (f->layers != KV_NEED_SAME)
      widen(f, wide, n);
    else if (!same(f, wide, n))
      return f->name;
  }
  return NULL;
}
