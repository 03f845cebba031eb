/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is told apart as expanded latent attention (traces/trace/expanded.h):
 * keys of heads of their own that have an end in common, whichever, in every
 * layer and at every token, and something in it.
 */
#include <string.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/tracefile.h"
#include "traces/trace/expanded.h"

static float key[HEADS * TOKENS * DIM];

/* Element x of every key is the same in all heads where x is of these. */
static void fill(int from, int end, float by) {
  for (int i = 0; i < HEADS * TOKENS * DIM; i++) {
    bool alike = i % DIM >= from && i % DIM < end;
    key[i] = alike ? (float)(i % (TOKENS * DIM) + 1) * by : (float)i + .25f;
  }
}

enum { BOTH = 3 };

/* With these keys in layers 0 and 1 as bits 0 and 1 say. */
static kv_expanded found(int layers, const char *latent) {
  static const char *const name[4] = {"layers.0.k", "layers.1.k", "layers.0.v",
                                      "layers.1.v"};
  static float other[HEADS * TOKENS * DIM];
  field f[4];
  for (int i = 0; i < HEADS * TOKENS * DIM; i++) other[i] = (float)i;
  for (int i = 0; i < 4; i++)
    f[i] = (field){name[i],
                   KV_ST_F32,
                   3,
                   {HEADS, TOKENS, DIM},
                   i < 2 && layers >> i & 1 ? key : other};
  const meta heads = {"n_kv_heads", "4"};
  const meta also[] = {{"attn.latent", latent}, {NULL, NULL}};
  tracefile_also = latent ? also : NULL;
  tracefile_write(&heads, 4, f, 0);
  tracefile_also = NULL;
  kv_trace *t = tracefile_open();
  kv_expanded x = kv_trace_expanded(t);
  char text[KV_EXPANDED_TEXT];
  if (x.shared) {
    kv_expanded_text(t, &x, text);
    assert_non_null(strstr(text, x.first ? "the first " : "the last "));
    assert_non_null(strstr(text, x.latent ? "holds 12 numbers a token"
                                          : "holds a latent vector and that"));
    assert_non_null(strstr(text, "are 64 numbers"));
  }
  kv_trace_close(t);
  return x;
}

TEST(an_end_in_common) {
  fill(4, DIM, 1);
  kv_expanded x = found(BOTH, "12");
  assert_true(x.shared == 4 && !x.first && x.latent == 12);
  fill(0, 6, 1);
  x = found(BOTH, NULL);
  assert_true(x.shared == 6 && x.first && x.latent == 0);
  fill(4, DIM, 1);
  key[(2 * TOKENS + TOKENS / 2) * DIM + 4]++; /* one number of one key */
  x = found(BOTH, "x");
  assert_true(x.shared == 3 && !x.first && x.latent == 0);
}

TEST(and_none) {
  fill(4, DIM, 1);
  assert_int_equal(found(1, NULL).shared, 0); /* the other layer has none */
  assert_int_equal(found(2, NULL).shared, 0);
  fill(7, DIM, 1);
  assert_int_equal(found(BOTH, NULL).shared, 0); /* one number is no pair */
  fill(0, DIM, 1);
  assert_int_equal(found(BOTH, NULL).shared, 0); /* one key, repeated */
  fill(4, DIM, 0);
  assert_int_equal(found(BOTH, NULL).shared, 0); /* padded with zeros */
  tracefile_write(NULL, 0, NULL, 0);             /* heads in groups */
  kv_trace *t = tracefile_open();
  assert_int_equal(kv_trace_expanded(t).shared, 0);
  kv_trace_close(t);
}

int main(void) { return tests_run("expanded", scratch_make, scratch_remove); }
