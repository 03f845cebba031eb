/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of the engine's calls: sim/replay/engine/order.h.
 */
#include "sim/replay/engine/order.h"

#include <omp.h>

static double now(const kv_rider *r) {
  return r->seconds ? omp_get_wtime() : 0;
}

static void spent(const kv_rider *r, double since) {
  if (r->seconds) *r->seconds += omp_get_wtime() - since;
}

/* Returns n; a rider's lanes of KV head g are *first..*first+n-1. */
static int lanes_of(const kv_order *o, const kv_rider *r, int g, int *first) {
  int per_head = r->backend->lanes(r->store) / o->heads;
  *first = g * per_head;
  return per_head;
}

static void compress(const kv_order *o, int who, int lane) {
  const kv_rider *r = &o->rider[who];
  if (o->compresses) o->compresses(o->self, who, lane);
  r->backend->compress(r->store, lane, r->scratch);
}

static void enter(const kv_order *o, const kv_rider *r, int g, int first,
                  int count) {
  int from, n = lanes_of(o, r, g, &from);
  for (int i = from; i < from + n; i++)
    r->backend->append(r->store, i, first, count, r->scratch);
}

static void show_alone(const kv_rider *r, int g, int first, int count) {
  if (r->alone)
    r->backend->observation(&r->store, 1, g, first, count, r->scratch);
}

/* Computes the observation of all riders that are not alone, in one pass. */
static void show_shared(const kv_order *o, int g, int first, int count) {
  const kv_rider *one = NULL;
  int n = 0;
  for (int i = 0; i < o->riders; i++)
    if (!o->rider[i].alone) {
      one = &o->rider[i];
      o->shared[n++] = one->store;
    }
  if (one)
    one->backend->observation(o->shared, n, g, first, count, one->scratch);
}

static void compress_all(const kv_order *o, int g) {
  for (int i = 0; i < o->riders; i++) {
    double start = now(&o->rider[i]);
    int from, n = lanes_of(o, &o->rider[i], g, &from);
    for (int lane = from; lane < from + n; lane++) compress(o, i, lane);
    spent(&o->rider[i], start);
  }
}

void kv_order_prompt(const kv_order *o, int g, int first, int count) {
  for (int i = 0; i < o->riders; i++) {
    double start = now(&o->rider[i]);
    enter(o, &o->rider[i], g, first, count);
    show_alone(&o->rider[i], g, first, count);
    spent(&o->rider[i], start);
  }
  show_shared(o, g, first, count);
  compress_all(o, g);
}

void kv_order_ahead(const kv_order *o, int g, int t, int steps,
                    const kv_known *known) {
  for (int i = 0; i < o->riders; i++) {
    const kv_rider *r = &o->rider[i];
    double start = now(r);
    int first, n = lanes_of(o, r, g, &first);
    if (!r->backend->ahead) continue;
    for (int lane = first; lane < first + n; lane++)
      r->backend->ahead(r->store, lane, t, steps, known, r->scratch);
    spent(r, start);
  }
}

static void attend(const kv_order *o, int who, int lane, int t) {
  const kv_rider *r = &o->rider[who];
  r->backend->append(r->store, lane, t, 1, r->scratch);
  r->backend->view(r->store, lane, t, o->known, r->scratch);
  r->backend->materialise(r->store, lane, r->scratch);
  r->backend->attend(r->store, lane, r->scratch);
  if (!o->attended) return;
  kv_seen seen = r->backend->seen(r->store, lane, r->scratch);
  o->attended(o->self, who, &seen);
}

static void attend_all(const kv_order *o, int lane, int t) {
  for (int i = 0; i < o->riders; i++) {
    double start = now(&o->rider[i]);
    attend(o, i, lane, t);
    spent(&o->rider[i], start);
  }
}

static void decode_lane(const kv_order *o, int lane, int t) {
  attend_all(o, lane, t);
  for (int i = 0; i < o->riders; i++) {
    double start = now(&o->rider[i]);
    compress(o, i, lane);
    spent(&o->rider[i], start);
  }
}

void kv_order_decode(const kv_order *o, int g, int t) {
  int first, n = lanes_of(o, &o->rider[0], g, &first);
  for (int lane = first; lane < first + n; lane++) decode_lane(o, lane, t);
}

void kv_order_row(const kv_order *o, int g, int t) {
  int first, n = lanes_of(o, &o->rider[0], g, &first);
  for (int lane = first; lane < first + n; lane++) attend_all(o, lane, t);
}

void kv_order_rows_end(const kv_order *o, int g, int first, int count) {
  for (int i = 0; i < o->riders; i++) {
    double start = now(&o->rider[i]);
    show_alone(&o->rider[i], g, first, count);
    spent(&o->rider[i], start);
  }
  compress_all(o, g);
}

void kv_order_row_close(const kv_order *o) {
  for (int i = 0; i < o->riders; i++)
    o->rider[i].backend->end_step(o->rider[i].store);
}

void kv_order_receive(const kv_order *o) {
  for (int i = 0; i < o->riders; i++) {
    const kv_rider *r = &o->rider[i];
    if (r->above)
      r->backend->receive(r->store, kv_messages_at(r->above, o->closing));
  }
}

static void publish(const kv_rider *r, int closing) {
  const kv_message *said = r->backend->publish(r->store, r->scratch);
  if (said) kv_messages_put(r->below, closing, said);
}

void kv_order_close(const kv_order *o) {
  for (int i = 0; i < o->riders; i++) {
    const kv_rider *r = &o->rider[i];
    r->backend->compress_layer(r->store, r->scratch);
    if (r->below) publish(r, o->closing);
  }
  for (int i = 0; i < o->riders; i++) {
    const kv_rider *r = &o->rider[i];
    if (o->closes) o->closes(o->self, i);
    r->backend->end_step(r->store);
  }
}
