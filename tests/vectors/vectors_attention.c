/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits, chunks, output and LSE of every view of any method, from q, k, v and
 * the page table or what is read in their place: vectors_attention DIR
 * MERGE_BIAS
 */
#include "tests/vectors/vectors_folder.h"
#include "tests/vectors/vectors_rules.h"

static void attend(const matrix *view, float merge_bias) {
  int h = view->head, lane = h / (heads / lanes), t = view->step;
  int n = view->rows, chunks = (n + 127) / 128;
  float s[n], max[chunks], sum[chunks], acc[chunks][d_v], out[d_v];
  float L = 0, M = -INFINITY;
  const float **k = rows("k", "k_read", view, lane), *q = query(view, h);
  const float **v = rows("v", "v_read", view, lane);
  const matrix *weights = find("weights", view, t, lane);
  memset(acc, 0, sizeof acc);
  memset(out, 0, sizeof out);
  for (int j = 0; j < n; j++) {
    int i = view->id[j], c = j / 128;
    float bias = weights ? merge_bias * log_of(weights->id[i]) : 0;
    s[j] = logit(q, k[i], d, scale, bias);
    max[c] = fmaxf(j % 128 ? max[c] : s[j], s[j]);
    M = fmaxf(M, s[j]);
  }
  for (int c = 0; c < chunks; c++) {
    int64_t mass = 0;
    for (int j = 128 * c; j < n && j < 128 * c + 128; j++) {
      float p = exp_of(s[j] - max[c]);
      mass += llrint(p * 0x1p40);
      for (int x = 0; x < d_v; x++)
        acc[c][x] = fmaf(p, v[view->id[j]][x], acc[c][x]);
    }
    float w = exp_of(max[c] - M);
    L = fmaf(w, sum[c] = (float)mass * 0x1p-40f, L);
    for (int x = 0; x < d_v; x++) out[x] = fmaf(w, acc[c][x], out[x]);
  }
  for (int x = 0; x < d_v; x++) out[x] /= L;
  M += log_of(L);
  hold("logits", view, t, h, n, s);
  hold("chunk_max", view, t, h, chunks, max);
  hold("chunk_sum", view, t, h, chunks, sum);
  hold("chunk_acc", view, t, h, chunks, acc);
  hold("out", view, t, h, 1, out);
  hold("lse", view, t, h, 1, &M);
}

int main(int argc, char **argv) {
  read_folder(argc, 3, argv);
  for (matrix *m = all; m < end; m++)
    if (strcmp(m->stage, "view") == 0) attend(m, strtof(argv[2], NULL));
  return wrong > 0;
}
