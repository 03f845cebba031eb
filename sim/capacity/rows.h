/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that `kvreplay capacity` prints: one for each method and budget, as
 * a table for people, as CSV or as JSON.
 */
#ifndef KV_SIM_CAPACITY_ROWS_H
#define KV_SIM_CAPACITY_ROWS_H

#include "sim/capacity/users.h"

/* What bytes come to on a node. */
typedef struct kv_capacity_at {
  kv_stored stored;
  int64_t users, codes_users; /* by memory; of K and V or their codes alone */
  double speed;               /* tokens a second; NaN: reads are not known */
  kv_binds binds;             /* what the step waits for */
} kv_capacity_at;

typedef struct kv_capacity_row {
  const char *method, *budget; /* as typed; budget "": none sets the knob */
  int traces;                  /* rows that were measured; 0: lengths decide */
  int reads;         /* rows that say what is read, where lengths decide what is
                        stored; else 0 */
  kv_capacity_at at; /* of lengths, or of the trace in the middle by bytes */
  kv_capacity_at low, high; /* of the traces at 10 and at 90 % by bytes */
  char why[512];            /* not "": there are no numbers, and why */
} kv_capacity_row;

typedef enum kv_capacity_format {
  KV_CAPACITY_TABLE,
  KV_CAPACITY_CSV,
  KV_CAPACITY_JSON
} kv_capacity_format;

/* What the stored bytes come to for requests `ask` on the node. */
void kv_capacity_take(const kv_node *node, const kv_lengths *ask,
                      const kv_stored *stored, kv_capacity_at *out);
/* The same for n of them, ascending by bytes: the middle one (of an even number
 * the lower), and those at 10 and 90 % by nearest rank. n >= 1 (asserted). */
void kv_capacity_spread(const kv_node *node, const kv_lengths *ask, int n,
                        const kv_stored *stored, kv_capacity_row *out);

/* Prints them to standard output. `ask` gives model and lengths. */
void kv_capacity_print(kv_capacity_format format, const kv_node *node,
                       const kv_lengths *ask, int n,
                       const kv_capacity_row *row);

#endif
