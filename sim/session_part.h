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
  kv_layer_data *data;  /* the trace's, of it */
  char *q;              /* [n_heads][asked][d]: rows that the method is shown
                           of the prompt, as they came; room for F32 */
  int32_t *rows;        /* [asked] their tokens */
  char *step_q;         /* [n_heads][d] of the decode step; room for F32 */
  int32_t step_row;     /* its token */
  void *kv;             /* holds both */
  char *k, *v;          /* [n_kv_heads][n_tokens][..], as stored */
  int arrived, entered; /* tokens in the buffers; in the engine */
  float *out, *lse;     /* [n_heads][d_v], [n_heads] */
  uint32_t *id;         /* [lanes][n_tokens] */
  int *same;            /* [lanes] leading ids that the lane has as well: a
                           step that only appends copies one */
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
  int asked;    /* last prompt queries that the method is shown */
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
 * on, as far as they have a row there. Names what is not finite or not exact,
 * also among the others. */
typedef struct kv_side {
  const char *name;
  int heads, width;
  kv_dtype dtype;
  int start, rows; /* token of the first row; rows a head */
  char *data;      /* [heads][rows][width] */
} kv_side;
kv_rc kv_session_take(kv_session *s, const kv_side *side, int layer, int first,
                      int n, const kv_session_in *in, kv_err *e);
/* Row of one token and head, of what was taken, as floats. */
void kv_session_row(const kv_session *s, const kv_session_in *in, int token,
                    int head, int width, float *out);
/* The other way. */
void kv_session_give(const kv_session *s, const kv_session_out *out, int token,
                     int head, const float *row);

/* session_prompt.c: outputs of prompt tokens first..end-1, whose k and v are
 * in the buffers, the block in hand not yet in the engine; the first is token
 * `place` of q and out. KV_REFUSED: a logit is not finite. */
kv_rc kv_session_prompt(kv_session *s, const kv_fed *f, int first, int end,
                        int place, const kv_session_in *q,
                        const kv_session_out *out, kv_err *e);

#endif
