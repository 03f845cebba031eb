/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign text, made visible: ref/ground/err.h.
 */
#include "ref/ground/err.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 sequence that starts with c, 0 if none can. */
static int sequence(unsigned char c) {
  if (c < 0x80) return 1;
  if (c >= 0xc2 && c <= 0xdf) return 2;
  if (c >= 0xe0 && c <= 0xef) return 3;
  return c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

/* The second byte has a narrower range after four of the lead bytes. */
static int second(unsigned char lead, unsigned char c) {
  unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  return c >= low && c <= high;
}

/* Length of the character at text, of at most `room` readable bytes; 0 if they
 * are no character. A NUL is never a later byte, so it ends the character. */
static int character(const unsigned char *text, size_t room, uint32_t *out) {
  int n = sequence(text[0]);
  if ((size_t)n > room) return 0;
  *out = n == 1 ? text[0] : text[0] & (0xffu >> (n + 1));
  for (int i = 1; i < n; i++) {
    if ((text[i] & 0xc0) != 0x80) return 0;
    if (i == 1 && !second(text[0], text[1])) return 0;
    *out = *out << 6 | (text[i] & 0x3fu);
  }
  return n;
}

/* Characters that a terminal obeys instead of showing: controls, line and
 * paragraph ends, marks that change the direction of the text around them, and
 * the byte-order mark. */
static int obeyed(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c ||
         (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

bool kv_utf8_valid(size_t n, const unsigned char *text) {
  uint32_t c;
  for (size_t i = 0; i < n;) {
    int length = character(text + i, n - i, &c);
    if (length == 0) return false;
    i += (size_t)length;
  }
  return true;
}

int kv_plain_next(const char **text, char out[KV_PLAIN_MOST]) {
  const unsigned char *at = (const unsigned char *)*text;
  uint32_t c;
  if (!*at) return 0;
  int n = character(at, 4, &c);
  *text += n ? n : 1;
  if (n == 0 || c < 0x80) {
    c = at[0];
    if (n && !obeyed(c)) return snprintf(out, KV_PLAIN_MOST, "%c", (int)c);
    return snprintf(out, KV_PLAIN_MOST, "\\x%02x", (unsigned)c);
  }
  if (obeyed(c)) return snprintf(out, KV_PLAIN_MOST, "\\u%04x", (unsigned)c);
  memcpy(out, at, (size_t)n);
  out[n] = 0;
  return n;
}

const char *kv_plain(const char *text, size_t room, char *out) {
  char one[KV_PLAIN_MOST];
  size_t at = 0;
  for (int n; (n = kv_plain_next(&text, one)) > 0; at += (size_t)n) {
    if (at + (size_t)n >= room) break;
    memcpy(out + at, one, (size_t)n);
  }
  out[at] = 0;
  return out;
}
