/* SPDX-License-Identifier: Apache-2.0
 *
 * DuoAttention: retrieval heads keep everything; streaming heads keep the first
 * and the last tokens.
 *
 *   a gate in [0, 1] for each KV head of each layer; N of them are ranked, the
 *   smaller first (ties: the lower layer, then the lower head)
 *   sparsity:  s = RN((N - 1) * sparsity); the first ceil(s) stream; all at 1
 *   threshold: if given, heads whose gate is below it stream
 *   a streaming head keeps its first `sink` and last `recent` entries, after
 *   the prompt and after every step, if it holds more; the others keep all
 *
 * The file of table=NAME holds `gates` [layers, KV heads], F32, F16 or BF16;
 * all layers are ranked together. A gate outside [0, 1] and a table of another
 * shape refuse the cell. table=auto is ours, for when there is no file: after
 * the prompt a head's gate is the share of attention that a stream would lose,
 *
 *   gate = RN(RN32(M) 2^-40 / RN32(A) 2^-40), 0 where A is 0
 *
 * A is the sum of RN(P * 2^40) that the last min(window, P) prompt rows of the
 * group's heads gave to all n entries. M is the part to entries [sink, n -
 * recent). A replay sees one layer at a time, so each layer ranks its own
 * heads, and N is their number. Even in a layer of retrieval heads only, half
 * of them stream.
 *
 * Xiao et al. 2024, DuoAttention: Efficient Long-Context LLM Inference with
 * Retrieval and Streaming Heads. Gates are trained against the model's own
 * outputs. The authors' code breaks ties by random noise below 1e-6; here equal
 * gates stream in the order of layers and heads. It uses numpy.quantile, which
 * interpolates between the last gate that streams and the first that does not.
 * The heads are the same, because no gate is between two neighbours in rank.
 * Every head attends the whole prompt, as in their one-shot prefill; positions
 * are as recorded. Their pattern files were trained with 128 and 256; their
 * evaluation runs with 64 and 256, the defaults. kvpress rounds the number of
 * streaming heads. It also has a training-free score from mean queries and keys
 * before RoPE, which a trace does not hold.
 *
 * Family: drop. Acts: every step. Needs: a gate for each head (a file, or the
 * last queries' probabilities). Bound: of a head that streams min(t, sink +
 * recent), else t. Bytes: t R + 4 (its gate) in a retrieval head, (sink +
 * recent) R + 4 in a streaming head. Gather: -. Reduce: position: everything,
 * or both ends, by the head's gate. Sample: top-k. Cost: O(window n)
 * observation with table=auto; O(1) a lane and step.
 */
#include "ref/methods/duoattention.h"
#include "ref/parts/parts.h"

static const kv_tensor_ask tensors[] = {
    {.name = "gates",
     .type = KV_T_F32,
     .rank = 2,
     .dim = {KV_DIM_LAYERS, KV_DIM_KV_HEADS}},
    {.name = NULL}};
static const kv_asset_kind kind = {NULL, tensors};

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc check_gates(const kv_shape *s, const float *gate, int n,
                         const char *path, kv_err *e) {
  for (int i = 0; i < n; i++)
    if (!(gate[i] >= 0 && gate[i] <= 1))
      return kv_fail(e, KV_REFUSED,
                     "%s: the gate of KV head %d of layer %d is %g; it must be "
                     "from 0 to 1",
                     path, i % s->n_kv_heads, i / s->n_kv_heads,
                     (double)gate[i]);
  return KV_OK;
}

/* Index of the gate that has `before` others before it in their order. */
static int gate_of_rank(const float *gate, int n, int before) {
  for (int i = 0; i < n; i++) {
    int rank = 0;
    for (int j = 0; j < n; j++) rank += kv_duo_before(gate[j], j, gate[i], i);
    if (rank == before) return i;
  }
  return -1;
}

static kv_rc cut_file(const kv_shape *s, params *o, kv_err *e) {
  const kv_tensor *t = o->file.asset->tensor;
  const float *gate = t->data;
  int n = (int)t->count, streams = 0;
  kv_rc rc = check_gates(s, gate, n, o->file.asset->path, e);
  if (rc) return rc;
  if (o->threshold == o->threshold)
    for (int i = 0; i < n; i++) streams += gate[i] < o->threshold;
  else
    streams = kv_duo_streams(n, o->sparsity);
  o->cut_place = gate_of_rank(gate, n, streams - 1);
  if (o->cut_place >= 0) o->cut = gate[o->cut_place];
  return KV_OK;
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  bool named = o->file.asset != NULL;
  o->table = named ? OF_FILE : AUTO;
  needs->every = 1;
  needs->slides = true;
  needs->lane_state = sizeof(int64_t);
  needs->metas = 1;
  needs->meta[0] = (kv_meta){.name = "gate", .bytes = sizeof(float)};
  if (named) return cut_file(shape, o, e);
  int rows = o->window < shape->prompt_len ? o->window : shape->prompt_len;
  needs->prompt_rows = rows;
  needs->want = KV_SUM;
  needs->slid = 1;
  needs->lane_state += kv_window_state(shape, KV_GROUP_SUM);
  return kv_open_sums("duoattention", rows, kv_group(shape), 1, e);
}

/* Does the lane stream? Stored after the sums, if there are any. */
static int64_t *streams(const kv_at *at, const kv_lane *lane) {
  const params *o = at->params;
  int64_t *own = kv_own(at, lane);
  return own + (o->table == AUTO ? at->shape->n_tokens : 0);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  if (o->table == AUTO) kv_window_add(at, lane, rows, KV_GROUP_SUM);
}

static float gate_of(const kv_at *at, const kv_lane *lane) {
  const params *o = at->params;
  const int64_t *sum = kv_own(at, lane);
  int64_t middle = 0, all = 0;
  for (int i = 0; i < lane->n; i++) {
    all += sum[i];
    if (i >= o->sink && i < lane->n - o->recent) middle += sum[i];
  }
  return kv_duo_gate(middle, all);
}

/* With a file: a lane streams unless its gate is after the last that does. */
static bool file_streams(const kv_at *at, const kv_lane *lane) {
  const params *o = at->params;
  const float *gate = at->asset[0].data;
  int place = at->layer * at->shape->n_kv_heads + lane->kv_head;
  return o->cut_place >= 0 &&
         !kv_duo_before(o->cut, o->cut_place, gate[place], place);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  if (at->step == at->shape->prompt_len && o->table == OF_FILE)
    *streams(at, lane) = file_streams(at, lane);
  if (*streams(at, lane)) kv_keep_ends(lane, o->sink, o->recent);
}

/* With table=auto, the layer ranks its heads after the prompt. */
static void compress_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  const params *o = at->params;
  if (at->step != at->shape->prompt_len || o->table == OF_FILE) return;
  float *gate = KV_TAKE(at->work, float, lanes);
  int most = kv_duo_streams(lanes, o->sparsity);
  for (int i = 0; i < lanes; i++) gate[i] = gate_of(at, lane[i]);
  for (int i = 0; i < lanes; i++) {
    int rank = 0;
    for (int j = 0; j < lanes; j++)
      rank += kv_duo_before(gate[j], j, gate[i], i);
    bool cut =
        o->threshold == o->threshold ? gate[i] < o->threshold : rank < most;
    *streams(at, lane[i]) = cut;
    if (cut) kv_keep_ends(lane[i], o->sink, o->recent);
  }
}

const kv_method kv_method_duoattention = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "duoattention",
    .title = "retrieval heads keep all, streaming heads first and last tokens",
    .paper = "Xiao et al. 2024, DuoAttention: Efficient Long-Context LLM "
             "Inference with Retrieval and Streaming Heads, arXiv:2410.10819",
    .lossless = "sparsity=0",
    .observe = observe,
    .compress_lane = compress_lane,
    .compress_layer = compress_layer,
};
