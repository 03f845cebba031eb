/* SPDX-License-Identifier: Apache-2.0
 *
 * Further specifications that the laws are tried on (check_laws.c): every value
 * of every choice of a method is tried anyway.
 */
#ifndef KV_TESTS_FURTHER_H
#define KV_TESTS_FURTHER_H

/* Integers and reals whose value changes what happens, with a choice if only
 * both together do. */
static const char *const further[] = {
    "quest:page=8:skip=0",
    "quest:page=8:skip=0:share=group_max:rule=paper",
    "quest:page=5:skip=0:share=group_sum",
    "twilight:skip=0:p=0.5",
    "omnikv:layers=0:window=5:selector=uniform",
    "omnikv:layers=0:roles=sparse-vllm:sink=2:recent=9",
    "omnikv:layers=0:tier=device",
    "snapkv:window=4:kernel=3:pooling=avg:group=max",
    "snapkv:window=1:kernel=1:group=query_head:grow=no:every=3",
    "snapkv:grow=no:every=9:window=4",
    "pyramidkv:beta=2:window=4:sinks=1:grow=twice_past",
    "adakv:alpha=0.7:safeguard=minimum:window=4",
    "adakv:alpha=0:normalise=yes:group=query_head",
    "adakv:skip=1:grow=no:every=9:window=4",
    "headkv:window=4:kernel=3:group=query_head",
    "h2o:variant=prefill:group=max",
    "h2o:variant=masked:recent=5",
    "h2o:recent=0",
    "h2o:recent=0:scale=seen",
    "h2o:variant=prefill:recent=0:scale=seen",
    "tova:variant=prefill:protect_newest=yes",
    "duoattention:sink=2:recent=5",
    "duoattention:sink=1:recent=3:sparsity=0.9:window=4",
    "duoattention:sink=1:recent=3:threshold=0.5",
    "rkv:every=5:window=3",
    "rkv:every=4:window=2:slots=position:trigger=global:threshold=0.1",
    "random:variant=prefill:recent=0",
    "random:recent=0:seed=7",
    "streamingllm:sink=0",
    "zsmerge:residual=3:proximity=4",
    "zsmerge:residual=0:proximity=4",
    "zsmerge:variant=code:residual=3:metric=l2",
    "kivi:group=8:residual=16",
    "kivi:group=8:residual=8:k_bits=4:v_bits=2:variant=code",
    "kivi:group=1:residual=1",
    "quant:residual=5",
    "oracle-topp:p=0.5",
    "oracle-topp:p=0"};
enum { FURTHER = sizeof further / sizeof *further };

#endif
