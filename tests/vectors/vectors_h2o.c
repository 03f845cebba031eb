/* SPDX-License-Identifier: Apache-2.0
 *
 * What h2o stores, sums and keeps, replayed from q and k step by step:
 * vectors_h2o DIR BUDGET RECENT SCALE, of variant=drop
 */
#include "tests/vectors/vectors_folder.h"
#include "tests/vectors/vectors_rules.h"

static int budget, recent, seen, n; /* entries of the lane */
static int32_t entry[1 << 12];
static int64_t column[1 << 12];

/* Rule 4: what one query adds to the columns, its probabilities at 2^-40. */
static void observe(const float *q, const matrix *k) {
  float s[n], p[n], M = -INFINITY;
  int64_t mass = 0;
  for (int i = 0; i < n; i++)
    M = fmaxf(M, s[i] = logit(q, k->x + entry[i] * d, d, scale, 0));
  for (int i = 0; i < n; i++)
    mass += llrint((p[i] = exp_of(s[i] - M)) * 0x1p40);
  float r = 1 / ((float)mass * 0x1p-40f);
  for (int i = 0; i < n; i++) column[i] += llrint(p[i] * r * 0x1p40);
}

static void compress(const matrix *k, int t, int asked) {
  int g = k->head, past = n - recent, m = 0;
  float score[n];
  if (asked) hold("column", k, t, g, n, column);
  if (n <= budget) return;
  for (int i = 0; i < past; i++)
    score[i] = (float)column[i] * 0x1p-40f / (seen ? t - entry[i] : 1);
  if (asked) hold("scores", k, t, g, past, score);
  for (int i = 0; i < n; i++)
    if (i >= past || rank_of(i, past, score) < budget - recent)
      entry[m] = entry[i], column[m++] = column[i];
  n = m;
}

static void replay(const matrix *k) {
  int g = k->head, group = heads / kv_heads;
  n = 0;
  for (int t = 1; t <= k->rows; t++) {
    int asked = find("kept", k, t, g) != NULL;
    entry[n] = t - 1, column[n++] = 0;
    if (asked && t > prompt) hold("entries", k, t, g, n, entry);
    for (int h = g * group; h < g * group + group; h++)
      observe(find("q", k, 0, h)->x + (t - 1) * d, k);
    if (t >= prompt) compress(k, t, asked);
    if (asked) hold("kept", k, t, g, n, entry);
  }
}

int main(int argc, char **argv) {
  read_folder(argc, 5, argv);
  budget = atoi(argv[2]), recent = atoi(argv[3]);
  seen = strcmp(argv[4], "seen") == 0;
  for (matrix *m = all; m < end; m++)
    if (strcmp(m->stage, "k") == 0) replay(m);
  return wrong > 0;
}
