/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of a row, in order: sim/cli/show/rows.h. bytes.end is at t = T
 * after compression; sums and means run from the prompt's end to T.
 */
#include "sim/cli/show/rows.h"

#include <math.h>
#include <string.h>

/* Of scalars without a group, this one and later ones come after the bytes. */
static const char LATER[] = "verbs";

static void text(const kv_row_sink *to, const char *key, const char *value) {
  if (value && *value) {
    to->text(to->self, key, value);
  } else {
    to->null(to->self, key);
  }
}

static void integer(const kv_row_sink *to, const char *key, bool there,
                    int64_t value) {
  if (there) {
    to->integer(to->self, key, value);
  } else {
    to->null(to->self, key);
  }
}

static void real(const kv_row_sink *to, const char *key, bool there,
                 double value) {
  if (there && isfinite(value)) {
    to->real(to->self, key, value);
  } else {
    to->null(to->self, key);
  }
}

static void digest(const kv_row_sink *to, const char *key, bool there,
                   const kv_digest *d) {
  char hex[65];
  if (there) kv_digest_hex(d, hex);
  text(to, key, there ? hex : NULL);
}

static void cell(const kv_result *r, const kv_row_sink *to) {
  integer(to, "schema", true, KV_ROW_SCHEMA);
  text(to, "trace", r->trace);
  digest(to, "identity", r->has_identity, &r->identity);
  integer(to, "prompt_len", r->n_tokens > 0, r->prompt_len);
  text(to, "observe", kv_observe_names[r->observe]);
  integer(to, "n_tokens", r->n_tokens > 0, r->n_tokens);
  text(to, "method", r->method);
  integer(to, "revision", true, r->revision);
  text(to, "code", r->code);
  if (r->params) {
    to->json(to->self, "params", r->params);
  } else {
    to->null(to->self, "params");
  }
  text(to, "spec", r->spec);
  text(to, "status", kv_status_names[r->status]);
  text(to, "reason", r->reason);
  text(to, "backend", r->backend);
  integer(to, "arithmetic", true, r->arithmetic);
}

/* Scalars of a group, the first part of their names ("bytes."), or none, "". */
static void scalars(const kv_result *r, const char *group, const char *from,
                    const kv_row_sink *to) {
  size_t n = strlen(group);
  bool ran = kv_result_ran(r), on = !from;
  for (int i = 0; i < kv_n_scalars; i++) {
    const kv_scalar *s = &kv_scalars[i];
    on = on || !strcmp(s->name, from);
    if (!on || strncmp(s->name, group, n) || strchr(s->name + n, '.')) continue;
    if (!from && !strcmp(s->name, LATER)) break;
    if (s->type == KV_SCALAR_REAL)
      real(to, s->name + n, ran, kv_scalar_get(&r->totals, s));
    else
      integer(to, s->name + n, ran && kv_scalar_bits(&r->totals, s) >= 0,
              kv_scalar_bits(&r->totals, s));
  }
}

static void budget(const kv_result *r, const kv_row_sink *to) {
  integer(to, "budget", r->budget >= 0, r->budget);
  text(to, "basis", kv_basis_names[r->basis]);
  text(to, "target", r->target);
  real(to, "achieved", kv_result_ran(r), r->achieved);
  scalars(r, "", NULL, to);
}

static void bytes(const kv_result *r, const kv_row_sink *to) {
  bool ran = kv_result_ran(r);
  const kv_bytes *end = &r->totals.end;
  to->open(to->self, "bytes", ran);
  to->open(to->self, "end", ran);
  for (int i = 0; i < KV_N_BYTE_KINDS; i++)
    integer(to, kv_byte_kind_at(i)->name, ran && kv_bytes_has(end, i),
            kv_bytes_get(end, i));
  integer(to, "total", ran, kv_bytes_total(end));
  scalars(r, "bytes.end.", NULL, to);
  to->close(to->self);
  scalars(r, "bytes.", NULL, to);
  to->open(to->self, "codes_only", ran);
  scalars(r, "bytes.codes_only.", NULL, to);
  to->close(to->self);
  to->close(to->self);
}

static void regular(const kv_layout_regular_result *g, bool ran,
                    const kv_row_sink *to) {
  ran = ran && g->there;
  integer(to, "lanes", ran, g->lanes);
  integer(to, "loads", ran, g->loads);
  integer(to, "rewrites", ran, g->rewrites);
  integer(to, "rewritten", ran && g->rewritten >= 0, g->rewritten);
  integer(to, "moves", ran, g->moves);
  integer(to, "moved_bytes", ran, g->moved);
  integer(to, "mask_end", ran, g->mask_end);
  integer(to, "mti", ran, g->mti);
  integer(to, "kept_steps", ran, g->kept);
  integer(to, "fullest_steps", ran, g->fullest);
  integer(to, "break_even", ran && g->break_even >= 0, g->break_even);
}

static void layout(const kv_result *r, const kv_layout_result *l,
                   const kv_row_sink *to) {
  bool ran = kv_result_ran(r);
  to->open(to->self, l->name, ran);
  integer(to, "pages_end", ran, l->pages_end);
  integer(to, "pages_peak", ran, l->pages_peak);
  real(to, "pages_mean", ran, l->pages_mean);
  integer(to, "end", ran, l->end);
  integer(to, "peak", ran, l->peak);
  real(to, "mean", ran, l->mean);
  integer(to, "slack_end", ran, l->slack_end);
  integer(to, "slack_peak", ran, l->slack_peak);
  real(to, "slack_mean", ran, l->slack_mean);
  integer(to, "vacated", ran, l->vacated);
  integer(to, "freed", ran, l->freed);
  integer(to, "map_end", ran && l->map_end >= 0, l->map_end);
  integer(to, "map_peak", ran && l->map_peak >= 0, l->map_peak);
  ran = ran && l->tables.there;
  integer(to, "unused_end", ran, l->tables.unused_end);
  integer(to, "unused_peak", ran, l->tables.unused_peak);
  integer(to, "moved", ran, l->tables.moved);
  integer(to, "table_entries", ran, l->tables.entries);
  integer(to, "list_operations", ran, l->tables.operations);
  regular(&l->regular, kv_result_ran(r), to);
  to->close(to->self);
}

/* Present only if layouts were requested, then in every row. */
static void layouts(const kv_result *r, const kv_row_sink *to) {
  if (!r->n_layouts) return;
  to->open(to->self, "layout", true);
  for (int i = 0; i < r->n_layouts; i++) layout(r, &r->layout[i], to);
  to->close(to->self);
}

static void pool(const kv_pool_result *p, bool ran, const kv_row_sink *to) {
  to->open(to->self, "pool", ran);
  text(to, "layout", ran ? p->layout : NULL);
  integer(to, "bytes", ran, p->bytes);
  integer(to, "page", ran, p->page);
  integer(to, "pages", ran, p->pages);
  integer(to, "every", ran, p->every);
  integer(to, "requests", ran, p->requests);
  integer(to, "steps", ran, p->steps);
  integer(to, "peak", ran, p->peak);
  integer(to, "held", ran, p->held);
  integer(to, "unused", ran, p->unused);
  integer(to, "unused_peak", ran, p->unused_peak);
  integer(to, "moved", ran, p->moved);
  integer(to, "table_entries", ran, p->entries);
  integer(to, "list_operations", ran, p->operations);
  text(to, "arrive", ran ? p->arrive : NULL);
  integer(to, "wait", ran, p->wait);
  integer(to, "map_peak", ran, p->map_peak);
  integer(to, "running", ran, p->running);
  integer(to, "running_peak", ran, p->running_peak);
  integer(to, "waiting", ran, p->waiting);
  integer(to, "waiting_peak", ran, p->waiting_peak);
  to->close(to->self);
}

/* Present only if requests shared a pool, then in every row. */
static void together(const kv_result *r, const kv_row_sink *to) {
  const kv_together_result *t = &r->together;
  bool ran = kv_result_ran(r) && t->pool.page > 0; /* 0: they cannot share */
  bool refused = ran && t->refused >= 0;
  if (!t->there) return;
  to->open(to->self, "together", ran);
  integer(to, "place", ran, t->place);
  integer(to, "arrives", ran, t->arrives);
  integer(to, "ends", ran, t->ends);
  integer(to, "pages_peak", ran, t->pages_peak);
  integer(to, "refused", refused, t->refused);
  integer(to, "holds", refused, t->holds);
  integer(to, "wanted", refused, t->wanted);
  integer(to, "spare", refused, t->spare);
  integer(to, "blocks", ran, t->blocks);
  integer(to, "admitted", ran && t->admitted >= 0, t->admitted);
  integer(to, "first", ran && t->first >= 0, t->first);
  integer(to, "waited", ran, t->waited);
  integer(to, "put_back", ran, t->put_back);
  pool(&t->pool, ran, to);
  to->close(to->self);
}

/* Present only if ranks were requested, then in every row. */
static void ranks(const kv_result *r, const kv_row_sink *to) {
  const kv_ranks_result *x = &r->ranks;
  bool ran = !*x->why;
  if (!x->ranks) return;
  to->open(to->self, "tp", true);
  to->integer(to->self, "ranks", x->ranks);
  integer(to, "lanes", ran, x->lanes);
  integer(to, "decide_other", ran, x->unlike);
  real(to, "fullest", ran, x->fullest);
  real(to, "fullest_told", ran, x->fullest_told);
  text(to, "not_asked", x->why);
  to->close(to->self);
}

/* Present only if pieces were requested, then in every row. */
static void chunks(const kv_result *r, const kv_row_sink *to) {
  const kv_chunks_result *x = &r->chunks;
  bool ran = !*x->why;
  if (!x->chunk) return;
  to->open(to->self, "chunked", true);
  to->integer(to->self, "chunk", x->chunk);
  integer(to, "lanes", ran, x->lanes);
  integer(to, "decide_other", ran, x->unlike);
  real(to, "shared", ran, x->shared);
  real(to, "whole_peak", ran, x->whole_peak);
  real(to, "peak", ran, x->peak);
  text(to, "not_asked", x->why);
  to->close(to->self);
}

/* Present only if caches were requested, then in every row. */
static void caches(const kv_result *r, const kv_row_sink *to) {
  if (!r->n_device_caches) return;
  to->open(to->self, "cache", true);
  for (int i = 0; i < r->n_device_caches; i++) {
    const kv_device_cache *c = &r->device_cache[i];
    to->open(to->self, c->name, c->there);
    integer(to, "looked", c->there, c->looked);
    integer(to, "hits", c->there, c->hits);
    integer(to, "fetched", c->there, c->fetched);
    integer(to, "fetched_peak", c->there, c->fetched_peak);
    integer(to, "held_peak", c->there, c->held_peak);
    to->close(to->self);
  }
  to->close(to->self);
}

static void measure(const kv_result *r, int m, const kv_row_sink *to) {
  const kv_stat *s = &r->stat[m];
  bool there = kv_result_ran(r) && s->count > 0;
  to->open(to->self, kv_measure_table[m].name, there);
  real(to, "mean", there, s->mean);
  real(to, "p50", there, s->p50);
  real(to, "p95", there, s->p95);
  real(to, "p99", there, s->p99);
  real(to, "max", there, s->max);
  integer(to, "count", there, s->count);
  to->close(to->self);
}

void kv_row_walk(const kv_result *r, const kv_row_sink *to) {
  bool ran = kv_result_ran(r);
  cell(r, to);
  digest(to, "journal", ran, &r->journal);
  digest(to, "state", ran, &r->state);
  digest(to, "output", ran, &r->output);
  budget(r, to);
  bytes(r, to);
  layouts(r, to);
  together(r, to);
  ranks(r, to);
  chunks(r, to);
  caches(r, to);
  scalars(r, "", LATER, to);
  for (int m = 0; m < KV_MEASURES; m++) measure(r, m, to);
  real(to, "needle_share", ran, kv_needle_share(r->stat));
  real(to, "lse_drift", ran, r->drift);
}
