/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend of gpumeter.h: kv_backend's functions around the device's.
 */
#include "tests/support/backend/gpumeter.h"
#include "gpu/host/store.h"

#include <omp.h>

enum { STORES = 256 };

const char *const gpumeter_phases[GPUMETER_PHASES] = {"open", "prompt",
                                                      "decode"};

typedef struct store {
  const kv_plan *plan;
  gpumeter_phase phase;
  gpumeter_count count[GPUMETER_PHASES];
} store;

static kv_backend backend;
static kv_device table;
static const kv_backend *real;
static const kv_device *device;
static const gpumeter_clock *the_clock;
static void (*kernels_of)(uint64_t *of);

static store of[STORES + 1]; /* the last: those beyond */
static int stores;

/* The running call. */
static gpumeter_count *count;
static uint64_t before[GPUMETER_KERNELS];
static double began, blocked; /* when; seconds of it waiting for the device */

/* Pairs of marks whose seconds are not read yet, and whose they are. */
static gpumeter_count *owner[GPUMETER_MARKS / 2];
static int spans;
static bool spanning; /* the last pair lacks its second mark */

static double now(void) { return the_clock ? omp_get_wtime() : 0; }

/* --- times of the device -------------------------------------------------- */

/* The device gets something to do. */
static void busy(void) {
  if (!the_clock || spanning) return;
  owner[spans] = count;
  the_clock->mark(2 * spans);
  spanning = true;
}

/* What this call started ends here. */
static void mark_end(void) {
  if (spanning) the_clock->mark(2 * spans++ + 1);
  spanning = false;
}

/* The device was waited for. */
static void settle(void) {
  mark_end();
  for (int i = 0; i < spans; i++)
    owner[i]->device += the_clock->seconds(2 * i, 2 * i + 1);
  spans = 0;
}

/* --- the device ----------------------------------------------------------- */

static void blocks(double since) {
  blocked += now() - since;
  count->waits++;
  settle();
}

static void wait(void) {
  mark_end();
  double since = now();
  device->wait();
  blocks(since);
}

/* A copy begins; no bytes: there is none. Returns when. */
static double copies(int64_t *bytes, size_t n) {
  double since = now();
  if (n) busy();
  count->copies += n > 0;
  *bytes += (int64_t)n;
  return since;
}

static void put(void *to, const void *from, size_t n) {
  double since = copies(&count->sent, n);
  device->put(to, from, n);
  if (n) blocks(since);
}

static void get(void *to, const void *from, size_t n) {
  double since = copies(&count->read, n);
  device->get(to, from, n);
  if (n) blocks(since);
}

static void fetch(void *to, const void *from, size_t n) {
  copies(&count->read, n);
  device->fetch(to, from, n);
}

static void clear(void *p, size_t n) {
  busy();
  device->clear(p, n);
}

static void replay(void *recorded) {
  busy();
  device->replay(recorded);
}

/* Whoever starts kernels outside a recording asks for it first. */
static void *stream(void) {
  busy();
  return device->stream();
}

/* --- calls of the backend ------------------------------------------------- */

static store *store_of(const kv_plan *plan) {
  int i = 0;
  while (i < stores && of[i].plan != plan) i++;
  return &of[i];
}

static void enter(store *s) {
  count = &s->count[s->phase];
  began = now();
  blocked = 0;
  if (kernels_of) kernels_of(before);
}

static void leave(void) {
  uint64_t after[GPUMETER_KERNELS];
  mark_end();
  if (spans == GPUMETER_MARKS / 2) wait();
  count->host += now() - began - blocked;
  if (!kernels_of) return;
  kernels_of(after);
  for (int i = 0; i < GPUMETER_KERNELS; i++)
    count->kernels[i] += after[i] - before[i];
}

#define CALL(s, call) (enter(store_of((s)->opened)), real->call, leave())

static void to_phase(const kv_store *s, gpumeter_phase phase) {
  store_of(s->opened)->phase = phase;
}

static kv_rc open(const kv_plan *plan, kv_store **out, kv_err *e) {
  store *s = store_of(plan);
  *s = (store){.plan = plan};
  if (s == &of[stores] && stores < STORES) stores++;
  enter(s);
  kv_rc rc = kv_gpu_open(&table, plan, out, e);
  leave();
  return rc;
}

static void close(kv_store *s) {
  if (!s) return;
  to_phase(s, GPUMETER_OPEN);
  CALL(s, close(s));
}

static void begin(kv_store *s, const kv_layer_data *data) {
  to_phase(s, GPUMETER_OPEN);
  CALL(s, begin(s, data));
  to_phase(s, GPUMETER_PROMPT);
}

static void receive(kv_store *s, const kv_message *above) {
  CALL(s, receive(s, above));
}

static void append(kv_store *s, int lane, int first, int n, kv_scratch *x) {
  bool decodes = first + n > s->shape.prompt_len;
  to_phase(s, decodes ? GPUMETER_DECODE : GPUMETER_PROMPT);
  CALL(s, append(s, lane, first, n, x));
}

static void observation(kv_store *const *s, int n, int g, int first, int rows,
                        kv_scratch *x) {
  for (int i = 0; i < n; i++)
    CALL(s[i], observation(&s[i], 1, g, first, rows, x));
}

static void view(kv_store *s, int lane, int t, const kv_known *known,
                 kv_scratch *x) {
  CALL(s, view(s, lane, t, known, x));
}

static void compress_layer(kv_store *s, kv_scratch *x) {
  CALL(s, compress_layer(s, x));
}

static const kv_message *publish(kv_store *s, kv_scratch *x) {
  enter(store_of(s->opened));
  const kv_message *said = real->publish(s, x);
  leave();
  return said;
}

static void end_step(kv_store *s) { CALL(s, end_step(s)); }

static kv_layer_digests finish(kv_store *s) {
  to_phase(s, GPUMETER_DECODE);
  enter(store_of(s->opened));
  kv_layer_digests d = real->finish(s);
  leave();
  return d;
}

static bool lacked(void) { return kv_gpu_lacked(&table); }

const kv_backend *gpumeter_backend(const kv_backend *unmeasured,
                                   const kv_device *dev, int near,
                                   const gpumeter_clock *clock,
                                   void (*kernels)(uint64_t *of)) {
  real = unmeasured, device = dev, the_clock = clock, kernels_of = kernels;
  table = *dev;
  table.near = near;
  table.wait = wait, table.put = put, table.get = get, table.fetch = fetch;
  table.clear = clear, table.replay = replay, table.stream = stream;
  backend = *real;
  backend.open = open, backend.close = close, backend.begin = begin;
  backend.receive = receive, backend.append = append;
  backend.observation = observation, backend.view = view;
  backend.compress_layer = compress_layer, backend.publish = publish;
  backend.end_step = end_step, backend.finish = finish, backend.lacked = lacked;
  stores = spans = 0;
  spanning = false;
  return &backend;
}

const gpumeter_count *gpumeter_of(const kv_plan *plan) {
  const store *s = store_of(plan);
  if (spans) device->wait();
  settle();
  return s == &of[stores] ? NULL : s->count;
}
