/* SPDX-License-Identifier: Apache-2.0
 *
 * The method of tests/mad.h.
 */
#include "tests/mad.h"

#include "ref/lane.h"
#include "ref/parts.h"

static kv_rc mad_open(const kv_shape *shape, void *params, kv_needs *needs,
                      kv_err *e) {
  (void)shape, (void)params, (void)e;
  needs->every = needs->merges = 1;
  needs->block = 7;
  needs->columns = 2;
  needs->column[0] = KV_INT64;
  needs->column[1] = KV_FLOAT;
  needs->codings = 2;
  needs->coding[0] = (kv_coding){&kv_format_channel, 4, MAD_CODED, false};
  needs->coding[1] = (kv_coding){&kv_format_token, 2, 16, false};
  return KV_OK;
}

static void code_four(kv_lane *l, int from) {
  int32_t list[MAD_CODED], n = 0;
  for (int i = from; i < l->n && n < MAD_CODED; i++)
    if (l->k[i].format == KV_RAW && l->v[i].format == KV_RAW) list[n++] = i;
  if (n < MAD_CODED) return;
  kv_recode(l, n, list, KV_CODED, KV_SAME);
  for (int i = 1; i < n; i++) kv_recode(l, 1, &list[i], KV_SAME, KV_CODED + 1);
}

static void mad_settle(const kv_at *at, kv_lane *l) {
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
    kv_reclass(l, a);
    break;
  case 4: /* another order, one less */
    for (int i = 1; i < n; i++) list[i - 1] = (i + a) % n;
    kv_keep(l, n - 1, list);
    break;
  default:
    code_four(l, a / 2);
  }
}

const kv_method mad_method = {.abi = KV_METHOD_ABI,
                              .name = "mad",
                              .open = mad_open,
                              .settle_lane = mad_settle};
