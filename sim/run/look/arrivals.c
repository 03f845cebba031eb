/* SPDX-License-Identifier: Apache-2.0
 *
 * When requests arrive: sim/run/look/arrivals.h.
 */
#include "sim/run/look/arrivals.h"

#include "ref/ground/formula.h"
#include "ref/ground/text.h"
#include "traces/text/json.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_EVERY = 1 << 20, /* steps between two */
  MOST_LINE = 1 << 24,  /* bytes: a line holds a prompt's hashes */
  MOST_TOKENS = 1 << 30
};
#define MOST_TIME 0x1p53 /* whole numbers below it are exact */

void kv_arrivals_free(kv_arrivals *a) {
  free(a->at);
  *a = (kv_arrivals){0};
}

/* Parses the first n bytes of text as a whole number, 1 or more. */
static bool every_of(const char *text, size_t n, int *every) {
  char digits[16];
  uint64_t x = 0;
  if (n >= sizeof digits) return false;
  memcpy(digits, text, n);
  digits[n] = 0;
  if (!kv_text_count(digits, MOST_EVERY, &x) || !x) return false;
  *every = (int)x;
  return true;
}

static kv_rc of_poisson(const char *text, kv_arrivals *out, kv_err *e) {
  size_t n = strcspn(text, ":");
  out->poisson = true;
  out->seed = 1;
  if (!every_of(text, n, &out->every) ||
      (text[n] && !kv_text_count(text + n + 1, UINT32_MAX, &out->seed)))
    return kv_fail(e, KV_USAGE,
                   "--arrive poisson:EVERY[:SEED] needs the average steps "
                   "between two requests, 1 to %d, and perhaps a seed, as in "
                   "poisson:100:7, not poisson:%.40s",
                   MOST_EVERY, text);
  snprintf(out->name, sizeof out->name, "poisson:%u", (unsigned)out->seed);
  return KV_OK;
}

typedef struct lines {
  const char *path;
  FILE *f;
  int pace, room;
  double first, last; /* times of the first line, and of the previous one */
} lines;

static kv_rc wrong(const lines *s, int line, const char *why, kv_err *e) {
  char shown[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s: line %d: %s", kv_show(s->path, shown),
                 line + 1, why);
}

/* A length in tokens; 0: there is no such key. */
static bool tokens_of(const json_t *in, const char *key, int *out) {
  const json_t *x = json_object_get(in, key);
  *out = 0;
  if (!x) return true;
  if (!json_is_integer(x) || json_integer_value(x) < 1 ||
      json_integer_value(x) > MOST_TOKENS)
    return false;
  *out = (int)json_integer_value(x);
  return true;
}

static kv_rc take(lines *s, const json_t *in, kv_arrivals *out, kv_err *e) {
  const json_t *time = json_object_get(in, "timestamp");
  double t = json_number_value(time);
  kv_arrival x = {0};
  if (!json_is_number(time) || !(t >= 0 && t < MOST_TIME))
    return wrong(s, out->n, "timestamp must be a number from 0 to below 2^53",
                 e);
  if (!tokens_of(in, "input_length", &x.prompt) ||
      !tokens_of(in, "output_length", &x.output))
    return wrong(s, out->n,
                 "input_length and output_length must be whole numbers of "
                 "tokens, 1 to 2^30",
                 e);
  if (!out->n) s->first = s->last = t;
  if (t < s->last)
    return wrong(s, out->n, "arrives before the line above it; sort the lines",
                 e);
  s->last = t;
  x.step = (int64_t)((t - s->first) / s->pace);
  if (out->n == s->room) {
    int room = s->room ? 2 * s->room : 64;
    kv_arrival *at = realloc(out->at, (size_t)room * sizeof *at);
    if (!at) return kv_no_memory(e, "arrivals", (size_t)room * sizeof *at);
    out->at = at;
    s->room = room;
  }
  out->at[out->n++] = x;
  return KV_OK;
}

static kv_rc take_line(lines *s, size_t n, const char *line, kv_arrivals *out,
                       kv_err *e) {
  bool short_of = false;
  json_error_t why;
  if (out->n == KV_ARRIVALS_MOST)
    return wrong(s, out->n,
                 "there are too many requests; give the first 65536 or fewer",
                 e);
  json_t *in = n > MOST_LINE ? NULL
                             : kv_json_load(n, (const unsigned char *)line,
                                            &short_of, &why);
  kv_rc rc = KV_OK;
  if (short_of)
    rc = kv_no_memory(e, "a line of arrivals", n);
  else if (!json_is_object(in))
    rc = wrong(s, out->n, "must be a JSON object with a timestamp", e);
  else
    rc = take(s, in, out, e);
  json_decref(in);
  return rc;
}

static kv_rc of_file(const char *path, int pace, kv_arrivals *out, kv_err *e) {
  lines s = {.path = path, .f = fopen(path, "r"), .pace = pace};
  char *line = NULL, shown[KV_SHOW];
  size_t size = 0;
  ssize_t n;
  kv_rc rc = KV_OK;
  if (!s.f)
    return kv_fail(
        e, KV_USAGE,
        "--arrive must be steps between two requests, poisson:EVERY[:SEED], or "
        "a file of times; cannot open %s: %s",
        kv_show(path, shown), strerror(errno));
  while (!rc && (n = getline(&line, &size, s.f)) > 0)
    if (line[strspn(line, " \t\r\n")])
      rc = take_line(&s, (size_t)n, line, out, e);
  if (!rc && ferror(s.f)) rc = kv_cannot(e, KV_INPUT, "read", path);
  if (!rc && !out->n)
    rc = kv_fail(e, KV_INPUT, "%s: has no line; write one line per request",
                 kv_show(path, shown));
  snprintf(out->name, sizeof out->name, "file");
  free(line);
  fclose(s.f);
  return rc;
}

kv_rc kv_arrivals_read(const char *text, int pace, kv_arrivals *out,
                       kv_err *e) {
  static const char poisson[] = "poisson:";
  *out = (kv_arrivals){.name = "every"};
  if (!text) return KV_OK;
  if (every_of(text, strlen(text), &out->every)) return KV_OK;
  if (!strncmp(text, poisson, strlen(poisson)))
    return of_poisson(text + strlen(poisson), out, e);
  return of_file(text, pace, out, e);
}

/* -log(u) in units of 2^-16, for the i-th random u. u has 23 bits and a half,
 * so that it is exact in binary32 and neither 0 nor 1. */
static int64_t gap(uint64_t seed, int i) {
  uint64_t bits = kv_mix(kv_mix(seed) + (uint64_t)i) >> 41;
  float u = (float)(2 * bits + 1) * 0x1p-24f;
  return (int64_t)rint(-(double)kv_log(u) * 0x1p16);
}

void kv_arrivals_steps(const kv_arrivals *a, int n, int64_t *step) {
  int64_t now = 0;
  for (int i = 0; i < n; i++) {
    if (i && a->poisson) now += gap(a->seed, i) * a->every;
    step[i] = a->n         ? a->at[i].step
              : a->poisson ? now >> 16
                           : (int64_t)i * a->every;
  }
}
