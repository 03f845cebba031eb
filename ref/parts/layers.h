/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers by a list: what a parameter such as 2/8/18 names, and the list where
 * it names none. Both twins of a method read the resolved list from its params.
 */
#ifndef KV_REF_PARTS_LAYERS_H
#define KV_REF_PARTS_LAYERS_H

#include "ref/ground/arith.h"
#include "ref/lane/method.h"

enum {
  KV_LISTED_LAYERS = 128, /* most that a list names */
  KV_FEW_LAYERS = 16      /* below this many a model gets one filter */
};

typedef struct kv_layer_list {
  int32_t n;                       /* how many */
  int32_t layer[KV_LISTED_LAYERS]; /* ascending */
} kv_layer_list;

/* Which of the list is the nearest at `layer` or above it (a lower number), as
 * an index of the list; -1: none is. */
KV_FN int kv_layer_above(const kv_layer_list *list, int layer) {
  int i = list->n - 1;
  while (i >= 0 && list->layer[i] > layer) i--;
  return i;
}

#ifdef __cplusplus
extern "C" {
#endif

/* *out = the layers that choose for others where nobody names them. Layers with
 * a sliding window see too little to choose: they are left out, and n layers
 * and their numbers below are those of the others, unless all have one. Of 32
 * layers 2, 8, 18, as OmniKV's authors configure Llama-3-8B; from 16
 * layers on these times L / 32, rounded, halves up; below that one, max(1, L
 * div 4), for less is not worth three. A model of one layer has layer 0. */
void kv_filter_layers(const kv_shape *shape, kv_layer_list *out);

/* *out = the layers that attend everything where nobody names them: the filters
 * and all above the first. Of a model of 28 layers 0, 1, 2, 4, 7 and 14, as
 * Sparse-vLLM has them for Qwen2.5-7B, and a list of nine where it has 64. */
void kv_full_layers(const kv_shape *shape, kv_layer_list *out);

/* In open: the value `text` of the parameter `name`, such as "2/8/18", is read
 * into *list or, where it is empty, becomes what *list holds as the default.
 * KV_USAGE where it is no list or too long, KV_REFUSED where it does not ascend
 * or names a layer that the model has not. */
kv_rc kv_open_layers(const char *method, const char *name, int n_layers,
                     char text[KV_TEXT_MAX], kv_layer_list *list, kv_err *e);

#ifdef __cplusplus
}
#endif

#endif
