/* SPDX-License-Identifier: Apache-2.0
 *
 * How a selection chooses, and what stands where a score would: words that the
 * reference (ref/lane/select.h, ref/lane/shown.h) and the kernels share.
 */
#ifndef KV_REF_CHOICE_H
#define KV_REF_CHOICE_H

/* By which rule. */
typedef enum kv_chose {
  KV_CHOSE_K,    /* so many of the largest, of all lanes together */
  KV_CHOSE_MASS, /* the largest until their mass was reached */
  KV_CHOSE_ONE   /* the smallest of those in `in`, to go: `one` */
} kv_chose;

/* The bits in place of the score of an entry that takes no part: a NaN's. */
#define KV_SHOWN_OUT 0xffffffffu

#endif
