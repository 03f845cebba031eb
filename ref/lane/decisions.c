/* SPDX-License-Identifier: Apache-2.0
 *
 * The metadata of decisions: ref/lane/decisions.h. What their lists say is
 * looked at in decisions_fit.c.
 */
#include "ref/lane/decisions.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_MOST = 1 << 20, SHOWN = 120 };

#define LISTS(before, out)                                                     \
  {.name = "layers.*." before "steps",                                         \
   .type = KV_T_I32,                                                           \
   .rank = 1,                                                                  \
   .optional = out},                                                           \
      {.name = "layers.*." before "indptr",                                    \
       .type = KV_T_I64,                                                       \
       .rank = 1,                                                              \
       .optional = out},                                                       \
  {                                                                            \
    .name = "layers.*." before "positions", .type = KV_T_I32, .rank = 1,       \
    .optional = out                                                            \
  }

static const kv_tensor_ask tensors[] = {
    LISTS("", false), LISTS("view.", true), {.name = NULL}};

const kv_asset_kind kv_decisions_kind = {"kvdecisions", tensors};

static kv_rc bad(const kv_asset *a, kv_err *e, const char *key,
                 const char *want) {
  char show[SHOWN];
  const char *have = kv_asset_meta(a, key);
  return kv_fail(e, KV_INPUT, "%s: metadata %s %s%s; write %s", a->path, key,
                 have ? "is " : "is missing",
                 have ? kv_plain(have, sizeof show, show) : "", want);
}

/* Place in choices of the key's value; otherwise where the key is absent. */
static kv_rc choose(const kv_asset *a, const char *key, const char *want,
                    const char *const choices[], int otherwise, int *out,
                    kv_err *e) {
  const char *have = kv_asset_meta(a, key);
  *out = otherwise;
  if (!have && otherwise >= 0) return KV_OK;
  for (*out = 0; have && choices[*out]; ++*out)
    if (strcmp(choices[*out], have) == 0) return KV_OK;
  return bad(a, e, key, want);
}

/* Decimal digits of a number 1..most, to the end; 0: it is none. */
static int number(const char *text, long most) {
  char *end;
  if (*text < '0' || *text > '9' || strlen(text) > 18) return 0;
  long n = strtol(text, &end, 10);
  return *end || n > most ? 0 : (int)n;
}

static kv_rc read_block(const kv_asset *a, int *block, kv_err *e) {
  const char *have = kv_asset_meta(a, "block");
  *block = have ? number(have, INT32_MAX) : 0;
  return !have || *block ? KV_OK : bad(a, e, "block", "a number of tokens");
}

static kv_rc read_unit(const kv_asset *a, int *page, kv_err *e) {
  const char *have = kv_asset_meta(a, "unit");
  *page = have && strcmp(have, "token") == 0 ? 1 : 0;
  if (have && strncmp(have, "page:", 5) == 0)
    *page = number(have + 5, PAGE_MOST);
  return *page ? KV_OK : bad(a, e, "unit", "token or page:N");
}

static kv_rc read_names(const kv_asset *a, kv_err *e) {
  const char *name = kv_asset_meta(a, "name");
  if (!name || !*name) return bad(a, e, "name", "what the rows are called");
  if (a->of_trace) return KV_OK;
  return bad(a, e, "trace", "the trace's identity, as kvtrace info prints");
}

kv_rc kv_decisions_read(const kv_asset *a, const kv_shape *shape,
                        kv_decisions_form *f, kv_err *e) {
  static const char *const versions[] = {"1", NULL};
  static const char *const kinds[] = {"stored", "view", "stored+view", NULL};
  static const char *const heads[] = {"kv", "query", NULL};
  static const char *const flags[] = {"0", "1", NULL};
  const int of[] = {shape->n_kv_heads, shape->n_heads};
  int none, kind, head, view_head, reindex, page;
  *f = (kv_decisions_form){0};
  kv_rc rc = choose(a, "version", versions[0], versions, -1, &none, e);
  if (!rc)
    rc = choose(a, "kind", "stored, view or stored+view", kinds, -1, &kind, e);
  if (!rc) rc = choose(a, "head", "kv or query", heads, -1, &head, e);
  if (!rc) rc = choose(a, "view_head", "kv or query", heads, 1, &view_head, e);
  if (!rc) rc = choose(a, "reindex", "0 or 1", flags, 0, &reindex, e);
  if (!rc) rc = read_unit(a, &page, e);
  if (!rc) rc = read_block(a, &f->block, e);
  if (!rc) rc = read_names(a, e);
  if (rc) return rc;
  f->stores = kind != 1;
  f->views = kind != 0;
  f->reindex = reindex;
  f->stored_heads = of[f->stores ? head : 0];
  f->stored_page = f->views ? 1 : page;
  f->view_heads = of[f->stores ? view_head : head];
  f->view_page = page;
  return KV_OK;
}
