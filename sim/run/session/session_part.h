/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to session.c and session_*.c: the state of a session (a cell that a
 * program feeds token by token), and the steps of its calls. One thread at a
 * time. The public call has checked the arguments (sim/run/session/session.h).
 */
#ifndef KV_SIM_SESSION_PART_H
#define KV_SIM_SESSION_PART_H

#include "sim/replay/engine/layer.h"
#include "sim/run/session/session.h"
#include "traces/decisions/given.h"
#include <fenv.h>

/* One layer that is fed. What the last decode step attended is copied here,
 * because the lanes compress after it. */
typedef struct kv_fed {
  kv_layer *layer;     /* the engine's layer, with the method's lanes */
  kv_layer_data *data; /* its data in the trace: the buffers below; q may be the
                          caller's if the prompt comes in one call */
  char *q; /* [n_heads][asked][d] prompt queries that the method needs, in their
              dtype; allocated for F32 */
  int32_t *rows;    /* [asked] tokens of these rows */
  char *step_q;     /* [n_heads][d] queries of the decode step, as q */
  int32_t step_row; /* token of the decode step */
  char *k, *v; /* [n_kv_heads][n_tokens][d], [..][d_v] in the shape's dtype,
                  within the session's kv */
  bool *told;  /* [lanes] kv_session_keep was called */
  int arrived; /* tokens in the buffers */
  int entered; /* tokens in the engine */
  float *out, *lse; /* [n_heads][d_v], [n_heads] of the last decode step */
  uint32_t *id;     /* [lanes][n_tokens] tokens of the entries at that step */
  int *same;    /* [lanes] leading ids that equal the lane's: a step that only
                   appends copies one id */
  kv_run *run;  /* [n_heads][most_runs] the views of that step */
  int *runs;    /* [n_heads] runs in use */
  kv_err fault; /* why the layer has ended; rc 0: it has not */
} kv_fed;

/* session.c: arrays that the trace points to. */
typedef struct kv_variant {
  float *sinks;      /* [n_layers of the model][n_heads]; NULL: none */
  float *k_bias;     /* [n_layers of the model][n_kv_heads][d]; NULL: none */
  float *inv_freq;   /* [d/2] for layers with a window; NULL: the same */
  int32_t *window;   /* [n_layers of the model]; NULL: none has one */
  uint8_t *windowed; /* [n_layers of the model] does it have a window? */
} kv_variant;

struct kv_session {
  kv_trace trace;    /* a trace in memory that points to the layers' buffers */
  kv_cell cell;      /* the method on it */
  kv_cell *cells[1]; /* &cell, for the engine */
  kv_watch watch;    /* copies what a decode step attended */
  kv_worker worker;  /* the engine's scratch */
  kv_fed *fed;       /* [trace.n_layers] in the order of shape.fed */
  char *kv;          /* [trace.n_layers] k and v of each */
  kv_fed *hand;      /* the layer that the engine works on */
  const kv_session_out *row_out; /* output of a chunk's row, or NULL */
  int row_place;                 /* which row of row_out */
  int lanes;                     /* lanes of a layer */
  int asked;          /* how many of the last prompt queries the method needs */
  size_t most_runs;   /* most runs of a view */
  int32_t *positions; /* [n_tokens] RoPE positions */
  float *inv_freq;    /* [d/2] RoPE frequencies, or NULL */
  kv_asset *given;    /* what lanes keep, if the program says so, or NULL */
  kv_variant variant; /* windows and other properties of the model */
  int closed;         /* tokens seen at the ledger's last closed step */
  bool ended;         /* kv_session_digest was called: */
  kv_session_digests digests;
  /* Scratch for outputs of prompt tokens. */
  int tile;             /* most prompt tokens at once */
  size_t stride;        /* floats between two rows of s */
  float *row;           /* [max(d, d_v)] */
  float *q, *s, *o, *l; /* [tile][G]: [d], [stride], [d_v], 1 */
  kv_attend_scratch attend;
};

/* kv_session_open after the specification is parsed. Tests call it with methods
 * that are in no registry. spec is copied. files: the method's, if they have
 * been read (kv_asked_cell.files), or NULL. */
kv_rc kv_session_open_spec(const kv_session_shape *shape, const kv_spec *spec,
                           const char *budget, int prompt_len,
                           kv_asset *const *files, kv_session **out, kv_err *e);

/* For a NULL handle: returns KV_USAGE, with a sentence. */
kv_rc kv_session_none(kv_err *e);
/* Finds the layer with the model's number. KV_USAGE: it is not fed. */
kv_rc kv_session_find(const kv_session *s, int layer, kv_fed **out, kv_err *e);

void kv_session_free_variant(kv_session *s); /* a session being closed */

/* session_feed.c: copies n tokens of one side of a layer (the model's number)
 * into the side's buffer, from token `first` on, if they have a row there.
 * KV_USAGE: `in` is missing or has no kv_dtype, or an element of the n tokens
 * is not finite, or not exact in the buffer's dtype. The sentence names the
 * first; what was copied before is ignored. */
typedef struct kv_side {
  const char *name; /* "q", "k", "v", for the sentence */
  int heads, width; /* rows for a token; elements of a row */
  kv_dtype dtype;   /* of the buffer */
  int start, rows;  /* token of the first row; rows for a head */
  char *data;       /* [heads][rows][width] */
} kv_side;
/* Writes a row of d_v floats to the caller's memory, rounded to its type.
 * `token` counts from the first row of `out`. */
void kv_session_give(const kv_session *s, const kv_session_out *out, int token,
                     int head, const float *row);

/* Enters the whole prompt of a layer that waits for kv_session_keep; does
 * nothing for any other layer. KV_REFUSED: the layer has ended because of it.
 */
kv_rc kv_session_enter(kv_session *s, kv_fed *f, kv_err *e);

#endif
