/* SPDX-License-Identifier: Apache-2.0
 *
 * A format for each layer and side: the names of ref/formats/named.h, from a
 * file of text and from a list of layers that stay uncoded. Called in `open`.
 */
#ifndef KV_REF_PARTS_BY_LAYER_H
#define KV_REF_PARTS_BY_LAYER_H

#include "ref/formats/named.h"
#include "ref/lane/method.h"

/* Numbers of names (kv_named_format_at), keys before values, by layer. */
typedef struct kv_by_layer {
  uint8_t name[2][KV_BY_LAYER + 1];
} kv_by_layer;

/* What a method's file of formats is: plain text. */
extern const kv_asset_kind kv_by_layer_kind;

/* *by: the format `keys` and `values` in all layers, except in those of the
 * file's lines "LAYERS KEYS VALUES" (file NULL: none) and of the list `raw`
 * ("": none), which leaves layers uncoded whatever the file says. LAYERS is a
 * layer or a range, 5 or 5-8. The list has such items and firstN, lastN, with /
 * between them. parameter: the list's name. KV_INPUT, with the number of the
 * line: not such a line, or a layer that has one above. KV_USAGE: not such a
 * list. KV_REFUSED: a layer that the model lacks. */
kv_rc kv_by_layer_open(const char *method, const char *parameter,
                       const kv_shape *shape, const kv_asset *file,
                       const char *raw, int keys, int values, kv_by_layer *by,
                       kv_err *e);

#endif
