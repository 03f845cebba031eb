/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of kv_backend on a device. The engine asks lane by lane; the
 * device works on all lanes of a layer at once: the first call of a kind in a
 * block does it for all, the others find it done.
 */
#include "gpu/backends.h"
#include "gpu/store.h"
#include "ref/rope.h"
#include <stdlib.h>
#include <string.h>

static int lanes(const kv_store *s) { return s->lanes; }
static const kv_lane *lane(const kv_store *s, int i) { return &s->mirror[i]; }

static void set_clock(kv_store *s, int row, int rows) {
  s->clock.row = row;
  s->clock.rows = rows;
  s->device->put((void *)(uintptr_t)s->layer.clock, &s->clock, sizeof s->clock);
}

/* --- parts of a step ---------------------------------------------------- */

static void enter_part(void *self, void *stream) {
  const kv_store *s = self;
  s->device->append(stream, &s->layer);
  if (s->hooks->arrive) s->hooks->arrive(stream, &s->layer);
}

/* Where a view ranks by logits, or evidence needs them, all are computed;
 * else only those in view. */
static void attend_part(void *self, void *stream) {
  const kv_store *s = self;
  const kv_device *dev = s->device;
  const kv_needs *need = &s->plan->needs;
  bool all = need->view_logits || need->decode_rows || !s->own_views;
  if (all) dev->logits(stream, &s->layer, 1, 0);
  if (s->own_views) s->hooks->view(stream, &s->layer);
  dev->name_views(stream, &s->layer, s->own_views);
  if (!all) dev->logits(stream, &s->layer, 1, 1);
  dev->attend(stream, &s->layer, s->own_views);
}

static void observe_part(void *self, void *stream) {
  const kv_store *s = self;
  if (s->plan->needs.want & (KV_P | KV_SUM))
    s->device->evidence(stream, &s->layer, 1);
  s->hooks->observe(stream, &s->layer);
}

static void settle_part(void *self, void *stream) {
  const kv_store *s = self;
  s->hooks->settle_lane(stream, &s->layer);
}

static void settle_layer_part(void *self, void *stream) {
  const kv_store *s = self;
  s->hooks->settle_layer(stream, &s->layer);
}

/* Decode steps are alike but for the clock: recorded once, then replayed. */
static void run(kv_store *s, kv_gpu_part part) {
  static kv_gpu_sequence *const parts[KV_GPU_PARTS] = {
      enter_part, attend_part, observe_part, settle_part, settle_layer_part};
  const kv_device *dev = s->device;
  if (dev->failed()) return;
  if (s->end <= s->plan->shape->prompt_len) {
    parts[part](s, dev->stream());
    return;
  }
  if (!s->recorded[part]) s->recorded[part] = dev->record(parts[part], s);
  if (s->recorded[part]) dev->replay(s->recorded[part]);
}

/* --- append ------------------------------------------------------------- */

static void enter(kv_store *s, int first, int count) {
  s->end = first + count;
  s->seen = s->attended = s->settled = false;
  s->clock.first = first;
  s->clock.count = count;
  set_clock(s, first + count - 1, 1);
  run(s, KV_GPU_ENTER);
  kv_gpu_mirror_append(s, first, count);
  if (s->hooks->arrive) kv_gpu_mirror_verbs(s);
}

static void append(kv_store *s, int i, int first, int count, kv_scratch *x) {
  (void)i;
  (void)x;
  pthread_mutex_lock(&s->lock);
  if (s->end != first + count) enter(s, first, count);
  pthread_mutex_unlock(&s->lock);
}

/* --- queries ------------------------------------------------------------ */

static int row_index(const kv_layer_data *data, int t) {
  if (!data->rows) return t;
  int low = 0, high = data->n_rows - 1;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (data->rows[middle] < t)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Turns the query of head h to the last place of its re-indexed lane. */
static void turn_query(const kv_store *s, int h, float *q) {
  const kv_rope *rope = s->plan->rope;
  const kv_lane *l = &s->mirror[h / s->queries];
  int32_t id = (int32_t)l->id[l->n - 1], d = s->plan->shape->d;
  const int32_t *p = rope->positions;
  int32_t distance = p ? p[0] + l->n - 1 - p[id] : l->n - 1 - id;
  if (distance == 0) return;
  kv_rope_table(rope->inv_freq, d, distance, s->row);
  kv_rope_rotate(d, rope->interleaved, s->row, q, q);
}

/* Query rows t..t+rows-1 of all heads, to the device. */
static void send_queries(kv_store *s, int t, int rows) {
  const kv_shape *shape = s->plan->shape;
  const kv_layer_data *data = s->data;
  size_t d = (size_t)shape->d, size = d * kv_dtype_size(data->q_dtype);
  for (int r = 0; r < rows; r++) {
    size_t at = (size_t)row_index(data, t + r);
    for (int h = 0; h < shape->n_heads; h++) {
      float *q = s->q + ((size_t)r * (size_t)shape->n_heads + (size_t)h) * d;
      const char *from = data->q;
      from += ((size_t)h * (size_t)data->n_rows + at) * size;
      s->plan->kernels->widen(data->q_dtype, from, d, q);
      if (s->plan->needs.reindex) turn_query(s, h, q);
    }
  }
  s->device->put(s->layer.q, s->q,
                 (size_t)rows * (size_t)shape->n_heads * d * sizeof *s->q);
}

/* --- the prompt's evidence ---------------------------------------------- */

/* Recorded sums of all prompt rows, where the layer lacks the rows. */
static void recorded_sums(kv_store *s) {
  const kv_layer_data *data = s->data;
  if (s->device->failed()) return;
  size_t n = (size_t)data->colsum_len, row = n * sizeof *s->layer.sum;
  for (int h = 0; h < s->plan->shape->n_heads; h++)
    s->device->put(s->layer.sum + (size_t)h * (size_t)s->layer.stride,
                   (const char *)data->colsum + (size_t)h * row, row);
  set_clock(s, 0, (int)n);
  s->hooks->observe(s->device->stream(), &s->layer);
}

static void show_tile(kv_store *s, int t, int rows) {
  const kv_device *dev = s->device;
  if (dev->failed()) return;
  set_clock(s, t, rows);
  send_queries(s, t, rows);
  if (s->plan->needs.want & (KV_S | KV_P | KV_SUM)) {
    dev->logits(dev->stream(), &s->layer, rows, 0);
    dev->evidence(dev->stream(), &s->layer, rows);
  }
  s->hooks->observe(dev->stream(), &s->layer);
}

static void show_prompt(kv_store *s, int first, int count) {
  const kv_needs *need = &s->plan->needs;
  int from = s->plan->shape->prompt_len - need->prompt_rows;
  int last = first + count;
  if (s->plan->colsum && s->data->colsum && s->data->rows) {
    recorded_sums(s);
    return;
  }
  if (need->prompt_rows <= 0) return;
  if (from < first) from = first;
  for (int t = from; t < last; t += s->tile_rows)
    show_tile(s, t, last - t < s->tile_rows ? last - t : s->tile_rows);
  kv_gpu_mirror_faults(s, true);
}

static void evidence(kv_store *const *store, int n, int g, int first, int count,
                     kv_scratch *x) {
  (void)g;
  (void)x;
  for (int i = 0; i < n; i++) {
    kv_store *s = store[i];
    pthread_mutex_lock(&s->lock);
    if (!s->seen && s->hooks->observe) show_prompt(s, first, count);
    s->seen = true;
    pthread_mutex_unlock(&s->lock);
  }
}

/* --- attention ---------------------------------------------------------- */

static void read_views(kv_store *s) {
  size_t heads = (size_t)s->plan->shape->n_heads;
  size_t room = (size_t)s->layer.stride / 2 + 1;
  s->device->get(s->runs, s->layer.runs, heads * sizeof *s->runs);
  s->device->get(s->entries, s->layer.entries, heads * sizeof *s->entries);
  for (size_t h = 0; h < heads; h++) {
    kv_view *v = &s->view[h];
    v->runs = s->runs[h];
    v->entries = s->entries[h];
    s->device->get(v->run, s->layer.run + h * room,
                   (size_t)v->runs * sizeof *v->run);
  }
}

static void read_outputs(kv_store *s) {
  size_t heads = (size_t)s->plan->shape->n_heads;
  size_t d_v = (size_t)s->plan->shape->d_v, stride = (size_t)s->layer.stride;
  s->device->get(s->both, s->layer.out, heads * (d_v + 1) * sizeof *s->both);
  s->device->get(s->s, s->layer.s, heads * stride * sizeof *s->s);
  for (size_t h = 0; h < heads; h++) {
    memcpy(s->out + h * d_v, s->both + h * (d_v + 1), d_v * sizeof *s->out);
    s->lse[h] = s->both[h * (d_v + 1) + d_v];
  }
}

static void attend_all(kv_store *s, int t) {
  send_queries(s, t, 1);
  run(s, KV_GPU_ATTEND);
  read_views(s);
  read_outputs(s);
  kv_gpu_mirror_faults(s, false);
}

static void journal_views(kv_store *s, int i) {
  kv_lane *l = &s->mirror[i];
  for (int h = l->first_head; h < l->first_head + l->queries; h++) {
    const kv_view *v = &s->view[h];
    uint32_t *w = kv_words_record(&l->views, KV_VIEW, s->data->layer, l->step,
                                  h, 2 * (size_t)v->runs);
    for (int r = 0; w && r < v->runs; r++) {
      *w++ = (uint32_t)v->run[r].first;
      *w++ = (uint32_t)v->run[r].count;
    }
  }
}

static void attend(kv_store *s, int i, int t, const kv_known *known,
                   kv_scratch *x) {
  (void)known; /* the device computes its own logits: that is the point */
  (void)x;
  pthread_mutex_lock(&s->lock);
  if (!s->attended) attend_all(s, t);
  s->attended = true;
  pthread_mutex_unlock(&s->lock);
  journal_views(s, i);
}

static kv_seen seen(const kv_store *s, int i, const kv_scratch *x) {
  (void)x;
  const kv_lane *l = &s->mirror[i];
  size_t h = (size_t)l->first_head, stride = (size_t)s->layer.stride;
  return (kv_seen){.lane = l,
                   .queries = l->queries,
                   .view = s->view + h,
                   .s = s->s + h * stride,
                   .stride = stride,
                   .out = s->out + h * (size_t)s->plan->shape->d_v,
                   .lse = s->lse + h};
}

/* --- settling ----------------------------------------------------------- */

static bool is_due(const kv_store *s) {
  return kv_settling_due(&s->plan->needs, s->plan->shape, s->end);
}

static void settle_all(kv_store *s) {
  const kv_needs *need = &s->plan->needs;
  if (s->end > s->plan->shape->prompt_len && need->decode_rows &&
      s->hooks->observe)
    run(s, KV_GPU_OBSERVE);
  if (!is_due(s)) return;
  kv_gpu_mirror_columns(s);
  for (int i = 0; i < s->lanes; i++) s->state[i] = kv_lane_state(&s->mirror[i]);
  if (s->hooks->settle_lane) run(s, KV_GPU_SETTLE);
}

static void settle(kv_store *s, int i, kv_scratch *x) {
  (void)i;
  (void)x;
  pthread_mutex_lock(&s->lock);
  if (!s->settled) settle_all(s);
  s->settled = true;
  pthread_mutex_unlock(&s->lock);
}

static void settle_layer(kv_store *s, kv_scratch *x) {
  (void)x;
  if (!is_due(s)) return;
  if (s->hooks->settle_layer) run(s, KV_GPU_SETTLE_LAYER);
  kv_gpu_mirror_verbs(s);
}

/* --- the end of a step and of a layer ----------------------------------- */

static void note_device(kv_store *s) {
  const char *why = s->device->failed();
  if (why && !s->fault.rc)
    kv_fail(&s->fault, KV_RESOURCE, "backend %s, layer %d, step %d: %s",
            s->device->name, s->data->layer, s->end, why);
}

static void end_step(kv_store *s) {
  kv_leaves_records(&s->leaves, s->lanes, s->mirror);
  if (is_due(s)) kv_leaves_state(&s->leaves, s->lanes, s->state);
  if (s->end > s->plan->shape->prompt_len)
    kv_leaves_output(&s->leaves, s->plan->shape, s->both);
  note_device(s);
}

static kv_layer_digests finish(kv_store *s) {
  kv_gpu_mirror_columns(s);
  note_device(s);
  for (int i = 0; i < s->lanes; i++) s->state[i] = kv_lane_state(&s->mirror[i]);
  kv_leaves_state(&s->leaves, s->lanes, s->state);
  return kv_leaves_end(&s->leaves);
}

static const kv_err *fault(const kv_store *s) {
  if (s->fault.rc) return &s->fault;
  for (int i = 0; i < s->lanes; i++)
    if (s->mirror[i].fault.rc) return &s->mirror[i].fault;
  return NULL;
}

/* --- tables ------------------------------------------------------------- */

static kv_rc scratch_open(const kv_shape *shape, const kv_plan *const *plan,
                          int plans, kv_scratch **out, kv_err *e) {
  (void)shape;
  (void)plan;
  (void)plans;
  *out = kv_zalloc(1, sizeof **out);
  return *out ? KV_OK : kv_no_memory(e, "scratch", sizeof **out);
}

static void scratch_close(kv_scratch *x) { free(x); }

static kv_rc open_emu(const kv_plan *plan, kv_store **out, kv_err *e) {
  return kv_gpu_open(kv_device_emu(), plan, out, e);
}

static kv_rc open_cuda(const kv_plan *plan, kv_store **out, kv_err *e) {
  const char *why;
  return kv_gpu_open(kv_device_cuda(&why), plan, out, e);
}

#define KV_ON_DEVICE(device_name, open_it)                                     \
  {                                                                            \
    .name = device_name, .open = open_it, .close = kv_gpu_close,               \
    .scratch_open = scratch_open, .scratch_close = scratch_close,              \
    .lanes = lanes, .lane = lane, .begin = kv_gpu_begin, .append = append,     \
    .evidence = evidence, .attend = attend, .seen = seen, .settle = settle,    \
    .settle_layer = settle_layer, .end_step = end_step, .finish = finish,      \
    .fault = fault                                                             \
  }

const kv_backend kv_backend_emu = KV_ON_DEVICE("emu", open_emu);
const kv_backend kv_backend_cuda = KV_ON_DEVICE("cuda", open_cuda);
