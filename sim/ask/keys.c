/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys `windowed` and `prefill` of a specification: sim/ask/spec.h.
 */
#include "sim/ask/spec.h"

#include "ref/ground/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHUNK = 1 << 24 };

const char *const kv_windowed_names[] = {"leave", "compress", NULL};

kv_rc kv_windowed_parse(const char *value, kv_spec *s, kv_err *e) {
  char show[KV_SHOW];
  for (int i = 0; kv_windowed_names[i]; i++)
    if (strcmp(value, kv_windowed_names[i]) == 0) {
      s->windowed = (kv_windowed)i;
      return KV_OK;
    }
  return kv_fail(e, KV_USAGE,
                 KV_WINDOWED
                 "=%s must be leave (layers with a sliding window keep their "
                 "window) or compress (the method runs within it)",
                 kv_show(value, show));
}

/* Replaces the last `less` bytes of `text` by the other two; frees text. */
static char *followed(char *text, size_t less, const char *by,
                      const char *more) {
  size_t n = text ? strlen(text) + strlen(by) + strlen(more) + 1 : 0;
  char *both = n ? malloc(n) : NULL;
  if (both)
    snprintf(both, n, "%.*s%s%s", (int)(strlen(text) - less), text, by, more);
  free(text);
  return both;
}

kv_rc kv_prefill_parse(const char *value, kv_spec *s, kv_err *e) {
  char show[KV_SHOW];
  uint64_t n = 0;
  if (strcmp(value, "whole") == 0) return KV_OK;
  if (!kv_text_count(value, MOST_CHUNK, &n) || n < 1)
    return kv_fail(
        e, KV_USAGE,
        KV_PREFILL
        "=%s must be whole (read the prompt at once) or a chunk's tokens, 1 to "
        "%d (read it in chunks that attend as decode steps do)",
        kv_show(value, show), (int)MOST_CHUNK);
  s->chunk = (int)n;
  return KV_OK;
}

/* Appends a member to a JSON object. */
static char *member(char *json, const char *key, const char *value) {
  char text[64];
  bool empty = json && strcmp(json, "{}") == 0;
  snprintf(text, sizeof text, "%s\"%s\": \"%s\"}", empty ? "" : ", ", key,
           value);
  return followed(json, 1, text, "");
}

char *kv_keys_text(const kv_spec *s, char *text) {
  char chunk[16];
  snprintf(chunk, sizeof chunk, "%d", s->chunk);
  if (s->windowed != KV_WINDOWED_LEAVE)
    text =
        followed(text, 0, ":" KV_WINDOWED "=", kv_windowed_names[s->windowed]);
  return s->chunk ? followed(text, 0, ":" KV_PREFILL "=", chunk) : text;
}

char *kv_keys_json(const kv_spec *s, char *json) {
  char chunk[16];
  snprintf(chunk, sizeof chunk, "%d", s->chunk);
  if (s->windowed != KV_WINDOWED_LEAVE)
    json = member(json, KV_WINDOWED, kv_windowed_names[s->windowed]);
  return s->chunk ? member(json, KV_PREFILL, chunk) : json;
}
