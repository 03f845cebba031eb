/* SPDX-License-Identifier: Apache-2.0
 *
 * A 64-bit hash of a row of words: XXH64 with seed 0 (xxHash, Y. Collet),
 * streaming: begin, any number of adds, end. Changing one word always changes
 * the hash; changing several does, except by chance. It is for finding faults:
 * several times as fast as SHA-256, but no protection against deliberate
 * collisions. Never fails, owns nothing.
 */
#ifndef KV_REF_FOLD_H
#define KV_REF_FOLD_H

#include <stddef.h>
#include <stdint.h>

enum { KV_FOLD_WORDS = 8 }; /* words that the algorithm processes at once */

typedef struct kv_fold {
  uint64_t part[4];             /* the four sums of XXH64 */
  uint64_t words;               /* added so far */
  uint32_t tail[KV_FOLD_WORDS]; /* the last words % KV_FOLD_WORDS of them */
} kv_fold;

void kv_fold_begin(kv_fold *f);
/* Adds n words of 4 bytes, little-endian, at any address. */
void kv_fold_add(kv_fold *f, const void *words, size_t n);
/* The hash of all words so far; more may be added. */
uint64_t kv_fold_end(const kv_fold *f);

#endif
