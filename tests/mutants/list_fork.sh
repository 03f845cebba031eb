# SPDX-License-Identifier: Apache-2.0
#
# Forks of a session: what is not copied, or shared and must not be; and what a
# program says that stays. The format is list.sh's.
mutant fork_forgets_columns ref/lane/lane.c 'session_fork' \
  'for (int c = 0; c < from->needs->columns; c++)' 'for (int c = 0; c < 0; c++)'
mutant fork_forgets_state ref/lane/lane.c 'session_fork' \
  'if (memcmp(from + at, zeros, m) != 0)' 'if (at && *zeros)'
mutant fork_forgets_rewrites ref/lane/lane.c 'session_fork' \
  'to->rewrites = from->rewrites;' ''
mutant fork_forgets_bytes ref/lane/lane.c 'session_fork' \
  'to->bytes = from->bytes;' ''
mutant fork_forgets_leaves ref/backend/backend.c 'session_fork' \
  'to->leaves = from->leaves;' ''
mutant fork_forgets_messages sim/replay/engine/messages.c 'session_fork' \
  'if (from->said[n].data) kv_messages_put(to, n, &from->said[n]);' '(void)to;'
mutant fork_forgets_ledger sim/run/session/session.c 'session_fork' \
  'kv_cost_copy(s->cell.cost, to->cell.cost);' ''
mutant fork_forgets_queries sim/run/session/session.c 'session_fork' \
  'if (f->entered >= p->prompt_len || have <= 0) return;' 'return;'
mutant fork_forgets_views sim/run/session/session.c 'session_fork' \
  'memcpy(to->id + at, f->id + at, ids * sizeof *f->id);' '(void)ids;'
mutant fork_believes_a_plugin sim/run/session/session.c 'session_fork' \
  '!kv_needs_unlike(&s->cell.plan.needs, &to->cell.plan.needs)' 'true'
mutant fork_frees_the_file ref/lane/assets.c 'session_fork' \
  'atomic_fetch_add(&((kv_asset_own *)a)->more, 1);' ''
mutant fork_forgets_what_stays sim/run/session/session.c 'session_fork' \
  'if (s->given) kv_given_copy(s->given, to->given);' ''
mutant fork_forgets_who_was_told sim/run/session/session.c 'session_fork' \
  'return told == s->lanes ? kv_session_enter(s, f, e) : KV_OK;' 'return KV_OK;'
# Prompts that a session reads in chunks.
mutant session_chunks_are_blocks sim/run/session/session_feed.c \
  'session' \
  'if (kv_row_attends(&s->cell.shape, f->arrived + 1)) {' \
  'if (kv_row_attends(&s->cell.shape, 1)) {'
mutant session_gives_one_head sim/run/session/session.c 'session' \
  's->row_out && h < x->queries' 's->row_out && h < 1'
mutant session_reads_within_chunks sim/run/session/session_feed.c \
  'session' \
  'chunk && step < p && step % chunk' 'chunk < 0 && step < p && step % chunk'
