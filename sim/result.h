/* SPDX-License-Identifier: Apache-2.0
 *
 * One row: what one cell - a trace, a method with all its parameters, a
 * budget - gave. Filled by the engine, written by the JSON, table and
 * database writers, read back by verify. Plain data; kv_result_free releases
 * the arrays.
 */
#ifndef KV_SIM_RESULT_H
#define KV_SIM_RESULT_H

#include "ref/ledger.h"
#include "ref/sha256.h"
#include "sim/measure.h"
#include <stdbool.h>

typedef enum kv_status {
  KV_CELL_OK,
  KV_CELL_FIXED,   /* the method has no such knob: run once, budget null */
  KV_CELL_REFUSED, /* cannot run as asked: reason says why */
  KV_CELL_FAILED   /* arithmetic left the finite numbers: reason says where */
} kv_status;

typedef enum kv_basis {
  KV_BASIS_NONE,    /* no budget at all */
  KV_BASIS_ENTRIES, /* 512 */
  KV_BASIS_PROMPT,  /* 20% of the prompt, floor */
  KV_BASIS_END,     /* bytes at the end, share of dense */
  KV_BASIS_MEAN,    /* bytes averaged over decode */
  KV_BASIS_PEAK,    /* bytes at the peak */
  KV_BASIS_READ     /* bytes read per step */
} kv_basis;

extern const char *const kv_status_names[4]; /* ok fixed refused failed */
extern const char *const kv_basis_names[7];  /* "" entries prompt end ... */

typedef struct kv_totals {
  kv_bytes end;            /* at t = T, after settling */
  int64_t codes_end;       /* payload only */
  double mean, codes_mean; /* over t = prompt_len .. T, after settling */
  int64_t peak, codes_peak;
  int64_t mti;            /* byte * step, sum over the same t */
  double read;            /* bytes read per decode step */
  int64_t moved;          /* bytes rewritten by verbs */
  int64_t verbs;          /* records of verbs */
  double kr;              /* mean of bytes / dense bytes */
  double cr;              /* entries attended / dense, over query heads */
  double kept;            /* entries at the end, mean over lanes */
  int kept_min, kept_max; /* over lanes, at the end */
  double attended;        /* mean entries per query head and decode step */
} kv_totals;

/* Aggregates below the run: a layer, a KV head of a layer, a bin of steps. */
typedef struct kv_part {
  int layer, head, bin; /* -1 where it does not apply */
  int first_step, last_step;
  double kept; /* entries at the end, mean over its lanes */
  kv_stat stat[KV_MEASURES];
} kv_part;

typedef struct kv_layer_result {
  int layer;
  kv_digest journal, state, output;
} kv_layer_result;

typedef struct kv_step_cost { /* sum over layers, after settling */
  int step;                   /* tokens seen */
  int64_t bytes, codes, read;
} kv_step_cost;

typedef struct kv_result {
  char trace[256];    /* file stem */
  kv_digest identity; /* of the trace; has_identity */
  bool has_identity;
  int prompt_len, n_tokens;
  const char *method; /* lives as long as the method table */
  int revision;
  char *code;   /* hex digest of a plugin or decisions file, or NULL */
  char *params; /* JSON object, every parameter written out */
  char *spec;   /* method:key=value:..., the same */
  kv_status status;
  char reason[512];
  int arithmetic;
  int budget; /* integer used; -1 = null */
  kv_basis basis;
  char target[64]; /* as typed; "" = null */
  double achieved; /* in the unit of the basis; NaN = null */
  kv_digest journal, state, output;
  kv_totals totals;
  kv_stat stat[KV_MEASURES];
  int n_parts, n_layers, n_steps;
  kv_part *part;          /* layers, then heads, then bins */
  kv_layer_result *layer; /* [n_layers] */
  kv_step_cost *step;     /* [n_steps] from prompt_len to T */
  /* How it was computed: the confirmation. */
  const char *backend;
  char isa[16];
  int threads;
  double seconds;
} kv_result;

/* Does the row carry digests and measures? */
static inline bool kv_result_ran(const kv_result *r) {
  return r->status == KV_CELL_OK || r->status == KV_CELL_FIXED;
}

void kv_result_free(kv_result *r); /* the arrays, not r; accepts zeroed */

#endif
