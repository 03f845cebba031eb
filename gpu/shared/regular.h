/* SPDX-License-Identifier: Apache-2.0
 *
 * A store of regular indices on a device, as in Hard-KV's paper (section 3.3):
 * the rows of a lane's tokens are contiguous, every lane has the same number of
 * places, and a mask with one bit a place says which rows count. Sparse: a
 * token keeps its place, and its bit is cleared when it is dropped. Max:
 * remaining rows are gathered into the store's other half, which is in use from
 * then on. Kernels read from device memory which half that is and how many
 * places are taken, so one recorded sequence serves before and after. Starts
 * are kv_device.regular; gpu/host/regular.h allocates the memory. Every pointer
 * is a device pointer.
 *
 * If the store holds the rows of a replay's lanes (gpu/host/indexed.h),
 * kv_cell_ref.block of an entry is its place, and the pages of the lanes' pools
 * are pieces of the half in use. In that half bits of free places are 0.
 */
#ifndef KV_GPU_REGULAR_H
#define KV_GPU_REGULAR_H

#include "gpu/shared/lane.h"

/* Halves of a store. */
enum { KV_GPU_STORES = 2 };

/* What kv_device.regular must do, for every lane. */
typedef enum kv_gpu_regular_act {
  KV_GPU_REGULAR_ENTER,   /* the clock's tokens take the next places; those
                             beyond `room` are left out */
  KV_GPU_REGULAR_ATTEND,  /* computes l->out and l->entries, for rows in masks
                           */
  KV_GPU_REGULAR_REWRITE, /* rows whose bit is set go to places 0, 1, .. of the
                             other half, which is then in use */
  /* If the store holds the lanes of a layer: */
  KV_GPU_REGULAR_READ,  /* masks become the entries of classes that are read */
  KV_GPU_REGULAR_HELD,  /* .. become all entries; before REWRITE */
  KV_GPU_REGULAR_JOIN,  /* .. become the union of the lanes' masks, if a token
                           has one place in all lanes; between these two */
  KV_GPU_REGULAR_FOLLOW /* entries and pools get the new places; after it */
} kv_gpu_regular_act;

/* A half, by lane. */
typedef struct kv_gpu_regular_half {
  char *k, *v;    /* [lanes][room][d] and [..][d_v] of the trace's type */
  uint32_t *mask; /* [lanes][words], or [words] if one mask: bit i % 32 of word
                     i / 32: place i counts. Others may clear bits between
                     kernels, never set them */
  int32_t *taken; /* [lanes] number of places taken */
} kv_gpu_regular_half;

/* The store, as kernels get it. */
typedef struct kv_gpu_regular {
  int32_t room, words; /* places of a lane; words of its mask, room / 32 up */
  int32_t stride;      /* from a lane's mask to the next: words, or 0 if one
                          mask, the union, serves all lanes of a store that is
                          never rewritten */
  int32_t *which;      /* [1] the half in use: 0 or 1 */
  int32_t entries;     /* how ATTEND identifies a logit that is not finite in
                          l->bad: 1 by its entry in l->place, 0 by its number
                          among the bits; by its place if l->lane is NULL */
  kv_gpu_regular_half half[KV_GPU_STORES];
} kv_gpu_regular;

/* Bytes of a half's masks. */
KV_FN size_t kv_gpu_regular_masks(const kv_gpu_regular *r, int lanes) {
  size_t masks = r->stride ? (size_t)lanes : 1;
  return masks * (size_t)r->words * sizeof *r->half[0].mask;
}

#endif
