/* SPDX-License-Identifier: Apache-2.0
 *
 * The one list of a method's hooks, and calls of hooks as data, for code that
 * wraps a method (a fence, a grading, a composition of two) and must pass every
 * hook through, also hooks that are added later.
 *
 *   static void call(const kv_around *a, kv_call *c) {
 *     look(a->self, c);              before the hook
 *     kv_hook_call(a->inner, c);
 *     look_again(a->self, c);        after it
 *   }
 *   kv_around a = {.call = call, .self = mine, .inner = method};
 *   kv_method table = kv_method_around(&a);
 *
 * A new hook is a member of kv_method, a line of KV_HOOKS and a line in each
 * of the two tables of hooks.c; what it is given and kv_call does not have
 * yet, a member of kv_call.
 */
#ifndef KV_REF_HOOKS_H
#define KV_REF_HOOKS_H

#include "ref/lane/method.h"

/* In the order in which a step calls them. */
#define KV_HOOKS(HOOK)                                                         \
  HOOK(arrive)                                                                 \
  HOOK(view)                                                                   \
  HOOK(chunk)                                                                  \
  HOOK(observe)                                                                \
  HOOK(compress_lane)                                                          \
  HOOK(compress_layer)                                                         \
  HOOK(publish)

typedef enum kv_hook {
#define KV_HOOK(name) KV_HOOK_##name,
  KV_HOOKS(KV_HOOK)
#undef KV_HOOK
      KV_N_HOOKS
} kv_hook;

/* A call of a hook: what each is given; members of other hooks are 0. */
typedef struct kv_call {
  kv_hook hook;
  kv_at at;
  kv_lane *const *lane; /* [lanes], one but for compress_layer and publish; of
                           view, chunk and publish const */
  int lanes;
  int first;             /* arrive */
  const kv_query *query; /* view, chunk */
  kv_view *view;
  bool there; /* what chunk and publish return, and what they fill in */
  float *m, *l, *a;
  void *message;
  const kv_rows *rows; /* observe */
} kv_call;

/* A wrapper around a method. `call` decides whether and with what arguments the
 * inner method's hook is called. Must outlive the table made of it. */
typedef struct kv_around kv_around;
struct kv_around {
  void (*call)(const kv_around *around, kv_call *c);
  void *self;
  const kv_method *inner;
  unsigned also; /* bits 1u << kv_hook: hooks to have where inner has none */
};

/* The table of `inner` with its hooks, and those of `also`, led through
 * around->call. */
kv_method kv_method_around(const kv_around *around);

/* Calls the method's hook; nothing where it has none. */
void kv_hook_call(const kv_method *m, kv_call *c);
bool kv_hook_has(const kv_method *m, kv_hook hook);
/* "compress_lane". */
const char *kv_hook_name(kv_hook hook);

#endif
