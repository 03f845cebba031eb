/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/job.h"

#include "sim/cli/commands.h"
#include "sim/cli/signal.h"
#include "traces/trace/trace.h"
#include <stdlib.h>
#include <string.h>

/* --- life --------------------------------------------------------------- */

/* Reads a number from the environment; leaves *out unchanged if unset. */
static kv_rc read_number(const char *name, int least, int most,
                         const char *unit, int *out, kv_err *e) {
  const char *text = getenv(name);
  char *end = NULL;
  if (!text || !*text) return KV_OK;
  long n = strtol(text, &end, 10);
  if (*end || n < least || n > most)
    return kv_fail(e, KV_USAGE, "%s is %.40s; it must be from %d to %d %s",
                   name, text, least, most, unit);
  *out = (int)n;
  return KV_OK;
}

/* For tests. KVREPLAY_KEEP=0 writes each layer as soon as it ends;
 * KVREPLAY_TILE=1 computes decode rows one by one. */
static kv_rc read_environment(kv_job *s, kv_err *e) {
  s->keep_every = KV_KEEP_EVERY;
  kv_rc rc = read_number("KVREPLAY_KEEP", 0, KV_KEEP_MOST, "seconds",
                         &s->keep_every, e);
  return rc ? rc
            : read_number("KVREPLAY_TILE", 1, KV_TILE_MOST, "steps", &s->tile,
                          e);
}

static void tell_wait(void *self, const char *path, long pid) {
  char note[640], who[32] = "";
  kv_progress_wipe(self);
  if (pid) snprintf(who, sizeof who, " (pid %ld)", pid);
  snprintf(note, sizeof note,
           "waiting for %s, which another process%s is writing", path, who);
  kv_note(note);
}

kv_db_wait kv_job_wait(bool quiet, kv_progress *progress) {
  return (kv_db_wait){.tell = quiet ? NULL : tell_wait,
                      .stop = kv_interrupted,
                      .self = progress};
}

void kv_job_begin(kv_job *s, int argc, char **argv) {
  s->argc = argc;
  s->argv = argv;
}

kv_rc kv_job_start(const kv_cells_options *options, bool db, kv_job *s,
                   kv_err *e) {
  s->options = options;
  kv_rc rc = kv_choose_kernels(&s->kernels, e);
  if (!rc) rc = read_environment(s, e);
  if (rc) return rc;
  kv_environment_look(s->kernels->name, s->argc, s->argv, &s->environment);
  kv_stop_watch();
  kv_db_wait wait = kv_job_wait(options->quiet, &s->progress);
  return options->db && db ? kv_db_open_waiting(options->db, &wait, &s->db, e)
                           : KV_OK;
}

static void probing(void *self, const char *method, int n, int most,
                    int64_t units) {
  kv_job *s = self;
  snprintf(s->searching, sizeof s->searching,
           "budget of %.30s: probe %d of at most %d", method, n, most);
  if (n == 1) kv_progress_next(&s->progress, units * most);
}

static kv_observe observed(const kv_cells_options *o) {
  int observe = o->observe;
  for (int i = KV_OBSERVE_TURNS; i < KV_OBSERVES; i *= 2)
    if (o->added[i]) observe += i;
  return (kv_observe)observe;
}

kv_batch_ask kv_job_ask(kv_job *s, const kv_replay_how *how, int i) {
  kv_batch_ask ask = {.path = s->options->traces.item[i],
                      .specs = &s->options->specs,
                      .budgets = &s->options->budgets,
                      .prompt_len = s->options->prompt_len,
                      .observe = observed(s->options),
                      .how = *how,
                      .db = s->db,
                      .keep_every = s->keep_every,
                      .layouts = s->layouts,
                      .identify = s->identify,
                      .record = s->found_path ? &s->found : NULL,
                      .probing = probing};
  if (s->shares.shards) ask.shard = s->shares.shard + s->shares.first[i];
  ask.mine = s->shard.index;
  return ask;
}

/* A trace without a cell of the shard is not opened. */
static kv_rc open_batch(kv_job *s, const kv_replay_how *how, int i, int *lost,
                        kv_err *e) {
  const kv_list *traces = &s->options->traces;
  kv_err why = {0};
  kv_batch_ask ask = kv_job_ask(s, how, i);
  if (ask.shard && !kv_shares_count(&s->shares, i, ask.mine)) return KV_OK;
  kv_rc rc = kv_batch_open(&ask, &s->batch[i], &why);
  if (rc != KV_INPUT || !s->goes_on || traces->n == 1)
    return rc ? kv_fail(e, rc, "%s", why.text) : KV_OK;
  kv_batch_close(&s->batch[i]);
  kv_job_tell(s, why.text);
  ++*lost;
  return kv_batch_lost(&ask, &why, &s->batch[i], e);
}

static bool twins(const kv_batch *a, const kv_batch *b) {
  if (!a->cells || !b->cells) return false;
  const kv_result *x = &a->cell->result, *y = &b->cell->result;
  return !strcmp(x->trace, y->trace) && strcmp(x->path, y->path);
}

/* Traces with the same name are shown by their file paths. */
static void tell_apart(kv_job *s) {
  int n = s->options->traces.n;
  for (int i = 0; i < n; i++) {
    bool twin = false;
    for (int j = 0; j < n && !twin; j++)
      twin = twins(&s->batch[i], &s->batch[j]);
    for (int c = 0; c < s->batch[i].cells; c++)
      s->batch[i].cell[c].result.twin = twin;
  }
}

kv_rc kv_job_open(kv_job *s, const kv_replay_how *how, kv_err *e) {
  int n = s->options->traces.n, lost = 0;
  s->batch = kv_zalloc((size_t)n, sizeof *s->batch);
  if (!s->batch) return kv_no_memory(e, "traces", (size_t)n * sizeof *s->batch);
  kv_rc rc = KV_OK;
  kv_progress_start(&s->progress, stderr, s->searching, KV_REPLAY_UNIT, 1,
                    s->options->quiet);
  kv_stop_cut(true);
  for (int i = 0; !rc && i < n; i++) rc = open_batch(s, how, i, &lost, e);
  kv_stop_cut(false);
  kv_progress_end(&s->progress);
  if (!rc) tell_apart(s);
  if (!rc && s->found_path) rc = kv_found_write(&s->found, s->found_path, e);
  if (rc || lost < n) return rc;
  return kv_fail(e, KV_INPUT, "none of the %d traces could be replayed", n);
}

kv_rc kv_job_replay(const kv_batch *b, const kv_replay_how *how, bool *stopped,
                    kv_err *e) {
  kv_stop_cut(true);
  kv_rc rc = kv_replay(b->trace, b->each, b->cells, how, stopped, e);
  kv_stop_cut(false);
  return rc;
}

void kv_job_shut(kv_job *s) {
  for (int i = 0; s->batch && i < s->options->traces.n; i++)
    kv_batch_close(&s->batch[i]);
  free(s->batch);
  s->batch = NULL;
}

void kv_job_close(kv_job *s) {
  kv_stop_unwatch();
  kv_job_shut(s);
  kv_found_free(&s->found);
  kv_shares_close(&s->shares);
  if (s->db) kv_db_shrink(s->db);
  kv_db_close(s->db);
}

/* --- replaying ---------------------------------------------------------- */

static void tick(void *self, int64_t units) {
  kv_job *s = self;
  kv_progress_add(&s->progress, units);
}

kv_replay_how kv_job_how(kv_job *s, const kv_backend *backend) {
  return (kv_replay_how){.backend = backend,
                         .tile = s->tile,
                         .kernels = s->kernels,
                         .threads = kv_choose_threads(s->options->jobs),
                         .tick = tick,
                         .self = s,
                         .stop = kv_interrupted};
}

static void remark(void *self, const char *text) {
  kv_job *s = self;
  kv_progress_end(&s->progress);
  kv_note(text);
}

void kv_job_keep(kv_job *s, kv_replay_how *how, kv_keeper *out) {
  *out = (kv_keeper){0};
  if (!s->db) return;
  kv_keeper_open(s->db, s->keep_every, remark, s, out);
  how->keep = &out->hooks;
}

int64_t kv_job_units(const kv_job *s) {
  int64_t n = 0;
  for (int i = 0; i < s->options->traces.n; i++)
    if (s->batch[i].trace) n += kv_replay_units(s->batch[i].trace, 0);
  return n;
}

void kv_job_tell(kv_job *s, const char *text) {
  kv_progress_wipe(&s->progress);
  kv_note(text);
}

void kv_job_say_one_thread(kv_job *s, const kv_replay_how *how) {
  bool files = how->watch && how->backend->threads;
  char note[160];
  if (!files || s->options->jobs < 2 || kv_replay_parallel(how)) return;
  snprintf(note, sizeof note,
           "--selections, --views, --stored and --outputs use one thread; this "
           "replay does not use the %d of --jobs",
           s->options->jobs);
  kv_job_tell(s, note);
}

/* --- the database ------------------------------------------------------- */

void kv_job_differ(kv_job *s, const kv_err *why) {
  s->differed++;
  kv_progress_end(&s->progress);
  kv_say(why);
}

kv_rc kv_job_put_trace(kv_job *s, int i, kv_err *e) {
  const kv_batch *b = &s->batch[i];
  kv_db_trace t = {.name = b->trace->name,
                   .identity = b->identity,
                   .request = b->request,
                   .shape = &b->trace->shape,
                   .answer_by = kv_trace_answer_by(b->trace),
                   .path = s->options->traces.item[i]};
  return s->db ? kv_db_put_trace(s->db, &t, e) : KV_OK;
}

kv_rc kv_job_put(kv_job *s, const kv_result *r, bool quiet, kv_err *e) {
  kv_err why = {0};
  if (r->of_layout) return KV_OK;
  kv_rc rc = s->db ? kv_db_put(s->db, r, &s->environment, &why) : KV_OK;
  if (rc && rc != KV_DIFFERENT) return kv_fail(e, rc, "%s", why.text);
  if (rc && !quiet) kv_job_differ(s, &why);
  return KV_OK;
}

/* --- shard --------------------------------------------------------------- */

kv_rc kv_job_cut(kv_job *s, const kv_replay_how *how, kv_shard shard,
                 kv_err *e) {
  kv_batch_ask ask = kv_job_ask(s, how, 0);
  s->shard = shard;
  return kv_shares_open(&ask, s->options->traces.n, s->options->traces.item,
                        shard.count, &s->shares, e);
}

static int number_of(const kv_job *s, int batch, int n) {
  int at = s->shares.first[batch];
  while (s->shares.shard[at] != s->shard.index || n-- > 0) at++;
  return at;
}

void kv_job_print_cost(const kv_job *s, int batch, int n) {
  if (!s->shard.count) return;
  double seconds = 1e-6 * (double)s->shares.own[number_of(s, batch, n)];
  printf("%9.3f s  ", seconds);
}

static int cells_of(const kv_job *s) {
  int n = 0;
  for (int i = 0; i < s->shares.traces; i++)
    n += kv_shares_count(&s->shares, i, s->shard.index);
  return n;
}

/* Describes the shard: "shard 2 of 4: 37 of 148 cells". */
static void describe(const kv_job *s, size_t room, char *out) {
  const kv_shares *all = &s->shares;
  double mine = (double)all->cost[s->shard.index - 1], sum = 0;
  for (int i = 0; i < all->shards; i++) sum += (double)all->cost[i];
  snprintf(out, room,
           "shard %d of %d (cut %s): %d of %d cells, predicted %.3f s of "
           "processor time, %.1f %% of the total for all shards; a single "
           "process needs %.3f s",
           s->shard.index, s->shard.count, all->name, cells_of(s), all->cells,
           1e-6 * mine, sum > 0 ? 100 * mine / sum : 0.0,
           1e-6 * (double)all->alone);
}

void kv_job_print_shard(const kv_job *s) {
  char text[320];
  if (!s->shard.count) return;
  describe(s, sizeof text, text);
  puts(text);
}

void kv_job_say_shard(const kv_job *s) {
  char text[320];
  if (!s->shard.count) return;
  if (cells_of(s) == 0)
    snprintf(text, sizeof text,
             "shard %d of %d has nothing to run; there are only %d cells",
             s->shard.index, s->shard.count, s->shares.cells);
  else if (s->options->quiet)
    return;
  else
    describe(s, sizeof text, text);
  kv_note(text);
}

bool kv_job_shared(const kv_job *s) {
  int can = 0;
  for (int i = 0; i < s->shares.shards; i++) can += s->shares.can[i];
  return can > 0;
}
