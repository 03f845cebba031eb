/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges one decision, ours and theirs: are they equal, do they differ only
 * where scores are too close to the cut to tell (a tie), or is theirs wrong?
 *
 * A selection ranks indexes. An index stands for `unit` entries (1, or the
 * method's page), which all have its score; taking only some of them is wrong.
 * What the method keeps or drops whatever the scores are (windows, sinks, the
 * last page) has no score and is never a tie. The cut is the lowest chosen
 * score.
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

/* Why a decision is wrong: the first reason that applies, in the order of the
 * checks, first of their list, then of the two sides. */
typedef enum kv_wrong {
  KV_WRONG_NOT,       /* not wrong */
  KV_WRONG_RANGE,     /* not a token of the trace */
  KV_WRONG_CAUSALITY, /* a token that has not arrived */
  KV_WRONG_NOT_LIVE,  /* a token that was dropped */
  KV_WRONG_DUPLICATE, /* named twice */
  KV_WRONG_EMPTY,     /* nothing named */
  KV_WRONG_FORCED,    /* differs although no score decides */
  KV_WRONG_PART,      /* takes part of an index that is chosen as a whole */
  KV_WRONG_COUNT,     /* another number of entries */
  KV_WRONG_SCORE,     /* further from the cut than a tie allows */
  KV_WRONG_ORDER      /* the same entries, stored in another order */
} kv_wrong;
extern const char *const kv_wrong_names[]; /* by kv_wrong: "", "range", .. */

/* A recorded selection of ours: the score of index i < n, and its fate: left,
 * chosen, or not taking part. */
enum { KV_LEFT, KV_CHOSEN, KV_UNRANKED };
typedef struct kv_ranked {
  const bool *flags; /* the method's choice; only the address counts */
  int n;             /* indexes */
  int unit;          /* entries of an index: 1, or those of a page */
  int first;     /* the first entry of index 0: sinks before it have no score */
  float *score;  /* [n] */
  uint8_t *fate; /* [n] KV_LEFT, KV_CHOSEN, KV_UNRANKED */
  bool has_cut;  /* was something chosen, and something left? */
  float cut;     /* over all lanes that were ranked together */
  bool any_count; /* the number may differ in this lane: lanes share a budget,
                     or a mass decides */
} kv_ranked;

/* One decision of both, over the live entries of a lane. */
typedef struct kv_sides {
  int n;               /* live entries */
  const uint32_t *id;  /* [n] their tokens; the oldest of a merged entry */
  const bool *ours;    /* [n] the entry is attended, or stays */
  const bool *theirs;  /* [n] the same for theirs */
  bool reordered;      /* order matters, and theirs differs */
  bool no_list;        /* their file has no list here, which means all */
  kv_wrong fault;      /* found while reading their list */
  int32_t item;        /* the token or page at fault */
  const kv_ranked *by; /* our selection that decided; NULL: none */
} kv_sides;

/* A run of tokens of one index on which the two differ. */
typedef struct kv_apart {
  int32_t first, last; /* tokens */
  bool scored;         /* a score decided on them */
  float score;         /* that score; 0 if there is none */
} kv_apart;
/* Most runs kept of either kind; bytes of a sentence. */
enum { KV_MOST_APART = 64, KV_VERDICT_TEXT = 512 };

/* The judgement of one decision. */
typedef struct kv_judged {
  kv_grade grade;
  kv_wrong why;     /* KV_WRONG_NOT unless the grade is wrong */
  int layer, step;  /* the model's layer, tokens seen; set by the caller */
  int lane, head;   /* set by the caller; head -1: a lane's compression */
  int32_t item;     /* the token or page at fault, if `why` is about one */
  bool no_list;     /* their file has no list: all live entries */
  int ours, theirs; /* number of entries in each */
  bool has_cut;     /* there is a cut: */
  float cut;        /* the lowest chosen score */
  double least_tie; /* smallest --tie with which it is not wrong; infinite: none
                     */
  /* Runs of tokens that only they took, or left; the first are below. */
  int took, left;
  kv_apart taken[KV_MOST_APART], missed[KV_MOST_APART];
} kv_judged;

/* Judges one decision. tie: the share of the cut within which a score may fall
 * on either side of it, >= 0. Leaves layer, step, lane and head of out
 * unchanged, fills in the rest. Cannot fail. */
void kv_judge(const kv_sides *s, double tie, kv_judged *out);

/* *out: the score of the entry's index. True if that score decided as our side
 * did (`ours`: it was chosen). False: it is not ranked, or ours went the other
 * way, or `by` is NULL. */
bool kv_judge_score(const kv_ranked *by, int entry, bool ours, float *out);

/* Writes x, finite and >= 0, as text: "8.1e-3", two digits, rounded up so that
 * it works as --tie. Returns out. */
enum { KV_TIE_TEXT = 24 };
const char *kv_tie_text(double x, char out[KV_TIE_TEXT]);

/* Writes "layer 0, step 138, query head 3: ..." with what they took, what they
 * left, the scores and the cut; page: tokens of their items. Returns out. */
const char *kv_judged_text(const kv_judged *j, double tie, int page,
                           char out[KV_VERDICT_TEXT]);

#endif
