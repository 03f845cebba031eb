/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 gives the standard's vectors, however it is fed, in plain C and with
 * the processor's instructions.
 */
#include "ref/ground/sha256.h"
#include "ref/ground/sha256_blocks.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <string.h>

static uint64_t seed = 0x9e3779b97f4a7c15u;

static void hashes_to(const char *text, size_t times, const char *want) {
  kv_sha256 h;
  char hex[65];
  kv_sha256_init(&h);
  for (size_t i = 0; i < times; i++) kv_sha256_add(&h, text, strlen(text));
  kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, hex);
  assert_string_equal(hex, want);
}

TEST(sha_vectors) {
  hashes_to("", 1,
            "e3b0c44298fc1c149afbf4c8996fb924"
            "27ae41e4649b934ca495991b7852b855");
  hashes_to("abc", 1,
            "ba7816bf8f01cfea414140de5dae2223"
            "b00361a396177a9cb410ff61f20015ad");
  hashes_to("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
            "248d6a61d20638b8e5c026930c3e6039"
            "a33ce45964ff2167f6ecedd419db06c1");
  hashes_to("aaaaaaaaaa", 100000,
            "cdc76e5c9914fb9281a1c7e284d73e67"
            "f1809a48a497200e046d39ccc7112cd0");
}

TEST(sha_pieces) {
  uint8_t data[300];
  for (int i = 0; i < 300; i++) data[i] = (uint8_t)draw(&seed);
  for (size_t n = 0; n <= 300; n++) {
    kv_sha256 a, b;
    kv_sha256_init(&a);
    kv_sha256_add(&a, data, n);
    kv_sha256_init(&b);
    for (size_t at = 0, step; at < n; at += step) {
      step = 1 + draw(&seed) % 70;
      if (step > n - at) step = n - at;
      kv_sha256_add(&b, data + at, step);
    }
    kv_digest x = kv_sha256_end(&a), y = kv_sha256_end(&b);
    assert_memory_equal(&x, &y, sizeof x);
  }
}

TEST(sha_implementations_agree) {
  uint8_t data[64 * 5 + 1];
  uint32_t a[8], b[8];
  if (!kv_sha256_has_ni()) skip();
  for (int i = 0; i < 2000; i++) {
    for (size_t j = 0; j < sizeof data; j++) data[j] = (uint8_t)draw(&seed);
    for (int j = 0; j < 8; j++) a[j] = b[j] = (uint32_t)draw(&seed);
    kv_sha256_blocks_plain(a, data + i % 2, (size_t)(i % 6));
    kv_sha256_blocks_ni(b, data + i % 2, (size_t)(i % 6));
    assert_memory_equal(a, b, sizeof a);
  }
}

/* The standard's one-block vector through the plain code, whatever the
 * machine prefers. */
TEST(sha_plain_vector) {
  uint32_t s[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                   0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  const uint32_t want[8] = {0xba7816bfu, 0x8f01cfeau, 0x414140deu, 0x5dae2223u,
                            0xb00361a3u, 0x96177a9cu, 0xb410ff61u, 0xf20015adu};
  uint8_t block[64] = {'a', 'b', 'c', 0x80, [63] = 24};
  kv_sha256_blocks_plain(s, block, 1);
  assert_memory_equal(s, want, sizeof s);
}

int main(void) { return tests_run("sha", NULL, NULL); }
