/* SPDX-License-Identifier: Apache-2.0
 *
 * The key `windowed` of a specification: sim/spec/spec.h.
 */
#include "sim/spec/spec.h"

#include "traces/text/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kv_windowed_names[] = {"leave", "compress", NULL};

kv_rc kv_windowed_parse(const char *value, kv_spec *s, kv_err *e) {
  char show[KV_SHOW];
  for (int i = 0; kv_windowed_names[i]; i++)
    if (strcmp(value, kv_windowed_names[i]) == 0) {
      s->windowed = (kv_windowed)i;
      return KV_OK;
    }
  return kv_fail(e, KV_USAGE,
                 KV_WINDOWED "=%s is neither leave nor compress: layers with a "
                             "sliding window keep their window, or the method "
                             "runs within it",
                 kv_show(value, show));
}

/* `text` less its last `less` bytes, then both others; frees text. */
static char *followed(char *text, size_t less, const char *by,
                      const char *more) {
  size_t n = text ? strlen(text) + strlen(by) + strlen(more) + 1 : 0;
  char *both = n ? malloc(n) : NULL;
  if (both)
    snprintf(both, n, "%.*s%s%s", (int)(strlen(text) - less), text, by, more);
  free(text);
  return both;
}

char *kv_windowed_text(const kv_spec *s, char *text) {
  if (s->windowed == KV_WINDOWED_LEAVE) return text;
  return followed(text, 0, ":" KV_WINDOWED "=", kv_windowed_names[s->windowed]);
}

char *kv_windowed_json(const kv_spec *s, char *json) {
  if (s->windowed == KV_WINDOWED_LEAVE) return json;
  bool empty = json && strcmp(json, "{}") == 0;
  json = followed(json, 1, empty ? "" : ", ", "\"" KV_WINDOWED "\": \"");
  return followed(json, 0, kv_windowed_names[s->windowed], "\"}");
}
