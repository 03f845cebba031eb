/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON written as a stream. The caller names each value in order; the writer
 * adds commas and escapes, and no newline:
 *
 *   kv_json j = {.out = file};
 *   kv_json_open(&j, NULL, '{');
 *   kv_json_integer(&j, "steps", 3);
 *   kv_json_close(&j, '}');              which gives {"steps": 3}
 *
 * `key` is the name of a member of an object; NULL for an element of an array
 * and for the outermost value. In a text that is not UTF-8 every byte from 0x80
 * on becomes U+FFFD. Nothing returns an error or checks that brackets match:
 * check ferror(out) at the end.
 */
#ifndef KV_REF_JSON_H
#define KV_REF_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* One document. The caller owns and closes out. */
typedef struct kv_json {
  FILE *out;
  bool comma; /* this object or array already has a value */
} kv_json;

/* Begin and end an object ('{', '}') or an array ('[', ']'). */
void kv_json_open(kv_json *j, const char *key, char bracket);
void kv_json_close(kv_json *j, char bracket);
/* One value each. text is not NULL; it is quoted and escaped here. */
void kv_json_null(kv_json *j, const char *key);
void kv_json_text(kv_json *j, const char *key, const char *text);
void kv_json_integer(kv_json *j, const char *key, int64_t value);
/* The same, but null for a text that is NULL or "" and for a count below 0. */
void kv_json_text_or_null(kv_json *j, const char *key, const char *text);
void kv_json_count_or_null(kv_json *j, const char *key, int64_t count);
/* The shortest decimal that reads back to the same bits, always with a point or
 * an exponent, so that a column has one type. Null for NaN and infinities. */
void kv_json_real(kv_json *j, const char *key, double value);
/* A value that is already JSON: `json` is written unchanged. */
void kv_json_raw(kv_json *j, const char *key, const char *json);

#endif
