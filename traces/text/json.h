/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson made safe where memory may run out. Its reader then drops bytes of
 * the text and goes on with what is left, so that a good file may look bad, and
 * a tree that is built step by step may silently lack a branch. Here both are
 * noticed, because every allocation of jansson is watched. Use kv_json_load in
 * place of json_loads, and kv_json_begin and kv_json_end around building.
 *
 * While one of these works, jansson's allocation functions are replaced; other
 * threads that ask wait for their turn. What is returned does not depend on
 * them: free() and json_decref work as ever.
 */
#ifndef KV_TRACES_JSON_H
#define KV_TRACES_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* Parses n bytes of text, duplicate keys refused; the tree is for json_decref.
 * NULL: *no_memory is true, or the text is not JSON and *why says where. Takes
 * 4 n bytes and 256 KiB beside the tree, mostly untouched. */
json_t *kv_json_load(size_t n, const unsigned char *text, bool *no_memory,
                     json_error_t *why);

/* Between the two this thread may build a tree with jansson, and needs not look
 * at each result: kv_json_end returns whether every allocation succeeded. If
 * not, the tree is incomplete. Pairs may not be nested (asserts), and may not
 * have kv_json_load or kv_json_print between them. */
void kv_json_begin(void);
bool kv_json_end(void);

/* A measured number as JSON: a real, or the text "NaN", "Infinity" or
 * "-Infinity" where JSON has no number. NULL: no memory. */
json_t *kv_json_found(double x);

/* A tree as text, by json_dumps with these flags; for free(). NULL: no memory,
 * or it holds text that is not UTF-8. */
char *kv_json_print(const json_t *root, size_t flags);

#endif
