/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_backend on a device. The engine calls lane by lane, but the device works
 * on all lanes of a layer at once: the first call of a kind in a block does the
 * work for all lanes, and the others find it done. The first view runs a whole
 * decode step, including compression; its results for compress_layer wait in
 * the report.
 */
#include "gpu/host/backends.h"
#include "gpu/host/indexed.h"
#include <stdlib.h>

static int lanes(const kv_store *s) { return s->lanes; }
static const kv_lane *lane(const kv_store *s, int i) { return &s->mirror[i]; }

/* --- the prompt --------------------------------------------------------- */

static void append(kv_store *s, int i, int first, int count, kv_scratch *x) {
  (void)i;
  (void)x;
  pthread_mutex_lock(&s->lock);
  if (s->end != first + count) kv_gpu_enter(s, first, count);
  pthread_mutex_unlock(&s->lock);
}

static void observation(kv_store *const *store, int n, int g, int first,
                        int count, kv_scratch *x) {
  (void)g;
  (void)x;
  for (int i = 0; i < n; i++) {
    kv_store *s = store[i];
    pthread_mutex_lock(&s->lock);
    if (!s->seen) kv_gpu_show_prompt(s, first, count);
    s->seen = true;
    pthread_mutex_unlock(&s->lock);
  }
}

/* --- a decode step ------------------------------------------------------ */

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

/* Runs the whole step: view, materialise and attend. What selections of the
 * last row of a chunk were shown comes with the report of its compression.
 * `known` is not used: the device computes its own logits, which is what it is
 * tested for. */
static void view(kv_store *s, int i, int t, const kv_known *known,
                 kv_scratch *x) {
  (void)t;
  (void)known;
  (void)x;
  pthread_mutex_lock(&s->lock);
  if (!s->attended) {
    kv_gpu_run_step(s);
    if (!kv_gpu_in_prompt(s) || !kv_gpu_due(s)) kv_gpu_mirror_shows(s);
    kv_gpu_mirror_views(s);
  }
  s->attended = true;
  pthread_mutex_unlock(&s->lock);
  if (!s->plan->needs.unread) journal_views(s, i);
}

static void done(kv_store *s, int i, kv_scratch *x) {
  (void)s;
  (void)i;
  (void)x;
}

static kv_seen seen(const kv_store *s, int i, const kv_scratch *x) {
  (void)x;
  const kv_lane *l = &s->mirror[i];
  size_t h = (size_t)l->first_head, stride = (size_t)s->layer.stride;
  return (kv_seen){.lane = l,
                   .queries = l->queries,
                   .view = s->view + h,
                   .s = s->s ? s->s + h * stride : NULL,
                   .stride = stride,
                   .out = s->out + h * (size_t)s->plan->shape->d_v,
                   .lse = s->lse + h};
}

/* --- compression --------------------------------------------------------- */

static void compress_layer(kv_store *s, kv_scratch *x) {
  (void)x;
  if (!kv_gpu_due(s)) return;
  if (kv_gpu_in_prompt(s)) {
    kv_gpu_run_compression(s);
    kv_gpu_mirror_shows(s);
  }
  if (!s->lost) kv_gpu_mirror_columns(s);
  for (int i = 0; i < s->lanes; i++) s->state[i] = kv_lane_state(&s->mirror[i]);
  if (!s->lost) kv_gpu_mirror_lanes(s);
  kv_gpu_indexed_compressed(s);
}

static const kv_message *publish(kv_store *s, kv_scratch *x) {
  (void)x;
  return kv_gpu_publish(s);
}

/* --- the end of a step and of a layer ----------------------------------- */

static void end_step(kv_store *s) {
  kv_leaves_records(&s->leaves, s->lanes, s->mirror,
                    s->published ? &s->said : NULL, s->plan->needs.message);
  if (kv_gpu_due(s)) kv_leaves_state(&s->leaves, s->lanes, s->state);
  if (kv_gpu_attends(s)) kv_leaves_output(&s->leaves, s->plan->shape, s->both);
  kv_leaves_scores(&s->leaves, &s->shows, s->end);
}

static kv_layer_digests finish(kv_store *s) {
  kv_gpu_run_last(s);
  if (!s->lost) kv_gpu_mirror_columns(s);
  for (int i = 0; i < s->lanes; i++) s->state[i] = kv_lane_state(&s->mirror[i]);
  kv_leaves_state(&s->leaves, s->lanes, s->state);
  kv_gpu_loaded_close(s->rows);
  s->rows = NULL;
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

static bool emu_lacked(void) { return kv_gpu_lacked(kv_device_emu()); }

static bool cuda_lacked(void) {
  const char *why;
  const kv_device *device = kv_device_cuda(&why);
  return device && kv_gpu_lacked(device);
}

#define KV_ON_DEVICE(device_name, open_it, has_lacked)                         \
  {                                                                            \
    .name = device_name, .open = open_it, .close = kv_gpu_close,               \
    .scratch_open = scratch_open, .scratch_close = scratch_close,              \
    .lanes = lanes, .lane = lane, .begin = kv_gpu_begin,                       \
    .prompt = kv_gpu_prompt, .receive = kv_gpu_receive, .append = append,      \
    .observation = observation, .view = view, .materialise = done,             \
    .attend = done, .seen = seen, .compress = done,                            \
    .compress_layer = compress_layer, .publish = publish,                      \
    .end_step = end_step, .finish = finish, .lacked = has_lacked,              \
    .fault = fault                                                             \
  }

const kv_backend kv_backend_emu = KV_ON_DEVICE("emu", open_emu, emu_lacked);
const kv_backend kv_backend_cuda = KV_ON_DEVICE("cuda", open_cuda, cuda_lacked);
