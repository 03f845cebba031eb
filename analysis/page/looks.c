/* SPDX-License-Identifier: Apache-2.0
 *
 * How lines look: the colour shows what a method does, by its numbers; the mark
 * and the dash distinguish methods of one colour. Lines that are no methods
 * have colour and mark by their number.
 */
#include "analysis/page/plot.h"
#include "analysis/tables/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DASHES = 4, SHORT = 8 /* a longer legend folds */ };

/* Each is the number of its colour. */
enum { GROWS, DROPS, READS, CODES, BOTH, MERGES, OTHERS, COMPARED, FAMILIES };

static const char *const family[FAMILIES] = {
    [GROWS] = "drops tokens after the prompt, then grows",
    [DROPS] = "drops tokens all along",
    [READS] = "keeps all, reads few",
    [CODES] = "keeps all, in fewer bytes",
    [BOTH] = "fewer tokens, and in fewer bytes each",
    [MERGES] = "merges what it drops",
    [OTHERS] = "others, or no result",
    [COMPARED] = "to compare with"};

/* --- what a line does ----------------------------------------------------- */

/* Sums over the cells of a line that ran: entries per lane at the end, and all
 * tokens; entries beyond the budget, and tokens since the prompt; bytes of
 * codes, and of as many dense entries; shares of bytes read and stored; merged
 * mass. */
typedef struct deeds {
  double kept, tokens, more, steps, codes, dense, read, stored, merged;
} deeds;

static double or_zero(double x) { return isfinite(x) ? x : 0; }

static double number(const kv_grid *g, int r, const char *name) {
  return or_zero(kv_grid_number(g, r, name));
}

static void add(deeds *d, const kv_grid *g, int r) {
  double tokens = number(g, r, "n_tokens"), kept = number(g, r, "kept");
  double share = number(g, r, "share_end"), bytes = number(g, r, "bytes_end");
  double budget = kv_grid_number(g, r, "budget");
  if (!isfinite(kv_grid_number(g, r, "output_error"))) return;
  d->kept += kept;
  d->tokens += tokens;
  d->steps += tokens - number(g, r, "prompt_len");
  d->more += or_zero(kept - budget);
  d->read += number(g, r, "share_read");
  d->stored += number(g, r, "kr");
  d->merged += number(g, r, "mass_merged");
  if (share <= 0 || tokens <= 0) return; /* dense did not run */
  d->codes += number(g, r, "payload");
  d->dense += bytes / share * kept / tokens;
}

static int family_of(const deeds *d, const char *label) {
  static const char *const compared[] = {"dense", "random", "oracle-topk",
                                         "oracle-topp"};
  size_t n = strcspn(label, " ");
  bool all = d->kept >= .995 * d->tokens, few = d->codes < .85 * d->dense;
  for (int i = 0; i < 4; i++)
    if (n == strlen(compared[i]) && !strncmp(label, compared[i], n))
      return COMPARED;
  if (d->tokens <= 0) return OTHERS;
  if (d->merged > 0) return MERGES;
  if (few) return all ? CODES : BOTH;
  if (all) return d->read < .95 * d->stored ? READS : OTHERS;
  return d->more > .5 * d->steps ? GROWS : DROPS;
}

bool kv_look_all(kv_variants *v, const kv_grid *g, const kv_variants *before) {
  deeds *d = calloc((size_t)v->n + 1, sizeof *d);
  int among[FAMILIES] = {0}, lines = before->n;
  v->look = calloc((size_t)v->n + 1, sizeof *v->look);
  for (int i = 0; i < before->n; i++) among[before->look[i].colour]++;
  for (int r = 0; d && r < g->rows; r++) add(d + v->of[r], g, r);
  for (int i = 0; d && v->look && i < v->n; i++) {
    int same = kv_variants_same(before, v->label[i]);
    int of = family_of(d + i, v->label[i]), n = same < 0 ? among[of]++ : 0;
    v->look[i] = (kv_look){of, n % KV_SHAPES, (n + n / KV_SHAPES) % DASHES,
                           n / KV_SHAPES % 2 > 0, same < 0 ? ++lines : 0};
    if (same >= 0) v->look[i] = before->look[same];
  }
  free(d);
  return d && v->look;
}

/* 96 numbers look different: the mark changes before colors repeat with it. */
kv_look kv_look_number(int n) {
  return (kv_look){n % KV_COLOURS, (n + n / 24) % KV_SHAPES,
                   n / KV_COLOURS % DASHES, false, 0};
}

kv_look kv_look_line(const kv_variants *v, int line) {
  return v->look ? v->look[line] : kv_look_number(line);
}

/* --- drawing -------------------------------------------------------------- */

void kv_look_line_class(int line, FILE *f) {
  if (line) fprintf(f, " v%d", line);
}

void kv_look_shapes(FILE *f) {
  /* circle, square, triangle up, diamond, triangle down, plus, star of four,
   * cross, hourglass, bow tie, triangle left, triangle right: unit outlines of
   * about equal area */
  static const char *const shape[KV_SHAPES] = {
      "M-1,0A1,1 0 1 1 1,0A1,1 0 1 1 -1,0Z",
      "M-.9,-.9H.9V.9H-.9Z",
      "M0,-1.2L1.1,.8H-1.1Z",
      "M0,-1.3L1.1,0L0,1.3L-1.1,0Z",
      "M0,1.2L1.1,-.8H-1.1Z",
      "M-.4,-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z",
      "M0,-1.4L.4,-.4L1.4,0L.4,.4L0,1.4L-.4,.4L-1.4,0L-.4,-.4Z",
      "M0,-.5l.6,-.6.5,.5-.6,.6.6,.6-.5,.5-.6-.6-.6,.6-.5-.5.6-.6-.6-.6.5-.5Z",
      "M-1,-1.1H1L.3,0L1,1.1H-1L-.3,0Z",
      "M-1.1,-1V1L0,.3L1.1,1V-1L0,-.3Z",
      "M-1.2,0L.8,-1.1V1.1Z",
      "M1.2,0L-.8,-1.1V1.1Z"};
  fputs("<svg class=\"defs\" aria-hidden=\"true\"><defs>", f);
  for (int i = 0; i < KV_SHAPES; i++)
    fprintf(f,
            "<path id=\"m%d\" vector-effect=\"non-scaling-stroke\" d=\"%s\"/>",
            i, shape[i]);
  fputs("</defs></svg>\n", f);
}

void kv_plot_mark(kv_look k, bool solid, double x, double y, double r,
                  const char *tip, FILE *f) {
  fprintf(f, "<use class=\"k%d m%s", k.colour, solid ? "" : " o");
  kv_look_line_class(k.line, f);
  fprintf(f, "\" href=\"#m%d\" transform=\"translate(%.1f %.1f) scale(%.3g)\"",
          k.shape, x, y, k.small ? .6 * r : r);
  if (*tip) {
    fputs("><title>", f);
    kv_text_html(tip, f);
    fputs("</title></use>\n", f);
  } else {
    fputs("/>\n", f);
  }
}

void kv_look_swatch(kv_look k, FILE *f) {
  fprintf(f,
          "<svg class=\"key\" viewBox=\"0 0 34 14\" aria-hidden=\"true\"><path "
          "class=\"k%d l d%d\" d=\"M1,7H33\"/>",
          k.colour, k.dash % DASHES);
  k.line = 0; /* shown even if the line is switched off */
  kv_plot_mark(k, true, 17, 7, 4.5, "", f);
  fputs("</svg>", f);
}

static void entry(const kv_variants *v, int i, FILE *f) {
  kv_look k = kv_look_line(v, i);
  if (k.line)
    fprintf(f, "<li class=\"v%d\">", k.line);
  else
    fputs("<li>", f);
  kv_look_swatch(k, f);
  kv_text_html(v->label[i], f);
  fputs("</li>\n", f);
}

void kv_plot_legend(const kv_variants *v, FILE *f) {
  if (v->n > SHORT)
    fprintf(f, "<details><summary>%d lines and their marks</summary>", v->n);
  fputs("<ul class=\"legend\">\n", f);
  for (int k = 0; v->look && k < FAMILIES; k++)
    for (int i = 0, n = 0; i < v->n; i++) {
      if (v->look[i].colour != k) continue;
      if (!n++) fprintf(f, "<li class=\"k%d family\">%s</li>\n", k, family[k]);
      entry(v, i, f);
    }
  for (int i = 0; !v->look && i < v->n; i++) entry(v, i, f);
  fputs(v->n > SHORT ? "</ul></details>\n" : "</ul>\n", f);
}
