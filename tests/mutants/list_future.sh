# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Faults in the knowledge of future rows, in the oracle that uses it, and in the
# comparison of methods with baselines.
mutant future_of_questions ref/backend/future.c 'segments' \
  'if (!is_asked(f->plan, from)) t[rows++] = from;' 't[rows++] = from;'
mutant future_past_window ref/backend/future.c 'segments' \
  'int first = kv_layer_first(l->data, t), n = t + 1 - first;' \
  'int first = 0, n = t + 1 - first;'
mutant future_without_sink ref/backend/future.c 'segments' \
  'kv_layer_sink(l->data, l->first_head + h), s + first,' 'NULL, s + first,'
mutant future_stays ref/backend/future.c 'segments methods' \
  'count_rows(f, x, l, from, l->step, false);' ''
mutant future_of_layer_above ref/backend/future.c 'segments' \
  'f->lane[i].step = -1;' '(void)f->lane[i].step;'
mutant future_once_on_device gpu/host/step.c 'check_backends.sh' \
  'if (due) foresee(s);' ''
mutant baseline_by_place ref/methods/oracle_evict.c 'methods' \
  'lane->future[lane->id[i]]' 'lane->future[i]'
mutant baseline_drops_low ref/methods/oracle_evict.c 'methods' \
  'kv_scores(sum, n, score);' 'for (int i = 0; i < n; i++) score[i] = 0;'
mutant gap_to_any_baseline analysis/sql/views.sql 'check_gap.sh' \
  "THEN 'oracle-topp' ELSE 'oracle-topk' END" \
  "THEN 'oracle-topk' ELSE 'oracle-topk' END"
mutant gap_off_the_line analysis/sql/views.sql 'check_gap.sh' \
  'l.mass + (h.mass - l.mass) * coalesce(' 'l.mass + 0 * coalesce('

# Prompts that are read in chunks.
mutant chunk_mean_is_last ref/parts/filter.c 'methods' \
  'q[j] = kv_add(q[j], row[j]);' 'q[j] = row[j];'
mutant chunk_of_all_heads ref/parts/filter.c 'methods' \
  'most = x > most ? x : most;' 'most += x;'
mutant chunk_competes ref/methods/omnikv.h 'methods' \
  'kv_chunk_first(s, step) - o->recent, o->k}' 'step - o->recent, o->k}'
mutant chunk_competes_coded ref/methods/deltakv.h 'methods' \
  'chunk ? kv_chunk_first(s, step) : step - 1' 'step - 1'
mutant chunk_top_of_steps ref/methods/deltakv.h 'methods' \
  'chunk && o->prompt_top > 0' 'chunk && o->prompt_top < 0'
mutant chunk_sums_over_values ref/methods/deltakv.h 'methods' \
  'VALUES + n * sizeof(float) + 7' 'VALUES + 7'
mutant chunk_rows_whole sim/replay/engine/layer.c 'cases/chunked.cases' \
  'for (int t = first; t < p && !unwanted(team); t++)
    prompt_row(l, n, l->chunked, t, team);' \
  'for (int t = first; t < p; t += size)
    for (int i = 0; i < n; i++)
      kv_layer_block(l, l->chunked[i], t, size < p - t ? size : p - t, team);'
mutant chunks_of_another_size sim/replay/engine/layer.c \
  'cases/chunked.cases' \
  'shape.chunk == size)' 'shape.chunk)'
mutant chunk_row_measured_late sim/replay/measure/fidelity_prompt.c \
  'cases/chunked.cases' '(double)r.visible);' '(double)r.n + 1);'
mutant chunk_outputs_unhashed ref/backend/backend.c 'cases/chunked.cases' \
  'if (kv_row_attends(shape, step))' 'if (step > shape->prompt_len)'
mutant device_chunk_sum gpu/parts/filter.cuh 'cases/chunked.cases' \
  'rows.first == begin && j < all' 'rows.first < 0 && j < all'
mutant dense_of_each_run analysis/sql/runs.sql 'cases/prompts.cases' \
  'GROUP BY identity, prompt_len, observe, arithmetic;' 'GROUP BY run_id;'
mutant whole_of_any_params analysis/sql/prompts.sql 'cases/prompts.cases' \
  'AND w.others = c.others' 'AND w.others IS NOT NULL'
mutant columns_stay_empty analysis/database/grid.c 'cases/prompts.cases' \
  'if (at < 0) return false;' 'if (at >= 0) return false;'
mutant run_columns_stay sim/cli/show/row_table.c 'cases/prompts.cases' \
  '(!needs || filled(f, c))' '(!needs || c)'
