/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the scores that the device's selections saw to the host, and hashes
 * them as the reference does (ref/lane/shown.h): contract in gpu/host/store.h.
 *
 * Memory, only if requested: for each lane, words for one list of all tokens
 * for each of its query heads if the method has a view, and for LANE_LISTS
 * lists if it compresses lanes; for the layer, LAYER_LISTS lists of every lane
 * if it compresses the layer. All of it is on the device, in the report there
 * and in its pinned copy; the host has memory for one lane or the layer.
 */
#include "gpu/host/store.h"
#include "ref/parts/tiers.h"
#include <stdlib.h>
#include <string.h>

/* Most lists of a lane that compress_lane and compress_layer rank: of leankv
 * one for each tier. */
enum { LANE_LISTS = KV_TIER_COUNT, LAYER_LISTS = KV_TIER_COUNT };

/* --- memory ------------------------------------------------------------- */

/* Words that lane i is shown in a step, at most; i = lanes: the layer. */
static size_t words_of(const kv_store *s, int i) {
  const kv_gpu_hooks *hooks = s->hooks[0]; /* the method that selects */
  size_t list = (size_t)s->plan->shape->n_tokens + KV_GPU_SHOWN_HEAD;
  int lane =
      (hooks->view ? s->queries : 0) + (hooks->compress_lane ? LANE_LISTS : 0);
  int layer = hooks->compress_layer ? (int)LAYER_LISTS * s->lanes : 0;
  return (size_t)(i < s->lanes ? lane : layer) * list;
}

static size_t longest(const kv_store *s) {
  size_t lane = words_of(s, 0), layer = words_of(s, s->lanes);
  return lane > layer ? lane : layer;
}

size_t kv_gpu_shows_bytes(const kv_store *s) {
  size_t words = (size_t)s->lanes * words_of(s, 0) + words_of(s, s->lanes);
  if (!s->layer.shown) return 0;
  return words * sizeof *s->words + ((size_t)s->lanes + 1) * sizeof *s->shown;
}

static bool take_host(kv_store *s) {
  s->shown = kv_zalloc((size_t)s->lanes + 1, sizeof *s->shown);
  s->words = kv_zalloc(longest(s) + 1, sizeof *s->words);
  return s->shown && s->words;
}

void kv_gpu_shows_take(kv_store *s) {
  kv_err *e = &s->fault;
  if (kv_shows_open(s->lanes, s->plan->shown, &s->shows, e)) return;
  if (!take_host(s)) {
    kv_no_memory(e, "scores", longest(s) * sizeof *s->words);
    return;
  }
  for (int i = 0; i <= s->lanes; i++) {
    size_t n = words_of(s, i);
    s->shown[i].cap = n < INT32_MAX ? (int)n : INT32_MAX;
    s->shown[i].word = kv_gpu_take_room(s, n * sizeof *s->words);
  }
  s->layer.shown =
      kv_gpu_take_room(s, ((size_t)s->lanes + 1) * sizeof *s->shown);
}

void kv_gpu_shows_give(kv_store *s) {
  kv_shows_close(&s->shows);
  free(s->shown);
  free(s->words);
}

/* --- a step ------------------------------------------------------------- */

void kv_gpu_shows_begin(kv_store *s) {
  size_t n = (size_t)s->lanes + 1;
  if (!s->layer.shown) return;
  kv_shows_clear(&s->shows);
  for (size_t i = 0; i < n; i++) s->shown[i].n = s->shown[i].lost = 0;
  s->device->put(s->layer.shown, s->shown, n * sizeof *s->shown);
}

/* Adds the lists of lane i, which are s->words[0..n). False: the words do not
 * end with a list. */
static bool add_lists(kv_store *s, int i, int n) {
  int at = 0;
  while (n - at >= KV_GPU_SHOWN_HEAD) {
    const uint32_t *r = s->words + at;
    at += KV_GPU_SHOWN_HEAD;
    if (r[4] > (uint32_t)(n - at)) return false;
    at += (int)r[4];
    kv_shows_add(&s->shows,
                 &(kv_shown){.lane = i < s->lanes ? i : KV_SHOWN_LAYER,
                             .head = (int)r[1],
                             .chose = (kv_chose)r[0],
                             .list = (int)r[2],
                             .lists = (int)r[3],
                             .n = (int)r[4],
                             .score = (const float *)(const void *)&r[5]});
  }
  return at == n;
}

static void tell(kv_store *s, int i) {
  if (s->fault.rc) return;
  kv_fail(&s->fault, KV_INTERNAL,
          "backend %s, layer %d, step %d: the record of what the selections of "
          "lane %d of %d saw %s",
          s->device->name, s->data->layer, s->end, i, s->lanes,
          s->shown[i].lost ? "is larger than its buffer"
                           : "contradicts itself");
}

void kv_gpu_mirror_shows(kv_store *s) {
  size_t lanes = (size_t)s->lanes;
  if (!s->layer.shown || s->lost) return;
  if (kv_gpu_pull_all(s, KV_GPU_SAY_SCORES, 0, sizeof *s->shown, lanes + 1,
                      s->shown) < 0)
    return;
  for (int i = 0; i <= s->lanes; i++) {
    int n = kv_gpu_pull_all(s, KV_GPU_SAY_SCORES, KV_GPU_OF_SCORES + i,
                            sizeof *s->words, words_of(s, i), s->words);
    if (n < 0) return;
    if (s->shown[i].lost || !add_lists(s, i, n)) {
      tell(s, i);
      return;
    }
  }
}
