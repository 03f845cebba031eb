/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular indices (sim/replay/layout/regular.h): their costs, and their
 * settings in --layout, such as "ls:sparse:masks=layer:tp=2".
 */
#include "sim/replay/layout/regular.h"

#include "sim/replay/layout/layout.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t kv_regular_slots(kv_regular_task task, bool sparse,
                         const kv_regular_counts *c) {
  int64_t lanes = c->layers * c->lanes;
  if (sparse) return lanes * c->seen;
  switch (task) {
  case KV_REGULAR_BASE:
    return lanes * c->all;
  case KV_REGULAR_LS:
  case KV_REGULAR_LA:
    return lanes * c->widest;
  case KV_REGULAR_HS:
    return c->lanes * c->longest;
  default:
    return lanes * c->fullest;
  }
}

int64_t kv_regular_mask(bool one, const kv_regular_counts *c) {
  return c->layers * (one ? 1 : c->lanes) * ((c->seen + 7) / 8);
}

int64_t kv_regular_kept(bool one, const kv_regular_counts *c) {
  return one ? c->lanes * c->joined : c->kept;
}

int64_t kv_regular_fullest(bool one, const kv_regular_counts *c) {
  return one ? c->widest : c->fullest;
}

int64_t kv_regular_moves(kv_regular_task task, const kv_regular_counts *c) {
  switch (task) {
  case KV_REGULAR_BASE:
    return 0; /* one table of blocks serves all lanes */
  case KV_REGULAR_LS:
    return c->changed * c->lanes * c->widest;
  case KV_REGULAR_LA:
    return c->lanes * c->changed_joined;
  default:
    return c->changed_kept;
  }
}

void kv_regular_begin(kv_regular_race *r) {
  *r = (kv_regular_race){.paid_at = -1};
}

static kv_regular_wide product(int64_t a, int64_t b) {
  return (kv_regular_wide)a * (kv_regular_wide)b;
}

void kv_regular_rewrite(kv_regular_race *r, int64_t held, int64_t moved,
                        int64_t all, int64_t mask) {
  r->begun = true;
  r->rewritten += product(held, 2 * moved);
  r->masked += product(all, mask);
}

void kv_regular_step(kv_regular_race *r, int64_t held, int64_t all) {
  if (!r->begun) return;
  r->steps++;
  r->rewritten += product(held, held);
  r->masked += product(all, all);
  if (r->paid_at < 0 && r->rewritten <= r->masked) r->paid_at = r->steps;
}

static kv_rc refuse_sum(const char *name, kv_err *e) {
  return kv_fail(
      e, KV_USAGE,
      "layout %s:sum does not exist, because indices as long as all lanes "
      "together make each lane load almost everything; use %s:max or %s:sparse",
      name, name, name);
}

static bool lanes_share(const kv_layout_asked *a) {
  return a->layout->task == KV_REGULAR_LS || a->layout->task == KV_REGULAR_LA;
}

/* The first setting, except for base: how rows are stored. */
static kv_rc take_how(const char *word, kv_layout_asked *out, kv_err *e) {
  const char *name = out->layout->name;
  out->sparse = !strcmp(word, "sparse");
  if (out->sparse || !strcmp(word, "max")) return KV_OK;
  if (!strcmp(word, "sum")) return refuse_sum(name, e);
  return kv_fail(e, KV_USAGE,
                 "layout %s must be followed by sparse (masks) or max "
                 "(rewritten), as in %s:max, not \"%s\"",
                 name, name, word);
}

static kv_rc take_masks(const char *what, kv_layout_asked *out, kv_err *e) {
  const char *name = out->layout->name;
  out->one_mask = !strcmp(what, "layer");
  if (!out->one_mask && strcmp(what, "lane"))
    return kv_fail(e, KV_USAGE,
                   "layout %s: masks must be lane or layer, not %s", name,
                   what);
  if (out->layout->task == KV_REGULAR_BASE || (out->one_mask && !out->sparse))
    return kv_fail(
        e, KV_USAGE, "layout %s cannot have masks=%s; use %s", name, what,
        *name == 'b' ? "base without masks" : "masks=lane, or sparse");
  out->stays = !out->sparse;
  if (!out->one_mask || lanes_share(out)) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "layout %s: one mask a layer needs sets that the layer's "
                 "lanes share; use ls:sparse or la:sparse, or masks=lane",
                 name);
}

static kv_rc take_ranks(const char *what, kv_layout_asked *out, kv_err *e) {
  char *end;
  long n = strtol(what, &end, 10);
  if (*what < '0' || *what > '9' || *end || n < 2 || n > KV_MOST_RANKS)
    return kv_fail(e, KV_USAGE,
                   "layout %s: tp=%s must be a number of ranks from 2 to %d",
                   out->layout->name, what, KV_MOST_RANKS);
  out->ranks = (int)n;
  return KV_OK;
}

static kv_rc take_more(const char *word, kv_layout_asked *out, kv_err *e) {
  static const struct {
    const char *key;
    kv_rc (*take)(const char *what, kv_layout_asked *out, kv_err *e);
  } of[] = {{"masks=", take_masks}, {"tp=", take_ranks}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    if (!strncmp(word, of[i].key, strlen(of[i].key)))
      return of[i].take(word + strlen(of[i].key), out, e);
  return kv_fail(e, KV_USAGE,
                 "layout %s has no setting \"%s\"; use tp=N or, with sparse, "
                 "masks=lane or masks=layer",
                 out->layout->name, word);
}

/* Makes the name the same whatever the order of the settings. */
static void write_name(kv_layout_asked *out) {
  char ranks[16] = "";
  bool base = out->layout->task == KV_REGULAR_BASE;
  if (out->ranks) snprintf(ranks, sizeof ranks, ":tp=%d", out->ranks);
  snprintf(out->name, sizeof out->name, "%s%s%s%s", out->layout->name,
           base          ? ""
           : out->sparse ? ":sparse"
                         : ":max",
           out->one_mask ? ":masks=layer"
           : out->stays  ? ":masks=lane"
                         : "",
           ranks);
}

kv_rc kv_regular_parse(const char *settings, kv_layout_asked *out, kv_err *e) {
  bool base = out->layout->task == KV_REGULAR_BASE;
  char *copy = strdup(settings ? settings : ""), *left = copy;
  if (!copy) return kv_no_memory(e, "layouts", 1);
  char *word = base && !settings ? NULL : strsep(&left, ":");
  kv_rc rc = base ? KV_OK : take_how(word, out, e);
  if (!base) word = strsep(&left, ":");
  for (; !rc && word; word = strsep(&left, ":")) rc = take_more(word, out, e);
  free(copy);
  out->page = 1;
  if (!rc) write_name(out);
  return rc;
}

kv_rc kv_regular_suits(const kv_layout_asked *asked, const kv_shape *shape,
                       const kv_needs *needs, kv_err *e) {
  (void)needs;
  if (!asked->ranks || shape->n_kv_heads % asked->ranks == 0) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "layout %s: %d KV heads cannot be split among %d ranks; "
                 "choose a divisor from 2 on",
                 asked->name, shape->n_kv_heads, asked->ranks);
}

kv_indices kv_layout_indices(const kv_layout_asked *asked) {
  kv_regular_task task = asked->layout->task;
  if (task == KV_REGULAR_NONE) return KV_INDICES_NONE;
  if (asked->sparse)
    return asked->one_mask ? KV_INDICES_SHARED : KV_INDICES_MASKED;
  bool joined = task == KV_REGULAR_BASE || lanes_share(asked);
  return joined ? KV_INDICES_JOINED : KV_INDICES_REWRITTEN;
}
