/* SPDX-License-Identifier: Apache-2.0
 *
 * Dense: drops nothing; every query attends every token. All other methods are
 * measured against it. It runs like any method and has no parameters.
 *
 * Family: baseline. Acts: never. Needs: nothing. Bound: t. Bytes: t R. Gather:
 * -. Reduce: -. Sample: everything. Cost: none beyond attention.
 */
#include "ref/parts/parts.h"

static const kv_param table[] = {{.name = NULL}};

static kv_rc open(const kv_shape *shape, void *params, kv_needs *needs,
                  kv_err *e) {
  (void)shape, (void)params, (void)e;
  needs->lengths = needs->slides = needs->chunks = true;
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
