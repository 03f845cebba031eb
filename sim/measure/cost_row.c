/* SPDX-License-Identifier: Apache-2.0
 *
 * What one lane cost in one block: bytes that its query heads read, rows that
 * are made for them, and bytes that its memory operations wrote anew.
 */
#include "ref/lane/records.h"
#include "sim/measure/cost.h"
#include <assert.h>
#include <string.h>

/* One byte for each entry, then one for each block of each coding. */
size_t kv_cost_mark_size(const kv_shape *shape) {
  return (size_t)shape->n_tokens * (1 + KV_MAX_CODINGS);
}

/* Of K at k_slab or V at v_slab. */
static int64_t coded_bytes(const kv_lane *l, const kv_slab *slab, int format,
                           int members) {
  assert(format >= KV_CODED && format < KV_CODED + l->needs->codings);
  kv_coded_size size = kv_slab_bytes(&slab[format], members);
  return (int64_t)(size.codes + size.metadata);
}

/* Why an entry is read: a head attends it, or what it decodes to is a part of
 * one that is attended; or its K and V as they came are such a part. */
enum { READ = 1, READ_AS_IT_CAME };

/* Marks the entries that at least one head attends. */
static void mark_union(const kv_seen *seen, uint8_t *mark) {
  for (int h = 0; h < seen->queries; h++) {
    const kv_view *v = &seen->view[h];
    for (int r = 0; r < v->runs; r++)
      memset(mark + v->run[r].first, READ, (size_t)v->run[r].count);
  }
}

/* Of entry i in a layered coding; NULL: in no such one. */
static const kv_coding *layered_of(const kv_lane *l, int i) {
  int f = l->needs->codings && l->k ? l->k[i].format : KV_RAW;
  const kv_coding *c = f < KV_CODED ? NULL : &l->needs->coding[f - KV_CODED];
  return c && c->format->layered ? c : NULL;
}

/* The entry of a token that a block names. Entries stand by their ids. */
static int entry_of(const kv_lane *l, int id) {
  int i = id < l->n ? id : l->n - 1;
  while (i > 0 && l->id[i] != (uint32_t)id) i--;
  assert(l->id[i] == (uint32_t)id && "what a block names stays as it is");
  return i;
}

static void mark_named(const kv_lane *l, const kv_coding *c, int i,
                       uint8_t *mark) {
  const int32_t *named = kv_lane_named(l, i);
  int most = c->format->layered->named(c->settings);
  for (int j = 0; j < most && named[j] != KV_NO_TOKEN; j++) {
    int at = entry_of(l, named[j]);
    const kv_coding *of = layered_of(l, at);
    bool held = of && of->format->layered->held &&
                of->format->layered->held(of->settings);
    if (!mark[at]) mark[at] = held ? READ_AS_IT_CAME : READ;
  }
}

/* Marks what decoding the marked ones reads: tokens that their blocks name, all
 * of them no later ones. Returns how many rows are made so. */
static int mark_parts(const kv_lane *l, uint8_t *mark) {
  int made = 0;
  for (int i = l->n - 1; i >= 0; i--) {
    const kv_coding *c = mark[i] == READ ? layered_of(l, i) : NULL;
    made += c != NULL;
    if (c) mark_named(l, c, i, mark);
  }
  return made;
}

static int count(const kv_lane *l, const uint8_t *mark) {
  int n = 0;
  for (int i = 0; i < l->n; i++) n += mark[i] != 0;
  return n;
}

/* Bytes of one side (K or V) of the marked entries. block: a byte for each
 * block of each coding, zero before and after. */
static int64_t side_bytes(const kv_lane *l, const kv_cell_ref *ref,
                          const kv_slab *slab, int width, const uint8_t *mark,
                          uint8_t *block) {
  int64_t sum = 0, raw = width * (int64_t)kv_dtype_size(l->shape->dtype);
  int64_t merged = (int64_t)kv_slab_bytes(&slab[KV_MERGED], 1).codes;
  size_t n = (size_t)l->shape->n_tokens;
  for (int i = 0; i < l->n; i++) {
    int f = ref[i].format;
    if (!mark[i]) continue;
    if (f < KV_CODED || mark[i] == READ_AS_IT_CAME) {
      sum += f != KV_MERGED ? raw : merged;
      continue;
    }
    uint8_t *seen = &block[(size_t)(f - KV_CODED) * n + (size_t)ref[i].block];
    if (!*seen) sum += coded_bytes(l, slab, f, slab[f].members[ref[i].block]);
    *seen = 1;
  }
  for (int c = 0; c < l->needs->codings; c++)
    memset(block + (size_t)c * n, 0, (size_t)slab[KV_CODED + c].used);
  return sum;
}

/* Of these of K and V those that are counted twice, where V is a part of K. */
static int64_t shared_bytes(const kv_lane *l, const uint8_t *mark) {
  int64_t sum = 0;
  for (int i = 0; l->shape->shared && i < l->n; i++)
    if (mark[i] == READ_AS_IT_CAME)
      sum += kv_lane_shared(l, KV_RAW);
    else if (mark[i])
      sum += kv_lane_shared_entry(l, i);
  return sum;
}

int64_t kv_cost_marked(const kv_lane *l, uint8_t *mark) {
  const kv_shape *s = l->shape;
  size_t n = (size_t)s->n_tokens;
  int read = count(l, mark);
  if (l->rewritten == 0) return read * kv_token_bytes(s);
  if (read == l->n && !memchr(mark, READ_AS_IT_CAME, (size_t)l->n))
    return kv_lane_row_bytes(l);
  return side_bytes(l, l->k, l->k_slab, s->d, mark, mark + n) +
         side_bytes(l, l->v, l->v_slab, s->d_v, mark, mark + n) -
         shared_bytes(l, mark);
}

/* Leaves marked what lies in the host's memory. */
static void mark_host(const kv_lane *l, uint8_t *mark) {
  for (int i = 0; i < l->n; i++)
    if (!(l->needs->host >> kv_class_of(l, i) & 1)) mark[i] = 0;
}

/* Every entry is read, as it stands: no need to mark them one by one. */
static bool reads_lane(const kv_lane *l, const kv_seen *seen) {
  bool layered = false, all = false;
  for (int c = 0; c < l->needs->codings; c++)
    layered |= l->needs->coding[c].format->layered != NULL;
  for (int h = 0; h < seen->queries; h++) all |= seen->view[h].entries == l->n;
  return all && !l->needs->host && (!layered || l->rewritten == 0);
}

void kv_cost_mark_fetched(const kv_seen *seen, uint8_t *mark) {
  const kv_lane *l = seen->lane;
  mark_union(seen, mark);
  if (l->rewritten) mark_parts(l, mark);
  mark_host(l, mark);
}

kv_cost_row kv_cost_view(const kv_seen *seen, uint8_t *mark) {
  const kv_lane *l = seen->lane;
  kv_cost_row row = {0};
  for (int h = 0; h < seen->queries; h++) row.attended += seen->view[h].entries;
  if (reads_lane(l, seen)) {
    row.bytes =
        l->rewritten ? kv_lane_row_bytes(l) : l->n * kv_token_bytes(l->shape);
    return row;
  }
  mark_union(seen, mark);
  if (l->rewritten)
    row.materialised = mark_parts(l, mark) * kv_token_bytes(l->shape);
  row.bytes = kv_cost_marked(l, mark);
  if (l->needs->host) {
    mark_host(l, mark);
    row.fetched = kv_cost_marked(l, mark);
  }
  memset(mark, 0, (size_t)l->n);
  return row;
}

/* Bytes that one recode record wrote. Its payload: K format, V format, ids in
 * call order; one group a side. */
static int64_t recoded_bytes(const kv_lane *l, const uint32_t *payload,
                             int members) {
  int k = (int32_t)payload[0], v = (int32_t)payload[1];
  int64_t sum = 0;
  if (k != KV_SAME) sum += coded_bytes(l, l->k_slab, k, members);
  if (v != KV_SAME) sum += coded_bytes(l, l->v_slab, v, members);
  return sum;
}

kv_cost_verbs kv_cost_lane_verbs(const kv_lane *l) {
  kv_cost_verbs v = {0, 0};
  kv_record_at r;
  size_t i = 0;
  while (kv_records_next(&l->verbs, &i, &r)) {
    v.records++;
    if (r.head[0] == KV_MERGE)
      v.moved += (int64_t)(kv_slab_bytes(&l->k_slab[KV_MERGED], 1).codes +
                           kv_slab_bytes(&l->v_slab[KV_MERGED], 1).codes) -
                 kv_lane_shared(l, KV_MERGED);
    if (r.head[0] == KV_RECODE)
      v.moved += recoded_bytes(l, r.payload, (int)r.count - 2);
  }
  return v;
}
