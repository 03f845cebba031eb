/* SPDX-License-Identifier: Apache-2.0
 *
 * Contract: sim/cli/show/key.h. A sink of the walk over a row compares each
 * number's path with the key.
 */
#include "sim/cli/show/key.h"

#include "ref/ground/text.h"
#include "sim/cli/show/rows.h"
#include "traces/option/option.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 4, MOST = 512 };

typedef char path[KV_TUNE_KEY];

/* A walk that looks for one key, or lists all keys. */
typedef struct walk {
  const char *want; /* NULL: list */
  bool found;
  double value;
  int depth;
  const char *open[DEPTH];
  int n;
  path *list; /* [MOST] */
} walk;

static void open_object(void *self, const char *key, bool present) {
  walk *w = self;
  (void)present;
  assert(w->depth < DEPTH && "rows nest a little");
  w->open[w->depth++] = key;
}

static void close_object(void *self) { ((walk *)self)->depth--; }

static void null(void *self, const char *key) {
  (void)self;
  (void)key;
}

static void text(void *self, const char *key, const char *value) {
  (void)value;
  null(self, key);
}

static void real(void *self, const char *key, double value) {
  walk *w = self;
  path at = "";
  size_t n = 0;
  for (int i = 0; i < w->depth && n < sizeof at; i++)
    n += (size_t)snprintf(at + n, sizeof at - n, "%s.", w->open[i]);
  if (n < sizeof at) snprintf(at + n, sizeof at - n, "%s", key);
  if (!w->want) {
    if (w->n < MOST) memcpy(w->list[w->n++], at, sizeof at);
  } else if (!strcmp(at, w->want)) {
    w->found = true;
    w->value = value;
  }
}

static void integer(void *self, const char *key, int64_t value) {
  real(self, key, (double)value);
}

static void go(const kv_result *r, walk *w) {
  kv_row_walk(r, &(kv_row_sink){w, open_object, close_object, null, text,
                                integer, real, text});
}

bool kv_tune_key_value(const kv_result *r, const char *key, double *out) {
  walk w = {.want = key};
  go(r, &w);
  *out = w.value;
  return w.found;
}

/* A row with all numbers, for listing the keys. */
static void fill(kv_result *r) {
  *r = (kv_result){.n_tokens = 1};
  r->totals.end.tier_0 = 1;
  for (int m = 0; m < KV_MEASURES; m++)
    r->stat[m] = (kv_stat){.count = 1, .mean = 1};
}

static bool has(path *list, int n, const char *key) {
  for (int i = 0; i < n; i++)
    if (!strcmp(list[i], key)) return true;
  return false;
}

/* Turns "mean_bytes" and "bytes_mean" into "bytes.mean"; false: another. */
static bool of_bytes(const char *name, path out) {
  static const char word[] = "bytes";
  size_t n = strlen(name), w = sizeof word - 1;
  if (n <= w + 1 || n >= KV_TUNE_KEY) return false;
  if (!strncmp(name, word, w) && name[w] == '_')
    snprintf(out, KV_TUNE_KEY, "%s.%s", word, name + w + 1);
  else if (!strcmp(name + n - w, word) && name[n - w - 1] == '_')
    snprintf(out, KV_TUNE_KEY, "%s.%.*s", word, (int)(n - w - 1), name);
  else
    return false;
  return true;
}

/* The key itself, else its mean, else its total. */
static bool complete(path *list, int n, const char *name, path out) {
  static const char *const more[] = {"", ".mean", ".total"};
  for (int i = 0; i < 3; i++) {
    snprintf(out, KV_TUNE_KEY, "%.*s%s", KV_TUNE_KEY - 8, name, more[i]);
    if (has(list, n, out)) return true;
  }
  return false;
}

/* Suggests a name; measures by their short names. */
static kv_rc unknown(path *list, int n, const char *name, kv_err *e) {
  const char *names[MOST];
  for (int i = 0; i < n; i++) {
    char *mean = strstr(list[i], ".mean");
    if (mean && strncmp(list[i], "bytes.", 6)) *mean = 0;
    names[i] = list[i];
  }
  return kv_no_such("measure", name, n, names,
                    "they are the keys of `kvreplay run -f csv` rows, as "
                    "output_error, bytes.mean or kr",
                    e);
}

kv_rc kv_tune_key_find(const char *name, path out, kv_err *e) {
  kv_result row;
  path other;
  walk w = {.list = kv_zalloc(MOST, sizeof(path))};
  if (!w.list) return kv_no_memory(e, "the names of measures", MOST);
  fill(&row);
  go(&row, &w);
  bool found = complete(w.list, w.n, name, out) ||
               (of_bytes(name, other) && complete(w.list, w.n, other, out));
  kv_rc rc = found ? KV_OK : unknown(w.list, w.n, name, e);
  free(w.list);
  return rc;
}
