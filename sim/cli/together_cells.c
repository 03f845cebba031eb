/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/together_cells.h"

#include "ref/ground/number.h"
#include "ref/ground/text.h"
#include "sim/cli/show/row_label.h"
#include "traces/trace/trace.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int requests(const kv_job *s) { return s->options->traces.n; }

/* All batches have the same number of cells, even without an open trace. */
static int cells(const kv_job *s) { return s->batch[0].cells; }

static const kv_result *row(const kv_job *s, int request, int cell) {
  return &s->batch[request].cell[cell].result;
}

/* --- options -------------------------------------------------------------- */

/* "64MiB", "512KiB", "1GiB" or a number of bytes; 0: none of these. */
static int64_t bytes_of(const char *text) {
  static const char *const unit[] = {"", "KiB", "MiB", "GiB"};
  size_t digits = strspn(text, "0123456789");
  int64_t n = digits && digits < 10 ? strtoll(text, NULL, 10) : 0;
  for (int i = 0; i < 4; i++)
    if (!strcmp(text + digits, unit[i])) return n << 10 * i;
  return 0;
}

/* The layout whose memory the requests share: unified if requested or if no
 * layout is, else slots or pages. */
static kv_rc pick_layout(kv_layout_list *layouts, bool *bytes, kv_err *e) {
  kv_layout_asked *own = NULL;
  for (int i = 0; i < layouts->n; i++) {
    kv_layout_asked *a = &layouts->item[i];
    bool unified = a->layout == &kv_layout_unified;
    if (a->layout->task) continue;
    if (own && unified == (own->layout == &kv_layout_unified))
      return kv_fail(e, KV_USAGE,
                     "--together has one pool; give --layout %s or %s",
                     own->name, a->name);
    if (!own || unified) own = a;
  }
  kv_rc rc = own ? KV_OK : kv_layouts_parse("unified", layouts, e);
  if (rc) return rc;
  if (!own) own = &layouts->item[layouts->n - 1];
  own->record = true;
  *bytes = own->layout != &kv_layout_unified;
  return KV_OK;
}

kv_rc kv_together_read(kv_together_asked *o, const char *shard,
                       kv_layout_list *layouts, kv_err *e) {
  const char *one = o->pool_text     ? "pool"
                    : o->arrive_text ? "arrive"
                    : o->wait        ? "wait"
                    : o->admit       ? "admit"
                    : o->pace        ? "pace"
                                     : NULL;
  if (!o->asked && one)
    return kv_fail(e, KV_USAGE,
                   "--%s needs --together, whose requests share a pool", one);
  if (!o->asked) return KV_OK;
  if (shard)
    return kv_fail(e, KV_USAGE,
                   "--together needs all requests in one process; leave out %s",
                   shard);
  o->how.pool = o->pool_text ? bytes_of(o->pool_text) : 0;
  if (!o->how.pool)
    return kv_fail(
        e, KV_USAGE,
        "--together needs the pool's size, as in --pool 64MiB%s%.60s",
        o->pool_text ? "; not " : "", o->pool_text ? o->pool_text : "");
  o->how.wait = o->admit  ? (kv_pool_wait)o->admit
                : o->wait ? KV_POOL_WAIT
                          : KV_POOL_LEAVE;
  kv_rc rc = pick_layout(layouts, &o->how.bytes, e);
  if (!rc)
    rc = kv_arrivals_read(o->arrive_text, o->pace ? o->pace : 1, &o->how.arrive,
                          e);
  if (rc || !o->pace || o->how.arrive.n) return rc;
  return kv_fail(
      e, KV_USAGE,
      "--pace scales the timestamps of a file; name one with --arrive");
}

void kv_together_asked_free(kv_together_asked *o) {
  kv_arrivals_free(&o->how.arrive);
}

/* --- before the replays --------------------------------------------------- */

/* By how many tokens a line's lengths differ from a trace's. */
static int64_t apart(const kv_arrival *line, const int64_t length[2]) {
  int64_t prompt = line->prompt ? line->prompt - length[0] : 0;
  int64_t output = line->output ? line->output - length[1] : 0;
  return llabs(prompt) + llabs(output);
}

/* The number of the trace for the i-th line. */
static int nearest(const kv_arrival *line, int i, int n,
                   const int64_t (*length)[2]) {
  int best = i % n;
  if (!line->prompt && !line->output) return best;
  best = 0;
  for (int t = 1; t < n; t++)
    if (apart(line, length[t]) < apart(line, length[best])) best = t;
  return best;
}

static kv_rc lengths_of(const kv_cells_options *o, int64_t (*length)[2],
                        kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < o->traces.n; i++) {
    kv_trace *t = NULL;
    rc = kv_trace_open(o->traces.item[i], &t, e);
    if (rc) break;
    length[i][0] = o->prompt_len ? o->prompt_len : t->shape.prompt_len;
    length[i][1] = t->shape.n_tokens - length[i][0];
    kv_trace_close(t);
  }
  return rc;
}

kv_rc kv_together_deal(const kv_arrivals *a, kv_cells_options *o, kv_err *e) {
  kv_list *traces = &o->traces;
  if (!a->n) return KV_OK;
  int64_t(*length)[2] = kv_zalloc((size_t)traces->n, sizeof *length);
  const char **item = kv_zalloc((size_t)a->n, sizeof *item);
  kv_rc rc = KV_OK;
  if (!length || !item)
    rc = kv_no_memory(e, "requests", (size_t)a->n * sizeof *item);
  if (!rc) rc = lengths_of(o, length, e);
  for (int i = 0; !rc && i < a->n; i++)
    item[i] = traces->item[nearest(&a->at[i], i, traces->n,
                                   (const int64_t(*)[2])length)];
  free(length);
  if (rc) {
    free(item);
    return rc;
  }
  free(traces->item);
  *traces = (kv_list){a->n, item};
  return KV_OK;
}

static bool same_model(const kv_trace *a, const kv_trace *b) {
  const kv_shape *x = &a->shape, *y = &b->shape;
  return a->n_layers == b->n_layers && x->n_heads == y->n_heads &&
         x->n_kv_heads == y->n_kv_heads && x->d == y->d && x->d_v == y->d_v &&
         x->dtype == y->dtype;
}

kv_rc kv_together_check(const kv_job *s, const kv_together *how, kv_err *e) {
  const kv_trace *first = NULL;
  int64_t pages;
  for (int i = 0; i < requests(s); i++) {
    const kv_trace *t = s->batch[i].trace;
    if (!t) continue;
    if (!first) first = t;
    if (!same_model(first, t))
      return kv_fail(e, KV_USAGE,
                     "--together: requests must be of one model, but %s has "
                     "other layers, heads or rows than %s",
                     t->name, first->name);
  }
  if (!first) return KV_OK; /* reported already */
  return kv_together_pages(how, &first->shape, first->n_layers, &pages, e);
}

/* --- after the replays ---------------------------------------------------- */

static kv_rc tell(kv_job *s, const kv_result *r, kv_err *e) {
  char why[400], text[900];
  kv_row_label label = {0};
  if (r->together.refused < 0) return KV_OK;
  kv_rc rc = kv_row_label_make(r, &label, e);
  if (rc) return rc;
  kv_together_say(&r->together, sizeof why, why);
  snprintf(text, sizeof text, "%.255s, %.200s, request %" PRId64 ": %s",
           kv_result_name(r), label.brief, r->together.place + 1, why);
  kv_job_tell(s, text);
  kv_row_label_free(&label);
  return KV_OK;
}

static kv_rc tell_each(kv_job *s, int cell, const kv_layouts **from,
                       bool *served, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < requests(s); i++) {
    const kv_result *r = row(s, i, cell);
    rc = tell(s, r, e);
    *served = *served || (from[i] && r->together.refused < 0);
  }
  return rc;
}

/* Reports that a cell's requests cannot share a pool; another cell's may. */
static kv_rc tell_all(kv_job *s, int cell, const kv_err *why, kv_err *e) {
  char text[900];
  kv_row_label label = {0};
  kv_rc rc = kv_row_label_make(row(s, 0, cell), &label, e);
  if (rc) return rc;
  snprintf(text, sizeof text, "%.200s, all requests: %.600s", label.brief,
           why->text);
  kv_job_tell(s, text);
  kv_row_label_free(&label);
  return KV_OK;
}

static kv_rc put(kv_job *s, int cell, const kv_pool_steps *steps, kv_err *e) {
  int n = requests(s);
  const kv_result **of = kv_zalloc((size_t)n, sizeof *of);
  kv_err why = {0};
  if (!of) return kv_no_memory(e, "requests", (size_t)n * sizeof *of);
  for (int i = 0; i < n; i++) of[i] = row(s, i, cell);
  kv_rc rc = kv_db_put_pool(s->db, n, of, steps->n, steps->at, &why);
  free(of);
  if (rc == KV_DIFFERENT) kv_job_differ(s, &why);
  return rc && rc != KV_DIFFERENT ? kv_fail(e, rc, "%s", why.text) : KV_OK;
}

/* The requests of one method and budget. */
static kv_rc share(kv_job *s, const kv_together *how, int cell,
                   const kv_layouts **from, kv_together_result **out,
                   bool *served, kv_err *e) {
  bool any = false;
  for (int i = 0; i < requests(s); i++) {
    kv_cell *c = &s->batch[i].cell[cell];
    from[i] = kv_result_ran(&c->result) ? c->layouts : NULL;
    out[i] = &c->result.together;
    any = any || from[i];
  }
  kv_err why = {0};
  kv_pool_steps steps = {0};
  kv_rc rc = kv_together_run(how, requests(s), from, out, &steps, &why);
  if (rc == KV_REFUSED)
    rc = tell_all(s, cell, &why, e);
  else if (rc)
    kv_fail(e, rc, "%s", why.text);
  else
    rc = tell_each(s, cell, from, served, e);
  if (!rc && !why.rc && s->db && any) rc = put(s, cell, &steps, e);
  free(steps.at);
  return rc;
}

kv_rc kv_together_cells(kv_job *s, const kv_together *how, bool *served,
                        kv_err *e) {
  size_t n = (size_t)requests(s);
  const kv_layouts **from = kv_zalloc(n, sizeof *from);
  kv_together_result **out = kv_zalloc(n, sizeof *out);
  kv_rc rc = KV_OK;
  *served = false;
  if (!from || !out) rc = kv_no_memory(e, "requests", n * sizeof *out);
  for (int c = 0; !rc && c < cells(s); c++)
    rc = share(s, how, c, from, out, served, e);
  free(from);
  free(out);
  return rc;
}

/* --- printing ------------------------------------------------------------- */

/* A trace's name, cut to 40 bytes; of a path the end. */
static void print_name(FILE *out, const kv_result *r) {
  const char *all = kv_result_name(r);
  size_t n = strlen(all);
  char name[41];
  snprintf(name, sizeof name, "%.40s", all + (r->twin && n > 40 ? n - 40 : 0));
  kv_put_plain(out, name);
  fprintf(out, "%*s", 40 - (int)strlen(name), "");
}

static bool shared(const kv_result *r) {
  return kv_result_ran(r) && r->together.pool.page > 0;
}

static void print_request(FILE *out, const kv_result *r, int request) {
  const kv_together_result *t = &r->together;
  fprintf(out, "  %7d  ", request + 1);
  print_name(out, r);
  if (!shared(r)) {
    fprintf(out, "  %s\n", kv_result_ran(r) ? "cannot share" : "did not run");
    return;
  }
  fprintf(out, "  %8" PRId64 "  %8" PRId64, t->arrives, t->waited);
  if (t->first < 0)
    fprintf(out, "  %8s", "-");
  else
    fprintf(out, "  %8" PRId64, t->first - t->arrives + 1);
  fprintf(out, "  %8" PRId64 "  %8" PRId64, t->ends - t->arrives,
          t->pages_peak);
  if (t->put_back) fprintf(out, "  put back %" PRId64 " times", t->put_back);
  if (t->refused >= 0)
    fprintf(out, "  refused at step %" PRId64 "\n", t->refused);
  else
    fprintf(out, "\n");
}

static void print_pool(FILE *out, const kv_pool_result *p) {
  char size[KV_NUMBER], most[KV_NUMBER];
  double held = (double)p->held * (double)p->page, steps = (double)p->steps;
  fprintf(out, "  pool of %s, %s: at most %" PRId64 " of %" PRId64,
          kv_number_bytes((double)p->bytes, size), p->layout, p->peak,
          p->pages);
  if (p->page > 1) fprintf(out, " pages of %" PRId64, p->page);
  fprintf(out, " bytes in %" PRId64 " steps\n", p->steps);
  if (p->steps)
    fprintf(out,
            "  in use: %.1f%%; %.2f requests run, at most %" PRId64
            ", and %.2f wait, at most %" PRId64 "\n",
            100 * (double)p->held / (steps * (double)p->pages),
            (double)p->running / steps, p->running_peak,
            (double)p->waiting / steps, p->waiting_peak);
  fprintf(out, "  fragmentation: %.1f%% of held bytes, %s at most; ",
          held > 0 ? 100 * (double)p->unused / held : 0.0,
          kv_number_bytes((double)p->unused_peak, most));
  if (p->page > 1)
    fprintf(out,
            "moved %" PRId64 "; table entries %" PRId64
            ", list operations %" PRId64 "; ",
            p->moved, p->entries, p->operations);
  fprintf(out, "tables of %s at most\n",
          kv_number_bytes((double)p->map_peak, most));
}

static kv_rc print_cell(const kv_job *s, int cell, FILE *out, kv_err *e) {
  const kv_result *first = row(s, 0, cell), *ran = NULL;
  kv_row_label label = {0};
  kv_rc rc = kv_row_label_make(first, &label, e);
  if (rc) return rc;
  fprintf(out, "\n%s", label.brief);
  if (first->target[0]) fprintf(out, " at %s", first->target);
  fprintf(out, "\n  request  %-40s  %8s  %8s  %8s  %8s  %8s\n", "trace",
          "arrives", "waits", "first in", "done in", "peak");
  for (int i = 0; i < requests(s); i++) {
    print_request(out, row(s, i, cell), i);
    if (shared(row(s, i, cell))) ran = row(s, i, cell);
  }
  if (ran) print_pool(out, &ran->together.pool);
  kv_row_label_free(&label);
  return KV_OK;
}

kv_rc kv_together_print(const kv_job *s, FILE *out, kv_err *e) {
  kv_rc rc = KV_OK;
  fprintf(out, "\nrequests over one pool of pages, each method alone; steps "
               "are the pool's\nfirst in, done in: steps from arrival to the "
               "first token, and to the end\n");
  for (int c = 0; !rc && c < cells(s); c++) rc = print_cell(s, c, out, e);
  return rc;
}
