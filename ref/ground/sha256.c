/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4): streaming, and the compression in plain C. Contract:
 * ref/ground/sha256.h. Whole blocks are hashed in place; only the start of an
 * unfinished block is kept in the tail.
 */
#include "ref/ground/sha256.h"
#include "ref/ground/sha256_blocks.h"

#include <string.h>

const uint32_t kv_sha256_constants[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu,
    0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u, 0xd807aa98u, 0x12835b01u,
    0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u,
    0xc19bf174u, 0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu,
    0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau, 0x983e5152u,
    0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u,
    0x06ca6351u, 0x14292967u, 0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu,
    0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u,
    0xd6990624u, 0xf40e3585u, 0x106aa070u, 0x19a4c116u, 0x1e376c08u,
    0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu,
    0x682e6ff3u, 0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u,
    0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u,
};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t big_endian(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
         p[3];
}

/* 6.2.2 step 1: the message schedule. */
static void schedule(const uint8_t *data, uint32_t w[64]) {
  for (int t = 0; t < 16; t++) w[t] = big_endian(data + 4 * t);
  for (int t = 16; t < 64; t++) {
    uint32_t a = w[t - 15], b = w[t - 2];
    a = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
    b = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
    w[t] = b + w[t - 7] + a + w[t - 16];
  }
}

/* Steps 2 to 4 for one block; s[0..7] are the standard's a..h. */
static void compress(uint32_t state[8], const uint8_t *data) {
  uint32_t w[64], s[8];
  schedule(data, w);
  memcpy(s, state, sizeof s);
  for (int t = 0; t < 64; t++) {
    uint32_t a = s[0], e = s[4];
    uint32_t t1 = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                  ((e & s[5]) ^ (~e & s[6])) + kv_sha256_constants[t] + w[t];
    uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                  ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += t1;
    s[0] = t1 + t2;
  }
  for (int i = 0; i < 8; i++) state[i] += s[i];
}

void kv_sha256_blocks_plain(uint32_t state[8], const uint8_t *data,
                            size_t count) {
  for (; count; count--, data += 64) compress(state, data);
}

static void blocks(uint32_t state[8], const uint8_t *data, size_t count) {
  if (kv_sha256_has_ni()) {
    kv_sha256_blocks_ni(state, data, count);
  } else {
    kv_sha256_blocks_plain(state, data, count);
  }
}

/* 5.3.3: square roots of the first 8 primes. */
static const uint32_t start[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u,
                                  0xa54ff53au, 0x510e527fu, 0x9b05688cu,
                                  0x1f83d9abu, 0x5be0cd19u};

void kv_sha256_init(kv_sha256 *h) {
  memcpy(h->state, start, sizeof start);
  h->bytes = 0;
}

void kv_sha256_add(kv_sha256 *h, const void *data, size_t bytes) {
  const uint8_t *p = data;
  size_t held = h->bytes % 64;
  if (!bytes) return; /* data may be NULL then */
  h->bytes += bytes;
  if (held) {
    size_t take = 64 - held < bytes ? 64 - held : bytes;
    memcpy(h->tail + held, p, take);
    if (held + take < 64) return;
    blocks(h->state, h->tail, 1);
    p += take;
    bytes -= take;
  }
  if (bytes >= 64) blocks(h->state, p, bytes / 64);
  memcpy(h->tail, p + bytes / 64 * 64, bytes % 64);
}

kv_digest kv_sha256_end(kv_sha256 *h) {
  static const uint8_t padding[64] = {0x80};
  const uint64_t bits = h->bytes * 8;
  uint8_t length[8];
  kv_digest d;
  kv_sha256_add(h, padding, 1 + (119 - h->bytes % 64) % 64);
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
  kv_sha256_add(h, length, 8);
  for (int i = 0; i < 32; i++)
    d.byte[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
  return d;
}

void kv_digest_hex(const kv_digest *d, char out[65]) {
  static const char hex[] = "0123456789abcdef";
  for (int i = 0; i < 32; i++) {
    out[2 * i] = hex[d->byte[i] >> 4];
    out[2 * i + 1] = hex[d->byte[i] & 15];
  }
  out[64] = 0;
}
