/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses what to keep from text: traces/trace/keep.h.
 */
#include "traces/trace/keep.h"

#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"

/* Reads a number of at most nine digits and moves *text past it. -1: none. */
static int number(const char **text) {
  size_t n = strspn(*text, "0123456789");
  int value = n < 1 || n > 9 ? -1 : atoi(*text);
  *text += n;
  return value;
}

kv_rc kv_keep_rows(const char *text, int *last, kv_err *e) {
  char a[KV_SHOW];
  const char *at = text;
  bool comma = true;
  *last = KV_KEEP_ALL;
  if (strcmp(text, "all") == 0) return KV_OK;
  *last = 0;
  if (strncmp(at, "last=", 5) == 0) {
    at += 5;
    *last = number(&at);
    comma = *at++ == ',';
  }
  if (comma && *last >= 0 && strcmp(at, "decode") == 0) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "--rows must be all, last=256,decode (the prompt's last 256 "
                 "rows and those of all decode steps), or decode, not '%s'",
                 kv_show(text, a));
}

static bool mark(const char *text, bool named[KV_KEEP_LAYERS]) {
  for (;; text++) {
    int first = number(&text), last = first;
    if (*text == '-') {
      text++;
      last = number(&text);
    }
    if (first < 0 || last < first || last >= KV_KEEP_LAYERS) return false;
    memset(named + first, true, (size_t)(last - first + 1));
    if (*text != ',') return *text == 0;
  }
}

static kv_rc collect(const bool named[KV_KEEP_LAYERS], kv_keep *keep,
                     kv_err *e) {
  int n = 0;
  for (int l = 0; l < KV_KEEP_LAYERS; l++) n += named[l];
  keep->layers = calloc((size_t)n, sizeof *keep->layers);
  if (!keep->layers) return kv_no_memory(e, "the layers", (size_t)n * 4);
  for (int l = 0; l < KV_KEEP_LAYERS; l++)
    if (named[l]) keep->layers[keep->n_layers++] = l;
  return KV_OK;
}

kv_rc kv_keep_layers(const char *text, kv_keep *keep, kv_err *e) {
  char a[KV_SHOW];
  if (strcmp(text, "all") == 0) return KV_OK;
  bool *named = calloc(KV_KEEP_LAYERS, sizeof *named);
  if (!named) return kv_no_memory(e, "the layers", KV_KEEP_LAYERS);
  kv_rc rc = mark(text, named) ? collect(named, keep, e)
                               : kv_fail(e, KV_USAGE,
                                         "--layers must be all, or numbers and "
                                         "spans such as 0,3,8-11, not '%s'",
                                         kv_show(text, a));
  free(named);
  return rc;
}

bool kv_keep_has(const kv_keep *keep, int layer) {
  bool has = keep->n_layers == 0;
  for (int i = 0; !has && i < keep->n_layers; i++)
    has = keep->layers[i] == layer;
  return has;
}

int kv_keep_first(const kv_keep *keep, int prompt_len) {
  return keep->last < prompt_len ? prompt_len - keep->last : 0;
}

void kv_keep_free(kv_keep *keep) {
  free(keep->layers);
  *keep = (kv_keep){0};
}
