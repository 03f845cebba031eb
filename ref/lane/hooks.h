/* SPDX-License-Identifier: Apache-2.0
 *
 * The one list of a method's hooks, and hook calls as data. Code that wraps a
 * method (a fence, a grading, a composition of two) uses it to pass every hook
 * through, including hooks that are added later.
 *
 *   static void call(const kv_around *a, kv_call *c) {
 *     look(a->self, c);              before the hook
 *     kv_hook_call(a->inner, c);
 *     look_again(a->self, c);        after it
 *   }
 *   kv_around a = {.call = call, .self = mine, .inner = method};
 *   kv_method table = kv_method_around(&a);
 *
 * To add a hook, add a member to kv_method, a line to KV_HOOKS, the functions
 * call_x and around_x to hooks.c, and a member to kv_call for each new
 * argument.
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

/* A call of a hook, valid during the call. Members are the hook's arguments,
 * named as in kv_method; those that the hook does not take are 0. */
typedef struct kv_call {
  kv_hook hook;
  kv_at at;
  kv_lane *const *lane; /* [lanes]; more than one only in compress_layer and
                           publish. Read-only in view, chunk and publish */
  int lanes;
  int first;             /* arrive */
  const kv_query *query; /* view and chunk */
  kv_view *view;         /* view: its `out` */
  bool there;            /* result of chunk and publish; false before */
  float *m, *l, *a;      /* chunk */
  void *message;         /* publish */
  const kv_rows *rows;   /* observe */
} kv_call;

/* A wrapper around a method. It must outlive tables made from it. */
typedef struct kv_around kv_around;
struct kv_around {
  /* Called in place of each hook. It decides whether and with what arguments it
   * calls kv_hook_call. As a hook, it allocates nothing and cannot fail. */
  void (*call)(const kv_around *around, kv_call *c);
  void *self; /* the wrapper's own data; NULL is allowed */
  const kv_method *inner;
  unsigned also; /* bits 1u << kv_hook: hooks to have even if inner lacks them
                  */
};

/* A copy of inner's table in which its hooks, and those in `also`, call
 * around->call. */
kv_method kv_method_around(const kv_around *around);

/* Calls m's hook c->hook with the arguments in c; does nothing if m has no such
 * hook. Sets c->at.method, and c->there if the hook returns something. */
void kv_hook_call(const kv_method *m, kv_call *c);
bool kv_hook_has(const kv_method *m, kv_hook hook);
/* The hook's name, for messages: "compress_lane". */
const char *kv_hook_name(kv_hook hook);

#endif
