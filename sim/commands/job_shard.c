/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that has one shard of the cells: sim/commands/job.h.
 */
#include "sim/commands/job.h"

#include "sim/commands/commands.h"

kv_rc kv_job_cut(kv_job *s, const kv_replay_how *how, kv_shard shard,
                 kv_err *e) {
  kv_batch_ask ask = kv_job_ask(s, how, 0);
  s->shard = shard;
  return kv_shares_open(&ask, s->options->traces.n, s->options->traces.item,
                        shard.count, &s->shares, e);
}

/* The cell's number in the sweep. */
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

/* "shard 2 of 4: 37 of 148 cells": what there is to say of a shard. */
static void describe(const kv_job *s, size_t room, char *out) {
  const kv_shares *all = &s->shares;
  double mine = (double)all->cost[s->shard.index - 1], sum = 0;
  for (int i = 0; i < all->shards; i++) sum += (double)all->cost[i];
  snprintf(out, room,
           "shard %d of %d (cut %s): %d of %d cells, predicted %.3f s of "
           "processor time, %.1f %% of what all shards take; one process alone "
           "takes %.3f s",
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
             "shard %d of %d has nothing to run: there are %d cells",
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
