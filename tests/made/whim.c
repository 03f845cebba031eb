/* SPDX-License-Identifier: Apache-2.0
 *
 * The methods of tests/made/whim.h.
 */
#include "tests/made/whim.h"

#include "ref/formats/minmax.h"
#include "ref/lane/lane.h"
#include "tests/support/draw.h"

#include <string.h>

/* --- needs -------------------------------------------------------------- */

static int pick(uint64_t *seed, int n, const int *of) {
  return of[draw_below(seed, n)];
}
#define PICK(seed, ...)                                                        \
  pick(seed, (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)),                  \
       (const int[]){__VA_ARGS__})

/* Settings outlive the needs: of every group one for each bits and rule. */
#define RULES(bits, n)                                                         \
  {bits, n, KV_RULE_STORED}, {bits, n, KV_RULE_FP16}, {                        \
    bits, n, KV_RULE_UNROUNDED                                                 \
  }
#define GROUP(n)                                                               \
  { RULES(1, n), RULES(2, n), RULES(4, n), RULES(8, n) }
static const kv_minmax settings[][12] = {GROUP(2), GROUP(4), GROUP(8),
                                         GROUP(16), GROUP(32)};

static kv_coding draw_coding(uint64_t *seed) {
  bool channel = draw_below(seed, 2);
  int bits = PICK(seed, 0, 1, 2, 3);
  int group = channel ? PICK(seed, 0, 1, 2) : PICK(seed, 2, 3, 4);
  int rule = draw_below(seed, channel ? 2 : 3);
  kv_coding c =
      KV_CODING(channel ? &kv_format_channel : &kv_format_token,
                &settings[group][3 * bits + rule], false, KV_BOTH_SIDES);
  c.rotate = draw_below(seed, 4) == 0;
  return c;
}

/* Keys before their rotation, of some codings. */
static void draw_rope(uint64_t *seed, kv_needs *n) {
  n->rope = draw_below(seed, 2);
  for (int i = 0; i < n->codings; i++)
    n->coding[i].pre_rope = n->rope && draw_below(seed, 2);
}

/* What a coding is for: both sides, or one. */
static void draw_sides(uint64_t *seed, kv_needs *n) {
  for (int i = 0; i < n->codings; i++)
    n->coding[i].sides = (kv_coded_sides)draw_below(seed, 3);
}

static void draw_rows(uint64_t *seed, int prompt, kv_needs *n) {
  n->block = PICK(seed, 0, 0, 1 + draw_below(seed, 9));
  n->prompt_rows =
      PICK(seed, 0, 1 + draw_below(seed, prompt), prompt + 3, KV_ALL_ROWS);
  n->decode_rows = draw_below(seed, 2);
  n->want = (unsigned)draw_below(seed, 16);
  n->view_logits = draw_below(seed, 2);
  n->lanes = draw_below(seed, 2) ? QUERY_HEAD : KV_HEAD;
  n->reindex = draw_below(seed, 4) == 0;
}

/* Where lengths decide what is stored, nothing is stored in another size. */
static void draw_rewriting(uint64_t *seed, kv_needs *n) {
  n->lengths = draw_below(seed, 4) == 0;
  n->merges = draw_below(seed, 2) && !n->lengths;
  if (n->merges) n->merge_bias = (float)draw_below(seed, 3) / 2;
  n->codings = n->lengths ? 0 : draw_below(seed, KV_MAX_CODINGS + 1);
  for (int i = 0; i < n->codings; i++) n->coding[i] = draw_coding(seed);
}

static kv_meta draw_meta(uint64_t *seed) {
  kv_meta m = {.name = "whim",
               .per = (kv_meta_per)draw_below(seed, 4),
               .page = 1 + draw_below(seed, 9),
               .bytes = (size_t)draw_below(seed, 100)};
  m.scanned = (size_t)draw_below(seed, (int)m.bytes + 1);
  static const uint32_t in_layer[KV_BY_LAYER + 1] = {7, 0, 3, 1};
  if (draw_below(seed, 3) == 0) m.in_layer = in_layer;
  if (m.in_layer) m.scanned = 0;
  m.from_layer = draw_below(seed, 3);
  m.above = draw_below(seed, 40);
  return m;
}

static void draw_memory(uint64_t *seed, kv_needs *n) {
  n->columns = draw_below(seed, KV_MAX_COLUMNS + 1);
  for (int c = 0; c < n->columns; c++)
    n->column[c] = draw_below(seed, 2) ? KV_FLOAT : KV_INT64;
  if (draw_below(seed, 4))
    n->lane_state = sizeof(whim_state) + (size_t)draw_below(seed, 100);
  n->metas = draw_below(seed, KV_MAX_META + 1);
  for (int i = 0; i < n->metas; i++) n->meta[i] = draw_meta(seed);
  n->work = (size_t)draw_below(seed, 3) * 5000;
}

static kv_rc whim_open(const kv_shape *shape, void *params, kv_needs *needs,
                       kv_err *e) {
  const whim_params *o = params;
  uint64_t seed = (uint64_t)o->seed;
  (void)e;
  draw_rows(&seed, shape->prompt_len, needs);
  needs->every = draw_below(&seed, 5);
  needs->phase = draw_below(&seed, 11) - 5;
  draw_rewriting(&seed, needs);
  draw_memory(&seed, needs);
  draw_rope(&seed, needs);
  if (draw_below(&seed, 3) == 0) {
    needs->across = KV_DOWN;
    needs->message = sizeof(uint64_t) + (size_t)draw_below(&seed, 50);
  }
  draw_sides(&seed, needs);
  if (needs->merges) needs->merged = (kv_means)draw_below(&seed, 2);
  return KV_OK;
}

/* --- folding ------------------------------------------------------------ */

static whim_state *state_of(const kv_at *at, const kv_lane *l) {
  return at->needs->lane_state ? kv_own(at, l) : NULL;
}

static int seed_of(const kv_at *at) {
  return ((const whim_params *)at->params)->seed;
}

/* Of what the layers above have published at this step. */
static uint64_t heard(const kv_at *at) {
  uint64_t x;
  if (!at->above) return 0;
  memcpy(&x, at->above->data, sizeof x);
  return kv_mix(x + (uint64_t)at->above->layer);
}

static uint64_t fold_of(const kv_at *at, const kv_lane *l) {
  const whim_state *s = state_of(at, l);
  return heard(at) + (s ? s->fold + s->shown : 0);
}

/* The columns of entry i as one number. */
static uint64_t column_of(const kv_at *at, const kv_lane *l, int i) {
  uint64_t x = 0;
  for (int c = 0; c < at->needs->columns; c++) {
    bool wide = at->needs->column[c] == KV_INT64;
    uint64_t y = wide ? (uint64_t)kv_column_int64(at, l, c)[i]
                      : kv_bits(kv_column_float(at, l, c)[i]);
    x = kv_mix(x + y);
  }
  return x;
}

static void whim_arrive(const kv_at *at, kv_lane *l, int first) {
  for (int i = first; i < l->n; i++)
    for (int c = 0; c < at->needs->columns; c++) {
      if (at->needs->column[c] == KV_INT64)
        kv_column_int64(at, l, c)[i] += (int64_t)l->id[i] + c;
      else
        kv_column_float(at, l, c)[i] += (float)l->id[i];
    }
}

/* What entry i is shown by row t and head h of the tile: added to its columns;
 * returns what it adds to the fold. */
static uint64_t take_entry(const kv_at *at, kv_lane *l, const kv_rows *rows,
                           int r, int h, int i) {
  size_t place = kv_rows_at(rows, r, h) * rows->stride + (size_t)i;
  int t = rows->first + r, head = l->first_head + h;
  uint64_t x = 0;
  float y = 0;
  if (rows->s) {
    y = rows->s[place];
    x += whim_share(WHIM_S, t, head, i, kv_bits(y));
  }
  if (rows->p) {
    y = rows->p[place];
    x += whim_share(WHIM_P, t, head, i, kv_bits(y));
  }
  for (int c = 0; c < at->needs->columns; c++) {
    if (at->needs->column[c] == KV_INT64) {
      int64_t *to = &kv_column_int64(at, l, c)[i];
      *to = (int64_t)((uint64_t)*to + (x >> 8));
    } else {
      float *to = &kv_column_float(at, l, c)[i];
      *to = kv_add(kv_mul(*to, 0.5f), y);
    }
  }
  return x;
}

static uint64_t take_sums(const kv_at *at, kv_lane *l, const kv_rows *rows) {
  uint64_t fold = 0;
  for (int h = 0; rows->sum && h < rows->heads; h++)
    for (int i = 0; i < rows->entries; i++) {
      int64_t sum = rows->sum[(size_t)h * rows->stride + (size_t)i];
      uint64_t x = whim_of_sum(l->first_head + h, i, sum);
      fold += x;
      for (int c = 0; c < at->needs->columns; c++)
        if (at->needs->column[c] == KV_INT64) {
          int64_t *to = &kv_column_int64(at, l, c)[i];
          *to = (int64_t)((uint64_t)*to + x);
        }
    }
  return fold;
}

static uint64_t take_row(const kv_at *at, kv_lane *l, const kv_rows *rows,
                         int r, int h) {
  int t = rows->first + r, head = l->first_head + h;
  int visible = kv_rows_visible(rows, r), d = at->shape->d;
  size_t at_q = kv_rows_at(rows, r, h) * (size_t)d;
  uint64_t fold = whim_share(WHIM_ROW, t, head, visible, (uint32_t)rows->heads);
  for (int x = 0; rows->q && x < d; x++)
    fold += whim_share(WHIM_Q, t, head, x, kv_bits(rows->q[at_q + (size_t)x]));
  for (int i = 0; i < visible; i++) fold += take_entry(at, l, rows, r, h, i);
  return fold;
}

static void whim_observe(const kv_at *at, kv_lane *l, const kv_rows *rows) {
  uint64_t fold = take_sums(at, l, rows);
  whim_state *s = state_of(at, l);
  for (int r = 0; r < rows->rows; r++)
    for (int h = 0; h < rows->heads; h++) fold += take_row(at, l, rows, r, h);
  if (!s) return;
  s->fold += fold;
  s->shown += (uint64_t)rows->rows * (1u + 2u * !rows->q + 4u * !rows->s +
                                      8u * !rows->p + 16u * !rows->sum);
}

/* --- deciding ----------------------------------------------------------- */

static void whim_view(const kv_at *at, const kv_lane *l, const kv_query *q,
                      kv_view *out) {
  int head = l->first_head + q->head, d = at->shape->d;
  uint64_t x = whim_hash(seed_of(at), at->layer, l->lane, at->step,
                         fold_of(at, l) + !q->s);
  bool *in = KV_TAKE(at->work, bool, l->n);
  for (int i = 0; i < d; i++)
    x += whim_share(WHIM_VIEW, 0, head, i, kv_bits(q->q[i]));
  for (int i = 0; i < q->queries * d; i++)
    x += whim_share(WHIM_GROUP, 0, 0, i, kv_bits(q->group_q[i]));
  for (int i = 0; i < l->n; i++)
    in[i] = i == l->n - 1 || whim_in_view(x, i, q->s ? kv_bits(q->s[i]) : 0);
  kv_view_mask(out, l->n, in);
}

/* As many entries of one coding as may share a block, from `from` on. */
static void code_some(const kv_at *at, kv_lane *l, int from, int which) {
  const kv_coding *c = &at->needs->coding[which];
  int32_t list[8], n = 0, most = kv_coding_members(c);
  int format = kv_coded(at, which);
  for (int i = from; i < l->n && n < most; i++)
    if (l->k[i].format == KV_RAW && l->v[i].format == KV_RAW) list[n++] = i;
  bool values = kv_codes_values(c);
  bool keys = kv_codes_keys(c) && (from % 2 == 0 || !values);
  if (n == most)
    kv_recode(l, n, list, keys ? format : KV_SAME, values ? format : KV_SAME);
}

static void some_go(const kv_at *at, kv_lane *l, uint64_t x, int stays) {
  int32_t *list = KV_TAKE(at->work, int32_t, l->n), left = 0;
  for (int i = 0; i < l->n; i++) {
    uint64_t column = at->needs->lengths ? 0 : column_of(at, l, i);
    if (i == stays || whim_stays(x, i, column)) list[left++] = i;
  }
  kv_keep(l, left, list);
}

static void turn_round(const kv_at *at, kv_lane *l, int by) {
  int n = l->n;
  int32_t *list = KV_TAKE(at->work, int32_t, n);
  for (int i = 1; i < n; i++) list[i - 1] = (i + by) % n;
  kv_keep(l, n - 1, list);
}

static void whim_compress(const kv_at *at, kv_lane *l) {
  bool blind = at->needs->lengths;
  uint64_t x = whim_hash(seed_of(at), at->layer, l->lane, at->step,
                         blind ? 0 : fold_of(at, l));
  int n = l->n, a = (int)(x >> 8 & 0xffff) % n, b = (int)(x >> 24 & 0xffff) % n;
  if (n < 6) return;
  if (at->needs->work) memset(KV_TAKE(at->work, char, at->needs->work), 1, 1);
  switch (x % 6) {
  case 0:
    some_go(at, l, x, a);
    break;
  case 1:
    if (at->needs->merges && a != b)
      kv_merge(l, a, b, (float)l->weight[a], (float)l->weight[b]);
    break;
  case 2:
    kv_move(l, a, b);
    break;
  case 3:
    turn_round(at, l, a);
    break;
  default:
    if (at->needs->codings)
      code_some(at, l, a / 2, (int)(x >> 40) % at->needs->codings);
    else
      some_go(at, l, x, a);
  }
}

/* Lanes hear how much their neighbours hold, and one of them turns over. */
static void whim_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  uint64_t x = whim_hash(seed_of(at), at->layer, 63, at->step, 0);
  kv_lane *one = lane[x % (unsigned)lanes];
  for (int i = 0; i < lanes; i++) {
    whim_state *s = state_of(at, lane[i]);
    if (s) s->fold = kv_mix(s->fold + (uint64_t)lane[(i + 1) % lanes]->n);
  }
  if (x >> 32 & 1 && one->n > 2) kv_move(one, one->n - 1, 0);
}

/* A layer of four says nothing. */
static bool whim_publish(const kv_at *at, const kv_lane *const *lane, int lanes,
                         void *message) {
  uint64_t x = whim_hash(seed_of(at), at->layer, 62, at->step, 0);
  char *rest = (char *)message + sizeof x;
  for (int i = 0; i < lanes; i++)
    x += kv_mix(fold_of(at, lane[i]) + (uint64_t)lane[i]->n * 64 + (uint64_t)i);
  memcpy(message, &x, sizeof x);
  for (size_t i = 0; i < at->needs->message - sizeof x; i++)
    rest[i] = (char)(x >> i % 57);
  return x % 4 != 0;
}

/* --- tables ------------------------------------------------------------- */

static const kv_param table[] = {KV_INT_PARAM("seed", whim_params, seed, "0", 0,
                                              1 << 20, NULL, "draws the needs"),
                                 {.name = NULL}};

const kv_method whim_method = {.abi = KV_METHOD_ABI,
                               .name = "whim",
                               .params = table,
                               .params_size = sizeof(whim_params),
                               .open = whim_open,
                               .arrive = whim_arrive,
                               .view = whim_view,
                               .observe = whim_observe,
                               .compress_lane = whim_compress,
                               .compress_layer = whim_layer,
                               .publish = whim_publish};

const kv_method whim_plain_method = {.abi = KV_METHOD_ABI,
                                     .name = "whim-plain",
                                     .params = table,
                                     .params_size = sizeof(whim_params),
                                     .open = whim_open,
                                     .observe = whim_observe,
                                     .compress_lane = whim_compress};

const kv_method *whim_at(int index) {
  static const kv_method *const list[] = {&whim_method, &whim_plain_method};
  return index >= 0 && index < 2 ? list[index] : NULL;
}
