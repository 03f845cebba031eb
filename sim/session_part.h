/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to session.c and session_*.c.
 */
#ifndef KV_SIM_SESSION_PART_H
#define KV_SIM_SESSION_PART_H

#include "sim/layer.h"
#include "sim/session.h"
#include <fenv.h>

/* One layer. What the last decode step attended is kept apart from its lanes,
 * which settle after it. */
typedef struct kv_fed {
  kv_layer *layer;
  char *q, *k, *v;      /* [heads][n_tokens][..]: q F32, k and v as stored */
  int arrived, entered; /* tokens in the buffers; in the engine */
  float *out, *lse;     /* [n_heads][d_v], [n_heads] */
  uint32_t *id;         /* [lanes][n_tokens] */
  kv_run *run;          /* [n_heads][runs] */
  int *runs;            /* [n_heads] in use */
  kv_err fault;         /* rc 0: none */
} kv_fed;

struct kv_session {
  kv_trace trace; /* in memory: the buffers below */
  kv_cell cell;
  kv_cell *cells[1];
  kv_watch watch;
  kv_worker worker;
  kv_fed *fed;  /* [trace.n_layers] */
  kv_fed *hand; /* the engine is at work on */
  int lanes;    /* a layer */
  size_t most_runs;
  int32_t *positions;
  float *inv_freq;
  int closed; /* tokens seen; the ledger's */
  bool ended;
  kv_session_digests digests;
  /* Scratch of prompt rows. */
  size_t stride;
  float *row;           /* [max(d, d_v)] */
  float *q, *s, *o, *l; /* [G][d], [G][stride], [G][d_v], [G] */
  kv_attend_scratch attend;
};

/* kv_session_open of a specification whose method need be in no registry. */
kv_rc kv_session_open_spec(const kv_session_shape *shape, const kv_spec *spec,
                           const char *budget, int prompt_len, kv_session **out,
                           kv_err *e);

kv_rc kv_session_none(kv_err *e); /* "there is no session" */
/* The layer with the model's number. */
kv_rc kv_session_find(const kv_session *s, int layer, kv_fed **out, kv_err *e);

/* session_rows.c: n tokens of one side into its buffer, from token `first`
 * on. Names what is not finite or not exact. */
typedef struct kv_side {
  const char *name;
  int heads, width;
  kv_dtype dtype;
  char *data; /* [heads][n_tokens][width] */
} kv_side;
kv_rc kv_session_take(kv_session *s, const kv_side *side, int layer, int first,
                      int n, const kv_session_in *in, kv_err *e);
/* Row of one token and head to the caller. */
void kv_session_give(const kv_session *s, const kv_session_out *out, int token,
                     int head, const float *row);

/* session_prompt.c: outputs of prompt tokens first..end-1, which are in the
 * buffers, the block in hand not yet in the engine; the first goes to token
 * `place` of out. KV_REFUSED: a logit is not finite. */
kv_rc kv_session_prompt(kv_session *s, kv_fed *f, int first, int end, int place,
                        const kv_session_out *out, kv_err *e);

#endif
