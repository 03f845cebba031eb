/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins: shared objects that export one symbol,
 *
 *   const kv_method kv_plugin = {.abi = KV_METHOD_ABI, .name = "mine", ...};
 *
 * A plugin is named by its path (a name with a slash, or one that ends in .so).
 * By its name alone it is found if it is loaded, or if NAME.so (- or _ alike)
 * is in a folder listed in KVREPLAY_PLUGINS (FOLDER:FOLDER). Its method table
 * is checked when it is loaded; it stays loaded until the process ends.
 *
 * A plugin runs with all rights of the process. Therefore accept paths only
 * from the person at the command line; code that reads method names from a file
 * must refuse paths (kv_door_is_path, kv_door_names_path). Safe to call from
 * several threads.
 */
#ifndef KV_SIM_DOOR_H
#define KV_SIM_DOOR_H

#include "ref/lane/method.h"

/* Does the name, or any part of this specification, begin with a path?
 * Understands escapes. */
bool kv_door_is_path(const char *name);
/* Is the name a path, if it has no escapes? Code that reads names from a file
 * must call both. */
bool kv_door_names_path(const char *name);

/* Finds a plugin by name or path and loads it, if needed. *out is NULL, with
 * KV_OK, if no plugin has that name. KV_INPUT: no such file, or no plugin for
 * this kvreplay. KV_USAGE: another method already has its name,
 * KVREPLAY_PLUGINS names no folder, or the path is too long. KV_RESOURCE:
 * memory. */
kv_rc kv_door_find(const char *name, const kv_method **out, kv_err *e);

/* SHA-256, as 64 hex digits, of the file that a method was loaded from. If one
 * of two methods on a lane is a plugin: a digest over both, valid until this
 * thread's next call. NULL for built-in methods. */
const char *kv_door_code(const kv_method *m);
/* The absolute path of that file. NULL for built-in methods and compositions.
 */
const char *kv_door_file(const kv_method *m);

/* The part of a row's key that distinguishes code under the same method name:
 * the bytes of a plugin, and of the files that a method reads. Writes 64 hex
 * digits and a NUL, or "" for a built-in method that reads no file: its
 * revision is enough. Cannot fail. Called when a cell is opened, for
 * kv_result.code.
 *
 * file: [n] digests of the files that the method has read, n <= KV_SPEC_FILES,
 * in the order of its parameters. If there is one thing to name (a plugin
 * without a file, or a built-in method at revision 1 with one file), the text
 * is its digest. Otherwise it is the SHA-256 of lines: "plugin HEX" or
 * "revision N", then "file HEX" for each file. */
void kv_code(const kv_method *m, int n, const kv_digest *file, char out[65]);

/* If loading the plugin changed the floating-point mode, which is then
 * restored: what it changed (ref/ground/float.h), for a warning. Else NULL. */
const char *kv_door_mode(const kv_method *m);

/* Loads every .so in the folders of KVREPLAY_PLUGINS, for lists of all methods.
 * Calls tell once for each file that cannot be loaded. */
void kv_door_open_all(void (*tell)(const kv_err *why));
/* The index-th plugin that was loaded, from 0; NULL past the end. */
const kv_method *kv_door_at(int index);

/* The functions that a plugin may call (sim/ask/plugin_api.c); name NULL ends
 * the list. Listing them makes the linker keep them. */
typedef struct kv_plugin_call {
  const char *name;      /* of the function */
  void (*address)(void); /* cast; do not call it by this type */
} kv_plugin_call;
extern const kv_plugin_call kv_plugin_calls[];

/* Checks a plugin's method table. KV_INPUT: the engine cannot run it; the
 * sentence names `file`. Not checked: is its name taken? */
kv_rc kv_door_check(const kv_method *m, const char *file, kv_err *e);

#endif
