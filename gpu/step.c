/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step starts on the device, in which order. Contract: gpu/store.h.
 */
#include "gpu/store.h"
#include <string.h>

static bool in_prompt(const kv_store *s) {
  return s->end <= s->plan->shape->prompt_len;
}

bool kv_gpu_due(const kv_store *s) {
  return kv_settling_due(&s->plan->needs, s->plan->shape, s->end);
}

/* --- parts of a step ---------------------------------------------------- */

/* A hook finds what the starts before it left: if one failed, it may not
 * run. */
static void hook(const kv_store *s, kv_gpu_hook *start, void *stream) {
  if (start && !s->device->failed()) start(stream, &s->layer);
}

static void enter_part(const kv_store *s, void *stream) {
  s->device->append(stream, &s->layer);
  hook(s, s->hooks->arrive, stream);
}

/* Where a view ranks by logits, or evidence needs them, all are computed;
 * else only those in view. */
static void attend_part(const kv_store *s, void *stream) {
  const kv_device *dev = s->device;
  const kv_needs *need = &s->plan->needs;
  bool all = need->view_logits || need->decode_rows || !s->own_views;
  dev->queries(stream, &s->layer, 1);
  if (all) dev->logits(stream, &s->layer, 1, 0);
  hook(s, s->hooks->view, stream);
  dev->name_views(stream, &s->layer, s->own_views);
  if (!all) dev->logits(stream, &s->layer, 1, 1);
  dev->attend(stream, &s->layer, s->own_views);
  dev->report(stream, &s->layer, KV_GPU_SAY_VIEWS, 1);
}

static void observe_part(const kv_store *s, void *stream) {
  if (!s->plan->needs.decode_rows || !s->hooks->observe) return;
  if (s->plan->needs.want & (KV_P | KV_SUM))
    s->device->evidence(stream, &s->layer, 1);
  hook(s, s->hooks->observe, stream);
}

static void settle_part(const kv_store *s, void *stream, int first) {
  s->device->report(stream, &s->layer, KV_GPU_SAY_COLUMNS, first);
  hook(s, s->hooks->settle_lane, stream);
  hook(s, s->hooks->settle_layer, stream);
  s->device->report(stream, &s->layer, KV_GPU_SAY_LANES, 0);
}

static void step_alone(void *self, void *stream) {
  const kv_store *s = self;
  enter_part(s, stream);
  attend_part(s, stream);
  observe_part(s, stream);
}

static void step_and_settle(void *self, void *stream) {
  step_alone(self, stream);
  settle_part(self, stream, 0);
}

/* --- starts ------------------------------------------------------------- */

static void tell(kv_store *s, int row, int rows, int at) {
  s->clock.row = row;
  s->clock.rows = rows;
  s->clock.at = at;
  s->device->tell(s->device->stream(), &s->layer, &s->clock);
}

void kv_gpu_enter(kv_store *s, int first, int count) {
  s->end = first + count;
  s->seen = s->attended = false;
  s->clock.first = first;
  s->clock.count = count;
  if (!kv_gpu_lost(s)) {
    tell(s, s->end - 1, 1, in_prompt(s) ? 0 : kv_layer_row(s->data, first));
    if (in_prompt(s)) enter_part(s, s->device->stream());
  }
  for (int i = 0; i < s->lanes; i++)
    kv_lane_append(&s->mirror[i], first, count);
}

/* Decode steps of a kind are alike but for the clock: recorded once, then
 * started again. */
void kv_gpu_run_step(kv_store *s) {
  const kv_device *dev = s->device;
  kv_gpu_step kind = kv_gpu_due(s) ? KV_GPU_DUE : KV_GPU_STEP;
  void **recorded = &s->recorded[kind];
  if (!kv_gpu_lost(s) && !*recorded)
    *recorded =
        dev->record(kind == KV_GPU_DUE ? step_and_settle : step_alone, s);
  if (!kv_gpu_lost(s) && *recorded) dev->replay(*recorded);
  kv_gpu_read(s, kind);
}

void kv_gpu_run_settling(kv_store *s) {
  if (kv_gpu_lost(s)) return;
  settle_part(s, s->device->stream(), 1);
  kv_gpu_read(s, KV_GPU_PROMPT);
}

void kv_gpu_run_last(kv_store *s) {
  if (kv_gpu_lost(s)) return;
  s->device->report(s->device->stream(), &s->layer, KV_GPU_SAY_COLUMNS, 1);
  kv_gpu_read(s, KV_GPU_LAST);
}

/* --- the prompt's evidence ---------------------------------------------- */

/* Recorded sums of all prompt rows, where the layer lacks the rows. */
static void recorded_sums(kv_store *s) {
  const kv_layer_data *data = s->data;
  size_t heads = (size_t)s->plan->shape->n_heads;
  size_t stride = (size_t)s->layer.stride, n = (size_t)data->colsum_len;
  const char *from = data->colsum;
  for (size_t h = 0; h < heads; h++)
    memcpy(s->sums + h * stride, from + h * n * sizeof *s->sums,
           n * sizeof *s->sums);
  s->device->put(s->layer.sum, s->sums, heads * stride * sizeof *s->sums);
  tell(s, 0, (int)n, 0);
  hook(s, s->hooks->observe, s->device->stream());
}

static void show_tile(kv_store *s, int t, int rows) {
  const kv_device *dev = s->device;
  if (kv_gpu_lost(s)) return;
  tell(s, t, rows, kv_layer_row(s->data, t));
  dev->queries(dev->stream(), &s->layer, rows);
  if (s->plan->needs.want & (KV_S | KV_P | KV_SUM)) {
    dev->logits(dev->stream(), &s->layer, rows, 0);
    dev->evidence(dev->stream(), &s->layer, rows);
  }
  hook(s, s->hooks->observe, dev->stream());
}

void kv_gpu_show_prompt(kv_store *s, int first, int count) {
  const kv_needs *need = &s->plan->needs;
  int from = s->plan->shape->prompt_len - need->prompt_rows;
  int last = first + count;
  if (kv_gpu_lost(s) || !s->hooks->observe) return;
  if (s->sums && s->data->colsum && s->data->rows) {
    recorded_sums(s);
    return;
  }
  if (need->prompt_rows <= 0) return;
  if (from < first) from = first;
  for (int t = from; t < last; t += s->tile_rows)
    show_tile(s, t, last - t < s->tile_rows ? last - t : s->tile_rows);
}
