/* SPDX-License-Identifier: Apache-2.0
 *
 * How rows of codes come into the scratch that ref/kernels/coded.h makes logits
 * of: KV_PACK keys, their codes transposed by words of four bytes,
 * [word][KV_PACK], which takes a quarter of the shuffles of 8-bit elements and
 * less of others; behind these stand the scales and minima of the keys' runs,
 * [run][RANGES][KV_PACK] floats. A column here is an element of a row. Part of
 * ref/kernels/kernels.c.
 */
#ifndef KV_REF_KERNELS_CODED_PACK_H
#define KV_REF_KERNELS_CODED_PACK_H

enum {
  CODE_COLUMNS = 16 /* bytes of a plane, and elements of a run, come in so
                       many: a register of any set is of one run */
};

/* The kernel codes_suit: whole words of each plane, whole registers of a run.
 */
static bool codes_suit(int bits, int run, int width) {
  bool planes = width * bits % (8 * CODE_COLUMNS) == 0;
  return (bits == 2 || bits == 4 || bits == 8) && planes &&
         (run >= width || run % CODE_COLUMNS == 0);
}

/* What a row of codes is like. */
typedef struct code_shape {
  int bits, run, width; /* of a code; elements that share a scale; of a row */
  int runs, plane;      /* scales of a row; bytes of its codes */
} code_shape;

INLINE code_shape code_shape_of(int bits, int run, int width) {
  if (run > width) run = width;
  return (code_shape){bits, run, width, (width + run - 1) / run,
                      width * bits / 8};
}

enum { SCALE, MINIMUM, RANGES }; /* what a key has for each run */

/* Where number h of a block, of its scales and then its minima, goes to in the
 * scratch at `out`. */
INLINE float *range_at(const code_shape *of, int h, float *out) {
  int run = h < of->runs ? h : h - of->runs;
  return out + (run * RANGES + (h < of->runs ? SCALE : MINIMUM)) * KV_PACK;
}

/* Stores n words of LANES keys, one below the other. */
INLINE void store_words(int n, const vint *word, uint32_t *out) {
  UNROLL for (int i = 0; i < n; i++)
      vi_store(out + (size_t)i * KV_PACK, word[i]);
}

/* Codes of LANES keys into the scratch, from lane 0 of `out` on. */
INLINE void pack_codes(const code_shape *of, bytes *const *key, uint32_t *out) {
  const int words = of->plane / 4;
  size_t at = 4 * (size_t)of->runs;
  vint word[COLUMNS_MANY];
  if (words % COLUMNS_MANY == 0)
    for (int x = 0; x < words; x += COLUMNS_MANY, at += 4 * COLUMNS_MANY) {
      UNROLL for (int i = 0; i < PACK_STEPS; i++) pack_step(i, key, at, word);
      store_words(COLUMNS_MANY, word, out + (size_t)x * KV_PACK);
    }
  else
    for (int x = 0; x < words; x += COLUMNS_32, at += 4 * COLUMNS_32) {
      pack_words(key, at, word);
      store_words(COLUMNS_32, word, out + (size_t)x * KV_PACK);
    }
}

/* Their scales and minima: halves, which come two in a word, all scales before
 * all minima. */
INLINE void pack_ranges(const code_shape *of, bytes *const *key, float *out) {
  for (int h = 0; h < 2 * of->runs; h += 2) {
    vint word = vi_words(key, 2 * (size_t)h);
    v_store(range_at(of, h, out), v_of_half(word));
    v_store(range_at(of, h + 1, out), v_of_half(vi_down(word, 16)));
  }
}

/* --- while others are used ------------------------------------------------
 * Packing waits for shuffles and for memory, logits of one query wait for the
 * FMA: done in turns they take the sum of both, side by side little more than
 * the second (measured: AMD EPYC). So while a tile of some keys is computed, as
 * many keys behind them are packed into other lanes of the scratch: of LANES of
 * them COLUMNS_MANY words at once, in PACK_STEPS steps. */

typedef struct code_carry {
  bytes *const *row; /* [LANES] keys; behind them those of the next register */
  int x;             /* words of theirs that are packed */
  uint32_t *word;    /* their place in the scratch: [word][KV_PACK] */
  float *range;      /* the same of scales and minima */
  int wait;  /* times 16 columns of the tile before the next words are due */
  int every; /* such times from words to words */
} code_carry;

/* Step `step` of PACK_STEPS of packing the words in hand, which stand in `word`
 * between steps; the last one stores them. */
INLINE void carry_step(int step, const code_shape *of, const code_carry *c,
                       vint *word) {
  pack_step(step, c->row, 4 * (size_t)(of->runs + c->x), word);
  if (step == PACK_STEPS - 1)
    store_words(COLUMNS_MANY, word, c->word + (size_t)c->x * KV_PACK);
}

/* Goes on to the next words; behind the last ones packs the ranges of their
 * keys and goes on to the next register of keys. */
INLINE void carry_on(const code_shape *of, code_carry *c) {
  c->wait = c->every;
  c->x += COLUMNS_MANY;
  if (c->x < of->plane / 4) return;
  pack_ranges(of, c->row, c->range);
  c->row += LANES, c->word += LANES, c->range += LANES;
  c->x = 0;
}

#endif
