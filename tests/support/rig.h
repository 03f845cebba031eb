/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays one layer of one request from arrays in memory, exactly as the engine
 * would, one step at a time, so that a method's test can inspect lanes, views
 * and outputs after every step. The backend is the one that KV_TEST_BACKEND
 * names (ref, emu, cuda), by default ref. Any failure fails the running cmocka
 * test.
 *
 *   rig_open, then rig_to a step and look, again and again, rig_close; or all
 * at once: rig_replay, and the laws at the end
 *
 * A step is the number of tokens seen. Lanes count from 0 within the layer, as
 * do query heads.
 */
#ifndef KV_TESTS_RIG_H
#define KV_TESTS_RIG_H

#include "ref/backend/backend.h"
#include "tests/support/test.h"

/* The request; arrays belong to the caller. */
typedef struct rig_case {
  int heads, kv_heads, d, d_v, n_tokens, prompt_len;
  int n_layers, layer;    /* layers of the model (0: 1); number of this one */
  float scale;            /* 0 = nearest binary32 of 1/sqrt(d) */
  const float *q, *k, *v; /* [heads][n_tokens][d]; k and v of kv_heads, v of
                             d_v elements */
  const float *inv_freq;  /* [d/2], or NULL: no rotation recorded */
  const float *k_bias;    /* [kv_heads][d] of the model, or NULL */
  bool half;              /* k and v are held as F16, not F32 */
  const kv_asset *asset;  /* the contents of the method's file, or NULL */
  const kv_asset *scores; /* .. and its file of scores (score=file), or NULL */
  const int32_t *positions;  /* [n_tokens] RoPE positions, or NULL: 0.. */
  bool interleaved;          /* RoPE pairs 2 i, 2 i + 1; else i, i + d / 2 */
  const kv_backend *backend; /* that replays it; NULL: rig_backend() */
} rig_case;

/* A case's sizes in this order, then other fields: RIG_SHAPE(4, 2, 8, 8, 40,
 * 20, .n_layers = 4, .layer = 2). */
#define RIG_SHAPE(of_heads, of_kv_heads, k_size, v_size, of_tokens, ...)       \
  {                                                                            \
    .heads = of_heads, .kv_heads = of_kv_heads, .d = k_size, .d_v = v_size,    \
    .n_tokens = of_tokens, .prompt_len = __VA_ARGS__                           \
  }

typedef struct rig rig;

/* The backend that KV_TEST_BACKEND names; ref if not set. */
const kv_backend *rig_backend(void);
/* Does the method need a file, found next to the trace, to run? */
bool rig_wants_file(const kv_method *m);
/* Can a session run it: does it need neither that nor future rows? */
bool rig_in_session(const kv_method *m);

/* Opens the method of a specification ("h2o:budget=4") and lets the prompt
 * enter and be compressed. */
rig *rig_open(const rig_case *c, const char *spec);
void rig_close(rig *r); /* accepts NULL */
/* The same of a layer below `above`, which reads the last message that `above`
 * published: step `above` first. */
rig *rig_below(const rig_case *c, const char *spec, rig *above);
/* Only parses the specification and opens the method; returns their code; needs
 * may be NULL. */
kv_rc rig_try(const rig_case *c, const char *spec, kv_needs *needs, kv_err *e);
/* The needs of a method that must open. */
kv_needs rig_needs(const rig_case *c, const char *spec);

/* Decodes until `step` tokens are seen. */
void rig_to(rig *r, int step);
int rig_step(const rig *r); /* tokens seen so far */

/* The number of lanes; one of them, as it is now. */
int rig_lanes(const rig *r);
const kv_lane *rig_lane(const rig *r, int lane);
/* Writes the token ids of the lane, in its order; returns how many. */
int rig_ids(const rig *r, int lane, uint32_t *out);
/* Fails unless the lane holds exactly these ids in this order; -1 ends them. */
void rig_holds(const rig *r, int lane, const int *ids);
/* Of the last decode step and a query head: view, output [d_v]. */
const kv_view *rig_view(const rig *r, int head);
const float *rig_out(const rig *r, int head);
/* Writes the token ids that the head attended to; returns how many. */
int rig_seen(const rig *r, int head, uint32_t *out);
/* Fails unless rig_seen gives exactly these ids, in this order; -1 ends them.
 */
void rig_saw(const rig *r, int head, const int *ids);

/* What a replay that fails on its way says. */
kv_err rig_fault(const rig_case *c, const char *spec);
/* Fails unless that is KV_REFUSED with exactly this sentence. */
void rig_fails(const rig_case *c, const char *spec, const char *sentence);

/* Runs to the end and closes the layer; the rig can only be closed then. */
kv_layer_digests rig_digests(rig *r);
/* The digests of a whole replay; are two equal? */
kv_layer_digests rig_replay(const rig_case *c, const char *spec);
bool rig_same(const kv_digest *a, const kv_digest *b);

/* Sets c's q, k and v to random numbers in [-2, 2), determined by the seed;
 * rig_data_free frees them and sets them to NULL. */
void rig_data(rig_case *c, uint32_t seed);
void rig_data_free(rig_case *c);

/* The eight tokens of the worked cases: one head, d = 2; values are the unit
 * vectors, so that an output is the probabilities by token. */
extern const float rig_key8[16], rig_query8[16], rig_unit8[64];
/* Their case. */
rig_case rig_eight(int prompt_len);
/* Fails unless the head's output is p[8], probabilities by token, within 2e-6.
 */
void rig_shares(const rig *r, int head, const double *p);

/* --- laws --------------------------------------------------------------- */

/* Most entries a lane may hold after the compression at `step`. */
typedef int rig_bound(const rig_case *c, int step, const void *ctx);

/* Three of them; ctx is an int, of rig_each int[2]:
 *   rig_at_most  ctx[0] entries
 *   rig_grown    ctx[0] entries of the prompt, and all that was decoded
 *   rig_each     ctx[0] entries at every ctx[1]-th step, and what came since */
rig_bound rig_at_most, rig_grown, rig_each;

/* Fails unless at every step ids are distinct and in range, lanes are not
 * empty, views ascend and have indexes below the step, weights add up to at
 * most the tokens seen, and to all if nothing was dropped, and entries are at
 * most bound(c, step, ctx) (NULL: not checked); and a second replay has the
 * same digests. */
void rig_law(const rig_case *c, const char *spec, rig_bound *bound,
             const void *ctx);
/* Fails unless the output digest is that of dense. */
void rig_law_dense(const rig_case *c, const char *spec);
/* Fails unless open refuses with rc and a sentence that contains both words. */
void rig_law_refused(const rig_case *c, const char *spec, kv_rc rc,
                     const char *word, const char *other);

/* Defines kv_test_x, which tests/ref/check_methods.c calls, and which runs
 * tests of method x in C: RIG_TESTS(x, RIG_CASE(worked)). */
#define RIG_CASE(test) cmocka_unit_test(test)
#define RIG_TESTS(method, ...)                                                 \
  int kv_test_##method(void);                                                  \
  int kv_test_##method(void) {                                                 \
    const struct CMUnitTest all[] = {__VA_ARGS__};                             \
    return cmocka_run_group_tests_name(#method, all, NULL, NULL);              \
  }
#endif
