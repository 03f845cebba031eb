/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4), streaming: init, any number of adds, end. Uses the
 * processor's SHA instructions if it has them. Never fails, owns nothing.
 */
#ifndef KV_REF_SHA256_H
#define KV_REF_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct kv_sha256 {
  uint32_t state[8];
  uint64_t bytes;   /* added so far */
  uint8_t tail[64]; /* the last bytes % 64 of them */
} kv_sha256;

typedef struct kv_digest {
  uint8_t byte[32];
} kv_digest;

void kv_sha256_init(kv_sha256 *h);
void kv_sha256_add(kv_sha256 *h, const void *data, size_t bytes);
/* The digest of all bytes added. Call init before using h again. */
kv_digest kv_sha256_end(kv_sha256 *h);

/* 64 lower-case hex digits and a NUL. */
void kv_digest_hex(const kv_digest *d, char out[65]);

#endif
