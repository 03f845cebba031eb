/* SPDX-License-Identifier: Apache-2.0
 *
 * The device of gpudevice.h. One thread works with it.
 */
#include "tests/support/backend/gpudevice.h"
#include "gpu/host/backends.h"
#include "gpu/host/store.h"

static const kv_device *real;
static kv_device table;
static gpudevice_count count;
static gpudevice_kind failing;
static int64_t fails_at = -1, refuses_at = -1, held;
static bool broken, refused;

/* One more call of a kind; false: it fails, or something has. */
static bool fine(gpudevice_kind kind) {
  int64_t n = count.call[kind]++;
  if (kind == failing && n == fails_at) broken = true;
  return !broken;
}

/* --- memory ------------------------------------------------------------- */

/* Is there memory for the call that fine() is asked about next? */
static bool has_room(void) {
  bool none = count.call[GPUDEVICE_MEMORY] == refuses_at;
  refused = refused || none;
  return fine(GPUDEVICE_MEMORY) && !none;
}
static const char *why_none(void) { return GPUDEVICE_NONE; }
static void *take(size_t n) {
  void *p = has_room() ? real->take(n) : NULL;
  count.taken += (int64_t)n;
  held += p != NULL;
  return p;
}
static void give(void *p) {
  held -= p != NULL;
  real->give(p);
}
static void *pin(size_t n) {
  void *p = has_room() ? real->pin(n) : NULL;
  count.pinned += (int64_t)n;
  held += p != NULL;
  return p;
}
static void unpin(void *p) {
  held -= p != NULL;
  real->unpin(p);
}

/* --- copies ------------------------------------------------------------- */

static void put(void *to, const void *from, size_t n) {
  count.puts++;
  count.sent += (int64_t)n;
  if (fine(GPUDEVICE_COPY)) real->put(to, from, n);
}
static void get(void *to, const void *from, size_t n) {
  count.gets++;
  count.read += (int64_t)n;
  if (fine(GPUDEVICE_COPY)) real->get(to, from, n);
}
static void fetch(void *to, const void *from, size_t n) {
  count.fetches++;
  count.read += (int64_t)n;
  if (fine(GPUDEVICE_COPY)) real->fetch(to, from, n);
}
static void clear(void *p, size_t n) {
  count.clears++;
  if (fine(GPUDEVICE_COPY)) real->clear(p, n);
}
static void wait(void) {
  count.waits++;
  if (fine(GPUDEVICE_WAIT)) real->wait();
}
static const char *failed(void) {
  return broken ? GPUDEVICE_SENTENCE : real->failed();
}

/* --- starts ------------------------------------------------------------- */

static void *record(kv_gpu_sequence *run, void *self) {
  gpudevice_count outside = count;
  count.records++;
  if (!fine(GPUDEVICE_START)) return NULL;
  void *p = real->record(run, self);
  held += p != NULL;
  outside.records++;
  outside.call[GPUDEVICE_START]++;
  count = outside; /* what is recorded is not started */
  return p;
}
static void replay(void *recorded) {
  count.replays++;
  if (fine(GPUDEVICE_START)) real->replay(recorded);
}
static void forget(void *recorded) {
  held -= recorded != NULL;
  real->forget(recorded);
}
static void tell(void *stream, const kv_gpu_layer *l,
                 const kv_gpu_clock *clock) {
  count.tells++;
  if (fine(GPUDEVICE_START)) real->clock(stream, l, clock);
}
static void queries(void *stream, const kv_gpu_layer *l, int rows) {
  if (fine(GPUDEVICE_START)) real->queries(stream, l, rows);
}
static void append(void *stream, const kv_gpu_layer *l, int tokens) {
  if (fine(GPUDEVICE_START)) real->append(stream, l, tokens);
}
static void logits(void *stream, const kv_gpu_layer *l, int rows, int masked) {
  if (fine(GPUDEVICE_START)) real->logits(stream, l, rows, masked);
}
static void name_views(void *stream, const kv_gpu_layer *l, int masked) {
  if (fine(GPUDEVICE_START)) real->name_views(stream, l, masked);
}
static void attend(void *stream, const kv_gpu_layer *l, int masked) {
  if (fine(GPUDEVICE_START)) real->attend(stream, l, masked);
}
static void materialise(void *stream, const kv_gpu_layer *l) {
  if (fine(GPUDEVICE_START)) real->materialise(stream, l);
}
static void observation(void *stream, const kv_gpu_layer *l, int rows) {
  if (fine(GPUDEVICE_START)) real->observation(stream, l, rows);
}
static void report(void *stream, const kv_gpu_layer *l, int stage, int first) {
  if (fine(GPUDEVICE_START)) real->report(stream, l, stage, first);
}
static void window(void *stream, const kv_gpu_layer *l, int stage,
                   uint64_t from) {
  count.windows++;
  if (fine(GPUDEVICE_START)) real->window(stream, l, stage, from);
}

/* --- the backend -------------------------------------------------------- */

static bool lacked(void) { return kv_gpu_lacked(&table); }

static kv_rc open_lame(const kv_plan *plan, kv_store **out, kv_err *e) {
  return kv_gpu_open(&table, plan, out, e);
}

const kv_backend *gpudevice_open(void) {
  static kv_backend lame;
  real = kv_device_emu();
  if (!real) return NULL;
  table = *real;
  table.name = "lame";
  table.take = take, table.give = give, table.pin = pin, table.unpin = unpin;
  table.put = put, table.get = get, table.fetch = fetch, table.clear = clear;
  table.wait = wait, table.failed = failed, table.record = record;
  table.why_none = why_none;
  table.replay = replay, table.forget = forget, table.clock = tell;
  table.queries = queries, table.append = append, table.logits = logits;
  table.name_views = name_views, table.attend = attend;
  table.materialise = materialise;
  table.observation = observation, table.report = report, table.window = window;
  lame = kv_backend_emu;
  lame.name = table.name;
  lame.open = open_lame;
  lame.lacked = lacked;
  gpudevice_reset();
  return &lame;
}

void gpudevice_reset(void) {
  count = (gpudevice_count){0};
  fails_at = refuses_at = -1;
  broken = refused = false;
}

void gpudevice_fail(gpudevice_kind kind, int64_t n) {
  gpudevice_reset();
  failing = kind;
  fails_at = n;
}

void gpudevice_refuse(int64_t n) {
  gpudevice_reset();
  refuses_at = n;
}

bool gpudevice_failed(void) { return broken; }
bool gpudevice_refused(void) { return refused; }
gpudevice_count gpudevice_counted(void) { return count; }
int64_t gpudevice_held(void) { return held; }
