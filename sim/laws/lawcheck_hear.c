/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of a child of lawcheck: its own, or, if it ended without one,
 * where it was when it ended.
 */
#include "sim/laws/lawcheck_part.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The engine may compute for long between two hooks. */
enum { ENGINE = 600 /* s */ };

typedef struct patience {
  kv_lawcheck_task task; /* first: the child takes it for its own */
  int seconds;
} patience;

static unsigned beat(const void *self, int *seconds) {
  const patience *p = self;
  *seconds = p->task.page->post.inside ? p->seconds : ENGINE;
  return p->task.page->post.calls;
}

/* An assertion's message without what precedes its function, which is our own
 * file's name. */
static const char *trimmed(const char *line) {
  const char *mark = strstr(line, "Assertion `");
  if (!mark) return line;
  for (const char *c = mark - 2; c > line; c--)
    if (c[-1] == ' ') return c;
  return line;
}

/* Writes "layer 0, lane 1, step 70: compress_lane WORDS", or the last hook it
 * was in. */
static void blame(const kv_fence_post *p, const char *words,
                  kv_lawcheck_said *out) {
  const char *hook = p->hook ? p->hook : "open";
  *out = (kv_lawcheck_said){.law = "hooks"};
  kv_fail(&out->e, KV_DIFFERENT, "layer %d, lane %d, step %d: %s%s %s",
          p->layer, p->lane, p->step, p->inside ? "" : "the engine, after ",
          hook, words);
}

static void say_died(const kv_lawcheck_task *t, const kv_child_end *end,
                     kv_lawcheck_said *out) {
  char words[500];
  snprintf(words, sizeof words, "ended the process (%s %d)%s%s",
           end->signal ? "signal" : "exit code",
           end->signal ? end->signal : end->code, *end->said ? ": " : "",
           end->said);
  blame(&t->page->post, words, out);
}

static void say_stuck(const patience *p, kv_lawcheck_said *out) {
  char words[120];
  snprintf(words, sizeof words, "does not return: given up after %d s",
           p->task.page->post.inside ? p->seconds : ENGINE);
  blame(&p->task.page->post, words, out);
}

static void say_done(const kv_lawcheck_task *t, const kv_child_end *end,
                     kv_lawcheck_said *out) {
  char all[sizeof out->e.text];
  *out = t->page->said;
  if (out->e.rc != KV_DIFFERENT || !strstr(out->e.text, "SIGABRT") ||
      !*end->said)
    return;
  snprintf(all, sizeof all, "%.300s: %.200s", out->e.text, trimmed(end->said));
  snprintf(out->e.text, sizeof out->e.text, "%s", all);
}

static void say_left(const kv_child_end *end, kv_lawcheck_said *out) {
  *out = (kv_lawcheck_said){.law = "hooks"};
  kv_fail(&out->e, KV_DIFFERENT,
          "%d process%s that it began outlived it, and had to be ended: hooks "
          "begin none",
          end->left, end->left == 1 ? "" : "es");
}

kv_rc kv_lawcheck_hear(const kv_lawcheck_task *t, kv_lawcheck_stop *stop,
                       int seconds, kv_lawcheck_said *out, kv_err *e) {
  patience p = {*t, seconds};
  kv_child c = {.work = kv_lawcheck_work,
                .self = &p,
                .beat = beat,
                .stop = stop,
                .adopts = true};
  kv_child_end end;
  memset(&t->page->said, 0, sizeof t->page->said);
  t->page->post.hook = NULL;
  t->page->post.inside = false;
  kv_rc rc = kv_child_run(&c, &end, e);
  if (rc) return rc;
  switch (end.fate) {
  case KV_CHILD_STOPPED:
    return kv_fail(e, KV_RESOURCE, "interrupted");
  case KV_CHILD_STUCK:
    say_stuck(&p, out);
    break;
  case KV_CHILD_DIED:
    say_died(t, &end, out);
    break;
  case KV_CHILD_DONE:
    say_done(t, &end, out);
    break;
  }
  if (end.left && out->e.rc != KV_DIFFERENT) say_left(&end, out);
  return KV_OK;
}
