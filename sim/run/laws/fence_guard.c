/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that a hook may read but not write: sim/run/laws/fence.h. These are
 * its parameters, the shape, the tensors of its file, the rows that it sees
 * (other methods see them too), other lanes, and everything of its own lane
 * that only memory operations may change. A write of the value that was already
 * there is not detected.
 */
#include "sim/run/laws/fence_part.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 512 }; /* most lanes of a layer that are checked */

typedef struct known {
  const kv_lane *lane;
  kv_lane was;
  uint64_t entries, rest; /* digests of its memory */
} known;

static known *list;
static int lanes;
static const kv_method *method;
static char *params;
static kv_shape shape;
static uint64_t shown, lent;

static uint64_t add(uint64_t h, const void *at, size_t n) {
  const unsigned char *c = at;
  for (; n >= 8; c += 8, n -= 8) {
    uint64_t word;
    memcpy(&word, c, 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  for (size_t i = 0; i < n; i++) h = (h ^ c[i]) * 0x100000001b3u;
  return h;
}

static uint64_t entries_of(const kv_lane *l) {
  size_t n = (size_t)l->n;
  uint64_t h = add(1, l->id, n * sizeof *l->id);
  h = add(h, l->weight, n * sizeof *l->weight);
  if (l->tier) h = add(h, l->tier, n * sizeof *l->tier);
  if (l->k) h = add(h, l->k, n * sizeof *l->k);
  if (l->v) h = add(h, l->v, n * sizeof *l->v);
  if (l->last) h = add(h, l->last, n * sizeof *l->last);
  if (l->next)
    h = add(h, l->next, (size_t)l->shape->n_tokens * sizeof *l->next);
  return h;
}

/* Digest of what the lane's hooks may write: columns and state. */
static uint64_t rest_of(const kv_lane *l) {
  uint64_t h = 1;
  for (int c = 0; c < l->needs->columns; c++)
    h = add(h, l->column[c].i,
            (size_t)l->n * (l->needs->column[c] == KV_INT64 ? 8 : 4));
  return l->own ? add(h, l->own, l->needs->lane_state) : h;
}

static uint64_t rows_of(const kv_at *at, const kv_rows *rows) {
  uint64_t h = 1;
  size_t d = (size_t)at->shape->d;
  for (int r = 0; r < rows->rows; r++)
    for (int i = 0; i < rows->heads; i++) {
      size_t place = kv_rows_at(rows, r, i);
      size_t n = (size_t)kv_rows_visible(rows, r) * sizeof *rows->s;
      if (rows->q) h = add(h, rows->q + place * d, d * sizeof *rows->q);
      if (rows->s) h = add(h, rows->s + place * rows->stride, n);
      if (rows->p) h = add(h, rows->p + place * rows->stride, n);
    }
  for (int i = 0; rows->sum && i < rows->heads; i++)
    h = add(h, rows->sum + (size_t)i * rows->stride,
            (size_t)rows->entries * sizeof *rows->sum);
  return h;
}

/* Digest of all tensors of a file, in every layer. */
static uint64_t file_of(const kv_asset *a, uint64_t h) {
  for (int i = 0; a && i < a->layers * a->asked; i++) {
    const kv_tensor *t = &a->tensor[i];
    bool again = i >= a->asked && t->data == t[-a->asked].data;
    h = add(h, t, sizeof *t);
    if (t->data && !again)
      h = add(h, t->data,
              (size_t)t->count * kv_tensor_size(a->ask[i % a->asked].type));
  }
  return h;
}

/* Digest of all the method's files. */
static uint64_t lent_of(const kv_at *at) {
  const kv_param *p;
  uint64_t h = 1;
  for (int i = 0; (p = kv_method_file(method, i)); i++) {
    const char *file = (const char *)at->params + p->offset;
    h = file_of(((const kv_file *)(const void *)file)->asset, h);
  }
  return h;
}

kv_rc kv_fence_guard_open(const kv_method *m, kv_err *e) {
  free(params);
  method = m;
  lanes = 0;
  params = kv_zalloc(1, m->params_size + 1);
  if (!list) list = kv_zalloc(MOST, sizeof *list);
  return params && list ? KV_OK : kv_no_memory(e, "a fence", sizeof *list);
}

void kv_fence_guard_lane(const kv_lane *l) {
  for (int i = 0; i < lanes; i++)
    if (list[i].lane == l) return;
  if (lanes < MOST) list[lanes++].lane = l;
}

static const struct {
  const char *name;
  size_t at, size;
  bool verbs; /* may memory operations change it? */
} field[] = {
#define FIELD(name, verbs)                                                     \
  { #name, offsetof(kv_lane, name), sizeof((kv_lane *)0)->name, verbs }
    FIELD(shape, false),   FIELD(needs, false),    FIELD(data, false),
    FIELD(lane, false),    FIELD(kv_head, false),  FIELD(first_head, false),
    FIELD(queries, false), FIELD(n, true),         FIELD(id, false),
    FIELD(weight, false),  FIELD(k, false),        FIELD(v, false),
    FIELD(column, false),  FIELD(last, false),     FIELD(next, false),
    FIELD(k_slab, true),   FIELD(v_slab, true),    FIELD(dropped, true),
    FIELD(holes, true),    FIELD(rewritten, true), FIELD(own, false),
    FIELD(step, false),    FIELD(views, false),    FIELD(verbs, true),
    FIELD(rewrites, true), FIELD(f32, false),      FIELD(rows, false),
    FIELD(room, false),    FIELD(marked, true),    FIELD(first_marked, true),
    FIELD(tail, true),     FIELD(tier, false),     FIELD(kernels, false)};
enum { FIELDS = sizeof field / sizeof *field };

/* The first field that changed but must not; NULL: none. */
static const char *changed(const known *k, bool verbs) {
  const char *was = (const char *)&k->was, *is = (const char *)k->lane;
  for (int i = 0; i < FIELDS; i++)
    if (!(verbs && field[i].verbs) &&
        memcmp(was + field[i].at, is + field[i].at, field[i].size) != 0)
      return field[i].name;
  if (k->was.fault.rc && !k->lane->fault.rc) return "fault";
  return NULL;
}

static bool is_among(const kv_lane *l, const kv_lane *const *lane, int n) {
  for (int i = 0; i < n; i++)
    if (lane[i] == l) return true;
  return false;
}

static void look_at(const known *k) {
  bool verbs = k->was.verbs.n != k->lane->verbs.n;
  const char *name = changed(k, verbs);
  if (name)
    kv_fence_found("hooks",
                   "writes the lane's %s; hooks may only change lanes by verbs",
                   name);
  if (!verbs && entries_of(k->lane) != k->entries)
    kv_fence_found("hooks", "writes the lane's entries without calling a verb");
}

void kv_fence_guard_before(const kv_at *at, const kv_rows *rows) {
  memcpy(params, at->params, method->params_size);
  shape = *at->shape;
  shown = rows ? rows_of(at, rows) : 0;
  lent = lent_of(at);
  for (int i = 0; i < lanes; i++) {
    memcpy(&list[i].was, list[i].lane, sizeof list[i].was);
    list[i].entries = entries_of(list[i].lane);
    list[i].rest = rest_of(list[i].lane);
  }
}

void kv_fence_guard_after(const kv_at *at, const kv_lane *const *lane, int n,
                          const kv_rows *rows) {
  if (memcmp(params, at->params, method->params_size) != 0)
    kv_fence_found("hooks", "writes its parameters, which all lanes share");
  if (memcmp(&shape, at->shape, sizeof shape) != 0)
    kv_fence_found("hooks", "writes the shape, which everything shares");
  if (lent_of(at) != lent)
    kv_fence_found("hooks", "writes its file's tensors, which all hooks share");
  for (int i = 0; i < lanes; i++) {
    const known *k = &list[i];
    if (is_among(k->lane, lane, n))
      look_at(k);
    else if (changed(k, false) || entries_of(k->lane) != k->entries ||
             rest_of(k->lane) != k->rest)
      kv_fence_found("hooks", "writes lane %d, which is not its own",
                     k->was.lane);
  }
  if (rows && rows_of(at, rows) != shown)
    kv_fence_found(
        "hooks", "writes the rows it is shown, which other methods also read");
}
