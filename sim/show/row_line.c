/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of the table for people: contract in sim/show/row_line.h.
 */
#include "sim/show/row_line.h"

#include "ref/lane/method.h"
#include "sim/spec/budget.h"
#include "sim/text/number.h"
#include "traces/text/text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- numbers ------------------------------------------------------------- */

static void share(const kv_stat *s, double x, char out[KV_ROW_CELL]) {
  if (s->count == 0 || !isfinite(x)) {
    strcpy(out, "-");
  } else if (x == 0) {
    strcpy(out, "0");
  } else if (fabs(x) < 0.001) {
    snprintf(out, KV_ROW_CELL, "%.1e", x);
  } else {
    snprintf(out, KV_ROW_CELL, fabs(x) < 100 ? "%.4f" : "%.3g", x);
  }
}

static void mean(const kv_stat *s, char out[KV_ROW_CELL]) {
  share(s, s->mean, out);
}

/* Nats, to three digits: what they rank by is in the other formats. */
static void nats(const kv_stat *s, char out[KV_ROW_CELL]) {
  double x = s->mean;
  if (s->count == 0 || !isfinite(x))
    strcpy(out, "-");
  else if (x == 0)
    strcpy(out, "0");
  else
    snprintf(out, KV_ROW_CELL,
             fabs(x) < 0.0005 ? "%.0e"
             : fabs(x) < 10   ? "%.3f"
                              : "%.3g",
             x);
}

static void bytes(double x, char out[KV_ROW_CELL]) {
  char text[KV_NUMBER];
  if (!isfinite(x)) x = 0;
  snprintf(out, KV_ROW_CELL, "%.15s", kv_number_bytes(x, text));
}

static void asked(const kv_result *r, kv_row_line *l) {
  snprintf(l->cell[KV_ROW_ASKED], KV_ROW_CELL, "%.15s",
           r->target[0] ? r->target : "-");
  if (r->budget >= 0) {
    snprintf(l->cell[KV_ROW_BUDGET], KV_ROW_CELL, "%d", r->budget);
  } else {
    strcpy(l->cell[KV_ROW_BUDGET], "-");
  }
}

static void numbers(const kv_result *r, kv_row_line *l) {
  const kv_totals *t = &r->totals;
  const kv_stat *s = r->stat;
  char hex[65];
  snprintf(l->cell[KV_ROW_KEPT], KV_ROW_CELL, "%.1f", t->kept);
  bytes((double)kv_bytes_total(&t->end), l->cell[KV_ROW_END]);
  bytes(t->mean, l->cell[KV_ROW_MEAN]);
  if (isfinite(t->kr)) {
    snprintf(l->cell[KV_ROW_DENSE], KV_ROW_CELL, "%.1f%%", 100 * t->kr);
  } else {
    strcpy(l->cell[KV_ROW_DENSE], "-");
  }
  bytes(t->read, l->cell[KV_ROW_READ]);
  if (isnan(t->scanned)) {
    strcpy(l->cell[KV_ROW_SCAN], "-");
  } else {
    bytes(t->scanned, l->cell[KV_ROW_SCAN]);
  }
  share(&s[KV_NEEDLE_MASS], kv_needle_share(s), l->cell[KV_ROW_NEEDLE]);
  nats(&s[KV_LSE_ERROR], l->cell[KV_ROW_LSE]);
  nats(&s[KV_KL], l->cell[KV_ROW_KL]);
  mean(&s[KV_OUTPUT_ERROR], l->cell[KV_ROW_ERROR]);
  share(&s[KV_OUTPUT_ERROR], s[KV_OUTPUT_ERROR].p95, l->cell[KV_ROW_P95]);
  mean(&s[KV_PROMPT_ERROR], l->cell[KV_ROW_PROMPT]);
  mean(&s[KV_PROMPT_MASS], l->cell[KV_ROW_PROMPT_MASS]);
  kv_digest_hex(&r->journal, hex);
  snprintf(l->cell[KV_ROW_JOURNAL], KV_ROW_CELL, "%.8s", hex);
}

/* --- words --------------------------------------------------------------- */

/* A row with a list of budgets: shows the list's name as what was asked, and
 * the list below. */
static void listed(const kv_result *r, kv_row_line *l) {
  const char *list = r->spec ? strstr(r->spec, ":budget=") : NULL;
  if (!list || strncmp(r->target, KV_LAYERS, strlen(KV_LAYERS))) return;
  list += strlen(":budget=");
  size_t n = strcspn(list, ":"), room = sizeof l->list - 4;
  snprintf(l->list, sizeof l->list, "%.*s%s", (int)(n < room ? n : room), list,
           n < room ? "" : "...");
}

/* Rows of one trace are under a heading for each way of seeing it. */
static void seen(const kv_result *r, const char *name, char *out, size_t room) {
  kv_plain(name, 4 * sizeof r->trace, out);
  size_t n = strlen(out);
  if (r->observe)
    snprintf(out + n, room - n, ", --observe %s", kv_observe_names[r->observe]);
}

/* Adds a remark if the method declares bytes beside its entries: they are in
 * the totals, but they are declared, not counted. */
static void declared(const kv_result *r, kv_row_line *l) {
  const kv_method *m = kv_method_named(r->method);
  int64_t said = r->totals.end.columns + r->totals.end.side;
  char text[KV_NUMBER];
  if (!m || !m->declares || said == 0) return;
  kv_number_bytes((double)said, text);
  snprintf(l->note, sizeof l->note,
           "declares %s of its bytes at the end (columns, meta): taken on "
           "trust, not measured",
           text);
}

/* Adds a remark if the method reads a file: what it holds of it serves all
 * requests, and is in none of the numbers. */
static void lent(const kv_result *r, kv_row_line *l) {
  size_t n = strlen(l->note);
  char text[KV_NUMBER];
  if (r->totals.asset <= 0) return;
  kv_number_bytes((double)r->totals.asset, text);
  snprintf(l->note + n, sizeof l->note - n,
           "%sis lent %s bytes of a file, once for all requests: they are in "
           "none of the numbers",
           n ? "; " : "", text);
}

/* Adds a remark if a part of what was read came from the host's memory. */
static void fetched(const kv_result *r, kv_row_line *l) {
  size_t n = strlen(l->note);
  int steps = r->n_tokens - r->prompt_len;
  char text[KV_NUMBER];
  if (r->totals.fetched <= 0) return;
  kv_number_bytes((double)r->totals.fetched / steps, text);
  snprintf(l->note + n, sizeof l->note - n,
           "%sfetches %s bytes a step from the host's memory: they are a part "
           "of what is read",
           n ? "; " : "", text);
}

/* Why the cell has no numbers, with the budget that it was asked for. */
static void ended(const kv_result *r, kv_row_line *l) {
  char text[sizeof l->note];
  snprintf(text, sizeof text, "%s at %s: %s", kv_status_names[r->status],
           r->target[0] ? r->target : "no budget", r->reason);
  kv_plain(text, sizeof l->note, l->note);
  l->ended = kv_status_names[r->status];
}

kv_rc kv_row_line_make(const kv_result *r, kv_row_line *l, kv_err *e) {
  memset(l, 0, sizeof *l);
  kv_rc rc = kv_row_label_make(r, &l->label, e);
  if (rc) return rc;
  seen(r, kv_result_name(r), l->trace, sizeof l->trace);
  asked(r, l);
  listed(r, l);
  if (kv_result_ran(r)) {
    numbers(r, l);
    declared(r, l);
    lent(r, l);
    fetched(r, l);
    return kv_row_layouts_take(r, &l->layouts, e);
  }
  ended(r, l);
  for (kv_row_column c = KV_ROW_KEPT; c < KV_ROW_COLUMNS; c++)
    strcpy(l->cell[c], "-");
  return KV_OK;
}

void kv_row_line_free(kv_row_line *l) {
  kv_row_label_free(&l->label);
  kv_row_layouts_free(&l->layouts);
}
