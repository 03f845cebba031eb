/* SPDX-License-Identifier: Apache-2.0
 *
 * Updates the host's mirror of lanes from a step's report: contract in
 * gpu/host/store.h. Only what the engine reads is mirrored: neither the free
 * blocks of a slab nor its counts of live members.
 */
#include "gpu/host/store.h"
#include "ref/parts/latents.h"
#include <assert.h>
#include <string.h>

/* --- logits that are not finite ----------------------------------------- */

static void fail_logit(kv_store *s, int lane, uint64_t at) {
  const kv_lane *m = &s->mirror[lane];
  uint32_t entry = (uint32_t)at;
  if (entry == UINT32_MAX)
    kv_fail(&s->mirror[lane].fault, KV_REFUSED,
            "layer %d, query head %d, row %d: the method's own chunk holds NaN "
            "or Inf, or its l is not from 2^-64 to 2^64",
            s->data->layer, m->first_head + (int)(at >> 32), m->step - 1);
  else
    kv_fail(&s->mirror[lane].fault, KV_REFUSED,
            "layer %d, query head %d, row %d: the logit of token %u is not "
            "finite",
            s->data->layer, m->first_head + (int)(at >> 32), m->step - 1,
            entry < (uint32_t)m->n ? m->id[entry] : entry);
}

/* Reports the first non-finite logit of the prompt: the group's first row with
 * one, and in it the first head. */
static void fail_prompt(kv_store *s, int first, int lanes) {
  uint64_t at = UINT64_MAX;
  kv_lane *m = &s->mirror[first];
  for (int i = first; i < first + lanes; i++)
    if (s->bad[i] < at) at = s->bad[i];
  if (at == UINT64_MAX || m->fault.rc) return;
  kv_fail(&m->fault, KV_REFUSED,
          "layer %d, query head %d, row %d: a logit of the prompt is not "
          "finite",
          s->data->layer, (int)(uint32_t)at, (int)(at >> 32));
}

static void note_logits(kv_store *s, bool prompt) {
  int per_head = s->lanes / s->plan->shape->n_kv_heads;
  for (int i = 0; prompt && i < s->lanes; i += per_head)
    fail_prompt(s, i, per_head);
  for (int i = 0; !prompt && i < s->lanes; i++)
    if (s->bad[i] != UINT64_MAX && !s->mirror[i].fault.rc &&
        !s->mirror[i - i % per_head].fault.rc) /* what the prompt left */
      fail_logit(s, i, s->bad[i]);
}

/* --- views -------------------------------------------------------------- */

static bool mirror_outputs(kv_store *s) {
  size_t heads = (size_t)s->plan->shape->n_heads;
  size_t d_v = (size_t)s->plan->shape->d_v, wide = d_v + 1;
  if (kv_gpu_pull_all(s, KV_GPU_SAY_VIEWS, 0, wide * sizeof *s->both, heads,
                      s->both) < 0 ||
      kv_gpu_pull_all(s, KV_GPU_SAY_VIEWS, 1, sizeof *s->bad, (size_t)s->lanes,
                      s->bad) < 0)
    return false;
  for (size_t h = 0; h < heads; h++) {
    memcpy(s->out + h * d_v, s->both + h * wide, d_v * sizeof *s->out);
    s->lse[h] = s->both[h * wide + d_v];
  }
  return true;
}

/* Copies the logits of a view to the places of its entries. */
static bool mirror_logits(kv_store *s, int h, int piece) {
  size_t stride = (size_t)s->layer.stride, at = 0;
  float *out = s->s + (size_t)h * stride;
  const kv_view *v = &s->view[h];
  const kv_gpu_piece *p = kv_gpu_piece_of(s, KV_GPU_SAY_VIEWS, piece,
                                          sizeof *out, (size_t)v->entries);
  for (int r = 0; p && r < v->runs; at += (size_t)v->run[r++].count)
    if (!kv_gpu_pull(s, p, at, (size_t)v->run[r].count, out + v->run[r].first))
      return false;
  return p != NULL;
}

/* True if the runs ascend, lie within the lane, and have as many entries as
 * reported. */
static bool is_view(const kv_view *v, int n) {
  int64_t end = 0, entries = 0;
  for (int r = 0; r < v->runs; r++) {
    if (v->run[r].first < end || v->run[r].count < 1) return false;
    end = (int64_t)v->run[r].first + v->run[r].count;
    entries += v->run[r].count;
  }
  return entries > 0 && entries == v->entries && end <= n;
}

static bool mirror_view(kv_store *s, int h) {
  int piece = KV_GPU_OF_VIEWS + KV_GPU_OF_HEAD * h;
  kv_view *v = &s->view[h];
  v->runs = kv_gpu_pull_all(s, KV_GPU_SAY_VIEWS, piece, sizeof *v->run,
                            (size_t)s->plan->shape->n_tokens / 2 + 1, v->run);
  if (v->runs < 0) return false;
  v->entries = 0;
  for (int r = 0; r < v->runs; r++) v->entries += v->run[r].count;
  if (is_view(v, s->mirror[h / s->queries].n))
    return !s->s || mirror_logits(s, h, piece + 1);
  kv_fail(&s->fault, KV_INTERNAL,
          "backend %s, layer %d, step %d: the view of query head %d belongs to "
          "another lane",
          s->device->name, s->data->layer, s->end, h);
  return false;
}

void kv_gpu_mirror_views(kv_store *s) {
  bool fine = mirror_outputs(s);
  for (int h = 0; fine && h < s->plan->shape->n_heads; h++)
    fine = mirror_view(s, h);
  if (kv_gpu_lost(s))
    kv_gpu_lost_views(s);
  else
    note_logits(s, false);
}

/* --- columns ------------------------------------------------------------ */

static size_t column_size(const kv_needs *need, int c) {
  return need->column[c] == KV_INT64 ? 8 : 4;
}

static bool pull_column(kv_store *s, kv_gpu_stage stage, int first, int i,
                        int c, int n) {
  return kv_gpu_pull_all(s, stage, first + c, column_size(&s->plan->needs, c),
                         (size_t)n, s->mirror[i].column[c].i) >= 0;
}

void kv_gpu_mirror_columns(kv_store *s) {
  for (int i = 0; i < s->lanes; i++)
    for (int c = 0; c < s->plan->needs.columns; c++)
      if (!pull_column(s, KV_GPU_SAY_COLUMNS, i * KV_MAX_COLUMNS, i, c,
                       s->mirror[i].n))
        return;
}

/* --- rewritten rows ----------------------------------------------------- */

static int piece_of_lane(const kv_store *s, int i, int what) {
  return KV_GPU_OF_LANES + i * s->layer.lane_pieces + what;
}

/* A whole piece of lane i. */
static int pull_lane(kv_store *s, int i, int what, size_t size, size_t most,
                     void *to) {
  return kv_gpu_pull_all(s, KV_GPU_SAY_LANES, piece_of_lane(s, i, what), size,
                         most, to);
}

/* R <- H(R || id || K bits || V bits), row by row. */
static bool hash_log(kv_store *s, int i) {
  kv_lane *m = &s->mirror[i];
  const kv_shape *shape = s->plan->shape;
  size_t bytes = (size_t)(shape->d + shape->d_v) * sizeof *s->row;
  size_t most = (size_t)s->head[i].cap_log;
  assert(s->log->holder == s && "no other layer of the cell compressed since");
  int n = pull_lane(s, i, KV_GPU_SAY_LOG_ID, sizeof *s->list, most, s->list);
  const kv_gpu_piece *log = kv_gpu_piece_of(
      s, KV_GPU_SAY_LANES, piece_of_lane(s, i, KV_GPU_SAY_LOG), bytes, most);
  for (int r = 0; log && r < n; r++) {
    kv_sha256 h;
    if (!kv_gpu_pull(s, log, (size_t)r, 1, s->row)) return false;
    kv_sha256_init(&h);
    kv_sha256_add(&h, m->rewrites.byte, sizeof m->rewrites.byte);
    kv_sha256_add(&h, &s->list[r], sizeof s->list[r]);
    kv_sha256_add(&h, s->row, bytes);
    m->rewrites = kv_sha256_end(&h);
  }
  return log && n >= 0;
}

/* Copies elements of a piece to the blocks that s->list names, or all in their
 * order if none are listed. */
static bool pull_blocks(kv_store *s, const kv_gpu_piece *p, int listed, int cap,
                        size_t size, char *to) {
  if (listed == 0) return kv_gpu_pull(s, p, 0, p->count, to);
  for (int j = 0; j < listed; j++) {
    int32_t b = s->list[j];
    if (b < 0 || b >= cap) continue;
    if (!kv_gpu_pull(s, p, (size_t)j, 1, to + (size_t)b * size)) return false;
  }
  return true;
}

/* Copies the blocks that were written; all if none are listed. */
static bool mirror_blocks(kv_store *s, int i, int first, kv_slab *to) {
  int cap = to->cap;
  int listed = pull_lane(s, i, first, sizeof *s->list, (size_t)cap, s->list);
  const kv_gpu_piece *members =
      kv_gpu_piece_of(s, KV_GPU_SAY_LANES, piece_of_lane(s, i, first + 1),
                      sizeof *to->members, (size_t)cap);
  const kv_gpu_piece *data =
      kv_gpu_piece_of(s, KV_GPU_SAY_LANES, piece_of_lane(s, i, first + 2),
                      to->size, (size_t)cap);
  return listed >= 0 && members && data &&
         pull_blocks(s, members, listed, cap, sizeof *to->members,
                     (char *)to->members) &&
         pull_blocks(s, data, listed, cap, to->size, to->data);
}

static bool mirror_slab(kv_store *s, int i, int first, const kv_gpu_slab *from,
                        kv_slab *to) {
  if (!to->cap) return true;
  to->used = from->used;
  to->n_free = from->n_free;
  to->held = from->held;
  to->bytes.codes = (size_t)from->codes;
  to->bytes.metadata = (size_t)from->metadata;
  return mirror_blocks(s, i, first, to);
}

static bool mirror_members(kv_store *s, int i) {
  kv_lane *m = &s->mirror[i];
  size_t t = (size_t)s->plan->shape->n_tokens;
  if (!m->last) return true;
  if (pull_lane(s, i, KV_GPU_SAY_LAST, sizeof *m->last, t, m->last) < 0)
    return false;
  int n = pull_lane(s, i, KV_GPU_SAY_JOINED, sizeof *s->list, t, s->list);
  if (n < 0 ||
      pull_lane(s, i, KV_GPU_SAY_NEXT, sizeof *s->next, t, s->next) != n)
    return false;
  for (int j = 0; j < n; j++)
    if ((uint32_t)s->list[j] < t) m->next[s->list[j]] = s->next[j];
  return true;
}

/* The lane's own numbers for codings, on a far device; arrive writes them in a
 * prompt. */
static void mirror_own(kv_store *s, int i) {
  const kv_needs *need = &s->plan->needs;
  bool any = false;
  for (int c = 0; c < need->codings; c++)
    any |= need->coding[c].shifted || need->coding[c].own_settings;
  if (any && !s->device->near && kv_gpu_in_prompt(s))
    s->device->get(s->mirror[i].own, s->head[i].own, need->lane_state);
}

static bool mirror_rewriting(kv_store *s, int i) {
  const kv_gpu_lane *l = &s->head[i];
  kv_lane *m = &s->mirror[i];
  size_t t = (size_t)s->plan->shape->n_tokens;
  int slabs = (int)KV_GPU_SLABS(&s->plan->needs);
  if (!m->k) return true;
  mirror_own(s, i);
  if (pull_lane(s, i, KV_GPU_SAY_K, sizeof *m->k, t, m->k) < 0 ||
      pull_lane(s, i, KV_GPU_SAY_V, sizeof *m->v, t, m->v) < 0 ||
      !hash_log(s, i) || !mirror_members(s, i))
    return false;
  for (int f = 0; f < slabs; f++) {
    int k = KV_GPU_SAY_SLABS + 3 * f, v = k + 3 * slabs, at = KV_MERGED + f;
    if (!mirror_slab(s, i, k, &l->k_slab[at], &m->k_slab[at]) ||
        !mirror_slab(s, i, v, &l->v_slab[at], &m->v_slab[at]))
      return false;
  }
  return true;
}

/* --- lanes -------------------------------------------------------------- */

static bool mirror_records(kv_store *s, int i) {
  kv_words *w = &s->mirror[i].verbs;
  int n = pull_lane(s, i, KV_GPU_SAY_VERBS, sizeof *w->word, w->cap - w->n,
                    w->word + w->n);
  if (n > 0) w->n += (size_t)n;
  return n >= 0;
}

static bool mirror_lane(kv_store *s, int i) {
  const kv_gpu_lane *l = &s->head[i];
  kv_lane *m = &s->mirror[i];
  size_t t = (size_t)s->plan->shape->n_tokens;
  if (pull_lane(s, i, KV_GPU_SAY_ID, sizeof *m->id, t, m->id) != l->n ||
      pull_lane(s, i, KV_GPU_SAY_WEIGHT, sizeof *m->weight, t, m->weight) < 0)
    return false;
  if (m->tier && pull_lane(s, i, KV_GPU_SAY_TIER, 4, t / 4 + 1, m->tier) < 0)
    return false;
  m->n = l->n;
  m->rewritten = l->rewritten;
  m->dropped = l->dropped;
  m->holes = l->holes;
  for (int c = 0; c < s->plan->needs.columns; c++)
    if (!pull_column(s, KV_GPU_SAY_LANES,
                     piece_of_lane(s, i, KV_GPU_SAY_COLUMN), i, c, m->n))
      return false;
  return mirror_records(s, i) && mirror_rewriting(s, i);
}

static void note_fault(kv_store *s, int i) {
  const kv_gpu_lane *l = &s->head[i];
  kv_lane *m = &s->mirror[i];
  if (l->fault == KV_GPU_FINE || m->fault.rc) return;
  if (l->fault == KV_GPU_SCALE)
    kv_fail(
        &m->fault, KV_REFUSED,
        "layer %d, lane %d, step %d: the scale of a coded group is not finite "
        "as stored (first token %d); choose a format with a wider range",
        s->data->layer, i, s->end, l->fault_at);
  else if (l->fault == KV_GPU_LATENT || l->fault == KV_GPU_DECODED)
    kv_latent_fails(&m->fault, s->data->layer, s->end, (uint32_t)l->fault_at,
                    l->fault == KV_GPU_DECODED);
  else if (l->fault == KV_GPU_MEAN)
    kv_merge_fails(&m->fault, s->data->layer, i, s->end, (uint32_t)l->fault_at);
  else if (l->fault == KV_GPU_NO_PAGE)
    kv_fail(&m->fault, KV_INTERNAL,
            "layer %d, lane %d, step %d: token %d was coded but has no page in "
            "its tier; run without --layout unified",
            s->data->layer, i, s->end, l->fault_at);
  else
    kv_fail(&m->fault, KV_INTERNAL,
            "layer %d, lane %d, step %d: the verbs of this step name more "
            "entries than needs.changes (%d) allows; declare more in open",
            s->data->layer, i, s->end, kv_needs_changes(&s->plan->needs));
}

static void tell_lane(kv_store *s, int i) {
  if (!s->fault.rc)
    kv_fail(&s->fault, KV_INTERNAL,
            "backend %s, layer %d, step %d: the report of lane %d contradicts "
            "itself",
            s->device->name, s->data->layer, s->end, i);
}

void kv_gpu_mirror_lanes(kv_store *s) {
  size_t lanes = (size_t)s->lanes;
  bool prompt = kv_gpu_in_prompt(s);
  bool fine = kv_gpu_pull_all(s, KV_GPU_SAY_LANES, 0, sizeof *s->head, lanes,
                              s->head) >= 0 &&
              kv_gpu_pull_all(s, KV_GPU_SAY_LANES, 1, sizeof *s->bad, lanes,
                              s->bad) >= 0;
  if (fine && prompt) note_logits(s, true);
  for (int i = 0; fine && i < s->lanes; i++) {
    note_fault(s, i);
    if (s->head[i].n_verbs == 0 && !s->head[i].wrote) continue;
    fine = mirror_lane(s, i);
    if (!fine && !kv_gpu_lost(s)) tell_lane(s, i);
  }
  kv_gpu_lost(s);
}
