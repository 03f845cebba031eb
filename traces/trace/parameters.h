/* SPDX-License-Identifier: Apache-2.0
 *
 * How many weights the models of traces/trace/geometry.h have, for `kvreplay
 * capacity`: a node must hold them in addition to the cache.
 */
#ifndef KV_TRACES_PARAMETERS_H
#define KV_TRACES_PARAMETERS_H

#include <stdint.h>

#include "traces/trace/geometry.h"

typedef struct kv_parameters {
  int64_t all;       /* weights of the model, including input and output
                        embeddings */
  int64_t active;    /* weights that one token is multiplied with: without an
                        input embedding that is only looked up, and with as many
                        experts as a token is sent to */
  int64_t embedding; /* weights of an input embedding that is only looked up */
  int experts;       /* of a layer; 0: it has none */
  int routed;        /* experts of a layer that a token is sent to */
} kv_parameters;

/* The numbers of a model of the table, by its name; zeros for `tiny`, which is
 * no model, and for a geometry that is not in the table. Cannot fail. */
kv_parameters kv_geometry_parameters(const kv_geometry *g);

#endif
