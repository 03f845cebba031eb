/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing and searching budgets: contract in sim/ask/budget.h.
 */
#include "sim/ask/budget.h"

#include "ref/ground/sha256.h"
#include "ref/ground/text.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const kv_basis_names[KV_BASES] = {
    "", "entries", "prompt", "ratio", "end", "mean", "peak", "read", "traffic"};

enum { MOST_PERCENT = 1000, MOST_ENTRIES = 1 << 30 };

/* The finest decimals: six digits of a percentage; of a ratio as many as keep
 * num and den exact in binary64, so that num / den is what Python reads. */
static const int64_t finest_percent = 1000000, finest_ratio = 1000000000000000;

__extension__ typedef unsigned __int128 wide;

static kv_rc bad(const char *text, const char *why, kv_err *e) {
  char show[KV_SHOW];
  return kv_fail(e, KV_USAGE, "budget %s: %s", kv_show(text, show), why);
}

/* Reads digits [. digits], without the percent sign, as num / den. False if the
 * form differs, den would exceed `finest`, or the number MOST_PERCENT. */
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
    return bad(text, "give entries as a number, not a percentage", e);
  }
  if (b->basis == KV_BASIS_NONE) b->basis = KV_BASIS_PROMPT;
  if (!decimal(at, strlen(at) - 1, finest_percent, &b->num, &b->den)) {
    return bad(text,
               "a percentage must be a plain decimal up to 1000 with at most 6 "
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
  return bad(
      text,
      "a compression ratio is the share of the prompt's tokens to drop; write "
      "a decimal from 0 to below 1 with at most 15 decimals, like ratio:0.8",
      e);
}

static kv_rc parse_count(const char *text, const char *at, kv_budget *b,
                         kv_err *e) {
  uint64_t count;
  if (!strncmp(at, "ratio:", 6))
    return bad(text,
               "a compression ratio only applies to the prompt's tokens; write "
               "ratio:0.8, or a share of the uncompressed bytes as end:20%",
               e);
  if (b->basis != KV_BASIS_NONE && b->basis != KV_BASIS_ENTRIES) {
    return bad(text, "this basis needs a percentage, like mean:20%", e);
  }
  b->basis = KV_BASIS_ENTRIES;
  if (!kv_text_count(at, MOST_ENTRIES, &count)) {
    if (*at && at[strspn(at, "0123456789")] == 0)
      return bad(text, "must be at most 1073741824", e);
    return bad(text,
               "write a number of entries (512), a percentage (20%), a "
               "percentage with a basis (mean:20%), a compression ratio "
               "(ratio:0.8), or a list of one per layer (64/32)",
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
                 "budget %s: the basis must be one of entries, prompt, ratio, "
                 "end, mean, peak, read, traffic%s%s%s",
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
                   "a budget in the list is empty; write a list as 10%%,512");
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

/* As Python's int(n * (1 - r)): three roundings to binary64, and truncation. */
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
    return kv_fail(
        e, KV_USAGE,
        "budget %s leaves none of the prompt's %d tokens; give a smaller ratio",
        b->target, prompt_len);
  if (n < 1) {
    return kv_fail(
        e, KV_USAGE,
        "budget %s of a prompt of %d tokens is less than one entry; give more",
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

/* --- search -------------------------------------------------------------- */

/* The search for a budget in bytes. Only ledgers decide, and they fix the next
 * probe, so two searches find the same number even if bytes do not grow
 * steadily with entries. Bytes are nearly linear in entries. So the next place
 * is where the line between both ends meets the budget: four to eight probes
 * instead of a dozen halvings. */

kv_rc kv_budget_refuse(const kv_budget *b, const char *least, int64_t bytes,
                       int64_t dense, kv_err *e) {
  bool sums = b->basis != KV_BASIS_END && b->basis != KV_BASIS_PEAK;
  double percent = dense > 0 ? 100.0 * (double)bytes / (double)dense : 0;
  return kv_fail(e, KV_REFUSED,
                 "the smallest %s takes %" PRId64
                 " of the uncompressed %" PRId64
                 " bytes%s (%.4g %%), more than %s",
                 least, bytes, dense, sums ? " summed over steps" : "", percent,
                 b->target);
}

int kv_budget_probes(int least, int most) {
  int n = least < most ? 2 : 1;
  for (int between = most - least; between > 1; between -= between / 2) n += 2;
  return n;
}

/* One end of the current interval: a place, and its excess in bytes. */
typedef struct end {
  int place;
  double over;
} end;

/* The place to try next, inside the interval. If the bytes are so many that an
 * excess rounds to 0, there is no line. */
static int next(const end *lo, const end *hi, bool halve) {
  int between = hi->place - lo->place;
  if (halve || lo->over > 0 || !(hi->over > 0)) return lo->place + between / 2;
  int step = (int)(between * (-lo->over / (hi->over - lo->over)));
  if (step < 1) step = 1;
  if (step > between - 1) step = between - 1;
  return lo->place + step;
}

/* An end that stays for a second time counts half (the Illinois rule). Halves
 * if a line removed less than half, or if the first places all fit exactly, so
 * that a line cannot distinguish them. */
static kv_rc narrow(const kv_budget *b, end lo, end hi, kv_probe *probe,
                    void *self, int *out, kv_err *e) {
  int64_t bytes, dense;
  int stayed = 0; /* the end that stayed: -1 lo, 1 hi */
  bool halve = false, level;
  while (hi.place - lo.place > 1) {
    int before = hi.place - lo.place, place = next(&lo, &hi, halve);
    kv_rc rc = probe(self, place, &bytes, &dense, e);
    if (rc) return rc;
    end now = {place, kv_budget_over(b, bytes, dense)};
    level = false;
    if (kv_budget_fits(b, bytes, dense)) {
      level = lo.over == 0 && now.over == 0;
      lo = now;
      if (stayed == 1) hi.over /= 2;
      stayed = 1;
    } else {
      hi = now;
      if (stayed == -1) lo.over /= 2;
      stayed = -1;
    }
    halve = level || (!halve && 2 * (hi.place - lo.place) > before);
  }
  *out = lo.place;
  return KV_OK;
}

kv_rc kv_budget_least(int most, kv_legal *legal, void *self, int *out,
                      kv_err *e) {
  int low = 0, high = 1;
  bool runs;
  kv_err why = {0};
  kv_rc rc = legal(self, most, &runs, e);
  if (rc || !runs) return rc ? rc : KV_REFUSED;
  for (;; low = high, high = high > most / 2 ? most : 2 * high) {
    if ((rc = legal(self, high, &runs, &why))) break;
    if (runs) break;
  }
  while (!rc && high - low > 1) {
    int middle = low + (high - low) / 2;
    rc = legal(self, middle, &runs, &why);
    if (runs)
      high = middle;
    else
      low = middle;
  }
  *out = high;
  return rc ? kv_fail(e, rc, "%s", why.text) : KV_OK;
}

kv_rc kv_budget_search(const kv_budget *b, int least, int most,
                       const char *named, kv_probe *probe, void *self, int *out,
                       kv_err *e) {
  assert(kv_budget_in_bytes(b) && "only bytes are searched for");
  int64_t bytes, dense;
  end lo = {least, 0}, hi = {most, 0};
  kv_rc rc;
  if (least < most) {
    if ((rc = probe(self, most, &bytes, &dense, e))) return rc;
    if (kv_budget_fits(b, bytes, dense)) {
      *out = most;
      return KV_OK;
    }
    hi.over = kv_budget_over(b, bytes, dense);
  }
  if ((rc = probe(self, least, &bytes, &dense, e))) return rc;
  if (!kv_budget_fits(b, bytes, dense))
    return kv_budget_refuse(b, named, bytes, dense, e);
  lo.over = kv_budget_over(b, bytes, dense);
  if (least > most) hi.place = least;
  return narrow(b, lo, hi, probe, self, out, e);
}

/* --- layers -------------------------------------------------------------- */

/* A budget for each layer, typed (64/32/16) or read from a file (layers:FILE).
 * A file that begins with a bracket is JSON; any other has one budget a line,
 * and `#` begins a comment. */

enum { MOST_LAYERS = 4096, MOST_BYTES = 1 << 20 };

/* Appends one budget. `at`: its place, for an error sentence; `bad`: the error
 * code for a wrong text. */
static kv_rc add(const char *text, kv_rc bad, const char *at, kv_budget *out,
                 kv_err *e) {
  kv_budget one;
  kv_err why = {0};
  char show[KV_SHOW];
  size_t bytes = (size_t)(out->layers + 1) * sizeof one;
  if (kv_budget_of_layers(text))
    return kv_fail(e, bad, "%s: %s is a list within a list", at,
                   kv_show(text, show));
  kv_rc rc = kv_budget_parse(text, &one, &why);
  if (rc) return kv_fail(e, rc == KV_USAGE ? bad : rc, "%s: %s", at, why.text);
  if (kv_budget_in_bytes(&one))
    return kv_fail(
        e, bad,
        "%s: %s is a budget in bytes; a layer needs entries (512), a share of "
        "the prompt (20%%) or a compression ratio (ratio:0.8)",
        at, text);
  if (out->layers == MOST_LAYERS)
    return kv_fail(e, bad, "%s: more than %d layers", at, MOST_LAYERS);
  kv_budget *grown = realloc(out->layer, bytes);
  if (!grown) return kv_no_memory(e, "budgets of layers", bytes);
  out->layer = grown;
  grown[out->layers++] = one;
  return KV_OK;
}

static kv_rc add_typed(const char *list, kv_budget *out, kv_err *e) {
  kv_rc rc = KV_OK;
  for (bool more = true; more && !rc;) {
    char at[48];
    size_t n = strcspn(list, "/");
    char *text = kv_text_copy(n, list);
    if (!text) return kv_no_memory(e, "a budget", n);
    snprintf(at, sizeof at, "the budget of layer %d", out->layers);
    rc = add(text, KV_USAGE, at, out, e);
    free(text);
    more = list[n] == '/';
    list += n + more;
  }
  return rc;
}

/* Reads a whole file. Opens only regular files: reading a terminal or a pipe
 * might never end. */
static kv_rc slurp(const char *path, size_t *n, char **out, kv_err *e) {
  struct stat is;
  char show[KV_SHOW];
  bool there = stat(path, &is) == 0;
  kv_rc rc = KV_OK;
  *out = NULL;
  if (there && (!S_ISREG(is.st_mode) || is.st_size > MOST_BYTES))
    return kv_fail(e, KV_INPUT,
                   "%s must be a regular file of at most %d bytes, with one "
                   "budget per layer",
                   kv_show(path, show), MOST_BYTES);
  FILE *f = there ? fopen(path, "re") : NULL;
  if (!f)
    return kv_cannot(e, errno == ENOMEM ? KV_RESOURCE : KV_INPUT, "open", path);
  if (!(*out = kv_zalloc(1, (size_t)is.st_size + 1)))
    rc = kv_no_memory(e, "budgets of layers", (size_t)is.st_size);
  else if ((*n = fread(*out, 1, (size_t)is.st_size, f)) < (size_t)is.st_size)
    rc = kv_cannot(e, KV_INPUT, "read", path);
  fclose(f);
  return rc;
}

static const char blanks[] = " \t\r\n";

static kv_rc not_json(const char *path, const char *text, const char *at,
                      kv_err *e) {
  int line = 1;
  for (; text < at; text++) line += *text == '\n';
  return kv_fail(e, KV_INPUT,
                 "%s: line %d is not JSON; write a list as [64, \"20%%\"]",
                 path, line);
}

/* One element: a number of entries, or a text as after -b. */
static kv_rc add_element(const char *word, bool quoted, const char *at,
                         kv_budget *out, kv_err *e) {
  if (quoted || !word[strspn(word, "-0123456789")])
    return add(word, KV_INPUT, at, out, e);
  return kv_fail(
      e, KV_INPUT,
      "%s: must be a whole number of entries or a text like \"20%%\"", at);
}

/* A list of whole numbers and of texts without escapes: all the JSON that a
 * budget needs. Writes into `text`, which begins with a bracket. */
static kv_rc add_array(const char *path, char *text, kv_budget *out,
                       kv_err *e) {
  char label[KV_SHOW + 32], *at = text + strspn(text, blanks), stop = ',';
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && stop == ','; i++) {
    at += 1 + strspn(at + 1, blanks);
    bool quoted = *at == '"', empty = i == 0 && *at == ']';
    char *word = at + quoted;
    char *last = word + strcspn(word, quoted ? "\"\\\n" : ",]\" \t\r\n");
    at = last + (quoted && *last == '"');
    at += strspn(at, blanks);
    stop = *at;
    if ((stop != ',' && stop != ']') || (quoted && *last != '"') ||
        (!quoted && last == word && !empty))
      return not_json(path, text, at, e);
    *last = 0;
    snprintf(label, sizeof label, "%s, layer %d", path, i);
    if (!empty) rc = add_element(word, quoted, label, out, e);
  }
  if (!rc && at[1 + strspn(at + 1, blanks)]) return not_json(path, text, at, e);
  return rc;
}

/* One budget a line. Writes into `text`. */
static kv_rc add_lines(const char *path, char *text, kv_budget *out,
                       kv_err *e) {
  char at[KV_SHOW + 32];
  kv_rc rc = KV_OK;
  for (int line = 1; !rc && text; line++) {
    char *next = strchr(text, '\n');
    if (next) *next++ = 0;
    text[strcspn(text, "#")] = 0;
    text += strspn(text, " \t\r");
    for (size_t n = strlen(text); n && strchr(" \t\r", text[n - 1]);)
      text[--n] = 0;
    snprintf(at, sizeof at, "%s, line %d", path, line);
    if (*text) rc = add(text, KV_INPUT, at, out, e);
    text = next;
  }
  return rc;
}

static kv_rc add_file(const char *path, kv_budget *out, kv_err *e) {
  char *text, show[KV_SHOW];
  size_t n = 0;
  kv_rc rc = slurp(path, &n, &text, e);
  const char *name = kv_show(path, show);
  if (!rc && strlen(text) < n)
    rc = kv_fail(e, KV_INPUT, "%s: byte %zu is zero, so it is not a text file",
                 name, strlen(text) + 1);
  if (!rc)
    rc = text[strspn(text, blanks)] == '[' ? add_array(name, text, out, e)
                                           : add_lines(name, text, out, e);
  free(text);
  if (!rc && out->layers == 0)
    rc = kv_fail(e, KV_INPUT, "%s: has no budget; write one per layer", name);
  return rc;
}

bool kv_budget_of_layers(const char *text) {
  return strncmp(text, KV_LAYERS, strlen(KV_LAYERS)) == 0 ||
         strchr(text, '/') != NULL;
}

void kv_budget_name_layers(int n, const char *const *text, char out[64]) {
  kv_sha256 h;
  char hex[65];
  kv_sha256_init(&h);
  for (int i = 0; i < n; i++) {
    if (i) kv_sha256_add(&h, "/", 1);
    kv_sha256_add(&h, text[i], strlen(text[i]));
  }
  kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, hex);
  snprintf(out, 64, KV_LAYERS "%.8s", hex);
}

/* The budget as typed, without its basis if its form implies it. */
static const char *bare(const kv_budget *b) {
  const char *colon = strchr(b->target, ':');
  return colon && b->basis != KV_BASIS_RATIO ? colon + 1 : b->target;
}

static kv_rc name(kv_budget *b, kv_err *e) {
  size_t n = (size_t)b->layers;
  const char **text = kv_zalloc(n, sizeof *text);
  if (!text) return kv_no_memory(e, "budgets of layers", n * sizeof *text);
  b->basis = KV_BASIS_PROMPT;
  for (int i = 0; i < b->layers; i++) {
    text[i] = bare(&b->layer[i]);
    if (b->layer[i].basis == KV_BASIS_ENTRIES) b->basis = KV_BASIS_ENTRIES;
  }
  kv_budget_name_layers(b->layers, text, b->target);
  free(text);
  return KV_OK;
}

kv_rc kv_budget_parse_layers(const char *text, kv_budget *out, kv_err *e) {
  size_t prefix = strlen(KV_LAYERS);
  bool file = strncmp(text, KV_LAYERS, prefix) == 0;
  memset(out, 0, sizeof *out);
  kv_rc rc = file ? add_file(text + prefix, out, e) : add_typed(text, out, e);
  if (!rc) rc = name(out, e);
  if (rc) kv_budget_free(out);
  return rc;
}

void kv_budget_free(kv_budget *b) {
  free(b->layer);
  b->layer = NULL;
  b->layers = 0;
}

kv_rc kv_budget_layers(const kv_budget *b, int layers, const int *of, int *out,
                       kv_err *e) {
  kv_err why = {0};
  for (int i = 0; i < layers; i++) {
    const kv_budget *one = b->layers ? &b->layer[i] : b;
    kv_rc rc = kv_budget_entries(one, of[i], &out[i], &why);
    if (rc) return kv_fail(e, rc, "layer %d: %s", i, why.text);
  }
  return KV_OK;
}
