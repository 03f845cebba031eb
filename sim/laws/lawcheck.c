/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws and synthetic traces by name, and checking: contract in
 * sim/laws/lawcheck.h.
 */
#include "sim/laws/lawcheck.h"

#include "sim/laws/law_guest.h"
#include "sim/laws/lawcheck_part.h"
#include "traces/text/text.h"
#include <stdio.h>
#include <string.h>

/* The synthetic traces. One has subnormal values; one is long, with little else
 * to compute, for faults that only appear late. */
static const kv_lawcheck_place places[] = {
    {{"made:grouped", 3, 4, 2, 32, KV_F32, 96, 64}, 0},
    {{"made:half", 3, 4, 4, 64, KV_F16, 72, 50}, 0},
    {{"made:seven", 3, 7, 1, 80, KV_BF16, 80, 60}, 0},
    {{"made:short", 3, 4, 2, 32, KV_F32, 60, 7}, 0},
    {{"made:token", 3, 4, 1, 32, KV_F32, 40, 1}, 0},
    {{"made:tiny", 2, 2, 2, 32, KV_F32, 48, 20}, -130},
    {{"made:long", 1, 2, 1, 16, KV_F32, 1100, 60}, 0}};
enum { PLACES = sizeof places / sizeof *places };

const char *kv_lawcheck_synthetic(int i) {
  return i >= 0 && i < PLACES ? places[i].small.name : NULL;
}

static const kv_lawcheck_place *place_named(const char *name) {
  for (int i = 0; i < PLACES; i++)
    if (!strcmp(places[i].small.name, name)) return &places[i];
  return NULL;
}

int kv_lawcheck_tokens(const char *name) {
  const kv_lawcheck_place *p = place_named(name);
  return p ? p->small.n_tokens : 0;
}

/* --- the laws ----------------------------------------------------------- */

static const kv_law process = {
    "process",
    "digests and bytes are the same in another process, at other addresses"};

/* Number of laws for plugins. The law `hooks` is the first: a plugin that
 * breaks it may crash the checks of the others. */
static int guests(void) {
  int n = 0;
  while (kv_law_guest_at(n)) n++;
  return n;
}

static int all_but_process(void) {
  int n = guests();
  while (kv_law_at(n - guests())) n++;
  return n;
}

static const kv_law *law_at(int i) {
  int own = guests(), last = all_but_process();
  if (i == last) return &process;
  return i < own ? kv_law_guest_at(i) : kv_law_at(i - own);
}

int kv_lawcheck_index(const char *name) {
  int i = 0;
  while (law_at(i) && strcmp(law_at(i)->name, name) != 0) i++;
  return i;
}

static kv_rc run_again(const kv_law_case *c, kv_lawcheck_run *run, kv_err *e) {
  kv_cell cell = {0};
  kv_rc rc = kv_law_replay(c, &(kv_law_how){.threads = 1}, &cell, e);
  run->digests = kv_law_run_of(&cell);
  run->peak = cell.result.totals.peak;
  run->end = cell.result.totals.end;
  kv_cell_close(&cell);
  return rc;
}

kv_rc kv_lawcheck_holds(int i, const kv_law_case *c, kv_lawcheck_run *run,
                        kv_err *e) {
  int broken, own = guests();
  if (law_at(i) == &process) return run_again(c, run, e);
  return i < own ? kv_law_guest_ask(i, c, e)
                 : kv_law_ask(c, 1u << (i - own), &broken, e);
}

const char *kv_lawcheck_law(int i) {
  return law_at(i) ? law_at(i)->name : NULL;
}

const char *kv_lawcheck_statement(const char *law) {
  const kv_law *l = law_at(kv_lawcheck_index(law));
  return l ? l->statement : NULL;
}

/* --- asking ------------------------------------------------------------- */

/* What differs between a and b; NULL: nothing. */
static const char *unlike(const kv_lawcheck_run *a, const kv_lawcheck_run *b) {
  const kv_law_run *x = &a->digests, *y = &b->digests;
  if (memcmp(&x->output, &y->output, sizeof x->output) != 0) return "output";
  if (memcmp(&x->state, &y->state, sizeof x->state) != 0) return "state";
  if (memcmp(&x->journal, &y->journal, sizeof x->journal) != 0)
    return "journal";
  if (a->peak != b->peak || memcmp(&a->end, &b->end, sizeof a->end) != 0)
    return "ledger";
  return NULL;
}

static kv_rc hear(kv_lawcheck_task *t, kv_lawcheck_said *out, kv_err *e) {
  const kv_lawcheck *c = t->ask;
  kv_rc rc = kv_lawcheck_hear(t, c->stop, c->seconds, out, e);
  bool ran = !rc && !out->e.rc && !strcmp(c->law, process.name);
  if (!ran || t->elsewhere) return rc;
  kv_lawcheck_run first = t->page->run;
  t->elsewhere = true;
  rc = hear(t, out, e);
  const char *what = rc || out->e.rc ? NULL : unlike(&first, &t->page->run);
  if (what)
    kv_fail(&out->e, KV_DIFFERENT,
            "another process finds another %s: something is decided by the "
            "process, by an address or by the time",
            what);
  return rc;
}

static kv_rc with_page(kv_lawcheck_task *t, kv_lawcheck_stop *stop,
                       kv_lawcheck_said *out, kv_err *e) {
  enum { MAKING = 60 /* s */ };
  t->page = kv_child_memory(sizeof *t->page);
  if (!t->page) return kv_no_memory(e, "an answer", sizeof *t->page);
  kv_rc rc =
      t->ask ? hear(t, out, e) : kv_lawcheck_hear(t, stop, MAKING, out, e);
  kv_child_forget(t->page, sizeof *t->page);
  return rc;
}

kv_rc kv_lawcheck_make(const char *name, const char *file,
                       kv_lawcheck_stop *stop, kv_err *e) {
  kv_lawcheck_said said;
  kv_lawcheck_task t = {.make = place_named(name), .file = file};
  if (!t.make) {
    char names[256] = "", show[KV_SHOW];
    for (int i = 0; i < PLACES; i++) {
      size_t n = strlen(names);
      snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
               places[i].small.name);
    }
    return kv_fail(e, KV_USAGE, "no made trace is called %s; there are %s",
                   kv_show(name, show), names);
  }
  kv_rc rc = with_page(&t, stop, &said, e);
  if (!rc && said.e.rc == KV_DIFFERENT) /* the child died */
    return kv_fail(e, KV_RESOURCE, "%s could not be made: %s", name,
                   said.e.text);
  return rc || !said.e.rc ? rc : kv_fail(e, said.e.rc, "%s", said.e.text);
}

kv_rc kv_lawcheck_ask(const kv_lawcheck *c, kv_lawcheck_said *out, kv_err *e) {
  return with_page(&(kv_lawcheck_task){.ask = c}, c->stop, out, e);
}
