/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign text in our sentences. Names from files and command lines may hold
 * anything; a sentence must stay one short line.
 */
#ifndef KV_TRACES_TEXT_H
#define KV_TRACES_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ref/ground/err.h"

enum { KV_SHOW = 120 };

/* text for a sentence, as kv_plain shows it; a long one keeps its end (where
 * file and tensor names differ) behind "...". Returns out. */
const char *kv_show(const char *text, char out[KV_SHOW]);

/* text as kv_plain shows it, of any length. */
void kv_put_plain(FILE *out, const char *text);

/* A copy as kv_plain shows it. NULL: no memory. */
char *kv_text_shown(const char *text);

/* A copy, or NULL when there is no memory. */
char *kv_text_copy(size_t n, const char *text);

/* Decimal digits only, value <= most. */
bool kv_text_count(const char *text, uint64_t most, uint64_t *out);

/* Nearest binary32 of a plain decimal (digits, point, exponent), whatever
 * the locale; false for anything else, and for what does not fit. */
bool kv_text_float(const char *text, float *out);

/* The name among names[0..n) nearest to text by edit distance, or NULL where
 * none is near enough to be meant. */
const char *kv_text_nearest(const char *text, int n, const char *const *names);

#endif
