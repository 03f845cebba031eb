/* SPDX-License-Identifier: Apache-2.0
 *
 * The method rig: one layer of one request, in memory, replayed through the
 * reference backend exactly as the engine would, one step at a time, so that
 * a test can look at lanes, views and outputs after every step. Anything that
 * goes wrong fails the running cmocka test.
 */
#ifndef KV_TESTS_RIG_H
#define KV_TESTS_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ref/backend/backend.h"

typedef struct rig_case {
  int heads, kv_heads, d, d_v, n_tokens, prompt_len;
  int n_layers, layer;      /* of the model; 0 layers = 1 */
  float scale;              /* 0 = nearest binary32 of 1/sqrt(d) */
  const float *q, *k, *v;   /* [head][token][d or d_v] */
  const float *inv_freq;    /* [d/2], or NULL: no rotation recorded */
  bool half;                /* k and v are held as F16, not F32 */
  const kv_asset *asset;    /* what the method's file holds, or NULL */
  const int32_t *positions; /* [n_tokens], or NULL: 0.. */
  bool interleaved;
} rig_case;

/* A case's sizes in this order, then whatever else it has:
 * RIG_SHAPE(4, 2, 8, 8, 40, 20, .n_layers = 4, .layer = 2). */
#define RIG_SHAPE(of_heads, of_kv_heads, k_size, v_size, of_tokens, ...)       \
  {                                                                            \
    .heads = of_heads, .kv_heads = of_kv_heads, .d = k_size, .d_v = v_size,    \
    .n_tokens = of_tokens, .prompt_len = __VA_ARGS__                           \
  }

typedef struct rig rig;

/* The backend that KV_TEST_BACKEND names; ref where it is not set. */
const kv_backend *rig_backend(void);
/* Does the method run with a file alone, which the trace has beside it? */
bool rig_wants_file(const kv_method *m);

/* Opens and enters the prompt: prompt_len tokens seen, compressed. */
rig *rig_open(const rig_case *c, const char *spec);
void rig_close(rig *r); /* accepts NULL */
/* The same of a layer below `above`, which reads what that one published last:
 * step the one above first. */
rig *rig_below(const rig_case *c, const char *spec, rig *above);
/* What a method's open says to a specification; needs may be NULL. */
kv_rc rig_try(const rig_case *c, const char *spec, kv_needs *needs, kv_err *e);
/* The needs of one that opens. */
kv_needs rig_needs(const rig_case *c, const char *spec);

/* Decodes until `step` tokens are seen. */
void rig_to(rig *r, int step);
int rig_step(const rig *r);

int rig_lanes(const rig *r);
const kv_lane *rig_lane(const rig *r, int lane);
/* Token ids of the lane, in its order; returns how many. */
int rig_ids(const rig *r, int lane, uint32_t *out);
/* Fails unless the lane holds exactly the ids listed, -1 ends the list. */
void rig_holds(const rig *r, int lane, const int *ids);
/* The same of a lane after the prompt. */
void rig_keeps(const rig_case *c, const char *spec, int lane, const int *ids);

/* As a hook of the reference is called at, after the last step. On another
 * backend there are no workspace, no tensors and no message. */
kv_at rig_at(rig *r);

/* Of the last decode step, by query head of the layer. */
const kv_view *rig_view(const rig *r, int head);
const float *rig_out(const rig *r, int head);
float rig_lse(const rig *r, int head);
/* Token ids that the head attended; returns how many. */
int rig_seen(const rig *r, int head, uint32_t *out);
/* Fails unless the head attended exactly the ids listed, -1 ends the list. */
void rig_saw(const rig *r, int head, const int *ids);

/* Fails unless the replay ends before its end by this sentence, whole. */
void rig_fails(const rig_case *c, const char *spec, const char *sentence);

/* Runs to the end and closes the layer; the rig can only be closed then. */
kv_layer_digests rig_digests(rig *r);
/* Digests of a whole replay. */
kv_layer_digests rig_replay(const rig_case *c, const char *spec);
bool rig_same(const kv_digest *a, const kv_digest *b);

/* Full-mantissa data of the case's shape, from the seed alone; the case's
 * pointers are set and released by rig_data_free. */
void rig_data(rig_case *c, uint32_t seed);
void rig_data_free(rig_case *c);

/* The eight tokens of the worked cases: one head, d = 2, and values that are
 * the unit vectors, so that an output is the probabilities by token. */
extern const float rig_key8[16], rig_query8[16], rig_unit8[64];
rig_case rig_eight(int prompt_len);
/* Fails unless the head's output is, to 2e-6, these probabilities. */
void rig_shares(const rig *r, int head, const double *p);

/* The exact probabilities of row t, query head h, over the tokens with
 * in[j], j <= t, in binary64. in NULL: all. */
void rig_exact(const rig_case *c, int h, int t, const bool *in, double *p);

/* --- laws --------------------------------------------------------------- */

/* Most entries a lane may hold after the compression at `step`. */
typedef int rig_bound(const rig_case *c, int step, const void *ctx);

/* At most *ctx entries, an int; or of the prompt, and all that was decoded; or
 * at every ctx[1]-th step, and what came since. */
rig_bound rig_at_most, rig_grown, rig_each;

/* At every step: ids distinct, in range, the lane not empty, views ascending
 * and within the lane; weights add up to at most the tokens seen, and to all
 * of them where nothing was dropped; entries <= bound (NULL: not looked at).
 * Twice the same. */
void rig_law(const rig_case *c, const char *spec, rig_bound *bound,
             const void *ctx);
/* The output digest is that of dense. */
void rig_law_dense(const rig_case *c, const char *spec);
/* open refuses with rc and a sentence that holds both words. */
void rig_law_refused(const rig_case *c, const char *spec, kv_rc rc,
                     const char *word, const char *other);

/* One law of a method: what a specification promises. The first of these that
 * is set is what is looked at; where none is, rig_law without a bound. */
typedef struct rig_claim {
  const char *spec;
  kv_rc refused; /* rig_law_refused, with both words of `says` */
  const char *says[2];
  bool dense;                /* rig_law_dense */
  const char *same, *unlike; /* has this one's journal and output; has not */
  int at_most, grown;        /* rig_law with rig_at_most, rig_grown */
  int every;                 /* with at_most: rig_each */
  int prompt_len, layer;     /* where not 0, instead of the shape's */
  bool half;                 /* K and V as F16 */
} rig_claim;

/* The laws of a method, of data drawn in this shape. In a list of tests:
 * RIG_LAWS(laws). */
typedef struct rig_laws {
  rig_case shape;
  rig_claim claim[40]; /* ends with spec NULL */
} rig_laws;

#define RIG_LAWS(laws)                                                         \
  { #laws, rig_laws_hold, NULL, NULL, (void *)(uintptr_t)&laws }
void rig_laws_hold(void **laws);
/* The tests of a method, run by tests/ref/check_methods.c:
 * RIG_TESTS(x, RIG_CASE(worked), RIG_LAWS(laws)) */
#define RIG_CASE(test) cmocka_unit_test(test)
#define RIG_TESTS(method, ...)                                                 \
  int kv_test_##method(void);                                                  \
  int kv_test_##method(void) {                                                 \
    const struct CMUnitTest all[] = {__VA_ARGS__};                             \
    return cmocka_run_group_tests_name(#method, all, NULL, NULL);              \
  }
/* Those of a case that the test has made; ends with spec NULL. */
void rig_claims_hold(const rig_case *c, const rig_claim *claim);

#endif
