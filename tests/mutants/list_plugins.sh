# SPDX-License-Identifier: Apache-2.0
#
# Mutants of what stands between a plugin and the rest (see list.sh).

mutant hook_mode_kept ref/backend/backend.c 'cases/plugins.cases' \
  'kv_float_ground();
  if (l->fault.rc) return;' 'if (l->fault.rc) return;'
mutant hook_mode_silent ref/backend/backend.c 'cases/plugins.cases' \
  'if (l->fault.rc) return;' 'if (l) return;'
mutant open_mode_kept sim/replay/engine/cell.c 'cases/plugins.cases' \
  'if (!mode) return rc ?' 'if (mode || !mode) return rc ?'
mutant load_mode_kept sim/ask/door.c 'cases/plugins.cases' \
  'fesetenv(&own);' '(void)own;'
mutant load_mode_unseen sim/run/laws/law_guest.c 'cases/plugins.cases' \
  'kv_door_mode(kv_fence_inner());' 'NULL;'
mutant x87_kept ref/ground/float.c 'arith' \
  'uint16_t word = (uint16_t)(to >> X87);' \
  'uint16_t word;
  __asm__ volatile("fnstcw %0" : "=m"(word));'
mutant load_without_trial sim/ask/door.c 'cases/plugins.cases' \
  'kv_rc rc = door_try(file, name, e);' 'kv_rc rc = KV_OK;'
mutant takes_end_unseen sim/run/laws/fence_take.c 'check_lawcheck.sh' \
  'if (after + bad < to) broken(t, after + bad, to);' '(void)to;'
mutant takes_all_alike sim/run/laws/fence_take.c 'check_lawcheck.sh' \
  'return (unsigned char)(turn >> 24);' 'return 0;'
mutant takes_rest_unseen sim/run/laws/fence_take.c 'check_lawcheck.sh' \
  'if (now.whole && now.next + bad < top) broken' 'if (0) broken'
mutant shown_rows_unseen sim/run/laws/fence_guard.c 'check_lawcheck.sh' \
  'if (rows && rows_of(at, rows) != shown)' 'if (0)'
mutant other_lanes_unseen sim/run/laws/fence_guard.c 'check_lawcheck.sh' \
  'else if (changed(k, false) || entries_of' 'else if (0 && entries_of'
mutant places_beyond_unseen sim/run/laws/fence_lane.c 'check_lawcheck.sh' \
  '(l->shape->n_tokens + KV_BEYOND - n)' '(l->shape->n_tokens - n)'
mutant forks_unseen sim/run/laws/lawcheck.c 'check_lawcheck.sh' \
  'pthread_atfork(kv_fence_forks, NULL, NULL);' ''
mutant orphans_left ref/ground/child.c 'check_lawcheck.sh' \
  'if (c->adopts) out->left = end_orphans();' ''
mutant process_stays_put sim/run/laws/lawcheck.c 'check_lawcheck.sh' \
  'if (t->elsewhere) move_away();' ''
mutant anything_is_near ref/ground/text.c 'spec' \
  '3 * edits <= length + 1' 'edits <= 1 + length / 3'

# The knob that -b sets.
mutant knob_less_is_more sim/ask/knob.c 'check_knob.sh' \
  'if (p->knob == KV_KNOB_LESS) at = places - place;' ''
mutant knob_typed_is_lost sim/ask/knob.c 'check_knob.sh' \
  'return kv_budget_in_bytes(b) && !s->given[p - s->method->params];' \
  'return kv_budget_in_bytes(b);'
mutant knob_second_too ref/lane/compose.c 'check_knob.sh' \
  'if (has_knob(x->part[0]->params)) p->knob = KV_NO_KNOB;' \
  'if (has_knob(x->part[1]->params)) p->knob = KV_NO_KNOB;'
mutant knob_of_a_plugin sim/ask/door.c 'check_knob.sh' \
  'return wrong_knob(m, p);' 'return NULL;'

# A method with a file.
mutant asset_unfenced sim/run/laws/fence_guard.c 'check_reads.sh' \
  'if (lent_of(at) != lent)' 'if (0)'
mutant beside_written_over sim/cli/options_cells.c 'check_reads.sh' \
  'if (*path[t]) in[(*n)++]' 'if (0) in[(*n)++]'
mutant asset_rewritten_unseen traces/decisions/asset.c 'assets' \
  'if (!rc) rc = kv_st_damaged(files, e);' ''
mutant asset_of_any_model traces/decisions/asset_beside.c 'beside' \
  '? SAME : OTHERS;' '? SAME : NAMED;'
mutant asset_by_half_a_digest traces/decisions/asset_beside.c 'beside' \
  " && (!at[n] || at[n] == ' ')" ''
mutant asset_by_name_anywhere traces/decisions/asset_beside.c 'beside' \
  'if (named || is == SAME) offer' 'offer'
mutant asset_first_of_two traces/decisions/asset_beside.c 'beside' \
  'if (*s->second)' 'if (0)'
mutant file_not_in_code sim/ask/door.c 'check_reads.sh' \
  'for (int i = 0; i < n; i++) {' 'for (int i = 0; i < 0; i++) {'

# Scores of a file, thresholds, and a method's second file.
mutant score_of_other_head ref/parts/scorers.h 'methods' \
  '->data)[kv_head * n + id] : KV_UNSCORED' '->data)[id] : KV_UNSCORED'
mutant scores_of_any_trace ref/parts/scorers.c 'methods' \
  'if (a->of_trace) return KV_OK;' 'if (a) return KV_OK;'
mutant scores_too_few ref/parts/scorers.c 'methods' \
  'int least = prompt ? s->prompt_len : s->n_tokens;' \
  'int least = s->prompt_len;'
mutant threshold_unheard ref/parts/scorers.h 'methods' \
  'return !(score < threshold);' 'return !(score < threshold) || score > 0;'
mutant threshold_needs_excess ref/parts/scorers.h 'methods' \
  'return entries > budget || threshold == threshold;' \
  'return entries > budget;'
mutant second_file_first ref/lane/assets.c 'check_python.sh' \
  'kv_tensor *all = (kv_tensor *)(uintptr_t)own->asset.tensor + at;' \
  'kv_tensor *all = (kv_tensor *)(uintptr_t)own->asset.tensor + 0 * at;'
mutant no_reader_unseen sim/replay/engine/cell.c 'core' \
  'if (reads && reads->asset_open && reads->asset_beside) return KV_OK;' \
  'if (i >= 0) return KV_OK;'
mutant second_file_unnamed sim/ask/door.c 'check_python.sh' \
  'for (int i = 0; i < n; i++) {' 'for (int i = 0; i < 1; i++) {'
mutant files_of_the_first ref/lane/compose.c 'assets' \
  'if (c.at.asset) c.at.asset += x->asset[i];' '(void)x;'
mutant chunks_of_any_plugin sim/replay/engine/cell.c 'cases/plugins.cases' \
  'if (!c->plan.needs.chunks)' 'if (c->plan.needs.chunks == 77)'
