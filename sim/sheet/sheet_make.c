/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the sheet: every method is opened at the reference shape for its needs,
 * and opened and replayed on the synthetic trace, all in one replay.
 */
#include "sim/sheet/ranks.h"
#include "sim/sheet/sheet.h"
#include "sim/sheet/sheet_trace.h"

#include "ref/lane/records.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The reference beyond the trace: its prompt and some tokens after it. Sizes of
 * the model are those of Llama-3.1-8B's config.json. */
enum {
  PROMPT = 4096,
  TOKENS = PROMPT + 256,
  LAYERS = 32,
  HEADS = 32,
  KV_HEADS = 8,
  D = 128,
  HIDDEN = 4096,
  INTERMEDIATE = 14336
};
#define BUDGET "20%"
enum { RANKS = 2 }; /* of which the first is asked */

/* What is open while sheets are made. */
typedef struct making {
  kv_sheet_trace on;
  kv_trace like; /* the trace, but as long as the reference and, unless a file
                    was made for the trace's heads, with as many heads */
  kv_layout_list pages;
  kv_budget budget;
  int n;
  kv_cell *cell;           /* [n] on the trace */
  kv_cell **each;          /* [n] of these, those that run */
  kv_decided **decided;    /* [n], NULL where one does not run */
  kv_ranks_result *ranked; /* [n] */
  kv_replay_how how;
} making;

/* --- from needs ----------------------------------------------------------- */

static double prefill_flops(void) {
  double n = PROMPT, h = HIDDEN, q = (double)HEADS * D,
         kv = (double)KV_HEADS * D;
  double linear = 2 * n * (2 * h * q + 2 * h * kv + 3 * h * INTERMEDIATE);
  return LAYERS * (linear + 4 * q * n * (n + 1) / 2);
}

/* Of the logits of the prompt's last rows. */
static double logit_flops(double rows) {
  double pairs = rows * PROMPT - rows * (rows - 1) / 2;
  return LAYERS * 2.0 * HEADS * D * pairs;
}

static kv_sheet_flash flash_of(const kv_sheet *s) {
  bool prompt = s->prompt & KV_LOGITS;
  if (s->decode & KV_LOGITS || s->all_logits) return KV_FLASH_LEFT;
  if (prompt && s->prompt_rows >= PROMPT) return KV_FLASH_LEFT;
  return prompt ? KV_FLASH_AGAIN : KV_FLASH_STAYS;
}

static void take_needs(const kv_method *m, const kv_needs *need, kv_sheet *s) {
  int rows = need->prompt_rows < PROMPT ? need->prompt_rows : PROMPT;
  if (m->observe && need->want) {
    s->prompt_rows = rows;
    s->prompt = rows ? need->want : 0;
    s->decode = need->decode_rows ? need->want : 0;
  }
  if (m->view) s->decode |= KV_Q; /* the view's own (kv_query) */
  s->flops = s->prompt & KV_LOGITS
                 ? 100 * logit_flops(s->prompt_rows) / prefill_flops()
                 : 0;
  s->all_logits = need->view_logits;
  s->future = need->future;
  s->flash = flash_of(s);
  for (int i = 0; i < need->columns; i++)
    s->columns += kv_column_size(need->column[i]);
  for (int i = 0; i < need->metas; i++) {
    const kv_meta *x = &need->meta[i];
    if (x->per == KV_PER_LANE)
      s->lane += (int64_t)x->bytes;
    else
      s->side += (double)x->bytes / (x->per == KV_PER_PAGE ? x->page : 1);
  }
  s->reindex = need->reindex;
  s->message = need->message;
}

/* --- from the replay ------------------------------------------------------ */

static double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : NAN;
}

static unsigned across_of(const kv_cell *c, const kv_sheet *s) {
  const kv_method *m = c->spec.method;
  bool down = c->plan.needs.across == KV_DOWN;
  bool recodes = s->kinds >> KV_RECODE & 1;
  unsigned across = down ? KV_SHEET_LAYERS : 0;
  if (!down && s->ranked && !s->alike) across |= KV_SHEET_HEADS;
  if (m->compress_layer && !m->compress_lane && recodes && !s->ranked)
    across |= KV_SHEET_CODES;
  return across;
}

/* Most bytes in prefill, if the recorded layers were 32: each block's sum over
 * layers grows with them, while what one layer alone holds before it is
 * compressed does not. */
static double peak_of(const kv_cell *c) {
  double share = (double)c->trace->n_layers / LAYERS, peak = 0;
  for (int b = 0; b < c->blocks; b++) {
    kv_cost_now now = kv_cost_until(c->cost, b);
    double held = (double)kv_bytes_total(&now.held);
    double x = held + share * ((double)now.peak - held);
    if (x > peak) peak = x;
  }
  return peak;
}

static void take_replay(const kv_cell *c, const kv_decided *d,
                        const kv_ranks_result *r, kv_sheet *s) {
  const kv_totals *t = &c->result.totals;
  const kv_layout_result *pages = c->result.layout;
  kv_decided_sum sum = kv_decided_sums(d);
  int p = c->shape.prompt_len, last = c->shape.n_tokens;
  double steps = last - p;
  s->kinds = sum.kinds;
  s->dropped = sum.dropped;
  s->scanned =
      percent(t->scanned, (double)kv_cell_dense(c, p + 1, last, true) / steps);
  s->ragged = t->kept_max / t->kept;
  s->freed = percent((double)pages->freed, (double)pages->vacated);
  s->peak = percent(peak_of(c), (double)kv_cell_dense(c, p, p, false));
  s->ranked = !*r->why;
  s->alike = s->ranked && !r->unlike;
  s->across = across_of(c, s);
}

/* --- all together --------------------------------------------------------- */

static void say_why(kv_sheet *s, const char *why) {
  snprintf(s->why, sizeof s->why, "%.255s", why);
}

/* Opens one specification on a trace; refused: s->why. */
static kv_rc open_on(const making *m, const kv_trace *t, int prompt,
                     const kv_spec *spec, kv_cell *c, kv_sheet *s, kv_err *e) {
  bool wants = kv_spec_wants_budget(spec);
  kv_asked_cell asked = {
      .spec = spec, .budget = wants ? &m->budget : NULL, .entries = -1};
  kv_rc rc = KV_OK;
  if (wants) rc = kv_budget_entries(&m->budget, prompt, &asked.entries, e);
  if (!rc) rc = kv_cell_open(t, prompt, m->how.kernels, &asked, c, e);
  if (!rc && !c->runs) say_why(s, c->result.reason);
  return rc;
}

static kv_rc open_one(making *m, int i, kv_spec *spec, kv_sheet *s, kv_err *e) {
  kv_cell far = {0};
  kv_err why = {0};
  s->method = spec->method->name;
  kv_rc rc = kv_sheet_trace_file(&m->on, spec, &s->made_file, &why);
  if (rc == KV_REFUSED) say_why(s, why.text);
  if (rc) return rc == KV_REFUSED ? KV_OK : kv_fail(e, rc, "%s", why.text);
  const kv_shape *own = &m->on.trace->shape;
  m->like.shape.n_heads = s->made_file ? own->n_heads : HEADS;
  m->like.shape.n_kv_heads = s->made_file ? own->n_kv_heads : KV_HEADS;
  rc = open_on(m, &m->like, PROMPT, spec, &far, s, e);
  if (!rc && far.runs) take_needs(spec->method, &far.plan.needs, s);
  kv_cell_close(&far);
  kv_cell *c = &m->cell[i];
  if (rc || *s->why) return rc;
  rc = open_on(m, m->on.trace, m->on.trace->shape.prompt_len, spec, c, s, e);
  if (!rc) rc = kv_cell_lay_out(c, &m->pages, e);
  if (!rc && !c->runs) say_why(s, c->result.reason);
  if (rc || *s->why) return rc;
  rc = kv_decided_open(c, &m->decided[i], e);
  if (!rc) {
    kv_decided_watch(m->decided[i])->next = m->how.watch;
    m->how.watch = kv_decided_watch(m->decided[i]);
  }
  return rc;
}

static kv_rc open_all(making *m, const kv_specs *specs, kv_sheets *out,
                      kv_err *e) {
  size_t n = (size_t)specs->n + 1;
  m->cell = kv_zalloc(n, sizeof *m->cell);
  m->each = kv_zalloc(n, sizeof *m->each);
  m->decided = kv_zalloc(n, sizeof *m->decided);
  m->ranked = kv_zalloc(n, sizeof *m->ranked);
  out->of = kv_zalloc(n, sizeof *out->of);
  if (!m->cell || !m->each || !m->decided || !m->ranked || !out->of)
    return kv_no_memory(e, "a sheet", n * sizeof *m->cell);
  kv_rc rc = kv_sheet_trace_open(m->how.kernels, &m->on, e);
  if (!rc) rc = kv_budget_parse(BUDGET, &m->budget, e);
  if (!rc) rc = kv_layouts_parse(KV_SHEET_PAGES, &m->pages, e);
  if (rc) return rc;
  m->like = *m->on.trace;
  m->like.rope.positions = NULL; /* they are its tokens' numbers */
  m->like.tokens = NULL;
  m->like.shape.n_tokens = TOKENS;
  m->like.shape.prompt_len = PROMPT;
  out->n = m->n = specs->n;
  for (int i = 0; !rc && i < m->n; i++) {
    kv_spec own = {0};
    rc = kv_spec_copy(&specs->spec[i], &own, e);
    if (!rc) rc = open_one(m, i, &own, &out->of[i], e);
    kv_spec_free(&own);
  }
  return rc;
}

static kv_rc replay(making *m, kv_sheets *out, bool *stopped, kv_err *e) {
  kv_replay_how how = m->how;
  int runs = 0;
  for (int i = 0; i < m->n; i++)
    if (m->decided[i]) m->each[runs++] = &m->cell[i];
  kv_rc rc = KV_OK;
  if (runs) rc = kv_replay(m->on.trace, m->each, runs, &how, stopped, e);
  for (int i = 0; i < m->n; i++) m->each[i] = &m->cell[i];
  if (!rc && !*stopped)
    rc = kv_ranks_ask(m->on.trace, RANKS, 1, m->n, m->each, m->decided, &how,
                      m->ranked, stopped, e);
  for (int i = 0; !rc && !*stopped && i < m->n; i++) {
    const kv_cell *c = &m->cell[i];
    if (m->decided[i] && !kv_result_ran(&c->result))
      say_why(&out->of[i], c->result.reason);
    else if (m->decided[i])
      take_replay(c, m->decided[i], &m->ranked[i], &out->of[i]);
  }
  return rc;
}

static void close_all(making *m) {
  for (int i = 0; i < m->n; i++) {
    kv_decided_close(m->decided[i]);
    kv_cell_close(&m->cell[i]);
  }
  free(m->cell);
  free(m->each);
  free(m->decided);
  free(m->ranked);
  kv_layout_list_free(&m->pages);
  kv_budget_free(&m->budget);
  kv_sheet_trace_close(&m->on);
}

kv_rc kv_sheet_make(const kv_specs *specs, const kv_kernels *kernels,
                    int threads, bool (*stop)(void), kv_sheets *out,
                    bool *stopped, kv_err *e) {
  making m = {.how = {.backend = &kv_backend_cost,
                      .kernels = kernels,
                      .threads = threads,
                      .stop = stop}};
  *out = (kv_sheets){0};
  *stopped = false;
  kv_rc rc = open_all(&m, specs, out, e);
  if (!rc) rc = replay(&m, out, stopped, e);
  close_all(&m);
  if (*stopped) kv_sheet_free(out);
  return rc;
}

void kv_sheet_free(kv_sheets *s) {
  free(s->of);
  *s = (kv_sheets){0};
}
