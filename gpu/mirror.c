/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's mirror of lanes: what verbs changed is read back after each step
 * that has some, columns before each settling. Contract: gpu/store.h.
 */
#include "gpu/store.h"
#include <assert.h>

void kv_gpu_mirror_append(kv_store *s, int first, int count) {
  for (int i = 0; i < s->lanes; i++)
    kv_lane_append(&s->mirror[i], first, count);
}

static size_t column_size(const kv_needs *need, int c) {
  return need->column[c] == KV_INT64 ? 8 : 4;
}

void kv_gpu_mirror_columns(kv_store *s) {
  const kv_needs *need = &s->plan->needs;
  for (int i = 0; i < s->lanes; i++)
    for (int c = 0; c < need->columns; c++)
      s->device->get(s->mirror[i].column[c].i, s->head[i].column[c].i,
                     (size_t)s->mirror[i].n * column_size(need, c));
}

/* --- rewritten rows ----------------------------------------------------- */

/* R <- H(R || id || K bits || V bits), row by row. */
static void hash_log(kv_store *s, int i) {
  const kv_gpu_lane *l = &s->head[i];
  kv_lane *m = &s->mirror[i];
  size_t wide = (size_t)(s->plan->shape->d + s->plan->shape->d_v);
  for (int r = 0; r < l->n_log; r++) {
    uint32_t id;
    kv_sha256 h;
    s->device->get(&id, l->log_id + r, sizeof id);
    s->device->get(s->row, l->log + (size_t)r * wide, wide * sizeof *s->row);
    kv_sha256_init(&h);
    kv_sha256_add(&h, m->rewrites.byte, sizeof m->rewrites.byte);
    kv_sha256_add(&h, &id, sizeof id);
    kv_sha256_add(&h, s->row, wide * sizeof *s->row);
    m->rewrites = kv_sha256_end(&h);
  }
}

static void mirror_slab(const kv_store *s, const kv_gpu_slab *from,
                        kv_slab *to) {
  size_t n = (size_t)from->used;
  to->used = from->used;
  to->n_free = from->n_free;
  to->held = from->held;
  to->bytes.codes = (size_t)from->codes;
  to->bytes.metadata = (size_t)from->metadata;
  s->device->get(to->members, from->members, n * sizeof *to->members);
  s->device->get(to->live, from->live, n * sizeof *to->live);
  s->device->get(to->data, from->data, n * from->size);
}

static void mirror_rewriting(kv_store *s, int i) {
  const kv_gpu_lane *l = &s->head[i];
  kv_lane *m = &s->mirror[i];
  size_t n = (size_t)l->n;
  if (!l->k) return;
  s->device->get(m->k, l->k, n * sizeof *m->k);
  s->device->get(m->v, l->v, n * sizeof *m->v);
  for (int f = KV_MERGED; f < KV_SLABS; f++) {
    if (!l->k_slab[f].cap) continue;
    mirror_slab(s, &l->k_slab[f], &m->k_slab[f]);
    mirror_slab(s, &l->v_slab[f], &m->v_slab[f]);
  }
  if (!l->last) return;
  size_t t = (size_t)s->plan->shape->n_tokens;
  s->device->get(m->last, l->last, n * sizeof *m->last);
  s->device->get(m->next, l->next, t * sizeof *m->next);
}

/* --- lanes -------------------------------------------------------------- */

static void mirror_lane(kv_store *s, int i) {
  const kv_gpu_lane *l = &s->head[i];
  kv_lane *m = &s->mirror[i];
  size_t n = (size_t)l->n;
  m->n = l->n;
  m->rewritten = l->rewritten;
  m->dropped = l->dropped;
  m->holes = l->holes;
  s->device->get(m->id, l->id, n * sizeof *m->id);
  s->device->get(m->weight, l->weight, n * sizeof *m->weight);
  assert(m->verbs.n + (size_t)l->n_verbs <= m->verbs.cap);
  s->device->get(m->verbs.word + m->verbs.n, l->verbs,
                 (size_t)l->n_verbs * sizeof *m->verbs.word);
  m->verbs.n += (size_t)l->n_verbs;
  mirror_rewriting(s, i);
  hash_log(s, i);
}

static void note_fault(kv_store *s, int i) {
  const kv_gpu_lane *l = &s->head[i];
  kv_lane *m = &s->mirror[i];
  if (l->fault == KV_GPU_FINE || m->fault.rc) return;
  if (l->fault == KV_GPU_SCALE)
    kv_fail(&m->fault, KV_REFUSED,
            "layer %d, lane %d, step %d: the scale of a coded group is not "
            "finite in fp16 (first token %d); these values cannot be coded",
            s->data->layer, i, s->end, l->fault_at);
  else
    kv_fail(&m->fault, KV_INTERNAL,
            "layer %d, lane %d, step %d: the journal of one step overflowed; "
            "the method calls too many verbs",
            s->data->layer, i, s->end);
}

void kv_gpu_mirror_verbs(kv_store *s) {
  const kv_device *dev = s->device;
  size_t size = (size_t)s->lanes * sizeof *s->head;
  bool any = false;
  dev->get(s->head, s->layer.lane, size);
  for (int i = 0; i < s->lanes; i++) {
    kv_gpu_lane *l = &s->head[i];
    note_fault(s, i);
    if (l->n_verbs == 0) continue;
    mirror_lane(s, i);
    l->n_verbs = l->n_log = 0;
    any = true;
  }
  if (any) {
    kv_gpu_mirror_columns(s);
    dev->put(s->layer.lane, s->head, size);
  }
}

/* --- logits that are not finite ----------------------------------------- */

static void fail_logit(kv_store *s, int lane, uint64_t at) {
  const kv_lane *m = &s->mirror[lane];
  kv_fail(&s->mirror[lane].fault, KV_REFUSED,
          "layer %d, query head %d, row %d: the logit of token %u is not "
          "finite",
          s->data->layer, m->first_head + (int)(at >> 32), m->step - 1,
          m->id[(uint32_t)at]);
}

/* The group's first row with one, and in it the first head. */
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

void kv_gpu_mirror_faults(kv_store *s, bool prompt) {
  int per_head = s->lanes / s->plan->shape->n_kv_heads;
  s->device->get(s->bad, s->layer.bad, (size_t)s->lanes * sizeof *s->bad);
  for (int i = 0; prompt && i < s->lanes; i += per_head)
    fail_prompt(s, i, per_head);
  for (int i = 0; !prompt && i < s->lanes; i++)
    if (s->bad[i] != UINT64_MAX && !s->mirror[i].fault.rc &&
        !s->mirror[i - i % per_head].fault.rc) /* what the prompt left */
      fail_logit(s, i, s->bad[i]);
}
