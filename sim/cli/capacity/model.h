/* SPDX-License-Identifier: Apache-2.0
 *
 * The model for which `kvreplay lengths` replays a request: its shape, from the
 * table of models (traces/trace/models.csv) or from a JSON file with the keys
 * that the command prints. sim/python/kvreplay/capacity makes such a file from
 * a config.json.
 */
#ifndef KV_SIM_CAPACITY_MODEL_H
#define KV_SIM_CAPACITY_MODEL_H

#include "traces/trace/parameters.h"
#include "traces/trace/trace.h"

typedef struct kv_served {
  const char *name; /* as typed */
  kv_shape shape;   /* of the model; its lengths and `windowed` are unset */
  int n_layers;     /* layers that have a cache */
  int *layer;       /* [n_layers] their numbers in the model, ascending */
  int *window;      /* [n_layers] sliding windows in tokens; 0: none */
  float *inv_freq;  /* [d / 2] RoPE's frequencies; with a file those of base
                       10000, which change no length */
  kv_parameters weights; /* zeros with a file */
  char refused[256];     /* with a file: not "": no method is replayed; the
                            reason */
} kv_served;

extern const char *const kv_served_types[3]; /* names of kv_dtype in a file */

/* *out: the model that `text` names, from the table or a file. KV_USAGE: no
 * such model; the message suggests the nearest name. KV_INPUT: the file is bad.
 * KV_RESOURCE: memory. Close it also after a failure; text outlives it. */
kv_rc kv_served_open(const char *text, kv_served *out, kv_err *e);
void kv_served_close(kv_served *m); /* frees and zeroes; accepts zeroed */
/* The i-th name in the table of models, NULL past the last. For completion. */
const char *kv_served_name(int i);

#endif
