/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/options_cells.h"
#include "ref/lane/compose.h"

#include "gpu/host/backends.h"
#include "ref/ground/text.h"
#include "sim/ask/door.h"
#include "traces/decisions/asset.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static kv_rc check_budgets(const kv_specs *specs, kv_err *e) {
  for (int i = 0; i < specs->n; i++) {
    if (!kv_spec_needs_budget(&specs->spec[i])) continue;
    if (specs->spec[i].of_all)
      return kv_fail(e, KV_USAGE,
                     "-m all needs a budget: -b 20%%, or several: -b 20%%,512");
    const kv_method *m = specs->spec[i].method;
    return kv_fail(e, KV_USAGE, "%s needs a budget: -b 20%% or %s:%s=512",
                   m->name, m->name, kv_spec_budget(m)->name);
  }
  return KV_OK;
}

/* With --turns a question enters whole: no bytes are counted between its
 * tokens, so dense has no mean over steps to take a share of. */
static kv_rc check_turns(const kv_budgets *budgets, kv_err *e) {
  for (int i = 0; i < budgets->n; i++) {
    kv_basis basis = budgets->budget[i].basis;
    if (basis == KV_BASIS_MEAN || basis == KV_BASIS_READ ||
        basis == KV_BASIS_TRAFFIC)
      return kv_fail(e, KV_USAGE,
                     "--turns: %s is a mean over decode steps only; use "
                     "entries, end:20%% or peak:20%%",
                     budgets->budget[i].target);
  }
  return KV_OK;
}

const char *kv_method_word(int i) {
  const kv_method *m = kv_method_at(i);
  return m ? m->name : NULL;
}

kv_rc kv_cells_options_read(kv_registry *registry, kv_cells_options *o,
                            kv_err *e) {
  kv_rc rc = KV_OK;
  if (o->prompt_len && o->observe != KV_OBSERVE_RECORDED)
    return kv_fail(e, KV_USAGE,
                   "--prompt-len and --observe both set where decoding starts; "
                   "give only one");
  if (o->method_text.n == 0) {
    return kv_fail(
        e, KV_USAGE,
        "no method; -m all runs every one, and `kvreplay methods` lists them");
  }
  for (int i = 0; i < o->method_text.n && rc == KV_OK; i++) {
    rc = kv_specs_add(registry, o->method_text.item[i], &o->specs, e);
  }
  for (int i = 0; i < o->budget_text.n && rc == KV_OK; i++) {
    rc = kv_budgets_add(o->budget_text.item[i], &o->budgets, e);
  }
  if (rc == KV_OK && o->budgets.n == 0) rc = check_budgets(&o->specs, e);
  if (rc == KV_OK && o->added[KV_OBSERVE_TURNS])
    rc = check_turns(&o->budgets, e);
  return rc;
}

/* The path of a method's i-th file as found for a trace. "": there is none, or
 * the search failed; opening the cell reports why. Fails only without
 * memory. */
static kv_rc place_beside(const kv_spec *s, int i, const char *trace,
                          char path[KV_TEXT_MAX], kv_err *e) {
  kv_trace *t = NULL;
  kv_err why = {0};
  kv_rc rc = kv_trace_open(trace, &t, &why);
  if (!rc)
    rc =
        kv_asset_beside(t, kv_spec_reader(s, i)->name, KV_TEXT_MAX, path, &why);
  if (rc) *path = 0;
  kv_trace_close(t);
  return rc == KV_RESOURCE ? kv_fail(e, rc, "%s", why.text) : KV_OK;
}

/* Adds a method's i-th file to in[*n..]: the one its specification names, or
 * those found for the traces, whose paths go to path[traces->n]. */
static kv_rc add_file(const kv_spec *s, int i, const kv_list *traces,
                      char (*path)[KV_TEXT_MAX], kv_place *in, int *n,
                      kv_err *e) {
  const char *what = "what a method reads";
  const kv_file *file = kv_spec_file(s, i);
  kv_rc rc = KV_OK;
  if (*file->path) in[(*n)++] = (kv_place){.what = what, .path = file->path};
  if (*file->path || kv_file_optional(kv_method_file(s->method, i)))
    return KV_OK;
  for (int t = 0; !rc && t < traces->n; t++) {
    rc = place_beside(s, i, traces->item[t], path[t], e);
    if (*path[t]) in[(*n)++] = (kv_place){.what = what, .path = path[t]};
  }
  return rc;
}

kv_rc kv_cells_options_apart(const kv_command *c, const kv_cells_options *o,
                             kv_err *e) {
  int n = 0, each = 1 + o->traces.n;
  size_t all = (size_t)o->specs.n;
  size_t rooms = all * (size_t)each * KV_SPEC_FILES;
  kv_place *in = calloc(rooms + KV_MOST_PARTS * all + 1, sizeof *in);
  char(*path)[KV_TEXT_MAX] = calloc(rooms + 1, sizeof *path);
  kv_rc rc = KV_OK;
  if (!in || !path) rc = kv_no_memory(e, "the command line", sizeof *in);
  for (int i = 0; !rc && i < o->specs.n; i++) {
    const kv_spec *s = &o->specs.spec[i];
    for (int k = 0; !rc && kv_spec_file(s, k); k++)
      rc = add_file(s, k, &o->traces, path + (i * KV_SPEC_FILES + k) * each, in,
                    &n, e);
    const kv_method *part[KV_MOST_PARTS];
    size_t offset[KV_MOST_PARTS];
    for (int k = kv_parts_of(s->method, part, offset) - 1; k >= 0; k--)
      in[n++] = (kv_place){.what = "a method", .path = kv_door_file(part[k])};
  }
  if (!rc) rc = kv_options_apart(c, o, n, in, e);
  free(path);
  free(in);
  return rc;
}

void kv_cells_options_free(kv_cells_options *o) {
  kv_specs_free(&o->specs);
  kv_budgets_free(&o->budgets);
}

kv_rc kv_cells_options_backend(size_t n, const char *name,
                               const kv_backend **out, kv_err *e) {
  char copy[64], show[KV_SHOW];
  if (n >= sizeof copy) n = sizeof copy - 1;
  memcpy(copy, name, n);
  copy[n] = 0;
  *out = kv_backend_find(kv_show(copy, show), e);
  return *out ? KV_OK : e->rc;
}

static bool same_file(const char *a, const char *b) {
  struct stat x, y;
  if (!strcmp(a, b)) return true;
  if (stat(a, &x) || stat(b, &y)) return false;
  return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

kv_rc kv_traces_once(const char *used, const kv_list *on, const kv_list *out,
                     kv_err *e) {
  for (int i = 0; i < on->n + out->n; i++)
    for (int j = 0; j < i; j++) {
      const char *a = i < on->n ? on->item[i] : out->item[i - on->n];
      const char *b = j < on->n ? on->item[j] : out->item[j - on->n];
      char show[KV_SHOW];
      if (!same_file(a, b)) continue;
      if (i >= on->n && j < on->n)
        return kv_fail(e, KV_USAGE, "%s is both %s and held out; give it once",
                       kv_show(a, show), used);
      return kv_fail(e, KV_USAGE, "%s is named twice; name a trace once",
                     kv_show(a, show));
    }
  return KV_OK;
}
