/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson made safe against running out of memory. Its reader then drops bytes
 * of the text and continues with the rest, so a good file may look bad; a tree
 * that is built step by step may silently lack a branch. Here both are
 * detected, because every allocation of jansson is watched. Use kv_json_load
 * instead of json_loads, and kv_json_begin and kv_json_end around building.
 *
 * While one of these works, jansson's allocation functions are replaced, and
 * other threads that call them wait. Results do not depend on the replaced
 * functions: free() and json_decref work as usual.
 */
#ifndef KV_TRACES_JSON_H
#define KV_TRACES_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* Parses n bytes of text, refusing duplicate keys; free the tree with
 * json_decref. NULL: *no_memory is true, or the text is not JSON and *why says
 * where. Takes 4 n bytes and 256 KiB besides the tree, mostly untouched. */
json_t *kv_json_load(size_t n, const unsigned char *text, bool *no_memory,
                     json_error_t *why);

/* Between the two, this thread may build a tree with jansson without checking
 * each result: kv_json_end returns whether every allocation succeeded. If not,
 * the tree is incomplete. Pairs must not be nested (asserted), and must not
 * contain kv_json_load or kv_json_print. */
void kv_json_begin(void);
bool kv_json_end(void);

/* A measured number as JSON: a real, or the text "NaN", "Infinity" or
 * "-Infinity", which JSON lacks. NULL: no memory. */
json_t *kv_json_found(double x);

/* A tree as text, by json_dumps with these flags; free() it. NULL: no memory,
 * or it contains text that is not UTF-8. */
char *kv_json_print(const json_t *root, size_t flags);

#endif
