/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting a step on the device: what, in which order. Contract:
 * gpu/host/store.h.
 */
#include "gpu/host/store.h"
#include <string.h>

enum { BETWEEN_STOPS = 64 }; /* tiles of a prompt */

static bool in_prompt(const kv_store *s) {
  return s->end <= s->plan->shape->prompt_len;
}

bool kv_gpu_due(const kv_store *s) {
  return kv_settling_due(&s->plan->needs, s->plan->shape, s->end);
}

/* --- parts of a step ---------------------------------------------------- */

/* The layer as the i-th method on the lanes sees it: its own parameters, rows,
 * settling times, and its part of columns, formats and state. Selections are
 * recorded for the first method. */
static kv_gpu_layer layer_of(const kv_store *s, int i) {
  const kv_method_part *p = &s->part[i];
  kv_gpu_layer l = s->layer;
  l.params = (const char *)l.params + p->offset;
  l.column = p->column;
  l.coding = p->coding;
  l.state = p->state;
  l.needs.want = p->needs->want;
  l.needs.view_logits = p->needs->view_logits;
  l.needs.block = p->needs->block;
  l.needs.every = p->needs->every;
  l.needs.phase = p->needs->phase;
  if (p->needs->across != KV_DOWN) l.above = NULL;
  l.one_of_two = s->parts > 1;
  if (i > 0) l.shown = NULL;
  return l;
}

static kv_gpu_hook *start_of(const kv_store *s, int i, kv_hook which) {
  const kv_gpu_hooks *h = s->hooks[i];
  kv_gpu_hook *const start[KV_N_HOOKS] = {
#define KV_HOOK(name) h->name,
      KV_HOOKS(KV_HOOK)
#undef KV_HOOK
  };
  return start[which];
}

/* Starts a hook, unless an earlier start failed: it relies on what they left.
 */
static void hook_of(const kv_store *s, int i, kv_hook which, void *stream) {
  kv_gpu_hook *start = start_of(s, i, which);
  if (!start || s->device->failed()) return;
  kv_gpu_layer l = layer_of(s, i);
  start(stream, &l);
}

static void hook(const kv_store *s, kv_hook which, void *stream) {
  for (int i = 0; i < s->parts; i++) hook_of(s, i, which, stream);
}

/* True if the i-th method observes rows of this phase. */
static bool observes(const kv_store *s, int i) {
  const kv_needs *need = s->part[i].needs;
  return s->hooks[i]->observe &&
         (in_prompt(s) ? need->prompt_rows > 0 : need->decode_rows);
}

static void observe(const kv_store *s, void *stream) {
  for (int i = 0; i < s->parts; i++)
    if (observes(s, i)) hook_of(s, i, KV_HOOK_observe, stream);
}

static bool anyone_observes(const kv_store *s) {
  bool any = false;
  for (int i = 0; i < s->parts; i++) any |= observes(s, i);
  return any;
}

static void enter_part(const kv_store *s, int count, void *stream) {
  s->device->append(stream, &s->layer, count);
  hook(s, KV_HOOK_arrive, stream);
}

/* Attention. If a view ranks by logits, or evidence needs them, all logits are
 * computed; otherwise only those in view. */
static void attend_part(const kv_store *s, void *stream) {
  const kv_device *dev = s->device;
  const kv_needs *need = &s->plan->needs;
  bool all = kv_needs_all_logits(need, anyone_observes(s)) || !s->own_views;
  dev->queries(stream, &s->layer, 1);
  if (all) dev->logits(stream, &s->layer, 1, 0);
  hook(s, KV_HOOK_view, stream);
  dev->name_views(stream, &s->layer, s->own_views);
  if (!all) dev->logits(stream, &s->layer, 1, 1);
  if (s->layer.made) dev->materialise(stream, &s->layer);
  hook(s, KV_HOOK_chunk, stream);
  dev->attend(stream, &s->layer, s->own_views);
  dev->report(stream, &s->layer, KV_GPU_SAY_VIEWS, 1);
}

/* Evidence of a tile of prompt rows. */
static void tile_part(const kv_store *s, int rows, void *stream) {
  const kv_device *dev = s->device;
  dev->queries(stream, &s->layer, rows);
  if (s->plan->needs.want & KV_LOGITS) {
    dev->logits(stream, &s->layer, rows, 0);
    dev->evidence(stream, &s->layer, rows);
  }
  observe(s, stream);
}

static void observe_part(const kv_store *s, void *stream) {
  if (!anyone_observes(s)) return;
  if (s->plan->needs.want & (KV_P | KV_SUM))
    s->device->evidence(stream, &s->layer, 1);
  observe(s, stream);
}

static void show_part(const kv_store *s, void *stream) {
  if (s->layer.shown)
    s->device->report(stream, &s->layer, KV_GPU_SAY_SCORES, 0);
}

static void settle_part(const kv_store *s, void *stream, int first) {
  s->device->report(stream, &s->layer, KV_GPU_SAY_COLUMNS, first);
  for (int i = 0; i < s->parts; i++) {
    hook_of(s, i, KV_HOOK_settle_lane, stream);
    hook_of(s, i, KV_HOOK_settle_layer, stream);
  }
  show_part(s, stream);
  s->device->report(stream, &s->layer, KV_GPU_SAY_LANES, 0);
}

static void step(const kv_store *s, void *stream) {
  enter_part(s, 1, stream);
  attend_part(s, stream);
  observe_part(s, stream);
}

static void step_alone(void *self, void *stream) {
  step(self, stream);
  show_part(self, stream);
}

static void step_and_settle(void *self, void *stream) {
  step(self, stream);
  settle_part(self, stream, 0);
}

/* A block of the prompt that settles at its end; `seen`: with evidence of all
 * its rows, which are one tile. */
static void block(const kv_store *s, void *stream, bool seen) {
  enter_part(s, s->clock.count, stream);
  if (seen) tile_part(s, s->clock.rows, stream);
  settle_part(s, stream, 1);
}

static void block_alone(void *self, void *stream) {
  block(self, stream, false);
}
static void block_seen(void *self, void *stream) { block(self, stream, true); }

/* --- starts ------------------------------------------------------------- */

static void tell(kv_store *s, int row, int rows, int at) {
  s->clock.row = row;
  s->clock.rows = rows;
  s->clock.at = at;
  s->device->tell(s->device->stream(), &s->layer, &s->clock);
}

static void tell_entered(kv_store *s) {
  int first = s->clock.first;
  tell(s, s->end - 1, 1, in_prompt(s) ? 0 : kv_layer_row(s->data, first));
}

void kv_gpu_enter(kv_store *s, int first, int count) {
  s->end = first + count;
  s->seen = s->attended = false;
  s->clock.first = first;
  s->clock.count = count;
  if (!kv_gpu_lost(s)) kv_gpu_pages_grow(s, count);
  s->waiting = in_prompt(s) && s->plan->needs.block > 0;
  if (!s->waiting && !kv_gpu_lost(s)) {
    tell_entered(s);
    if (in_prompt(s)) enter_part(s, count, s->device->stream());
  }
  for (int i = 0; i < s->lanes; i++)
    kv_lane_append(&s->mirror[i], first, count);
}

/* From now on the log is this layer's, until its report is read. */
static void hold_log(kv_store *s) {
  if (s->log) s->log->holder = s;
}

/* Steps of a kind differ only in the clock, so they are recorded once and
 * replayed. */
static void run_recorded(kv_store *s, kv_gpu_recording kind) {
  static kv_gpu_sequence *const run[KV_GPU_RECORDS] = {
      [KV_GPU_RECORD_STEP] = step_alone,
      [KV_GPU_RECORD_DUE] = step_and_settle,
      [KV_GPU_RECORD_BLOCK] = block_alone,
      [KV_GPU_RECORD_SEEN] = block_seen};
  void **recorded = &s->recorded[kind];
  if (!kv_gpu_lost(s) && !*recorded)
    *recorded = s->device->record(run[kind], s);
  if (!kv_gpu_lost(s) && *recorded) s->device->replay(*recorded);
}

void kv_gpu_run_step(kv_store *s) {
  bool due = kv_gpu_due(s);
  if (due) hold_log(s);
  run_recorded(s, due ? KV_GPU_RECORD_DUE : KV_GPU_RECORD_STEP);
  kv_gpu_read(s, due ? KV_GPU_DUE : KV_GPU_STEP);
}

void kv_gpu_run_last(kv_store *s) {
  if (kv_gpu_lost(s)) return;
  s->device->report(s->device->stream(), &s->layer, KV_GPU_SAY_COLUMNS, 1);
  kv_gpu_read(s, KV_GPU_LAST);
}

/* --- messages ----------------------------------------------------------- */

void kv_gpu_receive(kv_store *s, const kv_message *above) {
  size_t bytes = s->plan->needs.message;
  kv_gpu_message head = {.layer = above ? above->layer : -1};
  s->published = false;
  if (kv_gpu_lost(s)) return;
  memcpy(s->message, &head, sizeof head);
  if (above) memcpy(s->message + sizeof head, above->data, bytes);
  s->device->put((void *)(uintptr_t)s->layer.above, s->message,
                 sizeof head + (above ? bytes : 0));
}

const kv_message *kv_gpu_publish(kv_store *s) {
  kv_gpu_message head = {.layer = -1};
  if (kv_gpu_lost(s)) return NULL;
  for (int i = 0; i < s->parts; i++)
    if (s->part[i].needs->across == KV_DOWN && s->hooks[i]->publish) {
      hook_of(s, i, KV_HOOK_publish, s->device->stream());
      s->device->get(s->message, s->layer.message,
                     sizeof head + s->plan->needs.message);
      memcpy(&head, s->message, sizeof head);
    }
  if (kv_gpu_lost(s) || head.layer < 0) return NULL;
  s->said = (kv_message){s->data->layer, s->message + sizeof head};
  s->published = true;
  return &s->said;
}

/* --- the prompt's evidence ---------------------------------------------- */

/* Uses recorded sums of all prompt rows if the layer lacks the rows. */
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
  observe(s, s->device->stream());
}

static void show_tile(kv_store *s, int t, int rows) {
  if (kv_gpu_lost(s)) return;
  tell(s, t, rows, kv_layer_row(s->data, t));
  tile_part(s, rows, s->device->stream());
}

/* Rows first.. of a block are shown; `last`: none. */
static int first_shown(const kv_store *s, int first, int last) {
  int from = s->plan->shape->prompt_len - s->plan->needs.prompt_rows;
  if (!anyone_observes(s) || from >= last) return last;
  return from > first ? from : first;
}

/* True if the replay was told to stop. What was started is waited for now and
 * then, or nothing could be stopped: starting takes no time. */
static bool cut(kv_store *s, int tile) {
  const kv_plan *p = s->opened;
  if (!p->stop || tile % BETWEEN_STOPS) return false;
  if (tile) s->device->wait();
  return p->stop();
}

static void show_rows(kv_store *s, int first, int last) {
  int n = s->tile_rows, tile = 0;
  for (int t = first_shown(s, first, last); t < last; t += n) {
    if (cut(s, tile++)) return;
    show_tile(s, t, last - t < n ? last - t : n);
  }
}

void kv_gpu_show_prompt(kv_store *s, int first, int count) {
  if (s->waiting || kv_gpu_lost(s) || !anyone_observes(s)) return;
  if (s->sums && s->data->colsum && s->data->rows)
    recorded_sums(s);
  else
    show_rows(s, first, first + count);
}

/* --- a block of the prompt ------------------------------------------------ */

/* How a block can be replayed; KV_GPU_RECORDS: as no other. */
static kv_gpu_recording kind_of(const kv_store *s) {
  int first = s->clock.first, count = s->clock.count;
  int shown = first_shown(s, first, s->end);
  if (count != s->plan->needs.block || s->sums) return KV_GPU_RECORDS;
  if (shown == s->end) return KV_GPU_RECORD_BLOCK;
  bool whole = shown == first && count <= s->tile_rows;
  return whole ? KV_GPU_RECORD_SEEN : KV_GPU_RECORDS;
}

static void run_block(kv_store *s) {
  kv_gpu_recording kind = kind_of(s);
  int first = s->clock.first, count = s->clock.count;
  void *stream = s->device->stream();
  s->waiting = false;
  if (kind == KV_GPU_RECORD_SEEN)
    tell(s, first, count, kv_layer_row(s->data, first));
  else
    tell_entered(s);
  if (kind != KV_GPU_RECORDS) {
    run_recorded(s, kind);
    return;
  }
  enter_part(s, count, stream);
  kv_gpu_show_prompt(s, first, count);
  settle_part(s, stream, 1);
}

void kv_gpu_run_settling(kv_store *s) {
  if (kv_gpu_lost(s)) return;
  hold_log(s);
  if (s->waiting)
    run_block(s);
  else
    settle_part(s, s->device->stream(), 1);
  kv_gpu_read(s, KV_GPU_PROMPT);
}
