/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/refusals.h"

#include "sim/cli/show/row_label.h"
#include "sim/cli/show/unequal.h"
#include "traces/option/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct refusals {
  int cells, refused; /* of this process */
  bool missed;        /* a named method got no cell anywhere */
  char text[2048];    /* the line, ending in " .." if methods do not fit; "" if
                         none was refused */
} refusals;

/* The cells of one specification. */
typedef struct tally {
  int cells, refused;
  bool runs;              /* at least one can run, also in another shard */
  const kv_result *first; /* refused */
} tally;

static void count(tally *t, const kv_result *r) {
  t->cells++;
  t->runs = t->runs || r->status != KV_CELL_REFUSED;
  if (r->status != KV_CELL_REFUSED) return;
  if (t->refused++ == 0) t->first = r;
}

/* Counts a trace's cells in the order in which a batch opens them
 * (sim/run/sweep/batch.c). Cells of other shards add only whether one can run,
 * as the cut predicts. */
static void count_trace(kv_job *s, const kv_batch_ask *ask, int at, int spec,
                        tally *t) {
  int each = ask->budgets->n > 0 ? ask->budgets->n : 1, cell = 0, opened = 0;
  const kv_budget *budget;
  for (int i = 0; i < ask->specs->n * each; i++) {
    if (!kv_batch_asks(&ask->specs->spec[i / each], ask->budgets, i % each,
                       &budget))
      continue;
    bool mine = kv_batch_mine(ask, cell), own = i / each == spec;
    if (own && !mine) t->runs |= s->shares.runs[s->shares.first[at] + cell];
    if (own && mine && opened < s->batch[at].cells)
      count(t, &s->batch[at].cell[opened].result);
    opened += mine;
    cell++;
  }
}

static tally tally_of(kv_job *s, int spec) {
  const kv_replay_how how = {0};
  tally t = {0};
  for (int i = 0; s->batch && i < s->options->traces.n; i++) {
    kv_batch_ask ask = kv_job_ask(s, &how, i);
    count_trace(s, &ask, i, spec, &t);
  }
  return t;
}

/* Appends " METHOD (reason);" if it fits. */
static void add_reason(const tally *t, size_t room, char *text) {
  kv_row_label label = {0};
  char one[700];
  size_t used = strlen(text);
  const char *name = t->first->method;
  if (!kv_row_label_make(t->first, &label, NULL)) name = label.brief;
  int n = snprintf(one, sizeof one, "%s %.120s (%.520s)", used ? ";" : "", name,
                   t->first->reason);
  kv_row_label_free(&label);
  bool fits = n > 0 && used + (size_t)n + sizeof "; .." < room;
  if (fits)
    strcat(text, one);
  else if (used < 3 || strcmp(text + used - 3, " .."))
    strcat(text, "; ..");
}

static refusals find(kv_job *s) {
  const kv_specs *specs = &s->options->specs;
  refusals all = {0};
  char reasons[sizeof all.text - 64] = "";
  for (int i = 0; i < specs->n; i++) {
    tally t = tally_of(s, i);
    all.cells += t.cells;
    all.refused += t.refused;
    if (!t.refused) continue;
    if (!t.runs && !specs->spec[i].of_all) all.missed = true;
    add_reason(&t, sizeof reasons, reasons);
  }
  if (all.refused)
    snprintf(all.text, sizeof all.text, "%d of %d cells refused:%s",
             all.refused, all.cells, reasons);
  return all;
}

void kv_refusals_unequal(const kv_job *s) {
  char line[KV_UNEQUAL_LINE] = "";
  int traces = s->options->quiet ? 0 : s->options->traces.n;
  for (int i = 0; i < traces && !*line; i++) {
    const kv_batch *b = &s->batch[i];
    const kv_result **r = kv_zalloc((size_t)b->cells + 1, sizeof *r);
    for (int c = 0; r && c < b->cells; c++) r[c] = &b->cell[c].result;
    if (r && kv_unequal_find(b->cells, r, line)) kv_note(line);
    free(r);
  }
}

/* Did the budget exceed the prompt, or what windows leave of it, while each
 * query head attended to as many entries as in dense? */
static bool needless(const kv_cell *c) {
  const kv_result *r = &c->result;
  return kv_result_ran(r) && r->budget > kv_cell_mean_share(c) &&
         r->totals.cr >= 1;
}

void kv_refusals_needless(const kv_job *s) {
  const kv_result *r = NULL;
  char line[640], budget[16], more[48] = "";
  int n = 0, traces = s->options->quiet ? 0 : s->options->traces.n;
  for (int i = traces - 1; i >= 0; i--)
    for (int c = s->batch[i].cells - 1; c >= 0; c--) {
      if (!needless(&s->batch[i].cell[c])) continue;
      r = &s->batch[i].cell[c].result;
      n++;
    }
  if (!n) return;
  snprintf(budget, sizeof budget, "%d", r->budget);
  if (n > 1)
    snprintf(more, sizeof more, "; also in %d other cell%s", n - 1,
             n > 2 ? "s" : "");
  snprintf(line, sizeof line,
           "%s, %s: budget %s exceeds the prompt of %d tokens, so nothing is "
           "dropped%s",
           kv_result_name(r), r->method, *r->target ? r->target : budget,
           r->prompt_len, more);
  kv_note(line);
}

int kv_refusals_conclude(kv_job *s, int code, bool nothing, const char *what) {
  const refusals r = find(s);
  bool strict = s->options->strict && r.refused, none = nothing && !code;
  char line[sizeof r.text + 128];
  snprintf(line, sizeof line, "%.120s%s%s", none ? what : "",
           none && r.refused ? ": " : "", r.text);
  if (*line) kv_note(line);
  if (code) return code;
  if (none) return strict ? KV_INPUT : KV_USAGE;
  return strict || r.missed ? KV_INPUT : KV_OK;
}
