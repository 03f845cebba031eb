/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the metadata of decisions and whether their lists can be followed:
 * ref/lane/decisions.h.
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

/* Index in choices of the key's value; `otherwise` if the key is absent. */
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

/* Reads decimal digits to the end of text, a number 1..most; 0: it is none. */
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
  if (!name || !*name) return bad(a, e, "name", "a name for the rows");
  if (a->of_trace) return KV_OK;
  return bad(a, e, "trace", "the trace's identity, which kvtrace info prints");
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

/* The state of a walk that checks whether decisions can be followed. It visits
 * each lane once, step by step. */

typedef struct walk {
  const kv_asset *asset;
  const kv_decisions_form *form;
  kv_decided layer; /* the current layer */
  int prompt_len, n_tokens;
  int group;        /* [n_tokens] step at which it was dropped; 0: never */
  int32_t *dropped; /* [n_tokens] number of the last list that named it */
  int32_t *named;   /* number of the last list that named it */
  int32_t *live;    /* [n_tokens] ascending or in lane order */
  int32_t lists;    /* number of lists checked so far */
  bool steps_only;  /* lists are not checked */
} walk;

/* The position of a list, for messages. */
typedef struct place {
  const char *kind;
  int step, head;
} place;

static kv_rc refuse(const walk *w, const place *at, kv_err *e,
                    const char *format, int token, int step) {
  char why[128];
  kv_err text;
  kv_fail(&text, KV_REFUSED, format, token, step);
  memcpy(why, text.text, sizeof why);
  why[sizeof why - 1] = 0;
  return kv_fail(e, KV_REFUSED, "%s: step %d, layer %d, %s %d: %s",
                 w->asset->path, at->step, w->layer.layer, at->kind, at->head,
                 why);
}

static kv_rc not_live(const walk *w, const place *at, int token, kv_err *e) {
  if (token < 0 || token >= w->n_tokens)
    return refuse(w, at, e, "position %d is outside the trace's %d tokens",
                  token, w->n_tokens);
  if (token >= at->step)
    return refuse(w, at, e, "position %d is not live: it arrives at step %d",
                  token, token + 1);
  return refuse(w, at, e, "position %d is not live: it was dropped at step %d",
                token, w->dropped[token]);
}

static bool lives(const walk *w, int64_t token, int step) {
  return token >= 0 && token < step && !w->dropped[token];
}

/* Marks the live tokens of one item as named; at least one must be live. */
static kv_rc look_at(walk *w, const place *at, int32_t item, int page,
                     kv_err *e) {
  int64_t first = (int64_t)item * page;
  int found = 0;
  for (int64_t t = first; t < first + page && t < at->step; t++) {
    if (!lives(w, t, at->step)) continue;
    if (w->named[t] == w->lists)
      return refuse(w, at, e, "position %d appears twice", (int)t, 0);
    w->named[t] = w->lists;
    found++;
  }
  if (found) return KV_OK;
  if (page == 1) return not_live(w, at, item, e);
  return refuse(w, at, e, "page %d has no live token among the %d seen", item,
                at->step);
}

static kv_rc look(walk *w, const place *at, const kv_lists *l, int k,
                  kv_err *e) {
  int64_t end = l->start[k + 1];
  if (w->steps_only) return KV_OK;
  w->lists++;
  if (l->start[k] == end)
    return refuse(w, at, e, "the list is empty; name at least one token", 0, 0);
  kv_rc rc = KV_OK;
  for (int64_t i = l->start[k]; !rc && i < end; i++)
    rc = look_at(w, at, l->item[i], l->page, e);
  return rc;
}

/* Drops tokens that the last list did not name; returns how many of n stay. */
static int drop_rest(walk *w, int n, int step) {
  int stay = 0;
  for (int i = 0; i < n; i++) {
    int32_t t = w->live[i];
    if (w->named[t] == w->lists)
      w->live[stay++] = t;
    else
      w->dropped[t] = step;
  }
  return stay;
}

static kv_rc compress_step(const walk *w, int step, kv_err *e) {
  int block = w->form->block, past = step - w->prompt_len;
  place at = {"lane", step, 0};
  if (past >= 0 || (block && step % block == 0)) return KV_OK;
  return refuse(w, &at, e,
                block ? "the prompt is read %d tokens at a time, and no block "
                        "ends at this step"
                      : "the prompt of %d tokens is read and compressed at "
                        "once; write metadata `block` if it is read in blocks",
                block ? block : w->prompt_len, 0);
}

static kv_rc view_step(const walk *w, int step, kv_err *e) {
  place at = {"head", step, 0};
  if (step > w->prompt_len) return KV_OK;
  return refuse(w, &at, e, "views must start after the prompt of %d tokens",
                w->prompt_len, 0);
}

/* Checks all steps of one lane: what each attends, then what stays. */
static kv_rc walk_lane(walk *w, int lane, kv_err *e) {
  const kv_lists *s = &w->layer.stored, *v = &w->layer.view;
  kv_rc rc = KV_OK;
  int n = 0, seen = 0;
  memset(w->dropped, 0, (size_t)w->n_tokens * sizeof *w->dropped);
  for (int i = 0, j = 0; !rc && (i < s->steps || j < v->steps);) {
    bool views = j < v->steps && (i == s->steps || v->step[j] <= s->step[i]);
    int step = views ? v->step[j] : s->step[i];
    while (seen < step) w->live[n++] = seen++;
    rc = views ? view_step(w, step, e) : compress_step(w, step, e);
    for (int h = lane * w->group; views && !rc && h < (lane + 1) * w->group;
         h++)
      rc = look(w, &(place){"head", step, h}, v, j * v->heads + h, e);
    if (!views && !rc)
      rc = look(w, &(place){"lane", step, lane}, s, i * s->heads + lane, e);
    if (!views && !rc && !w->steps_only) n = drop_rest(w, n, step);
    views ? j++ : i++;
  }
  return rc;
}

/* --- the form of lists -------------------------------------------------- */

static kv_rc malformed(const walk *w, const char *kind, const char *what,
                       const char *why, kv_err *e) {
  return kv_fail(e, KV_INPUT, "%s: tensor layers.%d.%s%s %s", w->asset->path,
                 w->layer.layer, kind, what, why);
}

/* t: the three tensors of one kind, or NULL if the file lacks the kind. */
static kv_rc check_lists(const walk *w, const kv_tensor *t, const char *kind,
                         int heads, kv_err *e) {
  if (!t) return KV_OK;
  if (!t[0].data || !t[1].data || !t[2].data)
    return kv_fail(e, KV_REFUSED,
                   "%s: tensor layers.%d.%s%s is missing; every layer that the "
                   "trace records needs decisions",
                   w->asset->path, w->layer.layer, kind,
                   !t[0].data   ? "steps"
                   : !t[1].data ? "indptr"
                                : "positions");
  if (t[0].count > w->n_tokens)
    return malformed(w, kind, "steps", "has more steps than tokens", e);
  kv_lists l = kv_lists_in(t, heads, 1);
  int64_t lists = (int64_t)l.steps * heads;
  for (int i = 0; i < l.steps; i++)
    if (l.step[i] < 1 || l.step[i] > w->n_tokens ||
        (i && l.step[i] <= l.step[i - 1]))
      return malformed(w, kind, "steps",
                       "must ascend within the trace's tokens", e);
  if (t[1].count != lists + 1)
    return malformed(w, kind, "indptr",
                     "must have one number for each step and head, plus one",
                     e);
  for (int64_t k = 0; k < lists; k++)
    if (l.start[k] > l.start[k + 1])
      return malformed(w, kind, "indptr", "descends", e);
  if (l.start[0] != 0 || l.start[lists] != t[2].count)
    return malformed(w, kind, "indptr",
                     "must start at 0 and end at the number of positions", e);
  return KV_OK;
}

static kv_rc take_layer(walk *w, int i, kv_err *e) {
  const kv_decisions_form *f = w->form;
  const kv_tensor *t = kv_asset_layer(w->asset, w->asset->layer[i]);
  const kv_tensor *second = f->stores ? t + KV_LIST_TENSORS : t;
  w->layer.layer = w->asset->layer[i];
  kv_rc rc = check_lists(w, f->stores ? t : NULL, "", f->stored_heads, e);
  if (!rc)
    rc = check_lists(w, f->views ? second : NULL, f->stores ? "view." : "",
                     f->view_heads, e);
  w->layer.stored = kv_lists_stored(f, t);
  w->layer.view = kv_lists_view(f, t);
  return rc;
}

/* --- all of it ---------------------------------------------------------- */

static kv_rc walk_layer(walk *w, kv_err *e) {
  const kv_decisions_form *f = w->form;
  if (f->views && f->view_heads % f->stored_heads != 0)
    return kv_fail(e, KV_REFUSED,
                   "%s: decisions of one KV head cannot be compared when each "
                   "query head stores its own tokens; write view_head=query",
                   w->asset->path);
  w->group = f->views ? f->view_heads / f->stored_heads : 1;
  kv_rc rc = KV_OK;
  for (int lane = 0; !rc && lane < f->stored_heads; lane++)
    rc = walk_lane(w, lane, e);
  return rc;
}

kv_rc kv_decisions_fit(const kv_asset *a, const kv_shape *shape, bool lists,
                       kv_decisions_form *form, kv_err *e) {
  size_t n = (size_t)shape->n_tokens;
  walk w = {.asset = a,
            .form = form,
            .prompt_len = shape->prompt_len,
            .n_tokens = shape->n_tokens,
            .steps_only = !lists,
            .dropped = kv_zalloc(n, sizeof *w.dropped),
            .named = kv_zalloc(n, sizeof *w.named),
            .live = kv_zalloc(n, sizeof *w.live)};
  kv_rc rc = KV_OK;
  if (!w.dropped || !w.named || !w.live)
    rc = kv_no_memory(e, "decisions", n * sizeof *w.live);
  for (int i = 0; !rc && i < a->layers; i++) {
    const kv_lists *s = &w.layer.stored;
    rc = take_layer(&w, i, e);
    if (!rc) rc = walk_layer(&w, e);
    form->decodes |=
        !rc && s->steps && s->step[s->steps - 1] > shape->prompt_len;
  }
  free(w.dropped);
  free(w.named);
  free(w.live);
  return rc;
}
