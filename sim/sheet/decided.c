/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sheet/decided.h"

#include "ref/ground/fold.h"
#include "ref/lane/records.h"
#include <assert.h>
#include <stdlib.h>

typedef struct lane_of {
  kv_fold fold; /* of all verbs and views */
  int step;     /* whose verbs were read last, */
  size_t read;  /* and how many words of them */
  unsigned kinds;
  int64_t dropped;
  int64_t bytes; /* after the last step */
} lane_of;

struct kv_decided {
  const kv_cell *cell;
  kv_watch watch;
  int layers, lanes; /* recorded layers; lanes of a layer */
  lane_of *lane;     /* [layers][lanes] */
};

static lane_of *find(kv_decided *d, int layer, const kv_lane *l) {
  int i = 0;
  while (d->cell->trace->layer[i].data.layer != layer) i++;
  return &d->lane[i * d->lanes + l->lane];
}

static void add(lane_of *x, uint32_t word) { kv_fold_add(&x->fold, &word, 1); }

/* Reads the verbs of the step that were recorded since the last call. A head is
 * left out: there the number of the lane stands. */
static void read_verbs(lane_of *x, const kv_lane *l) {
  kv_record_at r;
  if (x->step != l->step) x->read = 0;
  x->step = l->step;
  while (kv_records_next(&l->verbs, &x->read, &r)) {
    uint32_t kind = r.head[0];
    x->kinds |= 1u << kind;
    if (kind == KV_KEEP) x->dropped += r.payload[0];
    add(x, kind);
    add(x, (uint32_t)l->step);
    add(x, (uint32_t)r.count);
    kv_fold_add(&x->fold, r.payload, r.count);
  }
}

static void compressed(void *self, int layer, int step, const kv_lane *l) {
  (void)step;
  read_verbs(find(self, layer, l), l);
}

static void seen(void *self, int layer, int step, const kv_seen *row) {
  const kv_lane *l = row->lane;
  lane_of *x = find(self, layer, l);
  read_verbs(x, l);
  for (int h = 0; h < row->queries; h++) {
    const kv_view *v = &row->view[h];
    if (v->entries < l->n) x->kinds |= 1u << KV_VIEW;
    add(x, KV_VIEW);
    add(x, (uint32_t)step);
    add(x, (uint32_t)v->runs);
    for (int i = 0; i < v->runs; i++) {
      add(x, (uint32_t)v->run[i].first);
      add(x, (uint32_t)v->run[i].count);
    }
  }
}

static void finished(void *self, int layer, const kv_lane *l) {
  kv_bytes held = {0};
  kv_lane_bytes(l, &held);
  find(self, layer, l)->bytes = kv_bytes_total(&held);
}

kv_rc kv_decided_open(const kv_cell *c, kv_decided **out, kv_err *e) {
  int layers = c->trace->n_layers;
  int lanes = kv_lane_count(&c->plan.needs, &c->shape);
  size_t n = (size_t)layers * (size_t)lanes;
  kv_decided *d = *out = kv_zalloc(1, sizeof *d);
  if (d) d->lane = kv_zalloc(n, sizeof *d->lane);
  if (!d || !d->lane) {
    kv_decided_close(d);
    *out = NULL;
    return kv_no_memory(e, "decisions", n * sizeof *d->lane);
  }
  d->cell = c;
  d->layers = layers;
  d->lanes = lanes;
  d->watch = (kv_watch){.self = d,
                        .compressed = compressed,
                        .seen = seen,
                        .finished = finished,
                        .of = c,
                        .concurrent = true};
  for (size_t i = 0; i < n; i++) kv_fold_begin(&d->lane[i].fold);
  return KV_OK;
}

void kv_decided_close(kv_decided *d) {
  if (d) free(d->lane);
  free(d);
}

kv_watch *kv_decided_watch(kv_decided *d) { return &d->watch; }

int kv_decided_lanes(const kv_decided *d) { return d->layers * d->lanes; }

kv_decided_sum kv_decided_sums(const kv_decided *d) {
  kv_decided_sum sum = {0};
  for (int i = 0; i < kv_decided_lanes(d); i++) {
    sum.kinds |= d->lane[i].kinds;
    sum.dropped += d->lane[i].dropped;
  }
  return sum;
}

int64_t kv_decided_bytes(const kv_decided *d, int first, int count) {
  int64_t sum = 0;
  assert(first + count <= d->lanes);
  for (int l = 0; l < d->layers; l++)
    for (int i = first; i < first + count; i++)
      sum += d->lane[l * d->lanes + i].bytes;
  return sum;
}

int kv_decided_unlike(const kv_decided *whole, int first,
                      const kv_decided *part) {
  int unlike = 0;
  assert(whole->layers == part->layers && first + part->lanes <= whole->lanes);
  for (int l = 0; l < part->layers; l++)
    for (int i = 0; i < part->lanes; i++) {
      const lane_of *a = &whole->lane[l * whole->lanes + first + i];
      const lane_of *b = &part->lane[l * part->lanes + i];
      unlike += kv_fold_end(&a->fold) != kv_fold_end(&b->fold);
    }
  return unlike;
}
