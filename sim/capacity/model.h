/* SPDX-License-Identifier: Apache-2.0
 *
 * The model whose users are counted: its shape and the number of its weights,
 * from the table of models (traces/trace/models.csv) or from a config.json of
 * Hugging Face transformers.
 */
#ifndef KV_SIM_CAPACITY_MODEL_H
#define KV_SIM_CAPACITY_MODEL_H

#include "traces/trace/trace.h"

typedef struct kv_served {
  const char *name;   /* as typed */
  kv_shape shape;     /* of the model; its lengths and `windowed` are unset */
  int n_layers;       /* layers that attend, and so have a cache */
  int *layer;         /* [n_layers] their numbers in the model, ascending */
  int *window;        /* [n_layers] sliding windows in tokens; 0: none */
  float *inv_freq;    /* [d / 2] RoPE's frequencies; of a config.json those of
                         its theta, not scaled */
  int64_t parameters; /* weights of the model; 0: they are not known */
  int64_t active;     /* of these, what a token is multiplied with */
} kv_served;

/* *out: the model that `text` names, one of the table, a config.json, or the
 * folder of one. KV_USAGE: there is none, with the nearest name; KV_INPUT: the
 * file is bad, or its layers have windows that it does not tell apart;
 * KV_RESOURCE: memory. Close it also after a failure; text outlives it. */
kv_rc kv_served_open(const char *text, kv_served *out, kv_err *e);
void kv_served_close(kv_served *m); /* frees and zeroes; accepts zeroed */
/* The i-th name of the table of models, NULL past the last: for completion. */
const char *kv_served_name(int i);

#endif
