/* SPDX-License-Identifier: Apache-2.0
 *
 * What kivi stores and reads, from k and v: page tables, codes, scales, minima
 * and rows as they are read: vectors_kivi DIR BITS GROUP RESIDUAL paper|code
 */
#include "tests/vectors/vectors_folder.h"
#include "tests/vectors/vectors_rules.h"

static const char *const stages[][6] = {
    {"k", "k_page_table", "k_codes", "k_scales", "k_minima", "k_read"},
    {"v", "v_page_table", "v_codes", "v_scales", "v_minima", "v_read"}};
static int bits, fp16; /* fp16: what chooses codes is rounded to it */
static float op(float x) { return fp16 ? (float)(_Float16)x : x; }

/* The first `coded` rows are in codes; blocks of `tall` rows and `wide`
 * elements, `each` of them side by side, share a scale and a minimum. */
static void side(const char *const *stage, const matrix *by, int coded,
                 int tall, int wide) {
  const matrix *m = find(stage[0], by, 0, by->head);
  int n = by->rows, w = m->width, each = (w + wide - 1) / wide, size = n * w;
  int32_t table[n][2];
  uint8_t code[size];
  _Float16 scale[size], min[size];
  float low[size], high[size], read[size], L = (1 << bits) - 1;
  for (int i = 0; i < size; i++) low[i] = INFINITY, high[i] = -INFINITY;
  memset(table, -1, sizeof table);
  memcpy(read, m->x, sizeof read);
  for (int i = 0; i < coded * w; i++) {
    int b = i / w / tall * each + i % w / wide;
    float x = op(m->x[i]);
    if (key(x) < key(low[b])) low[b] = x;
    if (key(x) > key(high[b])) high[b] = x;
    scale[b] = op(high[b] - low[b]) / L, min[b] = low[b];
  }
  for (int i = 0; i < coded * w; i++) {
    int b = i / w / tall * each + i % w / wide;
    float s = scale[b], y = op(op(op(m->x[i]) - min[b]) / s);
    code[i] = s > 0 ? rintf(fminf(fmaxf(y, 0), L)) : 0;
    read[i] = fmaf(code[i], s, min[b]);
    table[i / w][0] = i / w, table[i / w][1] = i / w / tall;
  }
  hold(stage[1], by, by->step, by->head, n, table);
  hold(stage[2], by, by->step, by->head, coded, code);
  hold(stage[3], by, by->step, by->head, coded / tall, scale);
  hold(stage[4], by, by->step, by->head, coded / tall, min);
  hold(stage[5], by, by->step, by->head, n, read);
}

int main(int argc, char **argv) {
  read_folder(argc, 6, argv);
  int group = atoi(argv[3]), residual = atoi(argv[4]);
  bits = atoi(argv[2]), fp16 = strcmp(argv[5], "code") == 0;
  for (matrix *m = all; m < end; m++) {
    if (strcmp(m->stage, "entries")) continue;
    int n = m->rows - 1; /* was compressed when the step came */
    side(stages[0], m, n / residual * residual, group, 1);
    side(stages[1], m, n > residual ? n - residual : 0, 1, group);
  }
  return wrong > 0;
}
