/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets: the value of the option -b, parsed from text (kv_budgets_add), made
 * a number of entries for a trace (kv_budget_entries), or searched for where it
 * is in bytes (kv_budget_search). Percentages are exact: the decimal as typed
 * is kept as a ratio of integers; no floating-point number is involved.
 *
 *   budget = one | one { "/" one } | "layers:" FILE
 *   one    = [basis ":"] number      basis = entries
 *          | [basis ":"] number "%"  basis = prompt end mean peak read traffic
 *          | "ratio:" number         0 <= number < 1
 *
 * A compression ratio r is the share of the prompt's n tokens that goes, as
 * kvpress's compression_ratio: int(n * (1 - r)) stay, computed in binary64 as
 * Python does, so that of 465 tokens 92 stay at ratio:0.8 and 93 at 20%.
 *
 * A list, typed or read from a file, gives each layer of the model its own
 * budget: entries, a share of the prompt or a compression ratio.
 */
#ifndef KV_SIM_BUDGET_H
#define KV_SIM_BUDGET_H

#include "ref/ground/err.h"
#include <stdbool.h>
#include <stdint.h>

/* The unit of a budget. */
typedef enum kv_basis {
  KV_BASIS_NONE,    /* no budget at all */
  KV_BASIS_ENTRIES, /* 512 */
  KV_BASIS_PROMPT,  /* 20% of the prompt, floor */
  KV_BASIS_RATIO,   /* what a compression ratio leaves of the prompt */
  KV_BASIS_END,     /* bytes at the end, share of dense */
  KV_BASIS_MEAN,    /* bytes averaged over decode */
  KV_BASIS_PEAK,    /* bytes at the peak */
  KV_BASIS_READ,    /* bytes read per step */
  KV_BASIS_TRAFFIC  /* read and scanned per step */
} kv_basis;

enum { KV_BASES = KV_BASIS_TRAFFIC + 1 };
extern const char *const kv_basis_names[KV_BASES]; /* "" entries prompt ... */

typedef struct kv_budget {
  kv_basis basis;
  int entries;      /* KV_BASIS_ENTRIES: a lane's, from 1 to 2^30 */
  int64_t num, den; /* the others: share, or ratio, = num / den, den a power of
                       10, at most 10^15 and so exact in binary64 */
  char target[64];  /* as typed; for a list, its name (kv_budget_name_layers) */
  int layers;       /* budgets in a list; 0: one budget for all layers */
  struct kv_budget *layer; /* [layers] layer 0 of the model first */
} kv_budget;

typedef struct kv_budgets { /* those of -b, in the order typed */
  int n;
  kv_budget *budget; /* [n] */
} kv_budgets;

/* Parses the text of one budget. KV_USAGE: the text is wrong; KV_INPUT: the
 * file of a list is bad; KV_RESOURCE. Free out with kv_budget_free, also after
 * a failure. */
kv_rc kv_budget_parse(const char *text, kv_budget *out, kv_err *e);
void kv_budget_free(kv_budget *b); /* frees the list, not b */
/* Adds the budgets of a comma-separated list to out, which is zeroed before the
 * first call. Fails as kv_budget_parse, and with KV_USAGE if the same budget
 * stands twice; out then keeps what it had. */
kv_rc kv_budgets_add(const char *list, kv_budgets *out, kv_err *e);
void kv_budgets_free(kv_budgets *b); /* the budgets, not b; accepts NULL */

/* --- a budget a layer ---------------------------------------------------- */

#define KV_LAYERS "layers:" /* begins the name of a list, and one in a file */

/* True if the text is a list: it has a "/" or begins with "layers:". */
bool kv_budget_of_layers(const char *text);
/* kv_budget_parse for such a text. */
kv_rc kv_budget_parse_layers(const char *text, kv_budget *out, kv_err *e);
/* out[layers]: entries of each layer by a list, whose b->layers is `layers`, or
 * by one budget for all, as kv_budget_entries computes and refuses them; of:
 * [layers] tokens that a share is of. */
kv_rc kv_budget_layers(const kv_budget *b, int layers, const int *of, int *out,
                       kv_err *e);
/* The name of a list of n budgets: "layers:" and the first eight digits of the
 * SHA-256 of their texts with "/" between them. */
void kv_budget_name_layers(int n, const char *const *text, char out[64]);

/* --- one for all layers ------------------------------------------------- */

/* True if the budget is in bytes, so that its number of entries must be found
 * by search. */
bool kv_budget_in_bytes(const kv_budget *b);
/* True if the basis is bytes that are read, not stored. */
bool kv_basis_reads(kv_basis basis);
/* *out: entries that a budget in entries, in percent of a prompt of prompt_len
 * tokens or as a compression ratio means (rounded down). KV_USAGE if that is
 * less than 1. b is neither a list nor in bytes (asserted). */
kv_rc kv_budget_entries(const kv_budget *b, int prompt_len, int *out,
                        kv_err *e);
/* For a budget in bytes: true if bytes / dense <= the share, compared exactly.
 * Both >= 0 (asserted); two sums over the same steps may be passed in place of
 * two means. */
bool kv_budget_fits(const kv_budget *b, int64_t bytes, int64_t dense);
/* By how many bytes they exceed the budget, rounded: says how far, and only
 * kv_budget_fits whether. */
double kv_budget_over(const kv_budget *b, int64_t bytes, int64_t dense);

/* --- a budget in bytes --------------------------------------------------- */

/* The caller's: measures what the method costs with its knob at that place
 * (sim/ask/spec.h), and what dense costs, in bytes of the budget's basis. What
 * it returns beside KV_OK ends the search. */
typedef kv_rc kv_probe(void *self, int place, int64_t *bytes, int64_t *dense,
                       kv_err *e);

/* The caller's: *runs says whether the method is refused with its knob at that
 * place, for the reason in e; without a replay. */
typedef kv_rc kv_legal(void *self, int place, bool *runs, kv_err *e);

/* *out: the least place up to `most` that is not refused, in at most
 * 2 log2(most) + 2 questions. The search measures the last place first and may
 * try any between, so where `most` is refused so is the search (KV_REFUSED);
 * else what is refused is taken to be small. The place doubles until it is not
 * refused, so that of several such ones a small one is found. */
kv_rc kv_budget_least(int most, kv_legal *legal, void *self, int *out,
                      kv_err *e);
/* Finds by straight lines and halvings the largest place between `least` (the
 * smallest legal one) and `most` whose bytes fit, if bytes grow with the place,
 * else one that fits before one that does not. *out is `most` if that fits, and
 * `least` if least >= most. self: first argument of probe, which is called at
 * most kv_budget_probes times, usually a replay each. KV_REFUSED, with the
 * bytes and `named` ("budget 4": the value of `least`) in the sentence, if even
 * `least` does not fit. */
kv_rc kv_budget_search(const kv_budget *b, int least, int most,
                       const char *named, kv_probe *probe, void *self, int *out,
                       kv_err *e);
/* The same sentence, KV_REFUSED, for a search that was made before. */
kv_rc kv_budget_refuse(const kv_budget *b, const char *named, int64_t bytes,
                       int64_t dense, kv_err *e);
/* The most probes that kv_budget_search needs: `most`, `least`, then two for
 * each halving. */
int kv_budget_probes(int least, int most);
/* As many or fewer are enough where bytes are nearly a straight line over
 * places, as those of most methods. */
enum { KV_BUDGET_USUAL = 8 };

#endif
