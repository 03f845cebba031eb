# SPDX-License-Identifier: Apache-2.0
#
# Shards: cells lost, dealt twice or dealt differently by two machines;
# environments misread. The format is list.sh's.
mutant shard_counts_from_nought sim/run/sweep/shard.c 'shard check_shards.sh' \
  'out->shard = at / step + 1;' 'out->shard = at / step;'
mutant shard_forgets_first sim/run/sweep/shard.c 'shard check_shards.sh' \
  'if (!rc) rc = number(lookup, s->first, &first, e);' ''
mutant shard_believes_count sim/run/sweep/shard.c 'shard check_shards.sh' \
  'if (s[i].count && s[i].count != n)' 'if (s[i].count && s[i].count < n - 99)'
mutant shard_takes_first_source sim/run/sweep/shard.c 'shard check_shards.sh' \
  'if (s[i].shard != s[0].shard)' 'if (s[i].shard > n)'
mutant shard_alone_speaks sim/run/sweep/shard.c 'shard check_shards.sh' \
  'heard = drop_alone(n, heard, s);' ''
mutant shard_one_file sim/cli/command_run.c 'check_shards.sh' \
  'if (o->shards && !kv_shard_distinct(o->cells.db))' 'if (0)'
mutant shard_past_last sim/run/sweep/shard.c 'shard check_shards.sh' \
  'if (i == 0 || i > n)' 'if (i == 0)'
mutant cut_loses_refused sim/run/sweep/batch.c 'shard check_shards.sh' \
  'if (kv_batch_mine(ask, cell++)) rc = add(ask, b, spec, budget, e);' \
  'if (kv_batch_mine(ask, cell)) rc = add(ask, b, spec, budget, e);'
mutant cut_shares_nothing sim/run/sweep/cut.c 'shard' \
  'if (k->paid[s] < 0) return k->shared[c->trace] + c->shared + c->own;' \
  'if (k->paid[s] < 0) return c->shared + c->own;'
mutant cut_pays_again sim/run/sweep/cut.c 'shard' \
  'if ((k->paid[s] >= 0) == paid && k->cost[s] + added(k, c, s) <= limit)' \
  'if (paid && k->cost[s] + added(k, c, s) <= limit)'
mutant cut_any_limit sim/run/sweep/cut.c 'shard' \
  'while (high - low > high / FINE + 1) {' \
  'while (high < low) {'
mutant cut_never_mixed sim/run/sweep/cut.c 'shard' \
  'if (mixed - sorted > sorted / SLACK) rc = sort(k, e);' \
  'mixed = INT64_MAX, rc = sort(k, e);'
mutant cut_always_mixed sim/run/sweep/cut.c 'shard' \
  'enum { FINE = 4096, SLACK = 128 };' 'enum { FINE = 4096, SLACK = 1 };'
mutant cut_asks_kernels sim/run/sweep/shares.c 'shard' \
  'int64_t mine = kv_effort_cost(&own);' \
  'int64_t mine = kv_effort_cost(&own) + p->ask->how.kernels->name[0];'
mutant cut_by_command_line sim/run/sweep/shares.c 'shard' \
  'int c = strcmp(x->path, y->path);' 'int c = 0;'
mutant effort_overflows sim/run/sweep/effort.c 'budget' \
  'return b > 0 && a > INT64_MAX / b ? INT64_MAX : a * b;' \
  'return (int64_t)((uint64_t)a * (uint64_t)b >> 1);'
mutant effort_dense_ranks sim/run/sweep/effort.c 'budget' \
  'if (!s.as_dense)' 'if (s.as_dense)'
mutant effort_forgets_budget sim/run/sweep/effort.c 'budget' \
  's->budget = entries >= 0 ? entries : shape->n_tokens;' \
  's->budget = shape->n_tokens;'
mutant shard_empty_fails sim/cli/command_run.c 'check_shards.sh' \
  '= !s->ran && !kv_job_shared(&s->of)' '= !s->ran'
