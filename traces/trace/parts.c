/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tensor of a file is which (traces/trace/trace.h): by name alone, as
 * kv_trace_open looks them up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/trace/own.h"
#include "traces/trace/trace.h"

enum { NAMED = 4 }; /* most tensors that a sentence names */

static const char *const parts[] = {"q",      "k",     "v",      "o", "rows",
                                    "colsum", "sinks", "k_bias", NULL};
static const char *const alone[] = {"tokens", "positions", "rope.inv_freq",
                                    "rope.inv_freq.windowed", NULL};

static const char *among(const char *const *names, const char *name) {
  while (*names && strcmp(*names, name) != 0) names++;
  return *names;
}

/* Index of the recorded layer of that number, or -1. */
static int recorded(const kv_trace *t, long layer) {
  int low = 0, high = t->n_layers - 1;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (t->layer[middle].data.layer < layer)
      low = middle + 1;
    else
      high = middle;
  }
  return t->layer[low].data.layer == layer ? low : -1;
}

int kv_trace_part(const kv_trace *t, const char *name, const char **part) {
  static const char head[] = "layers.";
  char own[KV_TENSOR_NAME], *end;
  *part = among(alone, name);
  if (*part == alone[3] && !t->windowed_inv_freq) *part = NULL; /* version 1 */
  if (strncmp(name, head, sizeof head - 1) != 0) return -1;
  long layer = strtol(name + sizeof head - 1, &end, 10);
  const char *of = *end == '.' ? among(parts, end + 1) : NULL;
  int i = of ? recorded(t, layer) : -1;
  if (i < 0) return -1;
  if (!strcmp(of, "sinks") && !t->layer[i].data.sinks)
    return -1; /* version 1 */
  snprintf(own, sizeof own, "layers.%d.%s", t->layer[i].data.layer, of);
  if (strcmp(own, name) != 0) return -1; /* layers.007.q, layers.+7.q */
  *part = of;
  return i;
}

size_t kv_trace_unread(const kv_trace *t, char out[KV_UNREAD_TEXT]) {
  const kv_st *s = t->own->files;
  const char *part, *name[NAMED];
  char show[KV_SHOW], list[KV_UNREAD_TEXT] = "";
  size_t n = 0;
  for (size_t i = 0; i < kv_st_count(s); i++) {
    const char *x = kv_st_at(s, i)->name;
    if (kv_trace_part(t, x, &part) >= 0 || part) continue;
    if (n < NAMED) name[n] = x;
    n++;
  }
  for (size_t i = 0; i < n && i < NAMED; i++) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
             kv_show(name[i], show));
  }
  snprintf(out, KV_UNREAD_TEXT,
           "%zu tensor%s unknown to the format and %s ignored: %.360s%s", n,
           n == 1 ? " is" : "s are", n == 1 ? "was" : "were", list,
           n > NAMED ? ", ..." : "");
  return n;
}
