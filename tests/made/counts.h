/* SPDX-License-Identifier: Apache-2.0
 *
 * A method made up for tests of files that a method reads (assets): its file
 * says how many of its newest entries each KV head of each layer keeps. It has
 * a KV_FILE parameter with the default, tensors of every type, one of them for
 * all layers and one that may be missing. Its twin on the executor is
 * tests/made/counts_twin.cc.
 */
#ifndef KV_TESTS_COUNTS_H
#define KV_TESTS_COUNTS_H

#include "ref/lane/method.h"

/* Its parameters. */
typedef struct counts_params {
  kv_file file;
} counts_params;

/* Its tensors, in the order of at->asset. KEEP: counts [n_kv_heads] of a layer;
 * SHARE, one for all layers: 0.5 and more is one entry more; MORE, optional: as
 * many entries more as it has elements. */
enum { COUNTS_KEEP, COUNTS_SHARE, COUNTS_MORE };

/* The method, "counts"; no budget. */
extern const kv_method counts_method;

#endif
