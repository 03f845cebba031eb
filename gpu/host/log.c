/* SPDX-License-Identifier: Apache-2.0
 *
 * Logs of rewritten rows, one for all layers of a cell: contract in
 * gpu/host/shared.h. One lock for all of them, since stores open rarely.
 */
#include "gpu/host/shared.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
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
  pthread_mutex_lock(&lock);
  kv_gpu_log *log = find(device, plan, e);
  pthread_mutex_unlock(&lock);
  return log;
}

void kv_gpu_log_close(kv_gpu_log *log) {
  if (!log) return;
  pthread_mutex_lock(&lock);
  if (--log->users == 0) {
    kv_gpu_log **at = &logs;
    while (*at != log) at = &(*at)->next;
    *at = log->next;
    give(log);
  }
  pthread_mutex_unlock(&lock);
}
