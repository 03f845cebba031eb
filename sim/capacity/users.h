/* SPDX-License-Identifier: Apache-2.0
 *
 * From bytes a user to users a node, and to tokens a second by a roofline.
 * Pure arithmetic on what sim/capacity/lengths.h or measured.h found.
 */
#ifndef KV_SIM_CAPACITY_USERS_H
#define KV_SIM_CAPACITY_USERS_H

#include "sim/capacity/gpu.h"
#include "sim/capacity/lengths.h"

/* A node: gpus devices, in groups of tp that share a model; tp divides gpus. */
typedef struct kv_node {
  const kv_gpu *gpu;
  int gpus, tp;
  int percent;     /* of a device's memory that weights and caches may take */
  int64_t weights; /* bytes of the model's weights; a rank holds 1 / tp */
  int64_t active;  /* weights, a number, that a token is multiplied with */
  int64_t decode;  /* users that decode together; 0: as many as fit */
} kv_node;

/* Bytes of a device that caches may take; 0 or less: the weights do not fit. */
int64_t kv_node_room(const kv_node *n);

/* Users of the node whose requests each hold `held`, of which the fullest of tp
 * ranks has fullest / of: as many as fit with one of them in its prefill, the
 * others after it. */
int64_t kv_node_users(const kv_node *n, const kv_held *held, int64_t fullest,
                      int64_t of);

/* What takes longest in a decode step. */
typedef enum kv_binds {
  KV_BINDS_NOTHING, /* nobody fits, or the reads are not known */
  KV_BINDS_WEIGHTS, /* memory's bandwidth, weights more than caches */
  KV_BINDS_CACHE,   /* memory's bandwidth, caches more than weights */
  KV_BINDS_COMPUTE  /* arithmetic */
} kv_binds;
extern const char *const kv_binds_names[4]; /* - weights cache arithmetic */

/* Tokens a second of the node while `users` decode, at most: a step reads all
 * weights once and every user's cache, `read` bytes, of which the fullest rank
 * fullest / of, and multiplies; the longer of the two is the step. macs:
 * multiplications of a user's attention in a step. NaN where read is. */
double kv_node_speed(const kv_node *n, int64_t users, double read, double macs,
                     double fullest_share, kv_binds *binds);

#endif
