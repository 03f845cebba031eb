/* SPDX-License-Identifier: Apache-2.0
 *
 * Two tiers of precision on one lane: what matters is stored in many bits, what
 * matters less in few. A method puts kv_tiers into its params, with rows for
 * bits (KV_TIER_CHOICES) and groups in its table, calls kv_open_tiers once, and
 * then says of each entry only into which tier it goes. Codes are those of
 * format "token" by the rule unrounded (ref/FORMATS.md), as LeanKV has them; 16
 * bits are a side as it came. A side that both tiers hold alike is one coding
 * for both.
 */
#ifndef KV_REF_TIERS_H
#define KV_REF_TIERS_H

#include "ref/formats/minmax.h"
#include "ref/parts/parts.h"

enum { KV_TIER_HIGH, KV_TIER_LOW, KV_TIER_COUNT };
enum { KV_TIER_K, KV_TIER_V, KV_TIER_SIDES };
enum { KV_TIER_WIDTHS = 5 }; /* how many there are: 16, 8, 4, 2 and 1 bits */
/* The choices of a parameter that says the bits of K and of V. */
#define KV_TIER_CHOICES                                                        \
  "k16v16|k16v8|k16v4|k16v2|k16v1|k8v16|k8v8|k8v4|k8v2|k8v1|k4v16|k4v8|k4v4|"  \
  "k4v2|k4v1|k2v16|k2v8|k2v4|k2v2|k2v1|k1v16|k1v8|k1v4|k1v2|k1v1"

/* In a method's params. */
typedef struct kv_tiers {
  /* Parameters: the value of a KV_TIER_CHOICES, that is KV_TIER_WIDTHS * (which
   * width K has) + which V has, 0 being 16 bits; and groups a row, each of
   * which has a scale of its own. */
  int bits[KV_TIER_COUNT];
  int groups[KV_TIER_COUNT][KV_TIER_SIDES];
  /* By kv_open_tiers. */
  int coding[KV_TIER_COUNT][KV_TIER_SIDES]; /* index of needs.coding; KV_SAME:
                                               as it came */
  kv_minmax how[KV_TIER_COUNT][KV_TIER_SIDES]; /* its settings */
  int tell; /* a side by whose coding the tiers differ; -1: there is one tier */
} kv_tiers;

/* True if both tiers hold both sides alike. */
KV_FN bool kv_one_tier(const kv_tiers *t) { return t->tell < 0; }

/* In open: adds the codings to needs; where the low tier is asked for more bits
 * than the high one, it gets as many as that. KV_REFUSED: groups do not divide
 * a row. t stands in the method's params: codings point to it. */
kv_rc kv_open_tiers(const kv_shape *shape, const char *method, kv_tiers *t,
                    kv_needs *needs, kv_err *e);

/* Is entry i in the low tier? False where there is one tier. */
bool kv_tier_is_low(const kv_at *at, const kv_lane *lane, const kv_tiers *t,
                    int i);
/* Index of the first of the lane's last entries that the high tier has yet to
 * code; lane->n: none. */
int kv_tier_first_new(const kv_lane *lane, const kv_tiers *t);
/* In a compression: puts an entry that was never coded into a tier,
 * KV_TIER_HIGH or _LOW. A scale that is not finite is a fault of the lane. */
void kv_tier_code(const kv_at *at, kv_lane *lane, const kv_tiers *t, int32_t i,
                  int tier);
/* The same from the high tier into the low one, coded from its codes; a side in
 * which both are alike stays. */
void kv_tier_demote(const kv_at *at, kv_lane *lane, const kv_tiers *t,
                    int32_t i);

#endif
