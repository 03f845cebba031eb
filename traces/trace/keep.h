/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a full trace that a smaller one keeps, as typed for `kvtrace
 * slim`, `kvtrace plan` and `kvreplay record`.
 */
#ifndef KV_TRACES_KEEP_H
#define KV_TRACES_KEEP_H

#include <limits.h>
#include <stdbool.h>

#include "ref/ground/err.h"

enum {
  KV_KEEP_ALL = INT_MAX,  /* value of kv_keep.last */
  KV_KEEP_LAYERS = 100000 /* layer numbers must be below this */
};

typedef struct kv_keep {
  int last;       /* the prompt's last so many query rows are kept; KV_KEEP_ALL:
                     all. Rows of decode steps are always kept */
  int n_layers;   /* 0: all layers */
  int *layers;    /* [n_layers] their numbers in the model, ascending */
  bool no_o;      /* leave out outputs */
  bool no_tokens; /* leave out token ids */
  bool no_sums;   /* leave out column sums, even if rows are missing */
} kv_keep;

/* Reads "all", "decode" or "last=N,decode" into *last. KV_USAGE. */
kv_rc kv_keep_rows(const char *text, int *last, kv_err *e);

/* Reads "all" or numbers and spans below KV_KEEP_LAYERS, as "0,3,8-11", in any
 * order, into keep->layers and n_layers. KV_USAGE; KV_RESOURCE: memory. */
kv_rc kv_keep_layers(const char *text, kv_keep *keep, kv_err *e);

/* Does it keep this layer of the model? */
bool kv_keep_has(const kv_keep *keep, int layer);

/* The first token of the prompt whose query row is kept; prompt_len: none. */
int kv_keep_first(const kv_keep *keep, int prompt_len);

/* Frees the layers; *keep may be zeroed. */
void kv_keep_free(kv_keep *keep);

#endif
