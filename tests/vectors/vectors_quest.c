/* SPDX-License-Identifier: Apache-2.0
 *
 * What quest computes and decides, from q and k: page bounds, scores, how many
 * pages, view: vectors_quest DIR BUDGET PAGE
 */
#include "tests/vectors/vectors_folder.h"
#include "tests/vectors/vectors_rules.h"

static int budget, page;

/* Rule 5: what a key within the bounds can reach. */
static float bound(const float *q, const float *low, const float *high) {
  float u = 0;
  for (int x = 0; x < d; x++) {
    float a = q[x] * low[x], b = q[x] * high[x];
    u += key(a) > key(b) ? a : b;
  }
  return u;
}

static void attend(const matrix *entries, int h, float low[][d],
                   float high[][d]) {
  int t = entries->step, n = entries->rows, pages = (n + page - 1) / page;
  int best = budget / page > 1 ? budget / page : 1, m = 0;
  float u[pages];
  int32_t view[n];
  for (int i = 0; i < pages; i++)
    u[i] = bound(query(entries, h), low[i], high[i]);
  if (budget >= n || best > pages) best = pages;
  if (best < pages) hold("scores", entries, t, h, pages - 1, u);
  for (int i = 0, p = 0; i < n; p = ++i / page)
    if (p == pages - 1 || rank_of(p, pages - 1, u) < best - 1) view[m++] = i;
  hold("view", entries, t, h, m, view);
}

static void look(const matrix *entries) {
  int t = entries->step, g = entries->head, n = entries->rows;
  float low[n][d], high[n][d];
  const float **k = rows("k", "k_read", entries, g);
  for (int i = 0; i < n; i++)
    for (int x = 0, p = i / page; x < d; x++) {
      float y = k[i][x];
      if (i % page == 0) low[p][x] = high[p][x] = y;
      if (key(y) < key(low[p][x])) low[p][x] = y;
      if (key(y) > key(high[p][x])) high[p][x] = y;
    }
  hold("page_min", entries, t, g, (n + page - 1) / page, low);
  hold("page_max", entries, t, g, (n + page - 1) / page, high);
  for (int h = 0; h < heads / kv_heads; h++)
    attend(entries, g * (heads / kv_heads) + h, low, high);
}

int main(int argc, char **argv) {
  read_folder(argc, 4, argv);
  budget = atoi(argv[2]), page = atoi(argv[3]);
  for (matrix *m = all; m < end; m++)
    if (strcmp(m->stage, "entries") == 0) look(m);
  return wrong > 0;
}
