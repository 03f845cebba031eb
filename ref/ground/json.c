/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON as a stream: ref/ground/json.h.
 */
#include "ref/ground/json.h"

#include "ref/ground/number.h"
#include "ref/ground/text.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static void quote(FILE *out, const char *text) {
  const unsigned char *c = (const unsigned char *)text;
  bool utf8 = kv_utf8_valid(strlen(text), c);
  fputc('"', out);
  for (; *c; c++) {
    if (*c == '"' || *c == '\\') {
      fprintf(out, "\\%c", *c);
    } else if (*c < 0x20 || *c == 0x7f) {
      fprintf(out, "\\u%04x", *c);
    } else if (*c >= 0x80 && !utf8) {
      fputs("\\ufffd", out);
    } else {
      fputc(*c, out);
    }
  }
  fputc('"', out);
}

static void lead(kv_json *j, const char *key) {
  if (j->comma) fputs(", ", j->out);
  j->comma = true;
  if (key == NULL) return;
  quote(j->out, key);
  fputs(": ", j->out);
}

void kv_json_open(kv_json *j, const char *key, char bracket) {
  lead(j, key);
  fputc(bracket, j->out);
  j->comma = false;
}

void kv_json_close(kv_json *j, char bracket) {
  fputc(bracket, j->out);
  j->comma = true;
}

void kv_json_raw(kv_json *j, const char *key, const char *json) {
  lead(j, key);
  fputs(json, j->out);
}

void kv_json_null(kv_json *j, const char *key) { kv_json_raw(j, key, "null"); }

void kv_json_text(kv_json *j, const char *key, const char *text) {
  lead(j, key);
  quote(j->out, text);
}

void kv_json_integer(kv_json *j, const char *key, int64_t value) {
  lead(j, key);
  fprintf(j->out, "%" PRId64, value);
}

void kv_json_text_or_null(kv_json *j, const char *key, const char *text) {
  if (text && *text)
    kv_json_text(j, key, text);
  else
    kv_json_null(j, key);
}

void kv_json_count_or_null(kv_json *j, const char *key, int64_t count) {
  if (count >= 0)
    kv_json_integer(j, key, count);
  else
    kv_json_null(j, key);
}

void kv_json_real(kv_json *j, const char *key, double value) {
  char text[KV_NUMBER];
  if (!isfinite(value)) {
    kv_json_null(j, key);
    return;
  }
  kv_json_raw(j, key, kv_number_real(value, text));
  if (!strpbrk(text, ".e")) fputs(".0", j->out);
}
