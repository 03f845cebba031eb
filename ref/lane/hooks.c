/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks as data: ref/lane/hooks.h.
 */
#include "ref/lane/hooks.h"

static void call_arrive(const kv_method *m, kv_call *c) {
  m->arrive(&c->at, c->lane[0], c->first);
}
static void call_view(const kv_method *m, kv_call *c) {
  m->view(&c->at, c->lane[0], c->query, c->view);
}
static void call_chunk(const kv_method *m, kv_call *c) {
  c->there = m->chunk(&c->at, c->lane[0], c->query, c->m, c->l, c->a);
}
static void call_observe(const kv_method *m, kv_call *c) {
  m->observe(&c->at, c->lane[0], c->rows);
}
static void call_compress_lane(const kv_method *m, kv_call *c) {
  m->compress_lane(&c->at, c->lane[0]);
}
static void call_compress_layer(const kv_method *m, kv_call *c) {
  m->compress_layer(&c->at, c->lane, c->lanes);
}
static void call_publish(const kv_method *m, kv_call *c) {
  const kv_lane *const *lane = (const kv_lane *const *)c->lane;
  c->there = m->publish(&c->at, lane, c->lanes, c->message);
}

static const struct {
  const char *name;
  void (*call)(const kv_method *m, kv_call *c);
} hooks[KV_N_HOOKS] = {
#define KV_HOOK(name) {#name, call_##name},
    KV_HOOKS(KV_HOOK)
#undef KV_HOOK
};

const char *kv_hook_name(kv_hook hook) { return hooks[hook].name; }

bool kv_hook_has(const kv_method *m, kv_hook hook) {
  const bool has[KV_N_HOOKS] = {
#define KV_HOOK(name) m->name != NULL,
      KV_HOOKS(KV_HOOK)
#undef KV_HOOK
  };
  return has[hook];
}

void kv_hook_call(const kv_method *m, kv_call *c) {
  c->at.method = m;
  if (kv_hook_has(m, c->hook)) hooks[c->hook].call(m, c);
}

static void lead(const kv_at *at, kv_call *c) {
  const kv_around *a = at->method->around;
  c->at = *at;
  a->call(a, c);
}

static void around(const kv_at *at, kv_call c) { lead(at, &c); }

static void around_arrive(const kv_at *at, kv_lane *lane, int first) {
  around(at, (kv_call){.hook = KV_HOOK_arrive,
                       .lane = &lane,
                       .lanes = 1,
                       .first = first});
}

static void around_view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                        kv_view *out) {
  kv_lane *one = (kv_lane *)(uintptr_t)lane;
  around(at, (kv_call){.hook = KV_HOOK_view,
                       .lane = &one,
                       .lanes = 1,
                       .query = q,
                       .view = out});
}

static bool around_chunk(const kv_at *at, const kv_lane *lane,
                         const kv_query *q, float *m, float *l, float *a) {
  kv_lane *one = (kv_lane *)(uintptr_t)lane;
  kv_call c = {.hook = KV_HOOK_chunk,
               .lane = &one,
               .lanes = 1,
               .query = q,
               .m = m,
               .l = l,
               .a = a};
  lead(at, &c);
  return c.there;
}

static void around_observe(const kv_at *at, kv_lane *lane,
                           const kv_rows *rows) {
  around(at,
         (kv_call){
             .hook = KV_HOOK_observe, .lane = &lane, .lanes = 1, .rows = rows});
}

static void around_compress_lane(const kv_at *at, kv_lane *lane) {
  around(at,
         (kv_call){.hook = KV_HOOK_compress_lane, .lane = &lane, .lanes = 1});
}

static void around_compress_layer(const kv_at *at, kv_lane *const *lane,
                                  int lanes) {
  around(at, (kv_call){
                 .hook = KV_HOOK_compress_layer, .lane = lane, .lanes = lanes});
}

static bool around_publish(const kv_at *at, const kv_lane *const *lane,
                           int lanes, void *message) {
  kv_call c = {.hook = KV_HOOK_publish,
               .lane = (kv_lane *const *)(uintptr_t)lane,
               .lanes = lanes,
               .message = message};
  lead(at, &c);
  return c.there;
}

kv_method kv_method_around(const kv_around *a) {
  kv_method m = *a->inner;
#define KV_HOOK(name)                                                          \
  if (m.name || a->also & 1u << KV_HOOK_##name) m.name = around_##name;
  KV_HOOKS(KV_HOOK)
#undef KV_HOOK
  m.around = a;
  return m;
}
