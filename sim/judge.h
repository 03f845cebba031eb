/* SPDX-License-Identifier: Apache-2.0
 *
 * One decision, ours and theirs: are they the same, do they differ only where
 * scores are too near to the cut to tell, or is theirs wrong?
 *
 * What a score belongs to: a selection ranks indexes, an index is `unit`
 * entries (1, or the method's page). An entry has the score of its index
 * where the selection and the decision agree on it; what the method keeps or
 * leaves whatever the scores say (windows, sinks, the last page) has none and
 * is never a tie. The cut is the least score that was chosen.
 *
 * Pure functions; nothing allocates.
 */
#ifndef KV_SIM_JUDGE_H
#define KV_SIM_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum kv_grade { KV_GRADE_EQUAL, KV_GRADE_TIE, KV_GRADE_WRONG } kv_grade;
enum { KV_GRADES = 3 };
extern const char *const kv_grade_names[KV_GRADES]; /* equal tie wrong */

/* Why it is wrong. */
typedef enum kv_wrong {
  KV_WRONG_NOT,       /* it is not */
  KV_WRONG_RANGE,     /* none of the trace's tokens */
  KV_WRONG_CAUSALITY, /* a token that has not arrived */
  KV_WRONG_NOT_LIVE,  /* a token that was dropped */
  KV_WRONG_DUPLICATE, /* named twice */
  KV_WRONG_EMPTY,     /* nothing named */
  KV_WRONG_FORCED,    /* differs where no score decides */
  KV_WRONG_PART,      /* takes or leaves part of what is chosen as one */
  KV_WRONG_COUNT,     /* another number */
  KV_WRONG_SCORE,     /* further from the cut than a tie */
  KV_WRONG_ORDER      /* the same entries, stored in another order */
} kv_wrong;
extern const char *const kv_wrong_names[]; /* "", range, causality, ... */

/* A selection, kept: what index i < n scored, and what became of it. */
enum { KV_LEFT, KV_CHOSEN, KV_UNRANKED };
typedef struct kv_ranked {
  const bool *flags; /* where the method has its flags; only to compare */
  int n, unit;
  float *score;
  uint8_t *fate;  /* KV_LEFT, KV_CHOSEN, KV_UNRANKED */
  bool has_cut;   /* something was chosen and something left */
  float cut;      /* over all lanes that were ranked together */
  bool any_count; /* of this lane: it shares a budget, or mass decides */
} kv_ranked;

typedef struct kv_sides {
  int n;               /* live entries */
  const uint32_t *id;  /* [n] their tokens */
  const bool *ours;    /* [n] */
  const bool *theirs;  /* [n] */
  bool reordered;      /* the order counts, and theirs is another */
  bool no_list;        /* theirs is all, since it says nothing */
  kv_wrong fault;      /* found while theirs was read */
  int32_t item;        /* the one at fault */
  const kv_ranked *by; /* what decided; NULL: nothing that ranks */
} kv_sides;

/* Tokens first..last of one index that the two differ on. */
typedef struct kv_apart {
  int32_t first, last;
  bool scored;
  float score;
} kv_apart;
enum { KV_MOST_APART = 64, KV_VERDICT_TEXT = 512 };

typedef struct kv_judged {
  kv_grade grade;
  kv_wrong why;
  int layer, step;  /* as the caller says */
  int lane, head;   /* -1: not of one */
  int32_t item;     /* at fault */
  bool no_list;     /* of theirs, which is all that is live */
  int ours, theirs; /* entries each has */
  int took, left;   /* runs; the first ones below */
  kv_apart taken[KV_MOST_APART], missed[KV_MOST_APART];
  bool has_cut;
  float cut;
} kv_judged;

/* Judges; layer, step, lane and head of out are left as they are. */
void kv_judge(const kv_sides *s, double tie, kv_judged *out);

/* Where the entry belongs; false: no score decides on it. */
bool kv_judge_score(const kv_ranked *by, int entry, bool ours, float *out);

/* "layer 0, step 138, query head 3: ...", with what they took, what they
 * left, the scores and the cut; page: of the file's items. Returns out. */
const char *kv_judged_text(const kv_judged *j, double tie, int page,
                           char out[KV_VERDICT_TEXT]);

#endif
