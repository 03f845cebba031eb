/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to ref/ground/sha256.c, which chooses, and a test, which compares:
 * the compression function of SHA-256 in plain C and with the processor's SHA
 * instructions, with the same results.
 */
#ifndef KV_REF_SHA256_BLOCKS_H
#define KV_REF_SHA256_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* FIPS 180-4, 4.2.2: cube roots of the first 64 primes. */
extern const uint32_t kv_sha256_constants[64];

/* Advances state over count blocks of 64 bytes at data. */
void kv_sha256_blocks_plain(uint32_t state[8], const uint8_t *data,
                            size_t count);

/* The same; requires kv_sha256_has_ni. */
void kv_sha256_blocks_ni(uint32_t state[8], const uint8_t *data, size_t count);
/* 1 if this processor and this build have the instructions, else 0. */
int kv_sha256_has_ni(void);

#endif
