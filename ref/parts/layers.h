/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of layers: a parameter such as 2/8/18, and its default. Both twins of a
 * method read the resolved list from its params.
 */
#ifndef KV_REF_PARTS_LAYERS_H
#define KV_REF_PARTS_LAYERS_H

#include "ref/ground/arith.h"
#include "ref/lane/method.h"

enum {
  KV_LISTED_LAYERS = 128, /* most layers in a list */
  KV_FEW_LAYERS = 16      /* a model with fewer layers gets one filter */
};

typedef struct kv_layer_list {
  int32_t n;                       /* how many */
  int32_t layer[KV_LISTED_LAYERS]; /* ascending */
} kv_layer_list;

/* Index in the list of the nearest layer at or above `layer` (at most its
 * number); -1: none. */
KV_FN int kv_layer_above(const kv_layer_list *list, int layer) {
  int i = list->n - 1;
  while (i >= 0 && list->layer[i] > layer) i--;
  return i;
}

#ifdef __cplusplus
extern "C" {
#endif

/* *out = the default of the layers that choose for others. Of 32 layers they
 * are 2, 8, 18, as OmniKV's authors configure Llama-3-8B; from 16 layers on
 * these times L / 32, rounded, halves up; below that only max(1, L div 4). A
 * model of one layer has layer 0. Layers with a sliding window see too little
 * to choose: they are skipped and not counted, unless all have one. */
void kv_filter_layers(const kv_shape *shape, kv_layer_list *out);

/* *out = the default of the layers that attend everything: the filters and all
 * layers above the first. For 28 layers they are 0, 1, 2, 4, 7 and 14, as
 * Sparse-vLLM has them for Qwen2.5-7B; for 64 a list of nine. */
void kv_full_layers(const kv_shape *shape, kv_layer_list *out);

/* In open: reads the value `text` of the parameter `name`, such as "2/8/18",
 * into *list. If text is empty, it becomes what *list holds: the default.
 * KV_USAGE: no list, or too long. KV_REFUSED: it does not ascend, or names a
 * layer that the model lacks. */
kv_rc kv_open_layers(const char *method, const char *name, int n_layers,
                     char text[KV_TEXT_MAX], kv_layer_list *list, kv_err *e);

#ifdef __cplusplus
}
#endif

#endif
