/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson when memory runs out. Its reader then drops bytes of the text and
 * goes on with what is left: a good file may look bad, a number may lose a
 * digit, an assertion may fire. And a tree that is built step by step may
 * lack a branch. Both are seen here, because every allocation is.
 *
 * While one of these works, jansson's allocation functions are replaced, in
 * turn for threads that ask at once; those of the host are called within and
 * put back. Nothing that is returned depends on them: free() and json_decref
 * work as ever.
 */
#ifndef KV_TRACES_JSON_H
#define KV_TRACES_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* Reads a text with JSON_REJECT_DUPLICATES. NULL: *no_memory, or else *why.
 * Takes four times the text's size beside the tree, mostly untouched. */
json_t *kv_json_load(size_t n, const unsigned char *text, bool *no_memory,
                     json_error_t *why);

/* Between begin and end, this thread's failed allocations are noticed; end
 * returns whether all of them succeeded. Not nested, and no kv_json_load
 * between them. */
void kv_json_begin(void);
bool kv_json_end(void);

/* A number that was found. One that is not finite, which JSON cannot express,
 * as text: "NaN", "Infinity"; null would say that there is none. */
json_t *kv_json_found(double x);

/* A tree as text, to be freed with free(); NULL: no memory. Its writer, too,
 * goes on after a failure, and leaves a key empty. */
char *kv_json_print(const json_t *root, size_t flags);

#endif
