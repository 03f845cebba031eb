/* SPDX-License-Identifier: Apache-2.0
 *
 * Hard-KV: tokens go through three tiers, and how many of them stay is what a
 * share of the probability asks for, head by head.
 *
 *   dense      the last `window` tokens, exact; their queries vote
 *   sparse     older tokens, in place; a mask of one bit a token says which
 *              ones attention reads
 *   condensed  what is left when the lane was rewritten: at most `upper` tokens
 *
 *   after the prompt and then every `every` steps, of a lane with n > lower
 *   tokens; A: those whose bit is set; t: each query of the dense tier
 *     t votes for the fewest tokens of A that hold a share p of its
 * probability, as an adapter (the logits, their largest neighbours, R-KV's
 * score) at a calibrated temperature sees it (ref/parts/votes.h) chosen  = A
 * with at least one vote, the first `sinks` tokens, the dense tier and the last
 * `local` tokens n <= upper: the bits of the others are cleared, nothing moves
 *     n >  upper: the others go; if more than upper are chosen, those that no
 *                 rule protects are cut by votes, then the mean probability,
 * then the younger token
 *
 * Ren et al. 2026, Hard-KV (HARDInfer). The default follows the paper where
 * the authors' code does something else:
 * - The code's search for T sums the first k positions, not the k most
 *   probable, against p instead of M_k(S), up to T = 1; the gradient's T is
 *   never read again and stays 0.5; layer 0's T serve all layers. Here each is
 *   as the paper defines it. In the paper's boxes the loop's condition is
 *   turned round.
 * - T are looked for once, at a lane's first choice, and used again by the
 *   query's place in the window, as the paper says it is done in practice;
 *   temperatures=every looks for them each time.
 * - The code has no causal mask within the window: its queries also see the
 *   window's later keys. Here a query sees what it saw.
 * - The code's rewrite gives every token a priority of at least 1 and fills up
 *   to `upper` in time order, chosen ones first; votes are a union, never
 *   counted. The paper ranks by votes.
 * - The code refills masks once all layers have dropped a token; here bits are
 *   only ever cleared, as in the paper.
 * - local is 32 in some of the code's managers and 127 in others. The dense
 *   tier is there anyway, so it matters only where it is larger.
 * - Of ties at the prefix's end the lower entry goes first; the code, which
 *   looks for a threshold, keeps all.
 *
 * Cost: a settling: window * heads * n * d for logits, two sorts of n a query
 * and, where T is looked for, up to 60 rows of exponentials.
 */
#include "ref/methods/hardkv.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"
#include <string.h>

static const kv_param table[] = {
    {.name = "upper",
     .kind = KV_INT,
     .offset = offsetof(params, upper),
     .min = 1,
     .max = 1 << 30,
     .unit = "tokens",
     .help = "tokens of a lane above which it is rewritten, and left at most; "
             "must be given; 2048 in the authors' code",
     .knob = KV_KNOB_ENTRIES},
    {.name = "lower",
     .kind = KV_INT,
     .offset = offsetof(params, lower),
     .min = 0,
     .max = 1 << 30,
     .unit = "tokens",
     .help = "tokens of a lane up to which nothing is chosen; default upper "
             "div 2, as in the paper"},
    {.name = "p",
     .kind = KV_SHARE,
     .offset = offsetof(params, v.p),
     .fallback = "0.9",
     .min = 0,
     .max = 1,
     .unit = "share of the probability",
     .help = "mass of what a query votes for; 0.9 as in the paper, which "
             "sweeps 0.8, 0.7 and 0.6"},
    {.name = "every",
     .kind = KV_INT,
     .offset = offsetof(params, every),
     .fallback = "128",
     .min = 1,
     .max = 1 << 30,
     .unit = "steps",
     .help = "decode steps between settlings; 128 as in paper and code"},
    {.name = "window",
     .kind = KV_INT,
     .offset = offsetof(params, v.window),
     .min = 1,
     .max = 1 << 22,
     .unit = "tokens",
     .help = "the dense tier, whose queries vote; default min(128, max(1, "
             "upper div 2)), 128 as in paper and code"},
    {.name = "sinks",
     .kind = KV_INT,
     .offset = offsetof(params, sinks),
     .fallback = "1",
     .min = 0,
     .max = 1 << 22,
     .unit = "tokens",
     .help = "first tokens, always kept; 1 as in the authors' code"},
    {.name = "local",
     .kind = KV_INT,
     .offset = offsetof(params, local),
     .min = 0,
     .max = 1 << 22,
     .unit = "tokens",
     .help = "last tokens, always kept beside the dense tier; default min(32, "
             "window), 32 or 127 in the authors' code"},
    {.name = "adapter",
     .kind = KV_CHOICE,
     .offset = offsetof(params, v.adapter),
     .fallback = "snapkv",
     .choices = "vanilla|snapkv|rkv",
     .help = "what scores are made of logits: the logits, the largest among "
             "neighbours, or R-KV's share less what is there twice"},
    {.name = "kernel",
     .kind = KV_INT,
     .offset = offsetof(params, v.kernel),
     .fallback = "7",
     .min = 1,
     .max = 1023,
     .unit = "tokens",
     .help = "width of snapkv's pooling, odd; 7 as in the authors' code"},
    {.name = "lambda",
     .kind = KV_REAL,
     .offset = offsetof(params, v.lambda),
     .fallback = "0.07",
     .min = 0,
     .max = 1,
     .help = "share of the probability in rkv's score; 0.07 as in the authors' "
             "code"},
    {.name = "threshold",
     .kind = KV_REAL,
     .offset = offsetof(params, v.threshold),
     .fallback = "0.5",
     .min = 0,
     .max = 1,
     .help = "cosine above which rkv's keys are alike; 0.5 as in the authors' "
             "code"},
    {.name = "calibrate",
     .kind = KV_CHOICE,
     .offset = offsetof(params, v.calibrate),
     .fallback = "bisect",
     .choices = "none|bisect|gradient",
     .help = "how temperatures are looked for; bisect finds the paper's to "
             "1e-6, gradient is its faster way to 0.01"},
    {.name = "temperatures",
     .kind = KV_CHOICE,
     .offset = offsetof(params, v.temperatures),
     .fallback = "first",
     .choices = "first|every",
     .help = "used again by the query's place in the window once they were "
             "found, as in the paper's practice, or looked for each time"},
    {.name = NULL}};

static kv_rc resolve(params *o, kv_err *e) {
  kv_rc rc = o->upper == KV_UNSET
                 ? kv_fail(e, KV_USAGE,
                           "hardkv needs upper, tokens that a lane may have: "
                           "give upper=N, or -b")
                 : KV_OK;
  if (rc) return rc;
  if (o->lower == KV_UNSET) o->lower = o->upper / 2;
  if (o->v.window == KV_UNSET) {
    o->v.window = o->upper / 2 > 1 ? o->upper / 2 : 1;
    if (o->v.window > 128) o->v.window = 128;
  }
  if (o->local == KV_UNSET) o->local = o->v.window < 32 ? o->v.window : 32;
  int last = o->local > o->v.window ? o->local : o->v.window;
  if (o->v.kernel % 2 == 0)
    return kv_fail(e, KV_USAGE, "hardkv: kernel=%d has no middle; use %d or %d",
                   o->v.kernel, o->v.kernel - 1, o->v.kernel + 1);
  if (last > o->upper - o->sinks)
    return kv_fail(e, KV_REFUSED,
                   "hardkv: %d sinks and the last %d tokens are more than "
                   "upper=%d: lower sinks, window or local",
                   o->sinks, last, o->upper);
  return KV_OK;
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc = resolve(o, e);
  if (rc) return rc;
  needs->prompt_rows =
      o->v.window < shape->prompt_len ? o->v.window : shape->prompt_len;
  needs->decode_rows = true;
  needs->want = KV_Q;
  needs->every = o->every;
  needs->lane_state =
      kv_hard_ring(shape, o) + kv_hard_temperatures(o) + kv_hard_mask(shape);
  needs->work = kv_poll_work(shape, &o->v);
  needs->metas = 3;
  needs->meta[0] = (kv_meta){.name = "head mask",
                             .per = KV_PER_PAGE,
                             .page = 8,
                             .bytes = 1,
                             .scanned = 1};
  needs->meta[1] = (kv_meta){.name = "query ring",
                             .bytes = kv_hard_ring(shape, o) / sizeof(float) *
                                      kv_dtype_size(shape->dtype)};
  needs->meta[2] =
      (kv_meta){.name = "temperatures", .bytes = kv_hard_temperatures(o)};
  return KV_OK;
}

/* --- the lane's own ------------------------------------------------------- */

static float *ring_of(const kv_at *at, const kv_lane *lane) {
  return kv_own(at, lane);
}

static float *temperatures_of(const kv_at *at, const kv_lane *lane) {
  return (float *)(void *)((char *)kv_own(at, lane) +
                           kv_hard_ring(at->shape, at->params));
}

static unsigned char *mask_of(const kv_at *at, const kv_lane *lane) {
  return (unsigned char *)temperatures_of(at, lane) +
         kv_hard_temperatures(at->params);
}

static bool is_read(const unsigned char *mask, uint32_t token) {
  return mask[token / 8] >> token % 8 & 1;
}

static void arrive(const kv_at *at, kv_lane *lane, int first) {
  unsigned char *mask = mask_of(at, lane);
  for (int i = first; i < lane->n; i++)
    mask[lane->id[i] / 8] |= (unsigned char)(1 << lane->id[i] % 8);
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  const unsigned char *mask = mask_of(at, lane);
  bool *in = KV_TAKE(at->work, bool, lane->n);
  (void)q;
  for (int i = 0; i < lane->n; i++) in[i] = is_read(mask, lane->id[i]);
  kv_view_mask(out, lane->n, in);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  size_t d = (size_t)at->shape->d, size = (size_t)lane->queries * d;
  for (int r = 0; r < rows->rows; r++) {
    size_t place = (size_t)((rows->first + r) % o->v.window);
    const float *q = rows->q + kv_rows_at(rows, r, 0) * d;
    memcpy(ring_of(at, lane) + place * size, q, size * sizeof *q);
  }
}

/* --- settling ------------------------------------------------------------- */

/* Flags of the poll's entries that were chosen; returns how many, and of these
 * those that no rule protects in `loose`. */
static int choose(const kv_at *at, const kv_lane *lane, const kv_poll *p,
                  bool *chosen, int32_t *loose, int *n_loose) {
  const params *o = at->params;
  int n = 0;
  *n_loose = 0;
  for (int i = p->n - 1; i >= 0; i--) { /* the younger first */
    bool forced = kv_hard_forced(o, at->step, (int)lane->id[p->entry[i]]);
    chosen[i] = forced || p->votes[i] > 0;
    n += chosen[i];
    if (chosen[i] && !forced) loose[(*n_loose)++] = i;
  }
  return n;
}

/* Of n chosen the worst go until upper are left. */
static void cut(const kv_at *at, const kv_poll *p, int n, int n_loose,
                int32_t *loose, bool *chosen) {
  const params *o = at->params;
  int over = n - o->upper;
  if (over <= 0) return;
  kv_scores(p->mass, p->n, p->g);
  kv_order(p->g, n_loose, loose, p->spare);
  for (int i = 0; i < p->n; i++) p->g[i] = (float)p->votes[i];
  kv_order(p->g, n_loose, loose, p->spare);
  for (int i = 0; i < over; i++) chosen[loose[n_loose - 1 - i]] = false;
}

/* The lane becomes what was chosen. */
static void rewrite(const kv_at *at, kv_lane *lane, const kv_poll *p,
                    const bool *chosen) {
  bool *keep = KV_TAKE(at->work, bool, lane->n);
  memset(keep, 0, (size_t)lane->n);
  for (int i = 0; i < p->n; i++) keep[p->entry[i]] = chosen[i];
  kv_keep_mask(lane, keep);
}

static void settle_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  if (lane->n <= o->lower) return;
  int32_t *entry = KV_TAKE(at->work, int32_t, lane->n);
  unsigned char *mask = mask_of(at, lane);
  int n = 0, n_loose;
  for (int i = 0; i < lane->n; i++)
    if (is_read(mask, lane->id[i])) entry[n++] = i;
  kv_poll p = kv_poll_ask(at, lane, &o->v, n, entry, ring_of(at, lane),
                          temperatures_of(at, lane));
  bool *chosen = KV_TAKE(at->work, bool, n);
  int32_t *loose = p.order;
  n = choose(at, lane, &p, chosen, loose, &n_loose);
  if (lane->n > o->upper) {
    cut(at, &p, n, n_loose, loose, chosen);
    rewrite(at, lane, &p, chosen);
    return;
  }
  for (int i = 0; i < p.n; i++)
    if (!chosen[i])
      mask[lane->id[p.entry[i]] / 8] &=
          (unsigned char)~(1 << lane->id[p.entry[i]] % 8);
}

const kv_method kv_method_hardkv = {
    .abi = KV_METHOD_ABI,
    .revision = 1,
    .name = "hardkv",
    .title = "tiers of dense, masked and rewritten tokens, as many a head as a "
             "calibrated share of the probability asks for",
    .paper = "Ren et al. 2026, Hard-KV: Head-Adaptive Regularization for "
             "Decoding-time KV Compression, arXiv:2606.28831",
    .params = table,
    .params_size = sizeof(params),
    .lossless = "p=1:calibrate=none",
    .open = open,
    .arrive = arrive,
    .view = view,
    .observe = observe,
    .settle_lane = settle_lane,
};
