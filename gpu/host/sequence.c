/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step starts on the device, in which order. Contract:
 * gpu/host/store.h.
 */
#include "gpu/host/indexed.h"
#include "gpu/host/rebuilt.h"
#include "gpu/host/tiers.h"

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
  hook(s, KV_HOOK_arrive, stream);
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
