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
 * A new hook is a member of kv_method, a line of KV_HOOKS and two functions of
 * hooks.c, call_x and around_x; what it is given and kv_call does not have yet,
 * a member of kv_call.
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

/* KV_HOOK_arrive .. KV_HOOK_publish, 0 .. KV_N_HOOKS - 1. */
typedef enum kv_hook {
#define KV_HOOK(name) KV_HOOK_##name,
  KV_HOOKS(KV_HOOK)
#undef KV_HOOK
      KV_N_HOOKS
} kv_hook;

/* A call of a hook: the arguments that kv_method says of it, by their names
 * there; members that the hook has no argument for are 0. Valid during the
 * call. */
typedef struct kv_call {
  kv_hook hook;
  kv_at at;
  kv_lane *const *lane; /* [lanes], one but for compress_layer and publish; not
                           to be changed by view, chunk and publish */
  int lanes;
  int first;             /* of arrive */
  const kv_query *query; /* of view and chunk */
  kv_view *view;         /* of view: its `out` */
  bool there;            /* what chunk and publish return; false before */
  float *m, *l, *a;      /* of chunk */
  void *message;         /* of publish */
  const kv_rows *rows;   /* of observe */
} kv_call;

/* A wrapper around a method. It must outlive the table made of it. */
typedef struct kv_around kv_around;
struct kv_around {
  /* Called in place of each hook; decides whether, and with what arguments, it
   * calls the inner method's by kv_hook_call. Allocates nothing and cannot
   * fail, as a hook. */
  void (*call)(const kv_around *around, kv_call *c);
  void *self; /* of whoever wraps; NULL is allowed */
  const kv_method *inner;
  unsigned also; /* bits 1u << kv_hook: hooks to have where inner has none */
};

/* A copy of the table of `inner`, in which its hooks, and those of `also`, are
 * calls of around->call. */
kv_method kv_method_around(const kv_around *around);

/* Calls m's hook c->hook with the arguments in c, of which it sets at.method,
 * and `there` where the hook returns something; does nothing where m has no
 * such hook. */
void kv_hook_call(const kv_method *m, kv_call *c);
/* True if m has the hook. */
bool kv_hook_has(const kv_method *m, kv_hook hook);
/* The hook's name for messages: "compress_lane". */
const char *kv_hook_name(kv_hook hook);

#endif
