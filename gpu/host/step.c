/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of a store: tokens enter, its work is started or replayed, the report
 * read; messages of layers; the prompt, tile by tile or block by block.
 * Contract: gpu/host/store.h.
 */
#include "gpu/host/indexed.h"
#include "gpu/host/rebuilt.h"
#include "gpu/host/store.h"
#include "gpu/host/tiers.h"
#include <string.h>

/* --- what a step starts, in which order ----------------------------------- */

/* The layer as the i-th method on the lanes sees it: its own parameters, rows,
 * compression times, and its part of columns, formats, state and tensors.
 * Selections are recorded for the first method. */
static kv_gpu_layer layer_of(const kv_store *s, int i) {
  const kv_method_part *p = &s->part[i];
  kv_gpu_layer l = s->layer;
  l.params = (const char *)l.params + p->offset;
  l.column = p->column;
  l.coding = p->coding;
  l.state = p->state;
  if (l.asset) l.asset += p->asset;
  l.needs.want = p->needs->want;
  l.needs.view_logits = p->needs->view_logits;
  l.needs.block = p->needs->block;
  l.needs.every = p->needs->every;
  l.needs.phase = p->needs->phase;
  if (p->needs->across != KV_DOWN) l.above = NULL;
  l.needs.slid = p->needs->slid;
  l.window = kv_plan_window(s->plan, s->data);
  l.one_of_two = s->parts > 1 || l.window;
  l.within = i > 0 && p->needs->narrows && s->hooks[0]->view != NULL;
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
         (kv_gpu_in_prompt(s) ? need->prompt_rows > 0 : need->decode_rows);
}

void kv_gpu_seq_observe(const kv_store *s, void *stream) {
  for (int i = 0; i < s->parts; i++)
    if (observes(s, i)) hook_of(s, i, KV_HOOK_observe, stream);
}

bool kv_gpu_observed(const kv_store *s) {
  bool any = false;
  for (int i = 0; i < s->parts; i++) any |= observes(s, i);
  return any;
}

void kv_gpu_seq_enter(const kv_store *s, int count, void *stream) {
  s->device->append(stream, &s->layer, count);
  kv_gpu_seq_reserve(s, stream);
  kv_gpu_seq_indexed_enter(s, stream);
  for (int i = 0; i < s->parts; i++)
    if (kv_gpu_in_prompt(s) || !s->part[i].needs->arrive_in_prompt)
      hook_of(s, i, KV_HOOK_arrive, stream);
}

/* Attention. If a view ranks by logits, or observation needs them, all logits
 * are computed; otherwise only those in view, and none where attention takes
 * them itself and nobody asks for them. */
static void attend_part(const kv_store *s, void *stream) {
  const kv_device *dev = s->device;
  const kv_needs *need = &s->plan->needs;
  bool walked = kv_gpu_tiers_walked(s), indexed = kv_gpu_indexed_walked(s);
  bool some = (!indexed && !s->rebuilt) || s->layer.logits;
  bool all =
      kv_needs_all_logits(need, kv_gpu_observed(s)) || (some && !s->own_views);
  dev->queries(stream, &s->layer, 1);
  if (all && !walked) dev->logits(stream, &s->layer, 1, 0);
  hook(s, KV_HOOK_view, stream);
  dev->name_views(stream, &s->layer, s->own_views);
  if (!all && some) dev->logits(stream, &s->layer, 1, 1);
  if (s->layer.materialised) dev->materialise(stream, &s->layer);
  hook(s, KV_HOOK_chunk, stream);
  if (walked)
    dev->attend_paged(stream, &s->layer, &s->tiers->rows);
  else if (indexed)
    dev->regular(stream, &s->layer, &s->indexed->store.r,
                 KV_GPU_REGULAR_ATTEND);
  else if (s->rebuilt)
    kv_gpu_seq_rebuilt_attend(s, stream);
  else
    dev->attend(stream, &s->layer, s->own_views);
  dev->report(stream, &s->layer, KV_GPU_SAY_VIEWS, 1);
}

/* Observation of a tile of prompt rows. */
void kv_gpu_seq_tile(const kv_store *s, int rows, void *stream) {
  const kv_device *dev = s->device;
  int window = kv_plan_window(s->plan, s->data);
  dev->queries(stream, &s->layer, rows);
  if (s->plan->needs.want & KV_LOGITS) {
    dev->logits(stream, &s->layer, rows, 0);
    if (window) dev->hide(stream, &s->layer, rows, window);
    dev->observation(stream, &s->layer, rows);
  }
  kv_gpu_seq_observe(s, stream);
}

void kv_gpu_seq_publish(const kv_store *s, int i, void *stream) {
  hook_of(s, i, KV_HOOK_publish, stream);
}

static void observe_part(const kv_store *s, void *stream) {
  if (!kv_gpu_observed(s)) return;
  if (s->plan->needs.want & (KV_P | KV_SUM))
    s->device->observation(stream, &s->layer, 1);
  kv_gpu_seq_observe(s, stream);
}

static void show_part(const kv_store *s, void *stream) {
  if (s->layer.shown)
    s->device->report(stream, &s->layer, KV_GPU_SAY_SCORES, 0);
}

/* Entries leave that a window has passed, when what each method holds of them
 * has moved. */
static void slide(const kv_store *s, void *stream) {
  int window = kv_plan_window(s->plan, s->data);
  for (int i = 0; window && i < s->parts; i++) {
    kv_gpu_layer l = layer_of(s, i);
    s->device->slide(stream, &l, window, i == s->parts - 1);
  }
}

void kv_gpu_seq_compress(const kv_store *s, void *stream, int first) {
  s->device->report(stream, &s->layer, KV_GPU_SAY_COLUMNS, first);
  slide(s, stream);
  for (int i = 0; i < s->parts; i++) {
    hook_of(s, i, KV_HOOK_compress_lane, stream);
    if (!s->part[i].needs->lanes_apart)
      hook_of(s, i, KV_HOOK_compress_layer, stream);
  }
  kv_gpu_seq_compressed(s, stream);
  kv_gpu_seq_indexed_compressed(s, stream);
  kv_gpu_seq_rebuilt_compressed(s, stream);
  show_part(s, stream);
  s->device->report(stream, &s->layer, KV_GPU_SAY_LANES, 0);
}

static void step(const kv_store *s, void *stream) {
  kv_gpu_seq_enter(s, 1, stream);
  attend_part(s, stream);
  observe_part(s, stream);
}

static void step_alone(void *self, void *stream) {
  step(self, stream);
  show_part(self, stream);
}

/* A row of the prompt, which its chunk observes. */
static void row_alone(void *self, void *stream) {
  kv_gpu_seq_enter(self, 1, stream);
  attend_part(self, stream);
  show_part(self, stream);
}

static void step_and_compress(void *self, void *stream) {
  step(self, stream);
  kv_gpu_seq_compress(self, stream, 0);
}

/* A block of the prompt that compresses at its end; `seen`: with observation of
 * all its rows, which are one tile. */
static void block(const kv_store *s, void *stream, bool seen) {
  kv_gpu_seq_enter(s, s->clock.count, stream);
  if (seen) kv_gpu_seq_tile(s, s->clock.rows, stream);
  kv_gpu_seq_compress(s, stream, 1);
}

static void block_alone(void *self, void *stream) {
  block(self, stream, false);
}
static void block_seen(void *self, void *stream) { block(self, stream, true); }

kv_gpu_sequence *const kv_gpu_sequences[KV_GPU_RECORDS] = {
    [KV_GPU_RECORD_STEP] = step_alone,
    [KV_GPU_RECORD_DUE] = step_and_compress,
    [KV_GPU_RECORD_ROW] = row_alone,
    [KV_GPU_RECORD_BLOCK] = block_alone,
    [KV_GPU_RECORD_SEEN] = block_seen};

enum { BETWEEN_STOPS = 64 }; /* tiles of a prompt */

bool kv_gpu_due(const kv_store *s) {
  return kv_plan_due(s->plan, s->data, &s->shape, s->end);
}

/* --- starts ------------------------------------------------------------- */

static void tell(kv_store *s, int row, int rows, int at) {
  s->clock.row = row;
  s->clock.rows = rows;
  s->clock.at = at;
  s->device->clock(s->device->stream(), &s->layer, &s->clock);
}

static void tell_entered(kv_store *s) {
  int first = s->clock.first;
  tell(s, s->end - 1, 1, kv_gpu_attends(s) ? kv_layer_row(s->data, first) : 0);
}

void kv_gpu_enter(kv_store *s, int first, int count) {
  s->end = first + count;
  s->seen = s->attended = false;
  s->clock.first = first;
  s->clock.count = count;
  if (!kv_gpu_lost(s)) kv_gpu_pages_grow(s, count);
  s->waiting = kv_gpu_in_prompt(s) && s->plan->needs.block > 0;
  if (!s->waiting && !kv_gpu_lost(s)) {
    tell_entered(s);
    if (!kv_gpu_attends(s)) kv_gpu_seq_enter(s, count, s->device->stream());
  }
  for (int i = 0; i < s->lanes; i++)
    kv_lane_append(&s->mirror[i], first, count);
}

/* From now on the log is this layer's, until its report is read. */
static void hold_log(kv_store *s) {
  if (s->log) s->log->holder = s;
}

/* Before a compression: what rows to come give each token, to the device. */
static void foresee(kv_store *s) {
  size_t size = (size_t)s->plan->shape->n_tokens * sizeof(int64_t);
  for (int i = 0; s->future && i < s->lanes && !kv_gpu_lost(s); i++)
    if (kv_future_reach(s->future, &s->mirror[i]))
      s->device->put(s->head[i].future, s->mirror[i].future, size);
}

/* Steps of a kind differ only in the clock, so they are recorded once and
 * replayed. */
static void run_recorded(kv_store *s, kv_gpu_recording kind) {
  void **recorded = &s->recorded[kind];
  if (!kv_gpu_lost(s) && !*recorded)
    *recorded = s->device->record(kv_gpu_sequences[kind], s);
  if (!kv_gpu_lost(s) && *recorded) s->device->replay(*recorded);
}

void kv_gpu_run_step(kv_store *s) {
  bool due = kv_gpu_due(s);
  if (kv_gpu_in_prompt(s)) {
    run_recorded(s, KV_GPU_RECORD_ROW);
    kv_gpu_read(s, KV_GPU_STEP);
    return;
  }
  if (due) hold_log(s);
  if (due) foresee(s);
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
      kv_gpu_seq_publish(s, i, s->device->stream());
      s->device->get(s->message, s->layer.message,
                     sizeof head + s->plan->needs.message);
      memcpy(&head, s->message, sizeof head);
    }
  if (kv_gpu_lost(s) || head.layer < 0) return NULL;
  s->said = (kv_message){s->data->layer, s->message + sizeof head};
  s->published = true;
  return &s->said;
}

/* --- the prompt's observation -------------------------------------------- */

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
  kv_gpu_seq_observe(s, s->device->stream());
}

static void show_tile(kv_store *s, int t, int rows) {
  if (kv_gpu_lost(s)) return;
  tell(s, t, rows, kv_layer_row(s->data, t));
  kv_gpu_seq_tile(s, rows, s->device->stream());
}

/* The first row that is shown with a block; `last`: none is. Of earlier chunks
 * the tokens of all of them are held, as methods here keep their windows. */
static int first_shown(const kv_store *s, int first, int last) {
  int from = kv_chunk_shown(&s->shape, s->plan->needs.prompt_rows, first);
  return kv_gpu_observed(s) && from < last ? from : last;
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
  if (s->waiting || kv_gpu_lost(s) || !kv_gpu_observed(s)) return;
  bool by_sums = s->sums && s->data->colsum && s->data->rows;
  if (by_sums && s->shape.prompt_len == s->opened->shape->prompt_len)
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
  kv_gpu_seq_enter(s, count, stream);
  kv_gpu_show_prompt(s, first, count);
  kv_gpu_seq_compress(s, stream, 1);
}

void kv_gpu_run_compression(kv_store *s) {
  if (kv_gpu_lost(s)) return;
  hold_log(s);
  foresee(s);
  if (s->waiting)
    run_block(s);
  else
    kv_gpu_seq_compress(s, s->device->stream(), 1);
  kv_gpu_read(s, KV_GPU_PROMPT);
}
