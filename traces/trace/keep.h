/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a full trace a smaller one keeps, as it is typed for `kvtrace slim`,
 * `kvtrace plan` and `kvreplay record`, whose words these are.
 */
#ifndef KV_TRACES_KEEP_H
#define KV_TRACES_KEEP_H

#include <limits.h>
#include <stdbool.h>

#include "ref/ground/err.h"

enum {
  KV_KEEP_ALL = INT_MAX,  /* of kv_keep.last */
  KV_KEEP_LAYERS = 100000 /* numbers of layers that may be named */
};

typedef struct kv_keep {
  int last;     /* query rows of the prompt, its last so many; KV_KEEP_ALL: all.
                   Those of decode steps always stay */
  int n_layers; /* 0: all layers */
  int *layers;  /* [n_layers] their numbers in the model, ascending */
  bool no_o;    /* outputs are left out, */
  bool no_tokens; /* or token ids, */
  bool no_sums;   /* or column sums, also where rows are missing */
} kv_keep;

/* Reads "all", "decode" or "last=N,decode" into *last. KV_USAGE. */
kv_rc kv_keep_rows(const char *text, int *last, kv_err *e);

/* Reads "all" or numbers and spans below KV_KEEP_LAYERS, as "0,3,8-11", in any
 * order, into keep->layers and n_layers. KV_USAGE; KV_RESOURCE: memory. */
kv_rc kv_keep_layers(const char *text, kv_keep *keep, kv_err *e);

/* Whether it keeps this layer of the model. */
bool kv_keep_has(const kv_keep *keep, int layer);

/* The first token of the prompt whose query row stays; prompt_len: none. */
int kv_keep_first(const kv_keep *keep, int prompt_len);

/* Frees the layers; *keep may be zeroed. */
void kv_keep_free(kv_keep *keep);

#endif
