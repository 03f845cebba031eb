/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards as typed, and names of their files: sim/spec/shard.h.
 */
#include "sim/spec/shard.h"

#include "traces/text/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 32 }; /* room for "10000-of-10000" */

kv_rc kv_shard_parse(const char *text, kv_shard *out, kv_err *e) {
  char index[16] = "", show[KV_SHOW];
  const char *slash = strchr(text, '/');
  uint64_t i = 0, n = 0;
  size_t length = slash ? (size_t)(slash - text) : 0;
  bool read = length > 0 && length < sizeof index;
  if (read) memcpy(index, text, length);
  read = read && kv_text_count(index, KV_SHARDS_MOST, &i) &&
         kv_text_count(slash + 1, KV_SHARDS_MOST, &n);
  if (!read)
    return kv_fail(e, KV_USAGE,
                   "--shard %s: write the shard and how many there are, 1/4 to "
                   "4/4; there can be %d",
                   kv_show(text, show), KV_SHARDS_MOST);
  if (n == 0)
    return kv_fail(e, KV_USAGE, "--shard %s: there is at least one shard, 1/1",
                   text);
  if (i == 0 || i > n)
    return kv_fail(e, KV_USAGE,
                   "--shard %s: shards are counted from 1: the first is 1/%d, "
                   "the last %d/%d",
                   text, (int)n, (int)n, (int)n);
  *out = (kv_shard){(int)i, (int)n};
  return KV_OK;
}

char *kv_shard_path(const char *pattern, kv_shard shard) {
  char name[NAME];
  snprintf(name, sizeof name, "%d-of-%d", shard.index, shard.count);
  char *path = malloc(strlen(pattern) * (NAME + 1) + 1), *to = path;
  if (!path) return NULL;
  for (const char *c = pattern; *c; c++) {
    bool twice = c[0] == '%' && c[1] == '%';
    if (*c == '%' && !twice)
      to += strlen(strcpy(to, name));
    else
      *to++ = *c;
    c += twice;
  }
  *to = 0;
  return path;
}

bool kv_shard_distinct(const char *pattern) {
  for (const char *c = pattern; *c; c++) {
    if (*c != '%') continue;
    if (c[1] != '%') return true;
    c++;
  }
  return false;
}
