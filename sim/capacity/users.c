/* SPDX-License-Identifier: Apache-2.0
 *
 * Users and speeds of a node: sim/capacity/users.h.
 */
#include "sim/capacity/users.h"

#include <math.h>

__extension__ typedef __int128 wide;

const char *const kv_binds_names[4] = {"-", "weights", "cache", "arithmetic"};

/* x * a / b, rounded up; x * a is beyond 64 bits. */
static int64_t part_of(int64_t x, int64_t a, int64_t b) {
  return (int64_t)(((wide)x * a + b - 1) / b);
}

int64_t kv_node_room(const kv_node *n) {
  return part_of(n->gpu->bytes, n->percent, 100) -
         part_of(n->weights, 1, n->tp);
}

int64_t kv_node_users(const kv_node *n, const kv_held *held, int64_t fullest,
                      int64_t of) {
  int64_t steady = part_of(held->steady, fullest, of);
  int64_t peak = part_of(held->peak, fullest, of);
  int64_t room = kv_node_room(n) - (peak > steady ? peak - steady : 0);
  return room > 0 ? room / steady * (n->gpus / n->tp) : 0;
}

double kv_node_speed(const kv_node *n, int64_t users, double read, double macs,
                     double fullest_share, kv_binds *binds) {
  int groups = n->gpus / n->tp;
  double each = (double)users / groups;
  double weights = (double)n->weights / n->tp;
  double caches = each * read * fullest_share;
  double moves = (weights + caches) / n->gpu->bandwidth;
  double sums = 2 * each * ((double)n->active + macs) / n->tp / n->gpu->flops;
  *binds = KV_BINDS_NOTHING;
  if (users == 0 || isnan(read)) return users == 0 ? 0 : NAN;
  *binds = sums > moves       ? KV_BINDS_COMPUTE
           : caches > weights ? KV_BINDS_CACHE
                              : KV_BINDS_WEIGHTS;
  return (double)users / (sums > moves ? sums : moves);
}
