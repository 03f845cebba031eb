/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing and searching budgets: contract in sim/spec/budget.h.
 */
#include "sim/spec/budget.h"

#include "traces/text/text.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *const kv_basis_names[KV_BASES] = {
    "", "entries", "prompt", "ratio", "end", "mean", "peak", "read", "traffic"};

enum { MOST_PERCENT = 1000, MOST_ENTRIES = 1 << 30 };

/* The finest decimals: six of a percentage, and of a ratio as many as leave
 * num and den exact in binary64, so that num / den is what Python reads. */
static const int64_t finest_percent = 1000000, finest_ratio = 1000000000000000;

__extension__ typedef unsigned __int128 wide;

static kv_rc bad(const char *text, const char *why, kv_err *e) {
  char show[KV_SHOW];
  return kv_fail(e, KV_USAGE, "budget %s: %s", kv_show(text, show), why);
}

/* Reads digits [. digits], without the percent sign, as num / den. Returns
 * false for another form, where den would be above `finest`, and above
 * MOST_PERCENT. */
static bool decimal(const char *c, size_t n, int64_t finest, int64_t *num,
                    int64_t *den) {
  bool point = false, digit = false;
  *num = 0;
  *den = 1;
  while (n > 1 && memchr(c, '.', n) && c[n - 1] == '0') n--;
  for (size_t i = 0; i < n; i++) {
    if (c[i] == '.' && !point) {
      point = true;
      continue;
    }
    if (c[i] < '0' || c[i] > '9') return false;
    digit = true;
    if (point && *den == finest) return false;
    if (point) *den *= 10;
    *num = *num * 10 + (c[i] - '0');
    if (*num > MOST_PERCENT * *den) return false;
  }
  return digit;
}

static kv_rc parse_share(const char *text, const char *at, kv_budget *b,
                         kv_err *e) {
  if (b->basis == KV_BASIS_ENTRIES) {
    return bad(text, "entries are counted, not a percentage", e);
  }
  if (b->basis == KV_BASIS_NONE) b->basis = KV_BASIS_PROMPT;
  if (!decimal(at, strlen(at) - 1, finest_percent, &b->num, &b->den)) {
    return bad(text,
               "a percentage is a plain decimal up to 1000 with at most 6 "
               "decimals, like 12.5%",
               e);
  }
  if (b->num == 0) return bad(text, "must be above 0", e);
  b->den *= 100;
  return KV_OK;
}

static kv_rc parse_ratio(const char *text, const char *at, kv_budget *b,
                         kv_err *e) {
  if (decimal(at, strlen(at), finest_ratio, &b->num, &b->den) &&
      b->num < b->den)
    return KV_OK;
  return bad(text,
             "a compression ratio is the share of the prompt's tokens that "
             "goes: a plain decimal from 0 on and below 1 with at most 15 "
             "decimals, like ratio:0.8",
             e);
}

static kv_rc parse_count(const char *text, const char *at, kv_budget *b,
                         kv_err *e) {
  uint64_t count;
  if (!strncmp(at, "ratio:", 6))
    return bad(text,
               "a compression ratio is of the prompt's tokens alone: write "
               "ratio:0.8, or a share of dense's bytes as end:20%",
               e);
  if (b->basis != KV_BASIS_NONE && b->basis != KV_BASIS_ENTRIES) {
    return bad(text, "this basis takes a percentage, like mean:20%", e);
  }
  b->basis = KV_BASIS_ENTRIES;
  if (!kv_text_count(at, MOST_ENTRIES, &count)) {
    if (*at && at[strspn(at, "0123456789")] == 0)
      return bad(text, "must be at most 1073741824", e);
    return bad(
        text,
        "write a number of entries (512) or a percentage (20%), with "
        "entries:, prompt:, end:, mean:, peak:, read: or traffic: before "
        "it; a compression ratio (ratio:0.8); or a list, a layer each (64/32)",
        e);
  }
  if (count < 1) return bad(text, "must be at least 1; the nearest is 1", e);
  b->entries = (int)count;
  return KV_OK;
}

/* Reads the basis before a colon, if there is one; *at then points past it. */
static kv_rc parse_basis(const char *text, const char **at, kv_budget *b,
                         kv_err *e) {
  char name[16], show[KV_SHOW];
  const char *colon = strchr(text, ':');
  if (colon == NULL) return KV_OK;
  size_t n = (size_t)(colon - text);
  if (n >= sizeof name) n = sizeof name - 1;
  memcpy(name, text, n);
  name[n] = 0;
  for (int i = KV_BASIS_ENTRIES; i < KV_BASES; i++) {
    if (strcmp(name, kv_basis_names[i]) == 0) {
      b->basis = (kv_basis)i;
      *at = colon + 1;
      return KV_OK;
    }
  }
  const char *near = kv_text_nearest(name, KV_BASES - 1, kv_basis_names + 1);
  return kv_fail(e, KV_USAGE,
                 "budget %s: the basis is none of entries, prompt, ratio, end, "
                 "mean, peak, read, traffic%s%s%s",
                 kv_show(text, show), near ? "; did you mean " : "",
                 near ? near : "", near ? "?" : "");
}

kv_rc kv_budget_parse(const char *text, kv_budget *out, kv_err *e) {
  const char *at = text;
  if (kv_budget_of_layers(text)) return kv_budget_parse_layers(text, out, e);
  memset(out, 0, sizeof *out);
  size_t n = strlen(text);
  if (n == 0)
    return kv_fail(e, KV_USAGE,
                   "a budget of the list is empty; write them as 10%%,512");
  if (n >= sizeof out->target) return bad(text, "is too long", e);
  kv_rc rc = parse_basis(text, &at, out, e);
  if (rc) return rc;
  memcpy(out->target, text, n);
  if (out->basis == KV_BASIS_RATIO) return parse_ratio(text, at, out, e);
  return text[n - 1] == '%' ? parse_share(text, at, out, e)
                            : parse_count(text, at, out, e);
}

static bool same(const kv_budget *a, const kv_budget *b) {
  bool equal = a->basis == b->basis && a->entries == b->entries &&
               a->layers == b->layers &&
               (wide)a->num * (wide)b->den == (wide)b->num * (wide)a->den;
  for (int i = 0; equal && i < a->layers; i++)
    equal = same(&a->layer[i], &b->layer[i]);
  return equal;
}

static kv_rc put(const char *text, kv_budgets *out, kv_err *e) {
  kv_budget one;
  kv_rc rc = kv_budget_parse(text, &one, e);
  if (rc) return rc;
  for (int i = 0; i < out->n; i++) {
    if (!same(&out->budget[i], &one)) continue;
    kv_budget_free(&one);
    return bad(text, "is listed twice", e);
  }
  size_t bytes = (size_t)(out->n + 1) * sizeof one;
  kv_budget *grown = realloc(out->budget, bytes);
  if (grown == NULL) {
    kv_budget_free(&one);
    return kv_no_memory(e, "the list of budgets", bytes);
  }
  out->budget = grown;
  grown[out->n++] = one;
  return KV_OK;
}

kv_rc kv_budgets_add(const char *list, kv_budgets *out, kv_err *e) {
  int before = out->n;
  kv_rc rc = KV_OK;
  while (rc == KV_OK) {
    size_t n = strcspn(list, ",");
    char *text = kv_text_copy(n, list);
    if (text == NULL) return kv_no_memory(e, "a budget", n);
    rc = put(text, out, e);
    free(text);
    if (list[n] == 0) break;
    list += n + 1;
  }
  while (rc && out->n > before) kv_budget_free(&out->budget[--out->n]);
  return rc;
}

void kv_budgets_free(kv_budgets *b) {
  if (b == NULL) return;
  for (int i = 0; i < b->n; i++) kv_budget_free(&b->budget[i]);
  free(b->budget);
  memset(b, 0, sizeof *b);
}

bool kv_budget_in_bytes(const kv_budget *b) { return b->basis >= KV_BASIS_END; }

bool kv_basis_reads(kv_basis basis) {
  return basis == KV_BASIS_READ || basis == KV_BASIS_TRAFFIC;
}

/* As Python's int(n * (1 - r)): three roundings of binary64, and truncation. */
static int left_by_ratio(const kv_budget *b, int n) {
  double r = (double)b->num / (double)b->den, rest = 1 - r;
  return (int)((double)n * rest);
}

kv_rc kv_budget_entries(const kv_budget *b, int prompt_len, int *out,
                        kv_err *e) {
  assert(!kv_budget_in_bytes(b) && "bytes are searched for, not computed");
  assert(!b->layers && "a list has a number a layer");
  if (b->basis == KV_BASIS_ENTRIES) {
    *out = b->entries;
    return KV_OK;
  }
  wide n = b->basis == KV_BASIS_RATIO
               ? (wide)left_by_ratio(b, prompt_len)
               : (wide)b->num * (unsigned)prompt_len / (wide)b->den;
  if (n < 1 && b->basis == KV_BASIS_RATIO)
    return kv_fail(e, KV_USAGE,
                   "budget %s leaves none of a prompt of %d tokens; a smaller "
                   "ratio leaves more",
                   b->target, prompt_len);
  if (n < 1) {
    return kv_fail(e, KV_USAGE,
                   "budget %s of a prompt of %d tokens is less than one entry; "
                   "ask for more",
                   b->target, prompt_len);
  }
  *out = n > MOST_ENTRIES ? MOST_ENTRIES : (int)n;
  return KV_OK;
}

double kv_budget_over(const kv_budget *b, int64_t bytes, int64_t dense) {
  return (double)bytes - (double)dense * (double)b->num / (double)b->den;
}

bool kv_budget_fits(const kv_budget *b, int64_t bytes, int64_t dense) {
  assert(bytes >= 0 && dense >= 0 && "bytes are counted");
  return (wide)bytes * (wide)b->den <= (wide)b->num * (wide)dense;
}
