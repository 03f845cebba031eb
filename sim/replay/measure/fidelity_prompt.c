/* SPDX-License-Identifier: Apache-2.0
 *
 * What measuring decode rows and prompt rows has in common, and the measures of
 * rows of a prompt that is read in chunks. Cost: O(t) a head, no allocation.
 */
#include "sim/replay/measure/row_part.h"

#include <assert.h>
#include <math.h>

/* a / b, where 0/0 is 0 and x/0 is null (NaN). A null operand gives null. */
static double ratio(double a, double b) {
  if (a == 0 && b == 0) return 0;
  return b > 0 ? a / b : (double)NAN;
}

void kv_row_output(const kv_row *r, int h, double *error, double *most) {
  int d_v = r->truth->shape->d_v;
  const float *exact = r->truth->out + (r->head0 + h) * d_v;
  const float *got = r->seen->out + h * d_v;
  double square = 0;
  *most = 0;
  for (int i = 0; i < d_v; i++) {
    double gap = (double)got[i] - (double)exact[i];
    square += gap * gap;
    *most = fabs(gap) > *most ? fabs(gap) : *most;
  }
  if (isnan(square)) *most = (double)NAN; /* a maximum would skip a NaN */
  *error = ratio(sqrt(square), r->truth->norm[r->head0 + h]);
}

static bool is_plain(const kv_lane *l) {
  uint32_t disorder = 0;
  for (int i = 1; i < l->n; i++) disorder |= l->id[i] <= l->id[i - 1];
  if (l->last)
    for (int i = 0; i < l->n; i++) disorder |= l->weight[i] != 1;
  return !disorder;
}

kv_row kv_row_of(kv_fidelity *f, int layer, const kv_seen *seen,
                 kv_truth *truth, int first) {
  const kv_lane *l = seen->lane;
  assert(l->kv_head == truth->kv_head && f->layer[layer] == truth->layer);
  kv_truth_weigh(truth);
  return (kv_row){.f = f,
                  .layer = layer,
                  .seen = seen,
                  .truth = truth,
                  .lane = l,
                  .n = truth->t + 1,
                  .visible = truth->t + 1 - truth->first,
                  .step = truth->t - first,
                  .head0 = l->first_head - truth->kv_head * kv_group(f->shape),
                  .plain = is_plain(l),
                  .top = {-1, -1, -1}};
}

/* Exact probability of the tokens of weight 1 in the view of head h. */
static double mass_of(kv_row *r, int h) {
  const kv_compare *c = &r->truth->compare;
  const float *p = kv_row_of_head(r, r->truth->p, h);
  int m = kv_row_list(r, &r->seen->view[h]);
  double mass = 0;
  for (int i = 0; i < m; i++)
    if (r->plain || r->lane->weight[c->entry[c->place[i]]] == 1)
      mass += (double)p[c->token[i]];
  return mass;
}

void kv_fidelity_prompt_row(kv_fidelity *f, int layer, const kv_seen *seen,
                            kv_truth *truth) {
  kv_row r = kv_row_of(f, layer, seen, truth, f->shape->chunk);
  for (int h = 0; h < seen->queries; h++) {
    double error, most;
    kv_row_output(&r, h, &error, &most);
    kv_row_put(&r, KV_PROMPT_ERROR, h, error);
    kv_row_put(&r, KV_PROMPT_MASS, h, mass_of(&r, h));
    kv_row_put(&r, KV_PROMPT_ATTENDED, h,
               (double)seen->view[h].entries / (double)r.visible);
  }
}
