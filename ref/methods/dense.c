/* SPDX-License-Identifier: Apache-2.0
 *
 * Dense: nothing is dropped, every query attends to every token. The truth
 * that all other methods are measured against, as a method like the others.
 *
 *   step: append; attend all
 *
 * There is no paper and nothing to choose. Cost: none beyond attention.
 */
#include "ref/parts/parts.h"

static const kv_param table[] = {{.name = NULL}};

static kv_rc open(const kv_shape *shape, void *params, kv_needs *needs,
                  kv_err *e) {
  (void)shape, (void)params, (void)needs, (void)e;
  return KV_OK;
}

const kv_method kv_method_dense = {
    .abi = KV_METHOD_ABI,
    .revision = 1,
    .name = "dense",
    .title = "the full cache",
    .paper = "Vaswani et al. 2017, Attention Is All You Need, "
             "arXiv:1706.03762",
    .params = table,
    .open = open,
};
