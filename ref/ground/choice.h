/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants of selections that the reference (ref/lane/select.h,
 * ref/lane/shown.h) and the kernels share.
 */
#ifndef KV_REF_CHOICE_H
#define KV_REF_CHOICE_H

/* The rule of a selection. */
typedef enum kv_chose {
  KV_CHOSE_K,    /* the k largest of all lanes together */
  KV_CHOSE_MASS, /* the largest, until they reach a mass */
  KV_CHOSE_ONE   /* the smallest of those in `in`, to be dropped: `one` */
} kv_chose;

/* Replaces the bits of the score of an entry that takes no part: a NaN. */
#define KV_SHOWN_OUT 0xffffffffu

#endif
