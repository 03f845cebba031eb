/* SPDX-License-Identifier: Apache-2.0
 *
 * Digests of the scores that selections use: ref/lane/shown.h.
 */
#include "ref/lane/shown.h"
#include "ref/ground/fold.h"
#include <stdlib.h>
#include <string.h>

kv_rc kv_shows_open(int lanes, const kv_shown_to *to, kv_shows *x, kv_err *e) {
  size_t n = (size_t)lanes + 1;
  *x = (kv_shows){.lanes = lanes, .to = to};
  x->lane = kv_zalloc(n, sizeof *x->lane);
  x->any = kv_zalloc(n, sizeof *x->any);
  if (x->lane && x->any) return KV_OK;
  kv_shows_close(x);
  return kv_no_memory(e, "digests of scores", n * sizeof *x->lane);
}

void kv_shows_close(kv_shows *x) {
  free(x->lane);
  free(x->any);
  *x = (kv_shows){0};
}

void kv_shows_clear(kv_shows *x) {
  if (x->any) memset(x->any, 0, ((size_t)x->lanes + 1) * sizeof *x->any);
}

uint32_t kv_shown_word(const kv_shown *x, int i) {
  uint32_t word;
  if (x->in && !x->in[i]) return KV_SHOWN_OUT;
  memcpy(&word, &x->score[i], sizeof word);
  return word;
}

static uint64_t fold_of(const kv_shown *x) {
  enum { SOME = 64 };
  kv_fold f;
  kv_fold_begin(&f);
  if (!x->in) kv_fold_add(&f, x->score, (size_t)x->n);
  for (int i = 0, some; x->in && i < x->n; i += some) {
    uint32_t word[SOME];
    some = x->n - i < SOME ? x->n - i : SOME;
    for (int j = 0; j < some; j++) word[j] = kv_shown_word(x, i + j);
    kv_fold_add(&f, word, (size_t)some);
  }
  return kv_fold_end(&f);
}

void kv_shows_add(kv_shows *x, const kv_shown *s) {
  uint64_t fold = fold_of(s);
  uint32_t record[] = {(uint32_t)s->chose,    (uint32_t)s->head,
                       (uint32_t)s->list,     (uint32_t)s->lists,
                       (uint32_t)s->n,        (uint32_t)fold,
                       (uint32_t)(fold >> 32)};
  int lane = s->lane == KV_SHOWN_LAYER ? x->lanes : s->lane;
  if (!x->any[lane]) kv_sha256_init(&x->lane[lane]);
  x->any[lane] = true;
  kv_sha256_add(&x->lane[lane], record, sizeof record);
  if (x->to) x->to->shown(x->to->self, s);
}

bool kv_shows_end(kv_shows *x, int step, kv_digest *leaf) {
  uint32_t at = (uint32_t)step;
  bool some = false;
  kv_sha256 h;
  for (int i = 0; x->any && i <= x->lanes; i++) some = some || x->any[i];
  if (!some) return false;
  kv_sha256_init(&h);
  kv_sha256_add(&h, &at, sizeof at);
  for (int i = 0; i <= x->lanes; i++) {
    kv_digest d = {{0}};
    if (x->any[i]) d = kv_sha256_end(&x->lane[i]);
    kv_sha256_add(&h, &d, sizeof d);
  }
  *leaf = kv_sha256_end(&h);
  kv_shows_clear(x);
  return true;
}

static void selected(void *self, const kv_selection *s) {
  const kv_shows_hook *hook = self;
  for (int l = 0; l < s->lanes; l++)
    kv_shows_add(hook->to, &(kv_shown){.lane = hook->lane,
                                       .head = hook->head,
                                       .chose = s->chose,
                                       .list = l,
                                       .lists = s->lanes,
                                       .n = s->n[l],
                                       .score = s->score[l],
                                       .in = s->in});
  if (hook->before) hook->before->selected(hook->before->self, s);
}

static const int32_t *keeps(void *self, const kv_lane *lane, const bool *flags,
                            const int32_t *list, int *n) {
  const kv_selecting *before = ((const kv_shows_hook *)self)->before;
  return before ? before->keeps(before->self, lane, flags, list, n) : list;
}

void kv_shows_watch(kv_shows *x, int lane, int head, kv_shows_hook *hook) {
  hook->to = x->lane ? x : NULL;
  if (!hook->to) return;
  hook->looks = (kv_selecting){hook, selected, keeps};
  hook->before = kv_selecting_now;
  hook->lane = lane;
  hook->head = head;
  kv_selecting_now = &hook->looks;
}

void kv_shows_leave(const kv_shows_hook *hook) {
  if (hook->to) kv_selecting_now = hook->before;
}
