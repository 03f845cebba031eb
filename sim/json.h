/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON as a stream: the caller says what follows, commas and escapes come by
 * themselves. NaN and infinities become null, reals are the shortest that
 * read back (and keep a point, so that a column has one type), bytes that
 * are not UTF-8 become U+FFFD. Errors of the stream stay in the stream:
 * look at ferror(out) at the end. In an array, key is NULL.
 */
#ifndef KV_SIM_JSON_H
#define KV_SIM_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct kv_json {
  FILE *out;
  bool comma; /* something stands before in this object or array */
} kv_json;

void kv_json_open(kv_json *j, const char *key, char bracket);
void kv_json_close(kv_json *j, char bracket);
void kv_json_null(kv_json *j, const char *key);
void kv_json_text(kv_json *j, const char *key, const char *text);
void kv_json_integer(kv_json *j, const char *key, int64_t value);
void kv_json_real(kv_json *j, const char *key, double value);
void kv_json_raw(kv_json *j, const char *key, const char *json);

#endif
