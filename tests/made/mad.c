/* SPDX-License-Identifier: Apache-2.0
 *
 * The method of tests/made/mad.h.
 */
#include "tests/made/mad.h"

#include "ref/formats/minmax.h"
#include "ref/lane/lane.h"
#include "ref/parts/parts.h"

static kv_rc mad_open(const kv_shape *shape, void *params, kv_needs *needs,
                      kv_err *e) {
  static const kv_minmax four = {4, MAD_CODED, 0}, two = {2, 16, 0};
  (void)shape, (void)params, (void)e;
  needs->every = needs->merges = 1;
  needs->block = 7;
  needs->columns = 2;
  needs->column[0] = KV_INT64;
  needs->column[1] = KV_FLOAT;
  needs->classes = MAD_CLASSES;
  needs->codings = 2;
  needs->coding[0] = KV_CODING(&kv_format_channel, &four, false, KV_BOTH_SIDES);
  needs->coding[1] = KV_CODING(&kv_format_token, &two, false, KV_BOTH_SIDES);
  return KV_OK;
}

static void code_four(const kv_at *at, kv_lane *l, int from) {
  int32_t list[MAD_CODED], n = 0;
  for (int i = from; i < l->n && n < MAD_CODED; i++)
    if (l->k[i].format == KV_RAW && l->v[i].format == KV_RAW) list[n++] = i;
  if (n < MAD_CODED) return;
  kv_recode(l, n, list, kv_coded(at, 0), KV_SAME);
  for (int i = 1; i < n; i++)
    kv_recode(l, 1, &list[i], KV_SAME, kv_coded(at, 1));
}

static void mad_compress(const kv_at *at, kv_lane *l) {
  uint64_t x =
      kv_mix((uint64_t)(at->layer * 64 + l->lane) * 4096 + (uint64_t)at->step);
  int n = l->n, a = (int)(x >> 8 & 0xffff) % n;
  int b = (int)(x >> 24 & 0xffff) % n;
  int32_t *list = KV_TAKE(at->work, int32_t, n);
  int left = 0;
  if (n < 6) return;
  switch (x % 6) {
  case 0: /* some go */
    for (int i = 0; i < n; i++)
      if (i == a || kv_mix(x + (uint64_t)i) % 8) list[left++] = i;
    kv_keep(l, left, list);
    break;
  case 1:
    if (a != b) kv_merge(l, a, b, (float)l->weight[a], (float)l->weight[b]);
    break;
  case 2:
    kv_move(l, a, b);
    break;
  case 3:
    kv_retier(l, 1, &(int32_t){a}, (int)(x >> 40 & 0xff) % MAD_CLASSES);
    break;
  case 4: /* another order, one less */
    for (int i = 1; i < n; i++) list[i - 1] = (i + a) % n;
    kv_keep(l, n - 1, list);
    break;
  default:
    code_four(at, l, a / 2);
  }
}

/* Heads see different entries, the newest always. */
static void mad_view(const kv_at *at, const kv_lane *l, const kv_query *q,
                     kv_view *out) {
  bool *in = KV_TAKE(at->work, bool, l->n);
  for (int i = 0; i < l->n; i++)
    in[i] = i == l->n - 1 || mad_sees(l->first_head + q->head, at->step, i);
  kv_view_mask(out, l->n, in);
}

const kv_method mad_method = {.abi = KV_METHOD_ABI,
                              .name = "mad",
                              .open = mad_open,
                              .view = mad_view,
                              .compress_lane = mad_compress};
