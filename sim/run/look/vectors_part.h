/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/run/look/vectors*.c: the stages of a step whose data `kvreplay
 * vectors` writes, and the matrices collected for them. One thread collects
 * everything in memory while the cell is replayed, and writes it afterwards.
 */
#ifndef KV_SIM_VECTORS_PART_H
#define KV_SIM_VECTORS_PART_H

#include "ref/lane/compose.h"
#include "ref/lane/hooks.h"
#include "ref/lane/select.h"
#include "sim/replay/engine/layer.h"
#include "sim/run/look/vectors.h"
#include "traces/container/dtype.h"

/* Stages of every method, in the order in which data flows; a method's own
 * stages (kv_method.stages) have the numbers from KV_V_STAGES on. What each
 * holds, and by which rule, is in kv_vectors_stages. */
enum {
  /* the layer's inputs, and which rows of q are recorded */
  KV_V_Q,
  KV_V_K,
  KV_V_V,
  KV_V_ROWS,
  /* entries of a lane when a step attends: token, weight, position */
  KV_V_ENTRIES,
  KV_V_WEIGHTS,
  KV_V_POSITIONS,
  /* coded keys and values: page table, codes, scales, minima, how
     many numbers were clipped */
  KV_V_K_PAGES,
  KV_V_K_CODES,
  KV_V_K_SCALES,
  KV_V_K_MINIMA,
  KV_V_K_CLIPPED,
  KV_V_V_PAGES,
  KV_V_V_CODES,
  KV_V_V_SCALES,
  KV_V_V_MINIMA,
  KV_V_V_CLIPPED,
  /* query, keys and values as attention reads them */
  KV_V_Q_READ,
  KV_V_K_READ,
  KV_V_V_READ,
  /* attention: view, logits, chunks, output */
  KV_V_VIEW,
  KV_V_LOGITS,
  KV_V_CHUNK_MAX,
  KV_V_CHUNK_SUM,
  KV_V_CHUNK_ACC,
  KV_V_OUT,
  KV_V_LSE,
  /* selection and compression: columns, scores, order, choice, what stays */
  KV_V_COLUMN,
  KV_V_COLUMN_2,
  KV_V_SCORES,
  KV_V_ORDER,
  KV_V_CHOSEN,
  KV_V_EVICTED,
  KV_V_KEPT,
  KV_V_STAGES
};

/* A stage, as manifests describe it. */
typedef struct kv_vectors_stage {
  const char *name;  /* of its files and in manifests: "k_codes" */
  const char *of;    /* what `head` counts: query heads, KV heads or lanes */
  const char *rules; /* numbers of rules in ref/ground/arith.h, or "-" */
  const char *rule;  /* how it is computed, in one line of text */
} kv_vectors_stage;

/* The stages of the enum, by number. */
extern const kv_vectors_stage kv_vectors_stages[KV_V_STAGES];

/* One matrix. */
typedef struct kv_vector {
  int stage;          /* its number: of the enum, or of the method's own */
  int layer;          /* the model's number */
  int step;           /* tokens seen; 0: no step */
  int head;           /* what the stage's `of` counts; -1: the layer */
  int again;          /* counts, from 0, matrices with the same name */
  kv_st_dtype type;   /* of an element */
  size_t rows, width; /* may be 0 rows */
  const void *data;   /* [rows][width]: own, or the trace's */
  void *own;          /* freed with the collection; or NULL */
} kv_vector;

/* A collection. */
typedef struct kv_vectors {
  const kv_vectors_ask *ask; /* the request */
  const kv_cell *cell;
  const kv_method *method; /* the cell's own */
  kv_around around;        /* wraps its hooks, to know which one is running */
  kv_method shown;         /* the wrapped table, in the plan while replaying */
  kv_selecting looks;      /* receives the selections made in hooks */
  kv_watch watch;          /* of the replay */
  int n, room;
  kv_vector *vector; /* [n] of room, as they were collected */
  float *row, *sc;   /* scratch: [d] of a query; [d] of a rotation */
  /* The running hook, for the selections made in it; at NULL: none. */
  const kv_at *at;
  kv_lane *const *lane; /* [lanes] its lanes */
  int lanes;
  int head;     /* the query head whose view is chosen; -1: a compression */
  kv_err fault; /* the first error; nothing is collected after it */
} kv_vectors;

/* vectors_collect.c. Adds the matrix `like` and sets its `again`. If like->data
 * is NULL it gets memory of its own, zeroed, which is returned for the caller
 * to fill; else data is borrowed, and NULL is returned. NULL also after a
 * fault, or without memory, which is then the fault. */
void *kv_vectors_put(kv_vectors *v, const kv_vector *like);
/* Sets the fault: memory ran out. Keeps an earlier fault. */
void kv_vectors_no_memory(kv_vectors *v, size_t bytes);
/* Are matrices of that step (tokens seen) requested, and is there no fault? */
bool kv_vectors_wants(const kv_vectors *v, int step);
/* Begins an empty collection for ask, which outlives it, in the thread that
 * replays; one at a time in a thread, because it observes selections through
 * kv_selecting_now. KV_RESOURCE: memory. Close it, also after a failure. */
kv_rc kv_vectors_open(kv_vectors *v, const kv_vectors_ask *ask, kv_err *e);
void kv_vectors_close(kv_vectors *v);
/* Collects q, k and v of a layer, up to the last requested step, before the
 * layer begins. The trace must stay open as long as v. */
void kv_vectors_inputs(kv_vectors *v, const kv_layer_data *data);

/* vectors_seen.c: the replay's callback `seen`; self is the collection.
 * Collects what a lane's query heads attended at a requested step, and computes
 * it a second time. A difference is the fault, KV_INTERNAL. */
void kv_vectors_seen(void *self, int layer, int step, const kv_seen *seen);

/* vectors_manifest.c: writes the manifests into dir, which already has the
 * stages' files. KV_RESOURCE: memory, or a file cannot be read or written. */
kv_rc kv_vectors_manifest(const kv_vectors *v, const char *dir, kv_err *e);

/* Stage i of the cell, 0 <= i < kv_vectors_stage_count: the common ones first,
 * then its method's own. */
kv_vectors_stage kv_vectors_stage_at(const kv_vectors *v, int i);
int kv_vectors_stage_count(const kv_vectors *v);
/* Writes the full rule of stage i, as in the manifest; for stages of codings,
 * with the rules of each coding's format (kv_format_rules). Asserted to fit. */
enum { KV_VECTORS_RULE = 4096 };
void kv_vectors_rule(const kv_vectors *v, int i, char out[KV_VECTORS_RULE]);
/* The matrix's name in its stage, "layers.2.steps.138.heads.0"; returns out. */
enum { KV_VECTOR_NAME = 80 };
const char *kv_vector_name(const kv_vector *x, char out[KV_VECTOR_NAME]);
/* Writes the name of its file, without the folder: the stage's or, if raw, its
 * own. Returns out. */
enum { KV_VECTOR_FILE = 160 };
const char *kv_vector_file(const kv_vectors *v, const kv_vector *x,
                           char out[KV_VECTOR_FILE]);
/* Bytes of its data: rows * width elements of its type. */
size_t kv_vector_bytes(const kv_vector *x);

#endif
