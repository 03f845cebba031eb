/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/sheet/decided.h"

#include "ref/ground/fold.h"
#include "ref/lane/records.h"
#include <assert.h>
#include <stdlib.h>

typedef struct lane_of {
  kv_fold fold;  /* of all verbs and views */
  int step;      /* the step whose verbs were read last */
  size_t read;   /* words of these verbs already read */
  bool recodes;  /* entries were coded anew */
  int64_t bytes; /* after the last step */
  bool decodes;  /* a decoding row was seen; from then on: */
  kv_fold later; /* of the entries held then, and of verbs and views since */
  int held;      /* entries held then */
} lane_of;

struct kv_decided {
  const kv_cell *cell;
  kv_watch watch;
  int layers, lanes; /* recorded layers; lanes of a layer */
  lane_of *lane;     /* [layers][lanes] */
  size_t bits;       /* bytes of a lane in `has` */
  uint8_t *has; /* [layers][lanes][bits] a bit per token: an entry of that id
                   was held when decoding began */
};

static lane_of *find(kv_decided *d, int layer, const kv_lane *l) {
  int i = 0;
  while (d->cell->trace->layer[i].data.layer != layer) i++;
  return &d->lane[i * d->lanes + l->lane];
}

static void add_all(lane_of *x, const uint32_t *word, size_t n) {
  kv_fold_add(&x->fold, word, n);
  if (x->decodes) kv_fold_add(&x->later, word, n);
}

static void add(lane_of *x, uint32_t word) { add_all(x, &word, 1); }

/* Decoding begins: records what the lane holds. */
static void begin(kv_decided *d, lane_of *x, const kv_lane *l) {
  uint8_t *has = d->has + (size_t)(x - d->lane) * d->bits;
  if (x->decodes) return;
  x->decodes = true;
  x->held = l->n;
  kv_fold_begin(&x->later);
  for (int i = 0; i < l->n; i++) {
    uint32_t said[] = {(uint32_t)l->id[i], l->tier ? l->tier[i] : 0u};
    has[said[0] / 8] |= (uint8_t)(1u << said[0] % 8);
    kv_fold_add(&x->later, said, 2);
  }
}

/* Reads the verbs of the step that were recorded since the last call, without
 * their heads, which contain the lane's number. */
static void read_verbs(lane_of *x, const kv_lane *l) {
  kv_record_at r;
  if (x->step != l->step) x->read = 0;
  x->step = l->step;
  while (kv_records_next(&l->verbs, &x->read, &r)) {
    uint32_t kind = r.head[0];
    x->recodes |= kind == KV_RECODE;
    add(x, kind);
    add(x, (uint32_t)l->step);
    add(x, (uint32_t)r.count);
    add_all(x, r.payload, r.count);
  }
}

static void compressed(void *self, int layer, int step, const kv_lane *l) {
  (void)step;
  read_verbs(find(self, layer, l), l);
}

static void seen(void *self, int layer, int step, const kv_seen *row) {
  const kv_lane *l = row->lane;
  lane_of *x = find(self, layer, l);
  begin(self, x, l);
  read_verbs(x, l);
  for (int h = 0; h < row->queries; h++) {
    const kv_view *v = &row->view[h];
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
  lane_of *x = find(self, layer, l);
  begin(self, x, l);
  kv_lane_bytes(l, &held);
  x->bytes = kv_bytes_total(&held);
}

kv_rc kv_decided_open(const kv_cell *c, kv_decided **out, kv_err *e) {
  int layers = c->trace->n_layers;
  int lanes = kv_lane_count(&c->plan.needs, &c->shape);
  size_t n = (size_t)layers * (size_t)lanes;
  kv_decided *d = *out = kv_zalloc(1, sizeof *d);
  if (d) {
    d->bits = ((size_t)c->shape.n_tokens + 7) / 8;
    d->lane = kv_zalloc(n, sizeof *d->lane);
    d->has = kv_zalloc(n, d->bits);
  }
  if (!d || !d->lane || !d->has) {
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
  if (d) free(d->has);
  free(d);
}

kv_watch *kv_decided_watch(kv_decided *d) { return &d->watch; }

int kv_decided_lanes(const kv_decided *d) { return d->layers * d->lanes; }

bool kv_decided_recodes(const kv_decided *d) {
  for (int i = 0; i < kv_decided_lanes(d); i++)
    if (d->lane[i].recodes) return true;
  return false;
}

int64_t kv_decided_bytes(const kv_decided *d, int first, int count) {
  int64_t sum = 0;
  assert(first + count <= d->lanes);
  for (int l = 0; l < d->layers; l++)
    for (int i = first; i < first + count; i++)
      sum += d->lane[l * d->lanes + i].bytes;
  return sum;
}

/* Counts the lanes of `part` for which `same` is false of the corresponding
 * lane of `whole`. */
static int count_unlike(const kv_decided *whole, int first,
                        const kv_decided *part,
                        bool (*same)(const lane_of *, const lane_of *)) {
  int unlike = 0;
  assert(whole->layers == part->layers && first + part->lanes <= whole->lanes);
  for (int l = 0; l < part->layers; l++)
    for (int i = 0; i < part->lanes; i++)
      unlike += !same(&whole->lane[l * whole->lanes + first + i],
                      &part->lane[l * part->lanes + i]);
  return unlike;
}

static bool alike(const lane_of *a, const lane_of *b) {
  return kv_fold_end(&a->fold) == kv_fold_end(&b->fold);
}

static bool alike_later(const lane_of *a, const lane_of *b) {
  return kv_fold_end(&a->later) == kv_fold_end(&b->later);
}

int kv_decided_unlike(const kv_decided *whole, int first,
                      const kv_decided *part) {
  return count_unlike(whole, first, part, alike);
}

int kv_decided_unlike_decoding(const kv_decided *whole,
                               const kv_decided *other) {
  return count_unlike(whole, 0, other, alike_later);
}

double kv_decided_shared(const kv_decided *whole, const kv_decided *other) {
  int64_t both = 0, all = 0;
  assert(whole->layers == other->layers && whole->lanes == other->lanes);
  size_t n = (size_t)kv_decided_lanes(whole);
  for (size_t i = 0; i < n; i++) all += whole->lane[i].held;
  for (size_t i = 0; i < n * whole->bits; i++)
    both += __builtin_popcount((unsigned)whole->has[i] & other->has[i]);
  return all ? 100.0 * (double)both / (double)all : 100;
}
