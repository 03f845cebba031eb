/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/beside_cells.h"

#include "ref/ground/number.h"
#include "ref/ground/text.h"
#include "sim/cli/sheet/beside.h"
#include "sim/cli/show/row_label.h"
#include <stdlib.h>
#include <string.h>

kv_rc kv_beside_cells_check(const kv_job *s, const kv_beside_asked *asked,
                            kv_err *e) {
  kv_rc rc = KV_OK;
  kv_err why = {0};
  for (int i = 0; asked->ranks && !rc && i < s->options->traces.n; i++) {
    const kv_trace *t = s->batch[i].trace;
    rc = t ? kv_ranks_can(t, asked->ranks, &why) : KV_OK;
    if (rc)
      rc = kv_fail(e, rc, "--tp: %s: %s",
                   kv_result_name(&s->batch[i].cell->result), why.text);
  }
  return rc;
}

kv_rc kv_beside_cells_open(const kv_batch *b, const kv_beside_asked *asked,
                           const kv_watch *next, kv_beside_cells *x,
                           kv_err *e) {
  *x = (kv_beside_cells){.batch = b, .asked = *asked, .watch = next};
  size_t n = (size_t)b->cells + 1;
  kv_rc rc = KV_OK;
  if (asked->caches.n) {
    rc = kv_device_caches_open(b, &x->asked.caches, false, &x->caches, e);
    if (!rc) x->watch = kv_device_caches_watch(x->caches, x->watch);
  }
  if (rc || (!asked->ranks && !asked->chunk)) return rc;
  x->decided = kv_zalloc(n, sizeof *x->decided);
  if (!x->decided) return kv_no_memory(e, "decisions", n * sizeof *x->decided);
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

static kv_rc ask_ranks(const kv_beside_cells *x, const kv_replay_how *how,
                       bool *stopped, kv_err *e) {
  const kv_batch *b = x->batch;
  size_t n = (size_t)b->cells + 1;
  kv_ranks_result *said = kv_zalloc(n, sizeof *said);
  if (!said) return kv_no_memory(e, "ranks", n * sizeof *said);
  kv_rc rc = kv_ranks_ask(b->trace, x->asked.ranks, x->asked.ranks, b->cells,
                          b->each, x->decided, how, said, stopped, e);
  for (int i = 0; !rc && !*stopped && i < b->cells; i++)
    b->cell[i].result.ranks = said[i];
  free(said);
  return rc;
}

static kv_rc ask_chunks(const kv_beside_cells *x, const kv_replay_how *how,
                        bool *stopped, kv_err *e) {
  const kv_batch *b = x->batch;
  size_t n = (size_t)b->cells + 1;
  kv_chunks_result *said = kv_zalloc(n, sizeof *said);
  if (!said) return kv_no_memory(e, "pieces", n * sizeof *said);
  kv_rc rc = kv_chunks_ask(b->trace, x->asked.chunk, b->cells, b->each,
                           x->decided, how, said, stopped, e);
  for (int i = 0; !rc && !*stopped && i < b->cells; i++)
    b->cell[i].result.chunks = said[i];
  free(said);
  return rc;
}

kv_rc kv_beside_cells_ask(const kv_beside_cells *x, const kv_replay_how *how,
                          bool *stopped, kv_err *e) {
  kv_replay_how cost = *how;
  cost.backend = &kv_backend_cost;
  kv_rc rc = x->caches ? kv_device_caches_take(x->caches, e) : KV_OK;
  if (!rc && x->asked.ranks) rc = ask_ranks(x, &cost, stopped, e);
  if (!rc && !*stopped && x->asked.chunk) rc = ask_chunks(x, &cost, stopped, e);
  return rc;
}

kv_rc kv_beside_cells_name(const kv_beside_asked *asked, kv_result *r,
                           kv_err *e) {
  const kv_cache_list *caches = &asked->caches;
  if (!r->ranks.ranks)
    r->ranks = (kv_ranks_result){.ranks = asked->ranks,
                                 .why = "the method did not run"};
  if (!r->chunks.chunk)
    r->chunks = (kv_chunks_result){.chunk = asked->chunk,
                                   .why = "the method did not run"};
  if (r->n_device_caches || !caches->n) return KV_OK;
  r->device_cache = kv_zalloc((size_t)caches->n, sizeof *r->device_cache);
  if (!r->device_cache) return kv_no_memory(e, "caches", (size_t)caches->n);
  r->n_device_caches = caches->n;
  for (int i = 0; i < caches->n; i++)
    strcpy(r->device_cache[i].name, caches->of[i].name);
  return KV_OK;
}

void kv_beside_cells_close(kv_beside_cells *x) {
  for (int i = 0; x->decided && i < x->batch->cells; i++)
    kv_decided_close(x->decided[i]);
  free(x->decided);
  kv_device_caches_close(x->caches);
  *x = (kv_beside_cells){0};
}

/* --- for people ----------------------------------------------------------- */

typedef void print_answer(const kv_result *r, FILE *out);

static void print_ranks(const kv_result *r, FILE *out) {
  const kv_ranks_result *x = &r->ranks;
  if (*x->why)
    fprintf(out, "  no answer: %s", x->why);
  else
    fprintf(out, "  %5d of %5d  %7.3f  %7.3f", x->unlike, x->lanes, x->fullest,
            x->fullest_told);
}

static void print_chunks(const kv_result *r, FILE *out) {
  const kv_chunks_result *x = &r->chunks;
  if (*x->why)
    fprintf(out, "  no answer: %s", x->why);
  else
    fprintf(out, "  %5d of %5d  %6.1f%%  %6.1f%%  %6.1f%%", x->unlike, x->lanes,
            x->shared, x->whole_peak, x->peak);
}

static void print_caches(const kv_result *r, FILE *out) {
  int steps = r->n_tokens - r->prompt_len;
  if (!r->n_device_caches || !r->device_cache->there) {
    fputs("  nothing is in host memory", out);
    return;
  }
  for (int i = 0; i < r->n_device_caches; i++) {
    const kv_device_cache *c = &r->device_cache[i];
    char hits[KV_NUMBER] = "-", mean[KV_NUMBER], peak[KV_NUMBER],
         held[KV_NUMBER];
    if (c->looked)
      snprintf(hits, sizeof hits, "%.1f%%",
               100 * (double)c->hits / (double)c->looked);
    if (i) fprintf(out, "\n  %-24s  %-24s  %-10s", "", "", "");
    fprintf(out, "  %-12s  %7s  %8s  %8s  %8s", c->name, hits,
            kv_number_bytes(steps ? (double)c->fetched / steps : 0, mean),
            kv_number_bytes((double)c->fetched_peak, peak),
            kv_number_bytes((double)c->held_peak, held));
  }
}

static kv_rc print_row(const kv_result *r, print_answer *print, FILE *out,
                       kv_err *e) {
  kv_row_label label = {0};
  char show[KV_SHOW];
  kv_rc rc = kv_row_label_make(r, &label, e);
  if (!rc) {
    fprintf(out, "  %-24s  %-24s  %-10s", kv_show(kv_result_name(r), show),
            label.brief, r->target);
    print(r, out);
    putc('\n', out);
  }
  kv_row_label_free(&label);
  return rc;
}

static kv_rc print_rows(const kv_job *s, print_answer *print, FILE *out,
                        kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < s->options->traces.n; i++)
    for (int c = 0; !rc && c < s->batch[i].cells; c++)
      if (s->batch[i].trace)
        rc = print_row(&s->batch[i].cell[c].result, print, out, e);
  return rc;
}

static void begin_ranks(int ranks, FILE *out) {
  fprintf(out,
          "\n%d ranks, each with its share of the KV heads and its own "
          "decisions;\nbytes of the fullest rank over the mean, alone and "
          "deciding as one\n  %-24s  %-24s  %-10s  %14s  %7s  %7s\n",
          ranks, "trace", "method", "asked", "differ", "alone", "as one");
}

static void begin_chunks(int chunk, FILE *out) {
  fprintf(out,
          "\nprompts in pieces of %d tokens, compressed after each: lanes that "
          "differ from\ncompressing once, tokens in both when decoding begins, "
          "most bytes held\n  %-24s  %-24s  %-10s  %14s  %7s  %7s  %7s\n",
          chunk, "trace", "method", "asked", "differ", "both", "whole",
          "pieces");
}

static void begin_caches(FILE *out) {
  fprintf(out,
          "\ncaches on the device, of N entries a lane, for entries in host "
          "memory:\nentries that decode steps look up and find there; bytes a "
          "step of the others, on\naverage and at most; the most bytes that "
          "caches hold\n  %-24s  %-24s  %-10s  %-12s  %7s  %8s  %8s  %8s\n",
          "trace", "method", "asked", "cache", "found", "fetched", "at most",
          "held");
}

kv_rc kv_beside_cells_print(const kv_job *s, const kv_beside_asked *asked,
                            FILE *out, kv_err *e) {
  kv_rc rc = KV_OK;
  if (asked->ranks) begin_ranks(asked->ranks, out);
  if (asked->ranks) rc = print_rows(s, print_ranks, out, e);
  if (asked->chunk) begin_chunks(asked->chunk, out);
  if (asked->chunk && !rc) rc = print_rows(s, print_chunks, out, e);
  if (asked->caches.n) begin_caches(out);
  if (asked->caches.n && !rc) rc = print_rows(s, print_caches, out, e);
  return rc;
}
