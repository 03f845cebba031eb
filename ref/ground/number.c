/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text: ref/ground/number.h. "%.{n}g" is tried with growing n. The
 * first text that reads back to the same bits is the shortest, because %g drops
 * trailing zeros.
 */
#include "ref/ground/number.h"

#include <assert.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets the thread's locale to "C". Without memory it stays as it is, which in
 * our programs is "C" too. */
static locale_t enter(locale_t *before) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  *before = uselocale(c);
  return c;
}

static void leave(locale_t c, locale_t before) {
  uselocale(before);
  if (c) freelocale(c);
}

bool kv_number_parse(const char *text, double *out) {
  if (!*text || text[strspn(text, "0123456789.eE+-")]) return false;
  locale_t before, c = enter(&before);
  char *end;
  *out = strtod(text, &end);
  leave(c, before);
  return end != text && *end == 0 && isfinite(*out);
}

int32_t kv_number_to_share(double x) {
  assert(x >= -2000 && x <= 2000);
  return (int32_t)rint(x * KV_SHARE_ONE);
}

const char *kv_number_real(double x, char out[KV_NUMBER]) {
  assert(isfinite(x));
  locale_t before, c = enter(&before);
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(out, KV_NUMBER, "%.*g", digits, x);
    if (strtod(out, NULL) == x) break;
  }
  leave(c, before);
  return out;
}

const char *kv_number_float(float x, char out[KV_NUMBER]) {
  assert(isfinite(x));
  locale_t before, c = enter(&before);
  for (int digits = 6; digits <= 9; digits++) {
    snprintf(out, KV_NUMBER, "%.*g", digits, (double)x);
    if (strtof(out, NULL) == x) break;
  }
  leave(c, before);
  return out;
}

const char *kv_number_share(int32_t share, char out[KV_NUMBER]) {
  locale_t before, c = enter(&before);
  double x = (double)share / KV_SHARE_ONE;
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(out, KV_NUMBER, "%.*g", digits, x);
    if (kv_number_to_share(strtod(out, NULL)) == share) break;
  }
  leave(c, before);
  return out;
}

const char *kv_number_bytes(double bytes, char out[KV_NUMBER]) {
  static const char unit[] = " KMGTPE";
  int u = 0;
  while (bytes >= 999.5 && u < 6) {
    bytes /= 1024;
    u++;
  }
  int decimals = u == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  locale_t before, c = enter(&before);
  snprintf(out, KV_NUMBER, "%.*f%.*s", decimals, bytes, u > 0, unit + u);
  leave(c, before);
  return out;
}
