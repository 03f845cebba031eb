/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON written as a stream. The caller names each value in order; the writer
 * adds commas and escapes. NaN and infinities become null. Reals are the
 * shortest decimals that read back to the same bits, always with a point or an
 * exponent, so that a column has one type. Bytes that are not UTF-8 become
 * U+FFFD. Pass key = NULL for the elements of an array. Nothing returns an
 * error: check ferror(out) at the end.
 */
#ifndef KV_SIM_JSON_H
#define KV_SIM_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct kv_json {
  FILE *out;
  bool comma; /* a value was already written in this object or array */
} kv_json;

void kv_json_open(kv_json *j, const char *key, char bracket);
void kv_json_close(kv_json *j, char bracket);
void kv_json_null(kv_json *j, const char *key);
void kv_json_text(kv_json *j, const char *key, const char *text);
void kv_json_integer(kv_json *j, const char *key, int64_t value);
/* Null for a text that is NULL or "", and for a count below 0: there is none.
 */
void kv_json_text_or_null(kv_json *j, const char *key, const char *text);
void kv_json_count_or_null(kv_json *j, const char *key, int64_t count);
void kv_json_real(kv_json *j, const char *key, double value);
void kv_json_raw(kv_json *j, const char *key, const char *json);

#endif
