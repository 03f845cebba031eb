/* SPDX-License-Identifier: Apache-2.0
 *
 * The model behind device_predict.h. A kernel takes the longest of: its bytes
 * at the bandwidth of memory; its instructions at what a multiprocessor issues,
 * of which kernels like these reach BUSY; and, where few loads are under way,
 * its round trips to memory. Kernels follow each other, so times add up.
 */
#include "tests/bench/gpu/device_predict.h"

#include <string.h>

enum { D = 128, ROW = 2 * D, CHUNK = 128, WARP = 32, BLOCK = 128 };
enum { WARPS = BLOCK / WARP, JOIN = 32 /* chunks a stage of join.cu */ };
enum {
  REF = 8,    /* bytes that say where an entry's key is, or its value */
  SHORT = 60, /* clocks from a barrier to the next, of shared memory alone */
  CODED = 48, /* bytes of a key or value in KIVI's 2 bits, groups of 32 */
  CODED_TILE = 2 * CHUNK /* entries of a block of logits over codes */
};

/* Share of the issue slots that is reached when they bind; and SHORT:
 * assumptions. */
static const double BUSY = 0.85;

/* Data sheets: 3.35 and 4.8 TB/s of memory, 132 multiprocessors, 1.98 GHz at
 * most, of which nine tenths under load. Assumptions: a copy reaches 0.83 of
 * memory's bandwidth, reading 0.9; a trip takes 800 clocks, a kernel after
 * another in a graph 1 us. A device's own numbers replace all but the last. */
const predict_device predict_devices[2] = {
    {"H100 SXM", 132, 1.78e9, 2.78e12, 3.02e12, 800 / 1.78e9, 1e-6},
    {"H200", 132, 1.78e9, 3.98e12, 4.32e12, 800 / 1.78e9, 1e-6}};

predict_device predict_device_of(const char *name, int sms, double clock,
                                 double copy, double read) {
  predict_device d = predict_devices[0];
  d.name = name;
  d.sms = sms;
  d.clock = 0.9 * clock;
  d.copy = copy;
  d.read = read;
  d.trip = 800 / d.clock;
  return d;
}

static const predict_turn counted[] = {
#define KV_TURN(name, ...) {#name, __VA_ARGS__},
#include "tests/bench/gpu/device_counts.def"
#undef KV_TURN
};

const predict_turn *predict_turn_of(const char *name) {
  for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
    if (strcmp(counted[i].name, name) == 0) return &counted[i];
  return NULL;
}

/* `name` of a group of heads. */
static const predict_turn *turn_of(const char *name, int group) {
  char whole[96];
  snprintf(whole, sizeof whole, "%s_%d", name, group);
  return predict_turn_of(whole);
}

void predict_add(predict_turn *to, double x, const predict_turn *t) {
  if (!t) return;
  to->all += x * t->all;
  to->fma += x * t->fma;
  to->imad += x * t->imad;
  to->alu += x * t->alu;
  to->slow += x * t->slow;
  to->lds += x * t->lds;
  to->lds2 += x * t->lds2;
  to->sts += x * t->sts;
  to->ldg += x * t->ldg;
  to->copy += x * t->copy;
}

double predict_clocks(const predict_turn *t, const char **bound) {
  const struct {
    const char *name;
    double clocks;
  } pipe[] = {{"issue slots", t->all / 4},
              {"FMA pipe", (t->fma + t->imad) / 4},
              {"IMAD", t->imad / 2},
              {"ALU pipe", t->alu / 2},
              {"slow pipe", t->slow * 2},
              {"shared memory", t->lds + 2 * t->lds2 + t->sts}};
  int most = 0;
  for (int i = 1; i < (int)(sizeof pipe / sizeof *pipe); i++)
    if (pipe[i].clocks > pipe[most].clocks) most = i;
  if (bound) *bound = pipe[most].name;
  return pipe[most].clocks;
}

static double larger(double x, double y) { return x > y ? x : y; }

double predict_issue(const predict_device *d, const predict_turn *t,
                     double count, const char **bound) {
  return predict_clocks(t, bound) * count / d->sms / d->clock / BUSY;
}

/* Seconds of `count` times t, and of moving so many bytes. */
static double seconds_of(const predict_device *d, const predict_turn *t,
                         double count, double bytes, const char **bound) {
  double memory = bytes / d->read;
  double issue = predict_issue(d, t, count, bound);
  if (memory >= issue) *bound = "memory";
  return larger(memory, issue);
}

/* --- attention ------------------------------------------------------------ */

/* What the warps of a block of logits do for the keys of CHUNK entries: once
 * what is once, and the loop for the elements that this has left. A turn is a
 * stage of 32 columns, so it tells how many entries a thread has. */
static predict_turn key_work(int group) {
  enum { COLUMNS = 32 };
  const predict_turn *turn = turn_of("logits", group);
  double own = turn->elements / COLUMNS;
  predict_turn t = {0};
  predict_add(&t, WARPS / own, turn_of("logits_once", group));
  predict_add(&t, (double)CHUNK * D / WARP / turn->elements - WARPS / own,
              turn);
  return t;
}

/* What the warps of a block of chunks do for the values of a chunk. */
static predict_turn value_work(int group) {
  const predict_turn *turn = turn_of("chunks", group);
  const predict_turn *copy = turn_of("chunks_copy", group);
  predict_turn t = {0};
  predict_add(&t, WARPS, turn_of("chunks_once", group));
  double pieces = (double)CHUNK * ROW / 16 / WARP - t.copy;
  predict_add(&t, (double)CHUNK * D / WARP / turn->elements - WARPS, turn);
  if (copy && pieces > 0) predict_add(&t, pieces / copy->elements, copy);
  return t;
}

/* Bytes that are read of an entry's K and V, and of where they lie. */
typedef struct entry_bytes {
  double k, v;
} entry_bytes;

/* What attention takes in all: of K and of V, and what joins the chunks. */
typedef struct attended {
  double keys, values, rest;
  const char *of_k, *of_v;
} attended;

static attended attend(const predict_device *d, int group, int lanes,
                       int tokens, entry_bytes bytes, const predict_turn *k,
                       const predict_turn *v) {
  double all = (double)lanes * tokens, heads = all * group;
  double chunks = (double)tokens / CHUNK;
  attended a;
  a.keys = seconds_of(d, k, all / CHUNK, all * bytes.k + 4 * heads, &a.of_k);
  /* A head's logits, and a row of fp32 for each chunk. */
  a.values = seconds_of(d, v, all / CHUNK,
                        all * bytes.v + (4 + 4.0 * D / CHUNK) * heads, &a.of_v);
  /* What the chunks left, a head's stage by stage. */
  a.rest = 4.0 * D / CHUNK * heads / d->read + d->trip * (chunks / JOIN + 2) +
           4 * d->start;
  return a;
}

predicted predict_attend(const predict_device *d, int group, int lanes,
                         int tokens, double *seconds) {
  double all = (double)lanes * tokens, each = (double)CHUNK * D / WARP;
  predict_turn k = key_work(group), v = value_work(group);
  entry_bytes bytes = {ROW + REF, ROW + REF};
  attended a = attend(d, group, lanes, tokens, bytes, &k, &v);
  double sum = a.keys + a.values + a.rest;
  predicted p = {2 * all * ROW / sum / d->copy,
                 a.keys > a.values ? a.of_k : a.of_v, k.all / each,
                 v.all / each};
  if (seconds) *seconds = sum;
  return p;
}

/* What warps do for the codes of a chunk: `of` is coded_keys, whose blocks have
 * `own` entries, or coded_values. */
static predict_turn coded_work(const char *of, int group, int own) {
  char once[64];
  snprintf(once, sizeof once, "%s_once", of);
  const predict_turn *turn = turn_of(of, group);
  double warps = (double)WARPS * CHUNK / own;
  predict_turn t = {0};
  predict_add(&t, warps, turn_of(once, group));
  predict_add(&t, (double)CHUNK * D / WARP / turn->elements - warps, turn);
  return t;
}

predicted predict_kivi(const predict_device *d, int group, int lanes,
                       int tokens, double *ceiling) {
  double plain, each = (double)CHUNK * D / WARP, fewer = (double)ROW / CODED;
  predict_attend(d, group, lanes, tokens, &plain);
  predict_turn k = coded_work("coded_keys", group, CODED_TILE);
  predict_turn v = coded_work("coded_values", group, CHUNK);
  entry_bytes bytes = {CODED + REF, CODED + REF};
  attended a = attend(d, group, lanes, tokens, bytes, &k, &v);
  predict_device free = *d;
  free.read = 1e30;
  free.trip = free.start = 0;
  attended bare = attend(&free, group, lanes, tokens, bytes, &k, &v);
  predicted p = {plain / (a.keys + a.values + a.rest) / fewer,
                 a.keys > a.values ? a.of_k : a.of_v, k.all / each,
                 v.all / each};
  if (ceiling) *ceiling = plain / (bare.keys + bare.values) / fewer;
  return p;
}

predict_pages predict_paged(const predict_device *d, int low, int group,
                            int lanes, int tokens) {
  /* Metadata; which entry a number is: written twice and read, from references.
   */
  enum { RANGE = 4, WHERE = 3 * 4 + REF };
  double plain, each = (double)CHUNK * D / WARP, all = (double)lanes * tokens;
  entry_bytes row = {(low ? D / 2 : D) + RANGE, (low ? D / 4 : D / 2) + RANGE};
  predict_attend(d, group, lanes, tokens, &plain);
  predict_turn k = coded_work("paged_keys", group, CODED_TILE);
  predict_turn v = coded_work("paged_values", group, CHUNK);
  entry_bytes read = {row.k + WHERE, row.v + REF};
  attended a = attend(d, group, lanes, tokens, read, &k, &v);
  double sum = a.keys + a.values + a.rest + 2 * d->start;
  predict_pages p = {.bytes = row.k + row.v, .seconds = sum};
  p.memory = all * p.bytes / d->read;
  p.fma = all * 2 * D * group / (128.0 * d->sms * d->clock);
  p.faster = (predicted){plain / sum / (2 * ROW / p.bytes),
                         a.keys > a.values ? a.of_k : a.of_v, k.all / each,
                         v.all / each};
  p.reached = p.faster;
  p.reached.value = larger(p.memory, p.fma) / sum;
  return p;
}

/* --- compaction ----------------------------------------------------------- */

predicted predict_compact(const predict_device *d, int requests,
                          double *seconds) {
  /* Loads and atomics of gpu/backend/pages.cu, each of which needs the one
   * before: ticket, job, counts, what is written arrives, the number of those
   * that planned; sums of jobs, of parts, their places, arrived; seen; job and
   * place, change, id, arrived, number; seen; job and place, change, id,
   * arrived, number; books. 128 parts more are another tile of each sum. */
  enum { LAYERS = 32, HEADS = 8, PART = 128, TRIPS = 22, TILE = 3 };
  int parts = requests * LAYERS * HEADS / PART;
  double trips = TRIPS + TILE * ((parts - 1) / PART), attention;
  double sum = trips * d->trip + d->start;
  predict_attend(d, 4, HEADS * requests, 1024, &attention);
  predicted p = {sum / (16e9 / d->read + LAYERS * attention), "round trips", 0,
                 0};
  if (seconds) *seconds = sum;
  return p;
}

/* --- selection ------------------------------------------------------------ */

/* One pass of a block over n scores, all lanes at once. */
static double pass(const predict_device *d, const predict_turn *t, int lanes,
                   int n, const char **bound) {
  double turns = (double)lanes * n / WARP / t->elements;
  double issue = seconds_of(d, t, turns, 0, bound);
  double busy = seconds_of(d, t, turns, 4.0 * lanes * n, bound);
  double trips = n / t->elements / BLOCK * d->trip + issue;
  if (trips > busy) *bound = "round trips";
  return larger(trips, busy);
}

predicted predict_top(const predict_device *d, int lanes, int n) {
  predicted p = {0, "", 0, 0};
  const predict_turn *count = predict_turn_of("top_count");
  const predict_turn *flags = predict_turn_of("top_flags");
  const char *bound;
  double sum = (PREDICT_PASSES - 1) * pass(d, count, lanes, n, &p.bound);
  sum += pass(d, flags, lanes, n, &bound) + d->start;
  p.value = 4.0 * lanes * n * PREDICT_PASSES / sum / d->read;
  return p;
}

/* --- compression --------------------------------------------------------- */

predicted predict_compress(const predict_device *d, int lanes, int budget,
                           int every) {
  /* Of one entry that goes, the way counts each loop once: arrays of 8 bytes
   * are one, and there are K, V and a column; classes of a byte, which are one
   * too, h2o has none of. */
  enum { GROUP = 4, MORE = 1 };
  /* From barrier to barrier, all lanes at once: elements are barriers here. And
   * what the warps of its blocks issue, each warp of a block at a slot of its
   * own. */
  const predict_turn *t =
      predict_turn_of(every == 1 ? "compress_one" : "compress_many");
  int blocks = (lanes + d->sms - 1) / d->sms;
  double compress = (t->trips + MORE) * d->trip +
                    (t->elements - t->trips) * SHORT / d->clock +
                    blocks * t->all / BUSY / d->clock,
         step;
  /* Observation and sums: read twice, written, added. */
  double observation = 24.0 * GROUP * lanes * budget / d->read + 5 * d->start;
  predict_attend(d, GROUP, lanes, budget, &step);
  predicted p = {(compress + d->start) / (step + observation) / every,
                 "round trips", 0, 0};
  return p;
}
