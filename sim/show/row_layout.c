/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of layouts: sim/show/row_layout.h.
 */
#include "sim/show/row_layout.h"

#include "sim/text/number.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

kv_rc kv_row_layouts_take(const kv_result *r, kv_row_layouts *out, kv_err *e) {
  size_t n = (size_t)r->n_layouts;
  *out = (kv_row_layouts){0};
  if (!n) return KV_OK;
  out->of = kv_zalloc(n, sizeof *out->of);
  if (!out->of) return kv_no_memory(e, "the table", n * sizeof *out->of);
  out->n = r->n_layouts;
  memcpy(out->of, r->layout, n * sizeof *out->of);
  for (int i = 0; i < out->n; i++) out->of[i].step = NULL;
  return KV_OK;
}

void kv_row_layouts_free(kv_row_layouts *l) {
  free(l->of);
  *l = (kv_row_layouts){0};
}

void kv_row_layouts_head(FILE *out, int label, int asked) {
  fprintf(out, "%-*s  %*s  %-16s %8s %8s %8s %8s %8s %8s\n", label, "layouts",
          asked, "asked", "layout", "pages", "end", "mean", "peak", "slack",
          "freed");
}

/* The share of vacated bytes that became free; "-" if none were vacated. */
static void share(const kv_layout_result *l, char out[KV_NUMBER]) {
  if (l->vacated)
    snprintf(out, KV_NUMBER, "%.1f%%",
             100 * (double)l->freed / (double)l->vacated);
  else
    strcpy(out, "-");
}

static void print(FILE *out, const kv_layout_result *l) {
  char end[KV_NUMBER], mean[KV_NUMBER], peak[KV_NUMBER], slack[KV_NUMBER],
      freed[KV_NUMBER];
  share(l, freed);
  fprintf(out, "%-16s %8" PRId64 " %8s %8s %8s %8s %8s\n", l->name,
          l->pages_end, kv_number_bytes((double)l->end, end),
          kv_number_bytes(l->mean, mean),
          kv_number_bytes((double)l->peak, peak),
          kv_number_bytes((double)l->slack_end, slack), freed);
}

/* A line more for a layout with page tables, under the layout's name. */
static void print_tables(FILE *out, int indent,
                         const kv_layout_table_result *t) {
  char unused[KV_NUMBER], peak[KV_NUMBER];
  fprintf(out,
          "%*s  unused %s, at most %s; moved %" PRId64
          "; table entries %" PRId64 ", list operations %" PRId64 "\n",
          indent, "", kv_number_bytes((double)t->unused_end, unused),
          kv_number_bytes((double)t->unused_peak, peak), t->moved, t->entries,
          t->operations);
}

/* The same of regular indices: loads a decode step and lane, and what the lanes
 * hold as a share of as many of the longest. */
static void print_regular(FILE *out, int indent, int64_t steps,
                          const kv_layout_regular_result *g) {
  char moved[KV_NUMBER], mask[KV_NUMBER];
  double loads = steps ? (double)g->loads / (double)(steps * g->lanes) : 0;
  double full = (double)g->lanes * (double)g->fullest;
  fprintf(out,
          "%*s  loads %.1f tokens a lane and step; %" PRId64
          " rewrites move %s; masks %s; utilisation %.1f%%",
          indent, "", loads, g->rewrites,
          kv_number_bytes((double)g->moved, moved),
          kv_number_bytes((double)g->mask_end, mask),
          full > 0 ? 100 * (double)g->kept / full : 0);
  if (g->break_even >= 0)
    fprintf(out, "; paid after %" PRId64 " steps", g->break_even);
  fputc('\n', out);
}

void kv_row_layouts_print(FILE *out, int label, const char *method, int asked,
                          const char *target, const kv_row_layouts *l) {
  if ((int)strlen(method) > label) {
    fprintf(out, "%s\n", method);
    method = "";
  }
  for (int i = 0; i < l->n; i++) {
    fprintf(out, "%-*s  %*s  ", label, i ? "" : method, asked, i ? "" : target);
    print(out, &l->of[i]);
    if (l->of[i].tables.there)
      print_tables(out, label + 2 + asked + 2, &l->of[i].tables);
    if (l->of[i].regular.there)
      print_regular(out, label + 2 + asked + 2, l->of[i].n_steps - 1,
                    &l->of[i].regular);
  }
}
