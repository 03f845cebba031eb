/* SPDX-License-Identifier: Apache-2.0
 *
 * Building blocks that papers share, from which methods are composed:
 * selections, scores, pooling, the votes of a window, and keeping. Scores are
 * ranked by rule 2 of the arithmetic: larger key first, then the lower entry
 * index, then the lower lane number. Nothing here allocates. Scratch comes from
 * the hook's workspace: a few arrays of n, which KV_WORK covers, except in
 * kv_key_logits. Nothing fails except the kv_open_x that return a kv_rc, which
 * a method's open calls. Broken rules are asserted.
 */
#ifndef KV_REF_PARTS_H
#define KV_REF_PARTS_H

#include "ref/ground/arith.h"
#include "ref/ground/formula.h"
#include "ref/lane/lane.h"

/* keep[i] = is score[i] among the k largest of n? k <= 0: none; k >= n: all.
 * O(n). */
void kv_top(const float *score, int n, int k, bool *keep);

/* The same for one ranking of several lanes' scores: keep[l][i] for
 * score[l][i], i < n[l]. */
void kv_top_shared(const float *const *score, const int *n, int lanes, int k,
                   bool *const *keep);

/* Top-p. keep[i] = is s[i], of n >= 1 logits, in the shortest prefix of their
 * ranking, of at least one, whose probabilities (arithmetic 4) reach the share
 * p20 * 2^-20 of all? Returns how many. If the largest by rank is not finite,
 * all are kept. */
int kv_top_p(const kv_at *at, const float *s, int n, int32_t p20, bool *keep);

/* Parts of the selections above, which observers (ref/lane/select.h) do not
 * see. kv_nth_key returns the key (kv_key) of rank k from the largest, 1 <= k
 * <= n; *equals: how many of the k have that key. */
uint32_t kv_nth_key(const float *score, int n, int k, int *equals);
/* The key of s at which weights reach `target`: those of all larger keys, plus
 * some of its own. target is at most the sum of w[0..n). *above: the weight of
 * the larger keys. */
uint32_t kv_mass_key(const float *s, const int64_t *w, int n, int64_t target,
                     int64_t *above);

/* Index of the smallest, or largest, score among those with in[i] (NULL: all);
 * of equals the lower index. -1 if there is none. */
int kv_argmin(const float *score, int n, const bool *in);
int kv_argmax(const float *score, int n, const bool *in);

/* out[i] = RN32(sum[i]) * 2^-40, i < n: sums of probabilities as scores. */
void kv_scores(const int64_t *sum, int n, float *out);

/* Divides score[i], i < n, by the number of rows that have seen token id[i] at
 * `step` tokens seen, its own row included: one division, rounded once. */
void kv_scores_seen(int step, const uint32_t *id, int n, float *score);

/* Pooling with stride 1 over n scores; kernel is odd, for max at most 1023. max
 * ignores padding; an average counts it as zero. The average of sums stays a
 * sum: its divisor is common and not applied (arithmetic 4). out != in. */
void kv_pool_max(const float *in, int n, int kernel, float *out);
void kv_pool_sum(const int64_t *in, int n, int kernel, int64_t *out);
/* Average pooling of scores that are not sums: chain from +0, one division. */
void kv_pool_avg(const float *in, int n, int kernel, float *out);

/* How the query heads of a group become one score. mean ranks like sum. */
typedef enum kv_group_rule {
  KV_GROUP_MEAN,
  KV_GROUP_MAX,
  KV_GROUP_SUM,
  KV_GROUP_QUERY_HEAD /* lanes = QUERY_HEAD: no group */
} kv_group_rule;
typedef enum kv_pooling { KV_POOL_NONE, KV_POOL_AVG, KV_POOL_MAX } kv_pooling;

/* The observation window's sums of a lane: of the probabilities of its rows, by
 * entry, as int64 [queries with KV_GROUP_MAX, else 1][n_tokens], at the
 * beginning of the lane's own state. Returns their bytes of needs.lane_state. A
 * method that compresses more than once must zero them. */
size_t kv_window_state(const kv_shape *s, kv_group_rule group);
/* How many rows of n_tokens these are (needs.slid). */
static inline int kv_window_planes(const kv_shape *s, kv_group_rule group) {
  return group == KV_GROUP_MAX ? kv_group(s) : 1;
}
/* In observe, for a method that wants KV_SUM: adds the rows' sums. */
void kv_window_add(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                   kv_group_rule group);
/* out[0..n): scores of the first n entries from these sums: the group rule,
 * then pooling over `kernel` neighbours. */
void kv_window_score(const kv_at *at, const kv_lane *lane, kv_group_rule group,
                     kv_pooling pooling, int kernel, int n, float *out);
/* The same for entries [first, first + n); out[0] is the score of first. */
void kv_window_score_from(const kv_at *at, const kv_lane *lane,
                          kv_group_rule group, kv_pooling pooling, int kernel,
                          int first, int n, float *out);

/* In observe: adds the rows' sums over all heads to int64 column c. */
void kv_column_add(const kv_at *at, kv_lane *lane, int c, const kv_rows *rows);

/* In a compression: keeps the first `sink` and the last `recent` entries. Does
 * nothing if the lane holds no more than these. */
void kv_keep_ends(kv_lane *lane, int sink, int recent);
/* Keeps the k of largest score[0..n) among entries first .. first + n - 1, and
 * all entries outside this range. */
void kv_keep_top(const kv_at *at, kv_lane *lane, const float *score, int first,
                 int n, int k);
/* Keeps the top `heavy` of score[0..lane->n - recent) and the last `recent`.
 * Does nothing if the lane holds no more than these. */
void kv_keep_top_recent(const kv_at *at, kv_lane *lane, const float *score,
                        int heavy, int recent);

/* The first entry of the run of raw entries that ends before entry `end`,
 * judged by one side, lane->k or lane->v; `end` if the run is empty. */
int kv_first_full(const kv_cell_ref *side, int end);

/* Plain dot product of a[d] and b[d]: one chain (arithmetic 5). */
float kv_dot(const float *a, const float *b, int d);

/* --- logits that a method computes itself --------------------------------- */
/* s[i * lds + j], j < n = the logit (arithmetic 1) of row i of q[m][d] and the
 * key of entry first + j as attention reads it: dot product times `scale`,
 * without bias and cap. Call `softcap` of kernels.h for the cap. The lane must
 * not be re-indexed (asserted). Uses KV_KEY_LOGITS(d) bytes of workspace and
 * frees them. */
void kv_key_logits(const kv_at *at, const kv_lane *lane, int m, const float *q,
                   int first, int n, float scale, float *s, size_t lds);
#define KV_KEY_LOGITS(d) (2 * 64 * (size_t)(d) * sizeof(float) + 1024)
/* Sets logits that are not finite to 0, for votes. Attention that meets such a
 * token fails the cell. */
void kv_logits_finite(const kv_at *at, int n, float *s);
/* Replaces s[0..n), n >= 1 finite numbers, by their probabilities among
 * themselves (arithmetic 4). Unlike kv_observation_row it is no observation of
 * a query, and laws do not count it as one. */
void kv_probabilities(const kv_at *at, int n, float *s);

/* Decode steps from `step` tokens seen to the next compression, 0 at one, for a
 * method that compresses every `every` steps after the prompt. */
KV_FN int kv_steps_left(const kv_shape *s, int step, int every) {
  int past = (step - s->prompt_len) % every;
  return past == 0 ? 0 : every - past;
}

/* --- opening -------------------------------------------------------------- */
/* The row for a lane's budget in tokens, the knob of most methods. what: its
 * help, which says what it counts. */
#define KV_BUDGET_PARAM(type, what)                                            \
  KV_INT_PARAM("budget", type, budget, NULL, 1, 1 << 30, "tokens", what,       \
               .knob = KV_KNOB_ENTRIES)

enum { KV_MOST_TERMS = 1 << 22 }; /* most probabilities in a score (rule 4) */

/* KV_USAGE if the budget is KV_UNSET: none was given. */
kv_rc kv_open_budget(const char *method, int budget, kv_err *e);
/* KV_REFUSED if `part`, the value of the parameter `name`, is above budget. */
kv_rc kv_open_part(const char *method, const char *name, int part, int budget,
                   kv_err *e);
/* KV_USAGE if the width of a pooling is even: it has no middle. */
kv_rc kv_open_kernel(const char *method, int kernel, kv_err *e);
/* KV_REFUSED if a score would sum rows * heads * kernel > KV_MOST_TERMS. */
kv_rc kv_open_sums(const char *method, int rows, int heads, int kernel,
                   kv_err *e);
/* A share of the prompt in tokens, rounded down, at least one. */
int kv_open_share(float share, int prompt_len);
/* Number of query heads whose probabilities one score sums. */
int kv_score_heads(const kv_shape *s, kv_group_rule group);
/* The needs.lanes of a group rule. */
kv_lanes kv_group_lanes(kv_group_rule group);

/* --- window methods ------------------------------------------------------- */
/* Shared by the window methods: a struct in their params, and rows of their
 * parameter table. `member` is the kv_window_options in the params struct
 * `type`; least: smallest window, 0 if entries can be scored without votes. */
typedef struct kv_window_options {
  int window;         /* last queries, which vote and whose tokens are kept;
                         KV_UNSET: kv_fallback_window */
  int kernel;         /* width of the pooling in entries, odd */
  int pooling, group; /* kv_pooling, kv_group_rule */
} kv_window_options;

/* The row for kv_needs.merged, in methods that merge. */
#define KV_MERGED_PARAM(type, member)                                          \
  KV_CHOICE_PARAM("merged", type, member, "trace", "trace|fp32",               \
                  "what merged rows are stored as: rounded once a merge to "   \
                  "the trace's type, as the authors store them, or as fp32")
#define KV_WINDOW_PARAMS(type, member, least)                                  \
  KV_INT_PARAM("window", type, member.window, NULL, least, 1 << 22, "tokens",  \
               "last queries that vote, their tokens stay; default min(32, "   \
               "max(1, budget div 2)), 32 as in the authors' configurations"), \
      KV_INT_PARAM(                                                            \
          "kernel", type, member.kernel, "7", 1, 1023, "tokens",               \
          "width of the pooling, odd; 7 as in the authors' configurations"),   \
      KV_CHOICE_PARAM("pooling", type, member.pooling, "max", "none|avg|max",  \
                      "pooling of the votes over neighbours; max as in the "   \
                      "authors' configurations"),                              \
      KV_CHOICE_PARAM(                                                         \
          "group", type, member.group, "mean", "mean|max|sum|query_head",      \
          "how the query heads of a KV head vote; query_head: each "           \
          "keeps its own tokens, as in the authors' code")

/* min(32, max(1, budget div 2)): SnapKV's window, if it fits. */
int kv_fallback_window(int budget);
/* In open: resolves the options against a lane's budget in entries, which
 * includes the window, and fills in what the scoring needs. KV_USAGE: no
 * budget, no window, or an even kernel. KV_REFUSED: a window above the budget,
 * or sums that are not exact. */
kv_rc kv_open_window(const kv_shape *shape, const char *method, int budget,
                     kv_window_options *o, kv_needs *needs, kv_err *e);
/* The hook observe of the window methods: adds the rows' sums. */
void kv_window_observe(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                       const kv_window_options *o);
/* [lane->n - window] scores of the entries before the window, in the hook's
 * workspace. Requires lane->n > window. */
float *kv_window_past(const kv_at *at, const kv_lane *lane,
                      const kv_window_options *o);
/* In a compression: keeps the window, and the best `past` entries before it. */
void kv_window_keep(const kv_at *at, kv_lane *lane, const kv_window_options *o,
                    int past);

/* --- hashes --------------------------------------------------------------- */
/* keep[i] = is hash[i] among the k largest? Of equals the lower index first. */
void kv_top_hash(const uint64_t *hash, int n, int k, bool *keep);

/* --- a whole ranking ------------------------------------------------------ */
/* Sorts the entry indexes list[0..n) by score[entry], larger keys first,
 * stably. spare: scratch for n indexes. O(n). */
void kv_order(const float *score, int n, int32_t *list, int32_t *spare);

#endif
