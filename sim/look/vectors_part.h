/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/look/vectors*.c: the stages of a step whose data
 * `kvreplay vectors` writes, and the matrices collected for them. Everything is
 * collected in memory by one thread while the cell is replayed, and written
 * after it.
 */
#ifndef KV_SIM_VECTORS_PART_H
#define KV_SIM_VECTORS_PART_H

#include "ref/lane/compose.h"
#include "ref/lane/hooks.h"
#include "ref/lane/select.h"
#include "sim/engine/layer.h"
#include "sim/look/vectors.h"
#include "traces/container/dtype.h"

/* Stages of every method, in the order in which data flows; a method's own
 * stages follow them. */
enum {
  KV_V_Q,
  KV_V_K,
  KV_V_V,
  KV_V_ROWS,
  KV_V_ENTRIES,
  KV_V_WEIGHTS,
  KV_V_POSITIONS,
  KV_V_K_PAGES,
  KV_V_K_CODES,
  KV_V_K_SCALES,
  KV_V_K_MINIMA,
  KV_V_V_PAGES,
  KV_V_V_CODES,
  KV_V_V_SCALES,
  KV_V_V_MINIMA,
  KV_V_Q_READ,
  KV_V_K_READ,
  KV_V_V_READ,
  KV_V_VIEW,
  KV_V_LOGITS,
  KV_V_CHUNK_MAX,
  KV_V_CHUNK_SUM,
  KV_V_CHUNK_ACC,
  KV_V_OUT,
  KV_V_LSE,
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

/* vectors_stages.c: those of the enum, by its numbers. */
extern const kv_vectors_stage kv_vectors_stages[KV_V_STAGES];

/* One matrix. step 0: belongs to no step; head -1: belongs to the layer.
 * `again` counts, from 0, matrices that would otherwise have the same name. */
typedef struct kv_vector {
  int stage, layer, step, head, again;
  kv_st_dtype type;
  size_t rows, width;
  const void *data; /* rows * width elements: own, or the trace's */
  void *own;        /* or NULL */
} kv_vector;

/* A collection. */
typedef struct kv_vectors {
  const kv_vectors_ask *ask;
  const kv_cell *cell;
  const kv_method *method; /* the cell's own */
  kv_around around;        /* wraps its hooks, to know which one is running */
  kv_method shown;         /* the wrapped table, in the plan */
  kv_selecting looks;
  kv_watch watch;
  int n, room;
  kv_vector *vector;
  float *row, *part, *sc; /* [d] of a query; [2 d_v]; [d] of a rotation */
  /* The hook that is running, for the selections made in it. */
  const kv_at *at;
  kv_lane *const *lane;
  int lanes, head;
  kv_err fault; /* the first error; nothing is collected after it */
} kv_vectors;

/* vectors_collect.c. Adds a copy of the matrix and returns its memory, to be
 * filled. NULL after a fault, or if memory ends, which then is the fault.
 * Matrices without bytes get memory too. */
void *kv_vectors_put(kv_vectors *v, const kv_vector *like);
/* Sets the fault: memory ended. Keeps an earlier fault. */
void kv_vectors_no_memory(kv_vectors *v, size_t bytes);
/* True if matrices of that step are asked for. */
bool kv_vectors_wants(const kv_vectors *v, int step);
/* Begins an empty collection for ask, one at a time in a process: selections
 * are noted through kv_selecting_now. KV_RESOURCE: memory. Close it, also after
 * a failure. */
kv_rc kv_vectors_open(kv_vectors *v, const kv_vectors_ask *ask, kv_err *e);
void kv_vectors_close(kv_vectors *v);
/* Collects q, k and v of a layer before it begins. */
void kv_vectors_inputs(kv_vectors *v, const kv_layer_data *data);

/* vectors_seen.c: collects what a step attended, and checks it against the
 * second computation. */
void kv_vectors_seen(void *self, int layer, int step, const kv_seen *seen);

/* vectors_files.c: writes every matrix into its file under dir, which exists,
 * then the manifests. KV_RESOURCE: a file cannot be written. */
kv_rc kv_vectors_files(const kv_vectors *v, const char *dir, kv_err *e);
/* vectors_manifest.c: writes the manifests into dir, where the stages' files
 * already are. */
kv_rc kv_vectors_manifest(const kv_vectors *v, const char *dir, kv_err *e);

/* Stage i of the cell, 0 <= i < kv_vectors_stage_count: the common ones first,
 * then its method's own. */
kv_vectors_stage kv_vectors_stage_at(const kv_vectors *v, int i);
int kv_vectors_stage_count(const kv_vectors *v);
/* Writes the full rule of stage i; for stages of codings, with the rules of
 * each coding's format (kv_format_rules). */
enum { KV_VECTORS_RULE = 2048 };
void kv_vectors_rule(const kv_vectors *v, int i, char out[KV_VECTORS_RULE]);
/* Writes the matrix's name, "layers.2.steps.138.heads.0", and returns out. */
enum { KV_VECTOR_NAME = 80 };
const char *kv_vector_name(const kv_vector *x, char out[KV_VECTOR_NAME]);
/* Writes the name of its file, without the folder, and returns out. */
enum { KV_VECTOR_FILE = 160 };
const char *kv_vector_file(const kv_vectors *v, const kv_vector *x,
                           char out[KV_VECTOR_FILE]);
/* Bytes of its data: rows * width elements of its type. */
size_t kv_vector_bytes(const kv_vector *x);

#endif
