/* SPDX-License-Identifier: Apache-2.0
 *
 * Order, and who is chosen or evicted, of every selection of any method, from
 * its scores: vectors_order DIR
 */
#include "tests/vectors/vectors_folder.h"
#include "tests/vectors/vectors_rules.h"

static int ascending(const void *a, const void *b) {
  return *(const int32_t *)a - *(const int32_t *)b;
}

/* Who takes part is read from the order itself. */
static void rank(const matrix *order) {
  int t = order->step, h = order->head, n = order->rows;
  const float *all_scores = find("scores", order, t, h)->x;
  const matrix *chosen = find("chosen", order, t, h);
  int32_t who[n], by_rank[n];
  float score[n];
  memcpy(who, order->id, sizeof who);
  qsort(who, n, sizeof *who, ascending);
  for (int i = 0; i < n; i++) score[i] = all_scores[who[i]];
  for (int i = 0; i < n; i++) by_rank[rank_of(i, n, score)] = who[i];
  hold("order", order, t, h, n, by_rank);
  if (chosen) {
    qsort(by_rank, chosen->rows, sizeof *by_rank, ascending);
    hold("chosen", order, t, h, chosen->rows, by_rank);
    return;
  }
  int least = 0;
  for (int i = 1; i < n; i++)
    if (key(score[i]) < key(score[least])) least = i;
  hold("evicted", order, t, h, 1, &who[least]);
}

int main(int argc, char **argv) {
  read_folder(argc, 2, argv);
  for (matrix *m = all; m < end; m++)
    if (strcmp(m->stage, "order") == 0) rank(m);
  return wrong > 0;
}
