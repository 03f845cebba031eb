/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets: the value of the option -b, parsed from text (kv_budgets_add),
 * converted to entries for a trace (kv_budget_entries), or searched for if it
 * is in bytes (kv_budget_search). Percentages are exact: the decimal as typed
 * is kept as a ratio of integers, without floating-point numbers.
 *
 *   budget = one | one { "/" one } | "layers:" FILE
 *   one    = [basis ":"] number      basis = entries
 *          | [basis ":"] number "%"  basis = prompt end mean peak read traffic
 *          | "ratio:" number         0 <= number < 1
 *
 * A compression ratio r is the share of the prompt's n tokens that is dropped,
 * as in kvpress: int(n * (1 - r)) stay, computed in binary64 as Python does. Of
 * 465 tokens, 92 stay at ratio:0.8 and 93 at 20%.
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
  KV_BASIS_RATIO,   /* what a compression ratio keeps of the prompt */
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
  int64_t num, den; /* other bases: share, or ratio, = num / den; den is a power
                       of 10, at most 10^15 and so exact in binary64 */
  char target[64];  /* as typed; for a list, its name (kv_budget_name_layers) */
  int layers;       /* budgets in a list; 0: one budget for all layers */
  struct kv_budget *layer; /* [layers] layer 0 of the model first */
} kv_budget;

typedef struct kv_budgets { /* the values of -b, in the order typed */
  int n;
  kv_budget *budget; /* [n] */
} kv_budgets;

/* Parses the text of one budget. KV_USAGE: the text is wrong; KV_INPUT: the
 * file of a list is bad; KV_RESOURCE. Always free out with kv_budget_free. */
kv_rc kv_budget_parse(const char *text, kv_budget *out, kv_err *e);
void kv_budget_free(kv_budget *b); /* its list, not b */
/* Adds the budgets of a comma-separated list to out, which is zeroed before the
 * first call. Fails as kv_budget_parse, and with KV_USAGE if a budget occurs
 * twice; out is then unchanged. */
kv_rc kv_budgets_add(const char *list, kv_budgets *out, kv_err *e);
void kv_budgets_free(kv_budgets *b); /* the budgets, not b; accepts NULL */

/* --- a budget for each layer --------------------------------------------- */

#define KV_LAYERS "layers:" /* begins a list's name, and a list in a file */

/* Is the text a list? It then has a "/" or begins with "layers:". */
bool kv_budget_of_layers(const char *text);
/* kv_budget_parse for such a text. */
kv_rc kv_budget_parse_layers(const char *text, kv_budget *out, kv_err *e);
/* out[layers]: entries of each layer, from a list (b->layers must be `layers`)
 * or from one budget for all; converted and refused as kv_budget_entries does.
 * of: [layers] tokens that a share refers to. */
kv_rc kv_budget_layers(const kv_budget *b, int layers, const int *of, int *out,
                       kv_err *e);
/* The name of a list of n budgets: "layers:" and the first eight digits of the
 * SHA-256 of their texts with "/" between them. */
void kv_budget_name_layers(int n, const char *const *text, char out[64]);

/* --- one budget for all layers ------------------------------------------ */

/* Is the budget in bytes, so that its entries must be searched for? */
bool kv_budget_in_bytes(const kv_budget *b);
/* Does the basis count bytes read, not bytes stored? */
bool kv_basis_reads(kv_basis basis);
/* *out: the entries, rounded down, of a budget in entries, in percent of a
 * prompt of prompt_len tokens, or as a compression ratio. KV_USAGE if that is
 * less than 1. b must be neither a list nor in bytes (asserted). */
kv_rc kv_budget_entries(const kv_budget *b, int prompt_len, int *out,
                        kv_err *e);
/* For a budget in bytes: is bytes / dense <= the share? Compared exactly. Both
 * must be >= 0 (asserted). For two means, pass sums over the same steps. */
bool kv_budget_fits(const kv_budget *b, int64_t bytes, int64_t dense);
/* By how many bytes the budget is exceeded, rounded: for messages and
 * estimates. Only kv_budget_fits decides. */
double kv_budget_over(const kv_budget *b, int64_t bytes, int64_t dense);

/* --- a budget in bytes --------------------------------------------------- */

/* The caller's function: measures, with the knob at that place
 * (sim/ask/spec.h), what the method and what dense cost, in bytes of the
 * budget's basis. Any return value except KV_OK ends the search. */
typedef kv_rc kv_probe(void *self, int place, int64_t *bytes, int64_t *dense,
                       kv_err *e);

/* The caller's function: *runs = is the method accepted with its knob at that
 * place? If not, e has the reason. Must not replay. */
typedef kv_rc kv_legal(void *self, int place, bool *runs, kv_err *e);

/* *out: the smallest accepted place up to `most`, found with at most 2
 * log2(most) + 2 calls. The search tests `most` first; if it is refused, so is
 * the search (KV_REFUSED). Refused places are assumed to be small: the place
 * doubles until one is accepted, so if several regions are accepted, the result
 * is a small one. */
kv_rc kv_budget_least(int most, kv_legal *legal, void *self, int *out,
                      kv_err *e);
/* Searches [least, most] (regula falsi, then bisection) for the largest place
 * whose bytes fit. `least` is the smallest accepted place. If bytes are not
 * monotonic, *out is some place that fits and whose successor does not. *out is
 * `most` if that fits, and `least` if least >= most. probe gets self and is
 * called at most kv_budget_probes times, usually a replay each. KV_REFUSED if
 * not even `least` fits; the sentence has the bytes and `named` ("budget 4":
 * the value of `least`). */
kv_rc kv_budget_search(const kv_budget *b, int least, int most,
                       const char *named, kv_probe *probe, void *self, int *out,
                       kv_err *e);
/* The same KV_REFUSED and sentence, for a search made earlier. */
kv_rc kv_budget_refuse(const kv_budget *b, const char *named, int64_t bytes,
                       int64_t dense, kv_err *e);
/* Most probes that kv_budget_search needs: `most`, `least`, then two for each
 * bisection step. */
int kv_budget_probes(int least, int most);
/* Enough if bytes are almost linear in places, as for most methods. */
enum { KV_BUDGET_USUAL = 8 };

#endif
