/* SPDX-License-Identifier: Apache-2.0
 *
 * A method that reads a file: how many of its newest entries each KV head of
 * each layer keeps. It has the default of a KV_FILE, tensors of every type,
 * one of them for all layers and one that may be missing. On the executor it
 * has a twin, tests/made/counts_twin.cc.
 */
#ifndef KV_TESTS_COUNTS_H
#define KV_TESTS_COUNTS_H

#include "ref/lane/method.h"

typedef struct counts_params {
  kv_file file;
} counts_params;

/* Places in at->asset. */
enum { COUNTS_KEEP, COUNTS_SHARE, COUNTS_MORE };

extern const kv_method counts_method;

#endif
