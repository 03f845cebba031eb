/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing the lists of steps and layers of a command line.
 */
#include "sim/look/vectors.h"

#include "traces/text/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 32 };

/* Copies the next piece of a comma-separated list and moves *text behind it
 * (NULL after the last). False if the piece is too long or empty. */
static bool next_piece(const char **text, char piece[PIECE]) {
  size_t n = strcspn(*text, ",");
  if (n == 0 || n >= PIECE) return false;
  memcpy(piece, *text, n);
  piece[n] = 0;
  *text = (*text)[n] ? *text + n + 1 : NULL;
  return true;
}

static int ascending(const void *a, const void *b) {
  int x = *(const int *)a, y = *(const int *)b;
  return (x > y) - (x < y);
}

/* Sorts and removes repeats; returns how many are left. */
static int sort(int n, int *list) {
  int m = 0;
  qsort(list, (size_t)n, sizeof *list, ascending);
  for (int i = 0; i < n; i++)
    if (m == 0 || list[m - 1] != list[i]) list[m++] = list[i];
  return m;
}

static int *take(const char *text, kv_err *e) {
  size_t n = strlen(text) + 1;
  int *list = kv_zalloc(n, sizeof *list);
  if (!list) kv_no_memory(e, "a list", n);
  return list;
}

/* The step that a piece means after the step `before`; -1 if it is none. */
static int64_t step_of(const char *piece, const kv_shape *s, int before) {
  uint64_t n;
  if (strcmp(piece, "first") == 0) return s->prompt_len + 1;
  if (strcmp(piece, "last") == 0) return s->n_tokens;
  bool later = *piece == '+';
  if (!kv_text_count(piece + later, INT32_MAX, &n)) return -1;
  return (int64_t)n + (later ? before : 0);
}

static kv_rc bad_step(const char *piece, const kv_shape *s, int64_t step,
                      kv_err *e) {
  char show[KV_SHOW];
  if (step < 0)
    return kv_fail(e, KV_USAGE,
                   "--steps: %s is no step: write first, last, a number of "
                   "tokens seen, or +N for N steps later",
                   kv_show(piece, show));
  if (s->n_tokens == s->prompt_len)
    return kv_fail(e, KV_USAGE,
                   "--steps: %s: all %d tokens are prompt, no step decodes; "
                   "lower --prompt-len",
                   kv_show(piece, show), s->n_tokens);
  return kv_fail(e, KV_USAGE,
                 "--steps: %s is step %lld; steps are %d (after the prompt) "
                 "to %d tokens seen",
                 kv_show(piece, show), (long long)step, s->prompt_len,
                 s->n_tokens);
}

kv_rc kv_vectors_steps(const char *text, const kv_shape *s, int *n, int **out,
                       kv_err *e) {
  const char *whole = text;
  char piece[PIECE], show[KV_SHOW];
  int before = s->prompt_len + 1;
  *n = 0;
  *out = take(text, e);
  if (!*out) return KV_RESOURCE;
  while (text) {
    if (!next_piece(&text, piece))
      return kv_fail(e, KV_USAGE, "--steps %s: write a list as first,+17,last",
                     kv_show(whole, show));
    int64_t step = step_of(piece, s, before);
    if (step < s->prompt_len || step > s->n_tokens)
      return bad_step(piece, s, step, e);
    (*out)[(*n)++] = before = (int)step;
  }
  *n = sort(*n, *out);
  return KV_OK;
}

static int index_of(const kv_trace *t, uint64_t layer) {
  for (int i = 0; i < t->n_layers; i++)
    if ((uint64_t)t->layer[i].data.layer == layer) return i;
  return -1;
}

kv_rc kv_vectors_layers(const char *text, const kv_trace *t, int *n, int **out,
                        kv_err *e) {
  const char *whole = text ? text : "";
  char piece[PIECE], show[KV_SHOW];
  uint64_t number;
  *n = 0;
  *out = kv_zalloc(strlen(whole) + (size_t)t->n_layers + 1, sizeof **out);
  if (!*out) return kv_no_memory(e, "a list", strlen(whole));
  for (int i = 0; !text && i < t->n_layers; i++) (*out)[(*n)++] = i;
  while (text) {
    if (!next_piece(&text, piece) || !kv_text_count(piece, INT32_MAX, &number))
      return kv_fail(e, KV_USAGE,
                     "--layers %s: write numbers of layers, as 0,2",
                     kv_show(whole, show));
    int i = index_of(t, number);
    if (i < 0)
      return kv_fail(e, KV_USAGE,
                     "--layers: %s has no layer %s; `kvtrace info` says which "
                     "it has",
                     kv_show(t->path, show), piece);
    (*out)[(*n)++] = i;
  }
  *n = sort(*n, *out);
  return KV_OK;
}
