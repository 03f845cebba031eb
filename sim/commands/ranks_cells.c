/* SPDX-License-Identifier: Apache-2.0
 *
 * Contract: sim/commands/ranks_cells.h.
 */
#include "sim/commands/ranks_cells.h"

#include "sim/show/row_label.h"
#include "traces/text/text.h"
#include <stdlib.h>
#include <string.h>

kv_rc kv_ranks_cells_check(const kv_job *s, int ranks, kv_err *e) {
  kv_rc rc = KV_OK;
  kv_err why = {0};
  for (int i = 0; ranks && !rc && i < s->options->traces.n; i++) {
    const kv_trace *t = s->batch[i].trace;
    rc = t ? kv_ranks_can(t, ranks, &why) : KV_OK;
    if (rc) rc = kv_fail(e, rc, "--tp: %s: %s", t->name, why.text);
  }
  return rc;
}

kv_rc kv_ranks_cells_open(const kv_batch *b, int ranks, const kv_watch *next,
                          kv_ranks_cells *x, kv_err *e) {
  *x = (kv_ranks_cells){.batch = b, .ranks = ranks, .watch = next};
  size_t n = (size_t)b->cells + 1;
  kv_rc rc = KV_OK;
  if (!ranks) return KV_OK;
  x->decided = kv_zalloc(n, sizeof *x->decided);
  if (!x->decided) return kv_no_memory(e, "ranks", n * sizeof *x->decided);
  for (int i = 0; !rc && i < b->cells; i++) {
    if (!b->cell[i].runs) continue;
    rc = kv_decided_open(&b->cell[i], &x->decided[i], e);
    if (rc) break;
    kv_watch *w = kv_decided_watch(x->decided[i]);
    w->next = x->watch;
    x->watch = w;
  }
  return rc;
}

kv_rc kv_ranks_cells_ask(const kv_ranks_cells *x, const kv_replay_how *how,
                         bool *stopped, kv_err *e) {
  const kv_batch *b = x->batch;
  if (!x->ranks) return KV_OK;
  size_t n = (size_t)b->cells + 1;
  kv_ranks_result *said = kv_zalloc(n, sizeof *said);
  if (!said) return kv_no_memory(e, "ranks", n * sizeof *said);
  kv_replay_how cost = *how;
  cost.backend = &kv_backend_cost;
  kv_rc rc = kv_ranks_ask(b->trace, x->ranks, x->ranks, b->cells, b->each,
                          x->decided, &cost, said, stopped, e);
  for (int i = 0; !rc && !*stopped && i < b->cells; i++)
    b->cell[i].result.ranks = said[i];
  free(said);
  return rc;
}

void kv_ranks_cells_close(kv_ranks_cells *x) {
  for (int i = 0; x->decided && i < x->batch->cells; i++)
    kv_decided_close(x->decided[i]);
  free(x->decided);
  *x = (kv_ranks_cells){0};
}

/* --- for people ----------------------------------------------------------- */

static kv_rc print_row(const kv_result *r, FILE *out, kv_err *e) {
  const kv_ranks_result *x = &r->ranks;
  kv_row_label label = {0};
  char show[KV_SHOW];
  kv_rc rc = kv_row_label_make(r, &label, e);
  if (rc || !x->ranks) {
    kv_row_label_free(&label);
    return rc;
  }
  fprintf(out, "  %-24s  %-24s  %-10s", kv_show(r->trace, show), label.brief,
          r->target);
  if (*x->why)
    fprintf(out, "  not asked: %s\n", x->why);
  else
    fprintf(out, "  %5d of %5d  %7.3f  %7.3f\n", x->unlike, x->lanes,
            x->fullest, x->fullest_told);
  kv_row_label_free(&label);
  return KV_OK;
}

kv_rc kv_ranks_cells_print(const kv_job *s, int ranks, FILE *out, kv_err *e) {
  kv_rc rc = KV_OK;
  fprintf(out,
          "\n%d ranks, each with its share of the KV heads and decisions of "
          "its own;\nbytes of the fullest over the mean, then, and where they "
          "decide as one\n  %-24s  %-24s  %-10s  %14s  %7s  %7s\n",
          ranks, "trace", "method", "asked", "decide other", "alone", "as one");
  for (int i = 0; i < s->options->traces.n; i++)
    for (int c = 0; !rc && c < s->batch[i].cells; c++)
      rc = print_row(&s->batch[i].cell[c].result, out, e);
  return rc;
}
