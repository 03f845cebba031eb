/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods that come from outside: shared objects that export one symbol,
 *
 *   const kv_method kv_plugin = {.abi = KV_METHOD_ABI, .name = "mine", ...};
 *
 * They are named by path (with a slash, or ending in .so) or, once loaded or
 * found as NAME.so in a folder of KVREPLAY_PLUGINS (FOLDER:FOLDER), by name.
 * What is loaded is checked as a table and stays until the process ends.
 *
 * A plugin is code: it runs with all rights of the process. So a path is
 * taken from a person only; who reads names from a file refuses paths
 * (kv_door_is_path). Safe from several threads.
 */
#ifndef KV_SIM_DOOR_H
#define KV_SIM_DOOR_H

#include "ref/method.h"

/* Does this name, or the name in this specification, say where a file is? */
bool kv_door_is_path(const char *name);

/* A method from outside by name or path; *out NULL where nothing outside is
 * called so. KV_INPUT: no plugin of this kvreplay, KV_USAGE: its name is
 * taken; one sentence each. */
kv_rc kv_door_find(const char *name, const kv_method **out, kv_err *e);

/* SHA-256 of the file that a method was loaded from, 64 digits, and the
 * file; NULL for methods that were built in. */
const char *kv_door_code(const kv_method *m);
const char *kv_door_file(const kv_method *m);

/* Loads every .so of KVREPLAY_PLUGINS; what is none is told, one by one. */
void kv_door_open_all(void (*tell)(const kv_err *why));
/* The index-th plugin that was loaded, NULL past the end. */
const kv_method *kv_door_at(int index);

/* What a plugin may call: sim/plugin_api.c. Ends with name NULL. */
typedef struct kv_plugin_call {
  const char *name;
  void (*address)(void);
} kv_plugin_call;
extern const kv_plugin_call kv_plugin_calls[];

/* Is the table one that the engine can follow? KV_INPUT, one sentence; file
 * is what to call it. Looks at the name of the method but not whether it is
 * taken. (sim/door_check.c) */
kv_rc kv_door_check(const kv_method *m, const char *file, kv_err *e);

#endif
