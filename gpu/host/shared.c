/* SPDX-License-Identifier: Apache-2.0
 *
 * What stores of a trace share: contract in gpu/host/shared.h. One lock for all
 * of them, since layers begin rarely.
 */
#include "gpu/host/shared.h"
#include "ref/ground/rope.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kv_gpu_trace *traces;
static _Atomic bool lacked; /* memory on a device */

void *kv_gpu_room(const kv_device *device, size_t n, kv_err *e) {
  void *p = device->take(n ? n : 1);
  if (!p) kv_gpu_none(device, e);
  return p;
}

void kv_gpu_none(const kv_device *device, kv_err *e) {
  const char *why = device->failed();
  lacked = true;
  if (!why) why = device->why_none();
  kv_fail(e, KV_RESOURCE, "backend %s: %s", device->name,
          why ? why : "not enough memory on the device");
}

const char *kv_gpu_failed(const kv_device *device) {
  const char *why = device->failed();
  if (why) lacked = true; /* if it works later, that was all */
  return why;
}

bool kv_gpu_lacked(const kv_device *device) {
  bool was = lacked;
  lacked = false;
  return was && !device->failed();
}

/* --- rotations ---------------------------------------------------------- */

/* Sines and cosines of n positions, with positions NULL of first, first + 1 ..
 */
static float *take_table(kv_gpu_trace *p, const int32_t *positions,
                         int32_t first, kv_err *e) {
  size_t rows = (size_t)p->shape.n_tokens, d = (size_t)p->shape.d;
  float *table = kv_zalloc(rows, d * sizeof *table);
  if (!table) {
    kv_no_memory(e, "rotations", rows * d * sizeof *table);
    return NULL;
  }
  for (size_t i = 0; i < rows; i++)
    kv_rope_table(p->rope->inv_freq, p->shape.d,
                  positions ? positions[i] : first + (int32_t)i, table + i * d);
  float *there = kv_gpu_room(p->device, rows * d * sizeof *table, e);
  if (there) p->device->put(there, table, rows * d * sizeof *table);
  free(table);
  return there;
}

static kv_rc take_positions(kv_gpu_trace *p, kv_err *e) {
  size_t size = (size_t)p->shape.n_tokens * sizeof *p->position;
  if (!p->rope->positions || p->position) return KV_OK;
  p->position = kv_gpu_room(p->device, size, e);
  if (!p->position) return KV_RESOURCE;
  p->device->put(p->position, p->rope->positions, size);
  return KV_OK;
}

static bool has_gaps(const kv_gpu_trace *p) {
  const int32_t *at = p->rope->positions;
  for (int t = 1; at && t < p->shape.n_tokens; t++)
    if (at[t] != at[t - 1] + 1) return true;
  return false;
}

/* Of every token's position, and of every place where these are others. */
static kv_rc take_rotations(kv_gpu_trace *p, kv_err *e) {
  kv_rc rc = take_positions(p, e);
  if (rc) return rc;
  if (!p->back) p->back = take_table(p, p->rope->positions, 0, e);
  if (!p->back) return KV_RESOURCE;
  p->forth = has_gaps(p) ? take_table(p, NULL, kv_rope_position(p->rope, 0), e)
                         : p->back;
  return p->forth ? KV_OK : KV_RESOURCE;
}

/* Of every token's position, where keys are coded before RoPE. */
static kv_rc take_turns(kv_gpu_trace *p, const kv_turns *turns, int ahead,
                        kv_err *e) {
  size_t rows = (size_t)p->shape.n_tokens + (ahead > 0);
  size_t n = rows * (size_t)p->shape.d * sizeof(float);
  kv_rc rc = take_positions(p, e);
  if (rc) return rc;
  p->turns = kv_gpu_room(p->device, n, e);
  if (!p->turns) return KV_RESOURCE;
  p->device->put(p->turns, turns->sc, n);
  p->ahead = ahead;
  return KV_OK;
}

/* --- rows --------------------------------------------------------------- */

static size_t size_of(const kv_gpu_trace *p, int width) {
  return (size_t)p->shape.n_kv_heads * (size_t)p->shape.n_tokens *
         (size_t)width * kv_dtype_size(p->shape.dtype);
}

static void give_rows(const kv_gpu_trace *p, kv_gpu_loaded *r) {
  p->device->give(r->k);
  p->device->give(r->v);
  p->device->give(r->q);
  free(r);
}

static kv_gpu_loaded *add_rows(kv_gpu_trace *p, kv_err *e) {
  kv_gpu_loaded *r = kv_zalloc(1, sizeof *r);
  if (!r) {
    kv_no_memory(e, "rows", sizeof *r);
    return NULL;
  }
  r->k = kv_gpu_room(p->device, size_of(p, p->shape.d), e);
  if (r->k) r->v = kv_gpu_room(p->device, size_of(p, p->shape.d_v), e);
  if (!r->v) {
    give_rows(p, r);
    return NULL;
  }
  r->next = p->rows;
  p->rows = r;
  return r;
}

static kv_rc upload(kv_gpu_trace *p, const kv_layer_data *data,
                    kv_gpu_loaded *r, kv_err *e) {
  size_t n = (size_t)p->shape.n_heads * (size_t)data->n_rows *
             (size_t)p->shape.d * kv_dtype_size(data->q_dtype);
  if (r->q_size < n) {
    p->device->give(r->q);
    r->q_size = 0;
    r->q = kv_gpu_room(p->device, n, e);
    if (!r->q) return KV_RESOURCE;
    r->q_size = n;
  }
  p->device->put(r->k, data->k, size_of(p, p->shape.d));
  p->device->put(r->v, data->v, size_of(p, p->shape.d_v));
  p->device->put(r->q, data->q, n);
  return KV_OK;
}

static kv_rc find_rows(kv_gpu_trace *p, const kv_layer_data *data,
                       kv_gpu_loaded **out, kv_err *e) {
  kv_gpu_loaded *idle = NULL;
  for (kv_gpu_loaded *r = p->rows; r; r = r->next) {
    if (r->users && r->of == data) {
      r->users++;
      *out = r;
      return KV_OK;
    }
    if (!r->users) idle = r;
  }
  if (!idle) idle = add_rows(p, e);
  kv_rc rc = idle ? upload(p, data, idle, e) : KV_RESOURCE;
  if (rc) return rc;
  idle->of = data;
  idle->users = 1;
  *out = idle;
  return KV_OK;
}

kv_rc kv_gpu_loaded_open(kv_gpu_trace *p, const kv_layer_data *data,
                         kv_gpu_loaded **out, kv_err *e) {
  *out = NULL;
  pthread_mutex_lock(&lock);
  kv_rc rc = find_rows(p, data, out, e);
  pthread_mutex_unlock(&lock);
  return rc;
}

void kv_gpu_loaded_close(kv_gpu_loaded *r) {
  if (!r) return;
  pthread_mutex_lock(&lock);
  r->users--;
  pthread_mutex_unlock(&lock);
}

/* --- traces -------------------------------------------------------------- */

static bool serves(const kv_gpu_trace *p, const kv_device *device,
                   const kv_plan *plan) {
  const kv_shape *a = &p->shape, *b = plan->shape;
  int ahead = plan->needs.ahead;
  if (p->turns && ahead > 0 && p->ahead != ahead) return false;
  return p->device == device && p->rope == plan->rope &&
         a->n_heads == b->n_heads && a->n_kv_heads == b->n_kv_heads &&
         a->d == b->d && a->d_v == b->d_v && a->n_tokens == b->n_tokens &&
         a->dtype == b->dtype;
}

static kv_gpu_trace *add_trace(const kv_device *device, const kv_plan *plan,
                               kv_err *e) {
  kv_gpu_trace *p = kv_zalloc(1, sizeof *p);
  if (!p) {
    kv_no_memory(e, "rows", sizeof *p);
    return NULL;
  }
  p->device = device;
  p->shape = *plan->shape;
  p->rope = plan->rope;
  p->next = traces;
  traces = p;
  return p;
}

static bool alone(const kv_device *device) {
  for (const kv_gpu_trace *p = traces; p; p = p->next)
    if (p->device == device) return false;
  return true;
}

static void leave(kv_gpu_trace *p) {
  const kv_device *device = p->device;
  if (--p->stores > 0) return;
  kv_gpu_trace **at = &traces;
  while (*at != p) at = &(*at)->next;
  *at = p->next;
  while (p->rows) {
    kv_gpu_loaded *r = p->rows;
    p->rows = r->next;
    give_rows(p, r);
  }
  p->device->give(p->forth == p->back ? NULL : p->forth);
  p->device->give(p->back);
  p->device->give(p->turns);
  p->device->give(p->position);
  p->device->give(p->room);
  free(p);
  device->ended(alone(device));
}

static kv_rc find_trace(const kv_device *device, const kv_plan *plan,
                        const kv_turns *turns, kv_gpu_trace **out, kv_err *e) {
  kv_gpu_trace *p = traces;
  while (p && !serves(p, device, plan)) p = p->next;
  if (!p) p = add_trace(device, plan, e);
  if (!p) return KV_RESOURCE;
  p->stores++;
  kv_rc rc = KV_OK;
  if (!p->rows && !add_rows(p, e)) rc = KV_RESOURCE;
  if (!rc && plan->needs.reindex && !p->forth) rc = take_rotations(p, e);
  if (!rc && plan->needs.rope && !p->turns)
    rc = take_turns(p, turns, plan->needs.ahead, e);
  if (rc)
    leave(p);
  else
    *out = p;
  return rc;
}

kv_rc kv_gpu_trace_open(const kv_device *device, const kv_plan *plan,
                        const kv_turns *turns, kv_gpu_trace **out, kv_err *e) {
  *out = NULL;
  pthread_mutex_lock(&lock);
  kv_rc rc = find_trace(device, plan, turns, out, e);
  pthread_mutex_unlock(&lock);
  return rc;
}

void kv_gpu_trace_close(kv_gpu_trace *p) {
  if (!p) return;
  pthread_mutex_lock(&lock);
  leave(p);
  pthread_mutex_unlock(&lock);
}

void *kv_gpu_trace_room(kv_gpu_trace *p, size_t n, kv_err *e) {
  pthread_mutex_lock(&lock);
  if (!p->room) p->room = kv_gpu_room(p->device, n, e);
  pthread_mutex_unlock(&lock);
  return p->room;
}

/* --- logs of rewritten rows ----------------------------------------------- */

/* Logs of rewritten rows, one for all layers of a cell: contract in
 * gpu/host/shared.h. One lock for all of them, since stores open rarely. */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static kv_gpu_log *logs;

static void give(kv_gpu_log *log) {
  log->device->give(log->id);
  log->device->give(log->row);
  free(log);
}

static kv_gpu_log *take(const kv_device *device, const kv_plan *plan,
                        kv_err *e) {
  const kv_shape *shape = plan->shape;
  kv_gpu_log *log = kv_zalloc(1, sizeof *log);
  if (!log) {
    kv_no_memory(e, "a log of rewritten rows", sizeof *log);
    return NULL;
  }
  log->device = device;
  log->of = plan;
  log->cap = kv_lane_rewrites(&plan->needs, shape->n_tokens);
  log->width = (size_t)(shape->d + shape->d_v);
  size_t lanes = (size_t)kv_lane_count(&plan->needs, shape);
  size_t rows = lanes * log->cap;
  log->id = kv_gpu_room(device, rows * sizeof *log->id, e);
  if (log->id)
    log->row = kv_gpu_room(device, rows * log->width * sizeof *log->row, e);
  if (log->row) return log;
  give(log);
  return NULL;
}

static kv_gpu_log *find(const kv_device *device, const kv_plan *plan,
                        kv_err *e) {
  kv_gpu_log *log = logs;
  while (log && !(log->device == device && log->of == plan)) log = log->next;
  if (!log && (log = take(device, plan, e))) {
    log->next = logs;
    logs = log;
  }
  if (log) log->users++;
  return log;
}

kv_gpu_log *kv_gpu_log_open(const kv_device *device, const kv_plan *plan,
                            kv_err *e) {
  pthread_mutex_lock(&log_lock);
  kv_gpu_log *log = find(device, plan, e);
  pthread_mutex_unlock(&log_lock);
  return log;
}

void kv_gpu_log_close(kv_gpu_log *log) {
  if (!log) return;
  pthread_mutex_lock(&log_lock);
  if (--log->users == 0) {
    kv_gpu_log **at = &logs;
    while (*at != log) at = &(*at)->next;
    *at = log->next;
    give(log);
  }
  pthread_mutex_unlock(&log_lock);
}
