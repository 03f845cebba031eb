/* SPDX-License-Identifier: Apache-2.0
 *
 * Can these decisions be followed? Each lane is walked once, step by step,
 * with the step in which each token was dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "traces/decisions_part.h"
#include "traces/text.h"

typedef struct walk {
  const kv_decisions_file *file;
  const kv_decided *layer;
  int prompt_len, n_tokens;
  int group;        /* lists of views a lane */
  int32_t *dropped; /* [n_tokens] in which step; 0: never */
  int32_t *named;   /* [n_tokens] the last list that did */
  int32_t *live;    /* [n_tokens] ascending or in lane order */
  int32_t lists;    /* looked at so far */
  bool steps_only;  /* what they say is not looked at */
} walk;

/* Where a list stands. */
typedef struct place {
  const char *kind;
  int step, head;
} place;

static kv_rc refuse(const walk *w, const place *at, kv_err *e,
                    const char *format, int token, int step) {
  char why[128], show[KV_SHOW];
  kv_err text;
  kv_fail(&text, KV_REFUSED, format, token, step);
  memcpy(why, text.text, sizeof why);
  why[sizeof why - 1] = 0;
  return kv_fail(e, KV_REFUSED, "%s: step %d, layer %d, %s %d: %s",
                 kv_show(w->file->path, show), at->step, w->layer->layer,
                 at->kind, at->head, why);
}

static kv_rc not_live(const walk *w, const place *at, int token, kv_err *e) {
  if (token < 0 || token >= w->n_tokens)
    return refuse(w, at, e, "position %d is none of the trace's %d tokens",
                  token, w->n_tokens);
  if (token >= at->step)
    return refuse(w, at, e, "position %d is not live: it arrives with step %d",
                  token, token + 1);
  return refuse(w, at, e, "position %d is not live: it was dropped at step %d",
                token, w->dropped[token]);
}

static bool lives(const walk *w, int64_t token, int step) {
  return token >= 0 && token < step && !w->dropped[token];
}

/* The tokens of one item; those that are not live do not count, but one must
 * be there. */
static kv_rc look_at(walk *w, const place *at, int32_t item, int page,
                     kv_err *e) {
  int64_t first = (int64_t)item * page;
  int found = 0;
  for (int64_t t = first; t < first + page && t < at->step; t++) {
    if (!lives(w, t, at->step)) continue;
    if (w->named[t] == w->lists)
      return refuse(w, at, e, "position %d is named twice", (int)t, 0);
    w->named[t] = w->lists;
    found++;
  }
  if (found) return KV_OK;
  if (page == 1) return not_live(w, at, item, e);
  return refuse(w, at, e, "page %d has no live token among %d seen", item,
                at->step);
}

static kv_rc look(walk *w, const place *at, const kv_lists *l, int k,
                  kv_err *e) {
  int64_t end = l->start[k + 1];
  if (w->steps_only) return KV_OK;
  w->lists++;
  if (l->start[k] == end)
    return refuse(w, at, e, "the list is empty; name a token", 0, 0);
  kv_rc rc = KV_OK;
  for (int64_t i = l->start[k]; !rc && i < end; i++)
    rc = look_at(w, at, l->item[i], l->page, e);
  return rc;
}

/* What the last list did not name goes; how many stay of the first n. */
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

static kv_rc settle_step(const walk *w, int step, kv_err *e) {
  int block = w->file->decisions.block, past = step - w->prompt_len;
  place at = {"lane", step, 0};
  if (past >= 0 || (block && step % block == 0)) return KV_OK;
  return refuse(w, &at, e,
                block ? "the prompt enters %d tokens at a time, no block ends "
                        "here"
                      : "the prompt enters as a whole, %d tokens, and is "
                        "settled then; give `block` where it does not",
                block ? block : w->prompt_len, 0);
}

static kv_rc view_step(const walk *w, int step, kv_err *e) {
  place at = {"head", step, 0};
  if (step > w->prompt_len) return KV_OK;
  return refuse(w, &at, e, "views begin after the prompt of %d tokens",
                w->prompt_len, 0);
}

/* All steps of one lane: what is attended, then what stays. */
static kv_rc walk_lane(walk *w, int lane, kv_err *e) {
  const kv_lists *s = &w->layer->stored, *v = &w->layer->view;
  kv_rc rc = KV_OK;
  int n = 0, seen = 0;
  memset(w->dropped, 0, (size_t)w->n_tokens * sizeof *w->dropped);
  for (int i = 0, j = 0; !rc && (i < s->steps || j < v->steps);) {
    bool views = j < v->steps && (i == s->steps || v->step[j] <= s->step[i]);
    int step = views ? v->step[j] : s->step[i];
    while (seen < step) w->live[n++] = seen++;
    rc = views ? view_step(w, step, e) : settle_step(w, step, e);
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

static kv_rc walk_layer(walk *w, const kv_decisions *d, kv_err *e) {
  const kv_lists *v = &w->layer->view;
  char show[KV_SHOW];
  if (d->views && v->heads % d->stored_heads != 0)
    return kv_fail(e, KV_REFUSED,
                   "%s: views of KV heads cannot be told apart where every "
                   "query head stores its own; give view_head=query",
                   kv_show(w->file->path, show));
  w->group = d->views ? v->heads / d->stored_heads : 1;
  kv_rc rc = KV_OK;
  for (int lane = 0; !rc && lane < d->stored_heads; lane++)
    rc = walk_lane(w, lane, e);
  return rc;
}

kv_rc kv_decisions_fit(kv_decisions_file *f, const kv_shape *shape,
                       int prompt_len, bool lists, kv_err *e) {
  kv_decisions *d = &f->decisions;
  size_t n = (size_t)shape->n_tokens;
  walk w = {.file = f,
            .prompt_len = prompt_len,
            .n_tokens = shape->n_tokens,
            .steps_only = !lists,
            .dropped = kv_zalloc(n, sizeof *w.dropped),
            .named = kv_zalloc(n, sizeof *w.named),
            .live = kv_zalloc(n, sizeof *w.live)};
  kv_rc rc = KV_OK;
  if (!w.dropped || !w.named || !w.live)
    rc = kv_no_memory(e, "decisions", n * sizeof *w.live);
  for (int i = 0; !rc && i < d->layers; i++) {
    const kv_lists *s = &d->layer[i].stored;
    w.layer = &d->layer[i];
    rc = walk_layer(&w, d, e);
    d->decodes |= s->steps && s->step[s->steps - 1] > prompt_len;
  }
  free(w.dropped);
  free(w.named);
  free(w.live);
  return rc;
}
