/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from files and command lines: shown in messages, copied, read as numbers
 * and compared with names. A name from a file may contain anything, but a
 * message must stay one short line. So control characters and bytes that are
 * not UTF-8 are shown as escapes, "\x1b" (kv_plain of ref/ground/err.h).
 */
#ifndef KV_REF_TEXT_H
#define KV_REF_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ref/ground/err.h"

enum { KV_SHOW = 120 }; /* bytes of a name in a message, with its NUL */

/* Writes text with escapes into out and returns out. A long text is cut to its
 * end, where names of files and tensors differ, after "...". */
const char *kv_show(const char *text, char out[KV_SHOW]);

/* Prints text of any length with escapes. */
void kv_put_plain(FILE *out, const char *text);

/* Flushes what was printed. KV_RESOURCE: some of it could not be written. */
kv_rc kv_flush(FILE *out, kv_err *e);

/* kv_fail with "cannot DO PATH: REASON", whose reason errno names. */
kv_rc kv_cannot(kv_err *e, kv_rc rc, const char *what, const char *path);

/* A copy of any length with escapes, for free(). NULL: no memory. */
char *kv_text_shown(const char *text);

/* A copy of n bytes and a NUL, for free(). NULL: no memory. */
char *kv_text_copy(size_t n, const char *text);

/* Is text one or more decimal digits and nothing else, with a value of at most
 * `most`? If so, *out is the value. */
bool kv_text_count(const char *text, uint64_t most, uint64_t *out);

/* Is text a plain decimal number (digits, point, exponent, sign) within
 * +-3.4e38? If so, *out is the nearest binary32. The locale does not matter. */
bool kv_text_float(const char *text, float *out);

/* Which of names[n] was probably meant: one that begins with text, or else the
 * nearest by edits (about one in three letters). NULL: none is near. */
const char *kv_text_nearest(const char *text, int n, const char *const *names);

#endif
