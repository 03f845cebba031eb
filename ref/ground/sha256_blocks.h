/* SPDX-License-Identifier: Apache-2.0
 *
 * The compression function of SHA-256, twice: same results, one with the
 * processor's instructions. ref/ground/sha256.c chooses; tests compare them.
 */
#ifndef KV_REF_SHA256_BLOCKS_H
#define KV_REF_SHA256_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* FIPS 180-4, 4.2.2: cube roots of the first 64 primes. */
extern const uint32_t kv_sha256_constants[64];

/* state is advanced over count blocks of 64 bytes at data. */
void kv_sha256_blocks_plain(uint32_t state[8], const uint8_t *data,
                            size_t count);

/* Only where kv_sha256_has_ni. */
void kv_sha256_blocks_ni(uint32_t state[8], const uint8_t *data, size_t count);
int kv_sha256_has_ni(void);

#endif
