/* SPDX-License-Identifier: Apache-2.0
 *
 * Searching again for the rows of a table: sim/commands/verify_found.h.
 */
#include "sim/commands/verify_found.h"

#include "sim/sweep/batch.h"
#include "traces/option/program.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- one trace ------------------------------------------------------------ */

/* Where the trace of a row is: false, nowhere. */
static bool find_trace(const char *table, const kv_list *folders,
                       const kv_found_row *row, size_t size, char *path) {
  const char *slash = strrchr(table, '/'), *stem = strrchr(row->trace, '/');
  int folder = slash && row->trace[0] != '/' ? (int)(slash - table) + 1 : 0;
  snprintf(path, size, "%.*s%s.safetensors", folder, table, row->trace);
  for (int i = 0; access(path, R_OK) && i < folders->n; i++)
    snprintf(path, size, "%s/%s.safetensors", folders->item[i],
             stem ? stem + 1 : row->trace);
  return !access(path, R_OK);
}

/* All specifications and all budgets of the n rows, each once. */
static kv_rc ask_all(const kv_found_row *row, int n, kv_specs *specs,
                     kv_budgets *budgets, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < n && !rc; i++) {
    bool spec = false, target = false;
    for (int j = 0; j < i; j++) {
      spec = spec || !strcmp(row[j].spec, row[i].spec);
      target = target || !strcmp(row[j].target, row[i].target);
    }
    if (!spec) rc = kv_specs_add(kv_method_at, row[i].spec, specs, e);
    if (!rc && !target) rc = kv_budgets_add(row[i].target, budgets, e);
  }
  return rc == KV_USAGE
             ? kv_fail(e, KV_INPUT, "the table of found budgets: %s", e->text)
             : rc;
}

static bool older(const kv_found_row *row) {
  kv_spec spec = {0};
  bool is = false;
  if (!kv_spec_parse(kv_method_at, row->spec, &spec, NULL))
    is = spec.method->revision != row->revision;
  kv_spec_free(&spec);
  return is;
}

static void say(const char *table, const kv_found_row *row,
                const kv_found_row *now) {
  char found[120] =
      "no search asks for it: of another trace, file or parameter";
  kv_err e = {0};
  if (now && now->bytes < 0)
    snprintf(found, sizeof found, "a search finds %d", (int)now->value);
  else if (now)
    snprintf(found, sizeof found,
             "a search finds none, from %d on (%lld bytes)", (int)now->value,
             (long long)now->bytes);
  kv_fail(&e, KV_DIFFERENT, "%.200s: %.120s, %.200s at %.60s: %d%s, but %s",
          table, row->trace, row->spec, row->target, (int)row->value,
          row->bytes < 0 ? "" : " as the least, which does not fit", found);
  kv_say(&e);
}

static void compare(const char *table, const kv_found_row *row, int n,
                    const kv_found *now, kv_verify_found *out) {
  for (int i = 0; i < n; i++) {
    const kv_found_row *x = &row[i], *y = kv_found_of(now, x->key);
    bool same = y && y->value == x->value && y->bytes == x->bytes &&
                y->dense == x->dense;
    bool old = !y && older(x);
    out->same += same;
    out->older += old;
    if (same || old) continue;
    out->differed++;
    say(table, x, y);
  }
}

static kv_rc search(const char *table, const char *path,
                    const kv_found_row *row, int n, const kv_replay_how *how,
                    kv_verify_found *out, kv_err *e) {
  kv_specs specs = {0};
  kv_budgets budgets = {0};
  kv_found now = {0};
  kv_batch batch = {0};
  kv_rc rc = ask_all(row, n, &specs, &budgets, e);
  if (!rc)
    rc = kv_batch_open(&(kv_batch_ask){.path = path,
                                       .specs = &specs,
                                       .budgets = &budgets,
                                       .how = *how,
                                       .record = &now},
                       &batch, e);
  if (!rc) compare(table, row, n, &now, out);
  kv_batch_close(&batch);
  kv_found_free(&now);
  kv_specs_free(&specs);
  kv_budgets_free(&budgets);
  return rc;
}

/* --- the table ------------------------------------------------------------ */

static void say_lost(const char *table, const kv_found_row *row, int n,
                     kv_verify_found *out) {
  kv_err e = {0};
  kv_fail(&e, KV_INPUT,
          "%.200s: %d row%s not verified: there is no trace %.200s.safetensors "
          "beside it; name its folder with --traces",
          table, n, n == 1 ? " is" : "s are", row->trace);
  kv_say(&e);
  out->lost += n;
}

kv_rc kv_verify_found_all(const char *table, const kv_list *folders,
                          const kv_replay_how *how, kv_verify_found *out,
                          kv_err *e) {
  kv_found all = {0};
  kv_rc rc = kv_found_read(table, &all, e);
  for (int i = 0, n; i < all.n && !rc; i += n) {
    char path[4096];
    for (n = 1; i + n < all.n; n++)
      if (strcmp(all.row[i].trace, all.row[i + n].trace)) break;
    if (find_trace(table, folders, &all.row[i], sizeof path, path))
      rc = search(table, path, &all.row[i], n, how, out, e);
    else
      say_lost(table, &all.row[i], n, out);
  }
  kv_found_free(&all);
  return rc;
}

int kv_verify_found_conclude(const char *table, const kv_verify_found *n) {
  kv_err e = {0};
  printf("%d budgets as a search finds them, %d not, %d of older revisions, %d "
         "without their trace\n",
         n->same, n->differed, n->older, n->lost);
  if (n->differed) return KV_DIFFERENT;
  if (n->lost) return KV_INPUT;
  if (n->same) return KV_OK;
  kv_fail(&e, KV_INPUT,
          "nothing was verified: make %.200s anew, by kvreplay run "
          "--found",
          table);
  return kv_say(&e);
}
