/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of traces/trace/synth_row.h. Random numbers are a function of
 * coordinates, without state: the coordinates give a 64-bit key, and
 * splitmix64's step is taken at the wanted index. A Gaussian is the sum of
 * twelve 16-bit integers, exact in binary32.
 */
#include "traces/trace/synth_row.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "ref/ground/rope.h"
#include "ref/ground/threads.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* What a random key is for. */
enum {
  FOR_KEY,
  FOR_VALUE,
  FOR_QUERY,
  FOR_SIGNS,
  FOR_TOKEN,
  FOR_TOPIC,
  FOR_NEEDLE,
  FOR_STRENGTH,
  FOR_OUTLIER,
  FOR_SINK
};

/* Families of signatures. */
enum { SINK, HITTER, TOPIC, WORD, NEEDLE };

enum { TOPICS = 64, RUN = 32, HIT = 64, KINDS = 6 };

static const float NOISE = 0.6f;     /* of q and k, standard deviation */
static const float SIGNATURE = 1.5f; /* amplitude in keys */
static const float STEADY = 1.5f;    /* amplitude of the fast pairs in keys */

static uint64_t mix(uint64_t z) {
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static uint64_t derive(uint64_t key, uint64_t what) {
  return mix(key + (what + 1) * GOLDEN);
}

static uint64_t key_of(const kv_synth *s, int what, int l, int head) {
  uint64_t key = derive(mix(s->seed + GOLDEN), (uint64_t)what);
  return derive(derive(key, (uint64_t)l), (uint64_t)head);
}

/* The sum of the four 16-bit numbers of a word. */
static int64_t quarters(uint64_t x) {
  uint64_t pairs = (x & UINT64_C(0x0000ffff0000ffff)) +
                   (x >> 16 & UINT64_C(0x0000ffff0000ffff));
  return (int64_t)((pairs & 0xffffffffu) + (pairs >> 32));
}

/* Mean 0, variance 1: the sum has mean 12 * 65535 / 2 = 393210 and standard
 * deviation 65536. */
static float gaussian(uint64_t key, uint64_t at) {
  uint64_t z = key + 3 * at * GOLDEN;
  int64_t sum = quarters(mix(z + GOLDEN)) + quarters(mix(z + 2 * GOLDEN)) +
                quarters(mix(z + 3 * GOLDEN));
  return kv_mul((float)(int32_t)(sum - 393210), 0x1p-16f);
}

static void noise(const kv_synth_tables *x, int what, int l, int head, int t,
                  float *row) {
  uint64_t key = key_of(x->s, what, l, head);
  uint64_t at = (uint64_t)t * (uint64_t)x->s->like.d;
  for (int i = 0; i < x->s->like.d; i++) {
    row[i] = kv_mul(NOISE, gaussian(key, at + (uint64_t)i));
  }
}

/* Adds +-amplitude to n channels of row, by the signature's bits. */
static void stamp(uint64_t key, int n, float amplitude, float *row) {
  for (int i = 0; i < n; i += 64) {
    uint64_t bits = derive(key, (uint64_t)i);
    for (int j = 0; j < 64 && i + j < n; j++) {
      uint32_t sign = (uint32_t)(bits >> j & 1) << 31;
      row[i + j] = kv_add(row[i + j], kv_float(kv_bits(amplitude) ^ sign));
    }
  }
}

/* Adds a signature to the slow channels, in both halves of the row. */
static void sign(const kv_synth_tables *x, int l, int g, int family, int id,
                 float amplitude, float *row) {
  uint64_t key = key_of(x->s, FOR_SIGNS, l, g);
  int half = x->s->like.d / 2, n = half - x->slow;
  key = derive(derive(key, (uint64_t)family), (uint64_t)id);
  stamp(key, n, amplitude, row + x->slow);
  stamp(~key, n, amplitude, row + half + x->slow);
}

static void steady(const kv_synth_tables *x, int l, int t, float amplitude,
                   float *row) {
  bool other = x->turn[1] && kv_geometry_window(&x->s->like, l);
  const float *turn = x->turn[other] + (size_t)t * (size_t)x->fast * 2;
  int half = x->s->like.d / 2;
  for (int i = 0; i < x->fast; i++) {
    row[i] = kv_fma(amplitude, turn[2 * i], row[i]);
    row[half + i] = kv_fma(amplitude, turn[2 * i + 1], row[half + i]);
  }
}

static int topic(const kv_synth_tables *x, int t) {
  uint64_t key = key_of(x->s, FOR_TOPIC, 0, 0);
  return (int)(derive(key, (uint64_t)(t / RUN)) % TOPICS);
}

static int is_hitter(const kv_synth_tables *x, int t) {
  uint64_t key = key_of(x->s, FOR_TOPIC, 1, 0);
  return derive(key, (uint64_t)t) % HIT == 0;
}

/* Which needle token t is a source of: 1 + answer * NEEDLE + place; 0: none. */
static int source_of(const kv_synth_tables *x, int t) {
  for (int a = 0; a < x->n_answers; a++) {
    int i = t - x->answer[a].source_start;
    if (i >= 0 && i < KV_SYNTH_NEEDLE) return 1 + a * KV_SYNTH_NEEDLE + i;
  }
  return 0;
}

/* Which needle row t looks for, the row before an answer's token. */
static int sought_by(const kv_synth_tables *x, int t) {
  for (int a = 0; a < x->n_answers; a++) {
    int i = t + 1 - x->answer[a].start;
    if (i >= 0 && i < KV_SYNTH_NEEDLE) return 1 + a * KV_SYNTH_NEEDLE + i;
  }
  return 0;
}

/* Sets a few of the channels between fast and slow far from zero, the same for
 * every token, as in keys of trained models. */
static void outliers(const kv_synth_tables *x, int l, int g, float *row) {
  uint64_t key = key_of(x->s, FOR_OUTLIER, l, g);
  int d = x->s->like.d, room = x->slow - x->fast;
  for (int i = 0; room > 0 && i < 1 + d / 32; i++) {
    uint64_t r = derive(key, (uint64_t)i);
    int at = x->fast + (int)((r >> 8) % (uint64_t)room);
    float far = kv_add(4.0f, (float)(r >> 32 & 7));
    if (r & 1) at += d / 2;
    row[at] = kv_add(row[at], r & 2 ? far : -far);
  }
}

void kv_synth_key(const kv_synth_tables *x, int l, int g, int t, float *row) {
  const float a = SIGNATURE;
  int needle = source_of(x, t);
  noise(x, FOR_KEY, l, g, t, row);
  steady(x, l, t, STEADY, row);
  outliers(x, l, g, row);
  if (t == 0) {
    sign(x, l, g, SINK, 0, a, row);
    return;
  }
  if (is_hitter(x, t)) sign(x, l, g, HITTER, 0, a, row);
  if (needle) sign(x, l, g, NEEDLE, needle, a, row);
  sign(x, l, g, TOPIC, topic(x, t), 0.5f * a, row);
  sign(x, l, g, WORD, x->token[t], 0.25f * a, row);
}

/* x 2^n by two factors, both of them normal numbers. */
static float scaled(float x, int n) {
  int half = n / 2;
  x = kv_mul(x, kv_float((uint32_t)(half + 127) << 23));
  return kv_mul(x, kv_float((uint32_t)(n - half + 127) << 23));
}

void kv_synth_value(const kv_synth_tables *x, int l, int g, int t, float *row) {
  int d = x->s->like.d;
  uint64_t key = derive(key_of(x->s, FOR_VALUE, l, g), WORD);
  noise(x, FOR_VALUE, l, g, t, row);
  stamp(derive(key, (uint64_t)x->token[t]), d, 0.75f, row);
  for (int i = 0; t == 0 && i < d; i++) row[i] = kv_mul(row[i], 0.125f);
  for (int i = 0; x->s->exponent && i < d; i++)
    row[i] = scaled(row[i], x->s->exponent);
}

/* Peak logits of a kind of head: a + b * ln(tokens) for each structure. */
typedef struct taste {
  struct {
    float a, b;
  } sink, local, hitter, topic, needle;
} taste;

static const taste kind[KINDS] = {
    /* local */
    {{-1, 1}, {3, 0.6f}, {0, 0}, {0.5f, 0}, {0, 0}},
    /* sink */
    {{1, 1}, {2, 0}, {1, 0}, {0.5f, 0}, {0, 0}},
    /* retrieval */
    {{-1, 1}, {1, 0}, {0.5f, 0}, {1, 0}, {5, 1}},
    /* hitters */
    {{-1, 1}, {1, 0}, {1, 0.6f}, {0.5f, 0}, {0, 0}},
    /* topic */
    {{-2, 1}, {1, 0}, {1, 0}, {1, 0.4f}, {0, 0}},
    /* broad */
    {{-3, 1}, {0.5f, 0}, {0.5f, 0}, {0.5f, 0}, {0, 0}},
};

/* The query's amplitude that, with an amplitude of `key` in n channels, gives
 * the logit a + b ln(tokens). A stronger query matches other signatures more by
 * chance (variance about a half of its square), which lifts all tokens by half
 * of that; the peak is raised by as much. */
static float amplitude(const kv_synth_tables *x, float a, float b, float key,
                       int n) {
  float peak = kv_fma(b, x->log_tokens, a);
  if (peak <= 0 || n == 0) return 0;
  float scale = kv_div(1.0f, sqrtf((float)x->s->like.d));
  float met = kv_mul(kv_mul(key, (float)n), scale);
  float first = kv_div(peak, met);
  return kv_div(kv_fma(0.25f, kv_mul(first, first), peak), met);
}

void kv_synth_query(const kv_synth_tables *x, int l, int h, int t, float *row) {
  const kv_geometry *like = &x->s->like;
  const taste *k = &kind[(h + 2 * l) % KINDS];
  int g = h / (like->n_heads / like->n_kv_heads), needle = sought_by(x, t);
  int n = like->d - 2 * x->slow;
  const float a = SIGNATURE;
  uint64_t r = key_of(x->s, FOR_STRENGTH, l, h);
  float own = kv_add(0.75f, kv_mul((float)(r >> 48), 0x1p-17f)); /* to 1.25 */
  noise(x, FOR_QUERY, l, h, t, row);
  steady(x, l, t,
         kv_mul(own, amplitude(x, k->local.a, k->local.b, STEADY, x->fast)),
         row);
  sign(x, l, g, SINK, 0, amplitude(x, k->sink.a, k->sink.b, a, n), row);
  sign(x, l, g, HITTER, 0,
       kv_mul(own, amplitude(x, k->hitter.a, k->hitter.b, a, n)), row);
  sign(x, l, g, TOPIC, topic(x, t),
       kv_mul(own, amplitude(x, k->topic.a, k->topic.b, 0.5f * a, n)), row);
  if (needle && k->needle.b > 0) {
    sign(x, l, g, NEEDLE, needle, amplitude(x, k->needle.a, k->needle.b, a, n),
         row);
  }
}

/* Words by a law like Zipf's: the octave is uniform, and so is the word within
 * it. The token id also names the topic. */
static int32_t word(const kv_synth_tables *x, int t) {
  uint64_t r = derive(key_of(x->s, FOR_TOKEN, 0, 0), (uint64_t)t);
  unsigned octave = (unsigned)(r & 0xffff) * 11 >> 16;
  uint64_t within = (r >> 16) & ((UINT64_C(1) << octave) - 1);
  return (int32_t)((UINT64_C(1) << octave) + within) + 2048 * topic(x, t);
}

/* Places needles all over the prompt; they are answered in another order while
 * decoding. An answer repeats its source's tokens. */
static void place_needles(kv_synth_tables *x) {
  int P = x->s->prompt_len, D = x->s->n_tokens - P, n = D / 16;
  if (n > P / 32) n = P / 32;
  if (n > 16) n = 16;
  uint64_t key = key_of(x->s, FOR_NEEDLE, 0, 0);
  for (int i = 0; i < n; i++) {
    int slot = (i * 17 + 3) % n, wide = P / n; /* 17: prime to every n */
    uint64_t shift = derive(key, (uint64_t)i) % (uint64_t)(wide - 8);
    kv_answer *a = &x->answer[i];
    a->start = P + i * (D / n) + 8;
    a->source_start = 1 + slot * wide + (int)shift;
    a->end = a->start + KV_SYNTH_NEEDLE;
    a->source_end = a->source_start + KV_SYNTH_NEEDLE;
    for (int j = 0; j < KV_SYNTH_NEEDLE; j++) {
      x->token[a->start + j] = x->token[a->source_start + j];
    }
  }
  x->n_answers = n;
}

/* Computes the rotations by one kind of frequencies. */
static kv_rc turn_all(kv_synth_tables *x, int windowed, kv_err *e) {
  float frequency[KV_SYNTH_DIM / 2];
  int n = x->s->n_tokens;
  size_t row = (size_t)x->fast * 2;
  float *turn = x->turn[windowed] = kv_zalloc((size_t)n * row, sizeof *turn);
  if (!turn) return kv_no_memory(e, "the rotations", (size_t)n * row * 4);
  kv_geometry_frequencies(&x->s->like, windowed, frequency);
#pragma omp parallel num_threads(kv_threads())
  {
    kv_float_ground();
#pragma omp for schedule(static)
    for (int t = 0; t < n; t++) {
      float *to = turn + (size_t)t * row;
      for (int i = 0; i < x->fast; i++) {
        kv_sincos(kv_mul((float)t, frequency[i]), &to[2 * i + 1], &to[2 * i]);
      }
    }
  }
  return KV_OK;
}

kv_rc kv_synth_tables_init(kv_synth_tables *x, const kv_synth *s, kv_err *e) {
  const kv_geometry *g = &s->like;
  size_t n = (size_t)s->n_tokens;
  *x = (kv_synth_tables){.s = s, .fast = g->d / 8, .slow = g->d / 4};
  if (x->fast > 16) x->fast = 16;
  kv_float_ground();
  kv_rc rc = turn_all(x, 0, e);
  if (!rc && g->window && g->theta_windowed > 0) rc = turn_all(x, 1, e);
  x->token = rc ? NULL : kv_zalloc(n, sizeof *x->token);
  if (!rc && !x->token) rc = kv_no_memory(e, "the tokens", n * 4);
  if (rc) {
    kv_synth_tables_release(x);
    return rc;
  }
  x->log_tokens = kv_log((float)s->n_tokens);
  for (int t = 0; t < s->n_tokens; t++) x->token[t] = word(x, t);
  place_needles(x);
  return KV_OK;
}

void kv_synth_tables_release(kv_synth_tables *x) {
  free(x->turn[0]);
  free(x->turn[1]);
  free(x->token);
  *x = (kv_synth_tables){0};
}

/* Made of 10 random bits of its own. */
float kv_synth_sink(const kv_synth_tables *x, int l, int h) {
  uint64_t bits = mix(key_of(x->s, FOR_SINK, l, h)) >> 54;
  return kv_fma((float)(int32_t)bits, 0x1p-8f, 2.0f);
}
