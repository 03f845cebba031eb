/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands that replay cells share: sim/job.h.
 */
#include "sim/job.h"

#include "sim/signal.h"
#include "sim/verbs.h"
#include <omp.h>
#include <stdlib.h>

/* --- life --------------------------------------------------------------- */

kv_rc kv_job_start(const kv_cells_options *options, bool db, int argc,
                   char **argv, kv_job *s, kv_err *e) {
  *s = (kv_job){.options = options};
  kv_rc rc = kv_verb_kernels(&s->kernels, e);
  if (rc) return rc;
  kv_environment_look(s->kernels->name, argc, argv, &s->environment);
  return options->db && db ? kv_db_open(options->db, &s->db, e) : KV_OK;
}

static void probing(void *self, const char *method, int n, int most,
                    int64_t units) {
  kv_job *s = self;
  snprintf(s->searching, sizeof s->searching,
           "budget of %.30s: probe %d of at most %d", method, n, most);
  if (n == 1) kv_progress_next(&s->progress, units * most);
}

kv_rc kv_job_open(kv_job *s, const kv_replay_how *how, kv_err *e) {
  const kv_list *traces = &s->options->traces;
  s->batch = kv_zalloc((size_t)traces->n, sizeof *s->batch);
  if (!s->batch)
    return kv_no_memory(e, "traces", (size_t)traces->n * sizeof *s->batch);
  kv_rc rc = KV_OK;
  kv_progress_start(&s->progress, stderr, s->searching, KV_REPLAY_UNIT, 1,
                    s->options->quiet);
  for (int i = 0; !rc && i < traces->n; i++)
    rc = kv_batch_open(&(kv_batch_ask){.path = traces->item[i],
                                       .specs = &s->options->specs,
                                       .budgets = &s->options->budgets,
                                       .prompt_len = s->options->prompt_len,
                                       .how = *how,
                                       .db = s->db,
                                       .probing = probing},
                       &s->batch[i], e);
  kv_progress_end(&s->progress);
  return rc;
}

void kv_job_close(kv_job *s) {
  for (int i = 0; s->batch && i < s->options->traces.n; i++)
    kv_batch_close(&s->batch[i]);
  free(s->batch);
  kv_db_close(s->db);
}

/* --- replaying ---------------------------------------------------------- */

static void tick(void *self, int64_t units) {
  kv_job *s = self;
  kv_progress_add(&s->progress, units);
}

kv_replay_how kv_job_how(kv_job *s, const kv_backend *backend) {
  int jobs = s->options->jobs;
  return (kv_replay_how){.backend = backend,
                         .kernels = s->kernels,
                         .threads = jobs ? jobs : omp_get_num_procs(),
                         .tick = tick,
                         .self = s,
                         .stop = kv_interrupted};
}

int64_t kv_job_units(const kv_job *s) {
  int64_t n = 0;
  for (int i = 0; i < s->options->traces.n; i++)
    n += kv_replay_units(s->batch[i].trace, 0);
  return n;
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
                   .shape = &b->trace->shape,
                   .path = s->options->traces.item[i]};
  return s->db ? kv_db_put_trace(s->db, &t, e) : KV_OK;
}

kv_rc kv_job_put(kv_job *s, const kv_result *r, bool quiet, kv_err *e) {
  kv_err why = {0};
  kv_rc rc = s->db ? kv_db_put(s->db, r, &s->environment, &why) : KV_OK;
  if (rc && rc != KV_DIFFERENT) return kv_fail(e, rc, "%s", why.text);
  if (rc && !quiet) kv_job_differ(s, &why);
  return KV_OK;
}
