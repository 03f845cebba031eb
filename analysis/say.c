/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/say.h"
#include "analysis/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int said;

int kv_said(void) { return said; }

void kv_say_forget(void) { said = KV_EXIT_OK; }

void kv_say_short(void) {
  kv_say(KV_EXIT_RESOURCE, "not enough memory for all of it: ask for less "
                           "with --where, or on a larger machine");
}

int kv_say(int code, const char *format, ...) {
  char line[1024], shown[4 * sizeof line];
  va_list v;
  if (said) return code;
  said = code;
  va_start(v, format);
  vsnprintf(line, sizeof line, format, v);
  va_end(v);
  kv_text_fit(line, sizeof line - 1, shown);
  fprintf(stderr, "kvreport: %s\n", shown);
  return code;
}

/* Levenshtein with one row; both cut at 31 letters. */
static int distance(const char *a, const char *b) {
  int row[32], n = (int)strnlen(a, 31), m = (int)strnlen(b, 31);
  for (int j = 0; j <= m; j++) row[j] = j;
  for (int i = 1; i <= n; i++) {
    int corner = row[0]++;
    for (int j = 1; j <= m; j++) {
      int change = corner + (a[i - 1] != b[j - 1]), best = row[j] + 1;
      corner = row[j];
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = change < best ? change : best;
    }
  }
  return row[m];
}

const char *kv_nearest_name(const char *text, const char *const *names) {
  const char *best = names[0];
  for (; *names; names++)
    if (distance(text, *names) < distance(text, best)) best = *names;
  return best;
}

int kv_say_no(const char *what, const char *text, const char *const *names) {
  const char *near = kv_nearest_name(text, names);
  char all[1024] = "";
  size_t at = 0;
  if (3 * distance(text, near) <= (int)strnlen(text, 31) + 1)
    return kv_say(KV_EXIT_USAGE, "there is no %s '%s': did you mean '%s'?",
                  what, text, near);
  for (; *names && at < sizeof all; names++)
    at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", at ? ", " : "",
                           *names);
  return kv_say(KV_EXIT_USAGE, "there is no %s '%s'; there are %s", what, text,
                all);
}
