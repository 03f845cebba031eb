/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/tables/text.h"

#include <stdint.h>
#include <string.h>

/* The code point at t and its length; length 0: no UTF-8. */
static uint32_t decode(const unsigned char *t, int *length) {
  static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
  int n = *t < 0x80 ? 1 : *t >> 5 == 6 ? 2 : *t >> 4 == 14 ? 3 : 4;
  uint32_t c = n == 1 ? *t : *t & (0x7fu >> n);
  *length = 0;
  if (n == 4 && *t >> 3 != 30) return 0;
  for (int i = 1; i < n; i++) {
    if (t[i] >> 6 != 2) return 0;
    c = c << 6 | (t[i] & 0x3f);
  }
  if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
  *length = n;
  return c;
}

static bool steers(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || /* C0, DEL, C1 */
         c == 0x2028 || c == 0x2029 ||          /* ends of lines */
         (c >= 0x202a && c <= 0x202e) ||        /* directions */
         (c >= 0x2066 && c <= 0x2069);
}

int kv_text_next(const char *t, bool *shown) {
  int n;
  uint32_t c = decode((const unsigned char *)t, &n);
  *shown = n && !steers(c);
  return n ? n : 1;
}

bool kv_text_valid(const char *t) {
  for (int n; *t; t += n) {
    decode((const unsigned char *)t, &n);
    if (!n) return false;
  }
  return true;
}

int kv_text_cut(const char *t, int most) {
  size_t n = strlen(t);
  if (n <= (size_t)most) return (int)n;
  for (n = (size_t)most; n && (t[n] & 0xc0) == 0x80; n--) continue;
  return (int)n;
}

/* --- for people ----------------------------------------------------------- */

/* Writes the character at t as people see it to out, and returns its columns. A
 * byte that is not shown is written by itself. */
enum { FORM = 5 };
static int form(const char *t, int *bytes, char out[FORM]) {
  bool shown;
  *bytes = kv_text_next(t, &shown);
  if (shown) {
    memcpy(out, t, (size_t)*bytes);
    out[*bytes] = 0;
    return 1;
  }
  *bytes = 1;
  snprintf(out, FORM, "\\x%02X", (unsigned)(unsigned char)*t);
  return 4;
}

void kv_text_write(const char *t, FILE *f) {
  char out[FORM];
  for (int n; *t; t += n) {
    form(t, &n, out);
    fputs(out, f);
  }
}

int kv_text_fit(const char *t, int most, char *out) {
  int columns = 0;
  *out = 0;
  for (int n; *t; t += n) {
    char one[FORM];
    int wide = form(t, &n, one);
    if (columns + wide > most) break;
    columns += wide;
    strcpy(out, one);
    out += strlen(one);
  }
  return columns;
}

static void html(const char *one, FILE *f) {
  static const char special[] = "&<>\"";
  static const char *const entity[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
  const char *at = strchr(special, *one);
  fputs(at ? entity[at - special] : one, f);
}

void kv_text_html(const char *t, FILE *f) {
  char out[FORM];
  for (int n; *t; t += n) {
    form(t, &n, out);
    html(out, f);
  }
}

/* Uses bash's $'...' if bytes must be escaped. */
void kv_text_shell_html(const char *t, FILE *f) {
  bool plain = true, shown;
  for (const char *c = t; *c && plain; c += kv_text_next(c, &shown))
    plain = (kv_text_next(c, &shown), shown);
  fputs(plain ? "'" : "$'", f);
  for (int n; *t; t += n) {
    char out[FORM];
    form(t, &n, out);
    if (*t == '\'')
      fputs(plain ? "'\\''" : "\\'", f);
    else if (*t == '\\' && !plain)
      fputs("\\\\", f);
    else
      html(out, f);
  }
  fputs("'", f);
}
