# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Faults of methods that weigh how a token is stored, and of kernels over rows
# as they are stored.
mutant top_code_is_signed ref/kernels/coded.h 'coded' \
  'if (at + bits == 32) return v_from_int(vi_down(word, at));' ''
mutant unit_of_lowest_plane ref/kernels/coded.h 'coded' \
  'code_unit(t.bits, 8 * b + shift)' 'code_unit(t.bits, 8 * b)'
mutant minima_after_first_run ref/kernels/coded.h 'coded' \
  'int run = h < of->runs ? h : h - of->runs;' 'int run = h % of->runs * 0;'
mutant carried_ranges_stay ref/kernels/coded.h 'coded' \
  'pack_ranges(of, c->row, c->range);' ''
mutant carried_past_the_last ref/kernels/coded.h 'coded' \
  'i < left ? i : left - 1' 'i'
mutant carried_on_itself ref/kernels/coded.h 'coded' \
  'const int there = first % KV_PACK,' 'const int there = lane,'
mutant page_not_full_yet ref/ground/large.c 'large' \
  'kv_large_written((void *)(now - KV_LARGE_PAGE), KV_LARGE_PAGE);' \
  'kv_large_written((void *)now, KV_LARGE_PAGE);'
mutant page_begun_is_taken ref/ground/large.c 'large' \
  'uintptr_t a = page_up(block), z = page_down((char *)block + bytes);' \
  'uintptr_t a = page_down(block), z = page_up((char *)block + bytes);'
mutant page_never_asked ref/ground/large.c 'large' \
  'if (now == before || now <' 'if (now >= before || now <'
mutant range_of_first_run ref/kernels/coded.h 'coded' \
  '(size_t)(x / of->run);' '(size_t)(0 * x / of->run);'
mutant range_of_first_plane ref/kernels/coded.h 'coded' \
  'run[runs > 1 ? h : 0]' 'run[0 * h]'
mutant upper_bits_stay ref/kernels/vec_run.h 'coded' \
  'if (at + bits < 8) a = vi_and(a, vi_one(code_mask(0, bits)));' ''
mutant search_runs_away ref/parts/votes.h 'methods' \
  'if (over > 0)' 'if (over < 0)'
mutant votes_uncounted ref/parts/votes.c 'methods' \
  'p->votes[p->place[i]]++;' 'p->votes[p->place[i]] = 1;'
mutant shipped_votes_are_causal ref/parts/votes.c 'methods' \
  'if (a->o->as_shipped) return n;' ''
mutant shipped_mass_is_of_the_best ref/parts/votes.c 'methods' \
  '} else if (row.k < n) {' '}
  if (row.k < n) {'
mutant prefix_misses_ties ref/parts/votes.c 'cascade' \
  'int equals = ties ? m : equals_of(f, m, cut, above, target);' \
  'int equals = equals_of(f, m, cut, above, target);'
mutant prefix_takes_a_guess ref/parts/votes.c 'cascade' \
  'while (weigh(f, m, e) < target && m < n) {' \
  'while (weigh(f, m, e) < target - 64 && m < n) {'
mutant pairs_of_equals ref/parts/cascade.c 'cascade methods' \
  '  order_rising(m, goes, a, spare);' '  kv_order(a, m, goes, spare);'
mutant pair_weighs_once ref/parts/cascade.c 'cascade' \
  'a[into] = kv_add(a[into], a[from]);' ''
mutant hidden_comes_back ref/parts/cascade.c 'methods' \
  'if (c->as_shipped || kv_class_of(lane, i) == READ) entry[n++] = i;' \
  'entry[n++] = i;'
mutant hidden_is_not_told ref/parts/cascade.c 'methods' \
  '  kv_retier(x->lane, n, list, to);' \
  '  if (to == READ) kv_retier(x->lane, n, list, to);'
mutant view_reads_hidden ref/parts/cascade.c 'methods' \
  'in[i] = kv_class_of(lane, i) == READ;' 'in[i] = true;'
mutant candidate_is_not_judged ref/methods/leankv.h 'methods' \
  'int of = kv_lean_tier(tiers, floor, score[c], 0);' 'int of = 0;'
mutant low_one_goes_unasked ref/methods/leankv.h 'methods' \
  'floor[t] && (l < 0 || score[x] < score[l])) continue;' 'floor[t]) continue;'
mutant next_one_goes_unasked ref/methods/leankv.h 'methods' \
  'if (l < 0 || score[l] >= floor[t]) return d;' 'if (l < 0) return d;'
mutant middle_moves_one ref/methods/leankv.h 'methods' \
  'if (to > of) kv_lean_move(&d, v, to);' \
  'if (to > of && !of) kv_lean_move(&d, v, to);'
mutant weights_of_high_tier ref/parts/tiers.h 'methods' \
  'weights[a->weight[tier]]' 'weights[0]'
mutant weights_of_first_layer ref/parts/tiers.h 'methods' \
  '(layer * s->n_kv_heads + kv_head)' 'kv_head'
mutant one_tier_of_upper_alpha ref/parts/tiers.c 'methods' \
  't->last[t->n - 1] = asked;' ''
mutant three_tiers_in_pages gpu/host/tiers.c 'gpu_tiers' \
  'need->tiers <= KV_TIERS &&' ''
mutant gap_forgotten ref/parts/received.h 'methods' \
  'return queries > 0' 'return queries < 0'
mutant alike_coded_again ref/parts/tiers.c 'golden.sh' \
  'bool stays = t->coding' 'bool stays = false && t->coding'
mutant rewrite_turns_round ref/parts/cascade.c 'methods' \
  '  kv_keep_mask(x->lane, keep);' \
  '  int n = 0;
  for (int i = x->lane->n; i-- > 0;)
    if (keep[i]) x->p->spare[n++] = i;
  kv_keep(x->lane, n, x->p->spare);'
mutant every_other_trigger ref/methods/hardkv.c 'methods' \
  'needs->every = o->every;' 'needs->every = 2 * o->every;'
mutant p_of_nothing ref/methods/hardkv.h 'methods' \
  '"0.9", 1e-6, 1,' '"0.9", 0, 1,'
mutant redundant_among_all ref/parts/votes.c 'methods' \
  'p.repeated = o->redundant == KV_REDUNDANT_READ' \
  'p.repeated = o->redundant < 0'
mutant shipped_bisects ref/methods/hardkv.c 'methods' \
  'o->variant == CODE ? KV_CALIBRATE_GRADIENT' \
  'o->variant < 0 ? KV_CALIBRATE_GRADIENT'
mutant shares_rounded_down ref/ground/number.c 'methods' \
  'rint(x * KV_SHARE_ONE)' 'floor(x * KV_SHARE_ONE)'
mutant full_layers_of_64_scaled ref/parts/parts_layers.c 'methods' \
  'n_layers == 64' 'n_layers == 63'
mutant masked_keys_are_compared gpu/parts/similar.cuh 'check_backends.sh' \
  'bool counts = Rule::counts(at, lane, i);' 'bool counts = true;'
mutant fallen_past_the_end ref/kernels/elements.h 'sums' \
  'v_keep_sum(x, -87.0f, v_bits(lost), vi_one(0))' 'lost'
# The law that all budgets share, and a bound in a method's table of laws.
mutant budget_not_asked ref/parts/parts.c 'methods' \
  'if (budget != KV_UNSET) return KV_OK;' 'if (method) return KV_OK;'
mutant one_more_stays ref/parts/scorers.h 'methods' \
  'return entries > budget || threshold' \
  'return entries > budget + 1 || threshold'

# Layers with a sliding window.
mutant window_keeps_one_more sim/replay/engine/cell_windows.c \
  'cases/variants.cases' \
  '.budget = w > 1 ? w - 1 : 1' '.budget = w > 1 ? w : 1'
mutant window_truth_one_more ref/ground/shape.h \
  'cases/variants.cases' \
  't - data->window + 1 : 0' 't - data->window : 0'
mutant window_position_charged ref/lane/bytes.c \
  'cases/variants.cases' \
  'places && run_of_window(l) ? 0 : places' 'places'
mutant window_chunks_from_zero sim/replay/measure/tile.c \
  'cases/variants.cases' \
  'v.row += (size_t)first * v.size;' 'v.row += 0 * v.size;'
# A cap on logits, sinks, and a V that is part of K.
mutant votes_without_cap gpu/parts/votes.cuh 'cases/variants.cases' \
  'l.shape.scale, l.shape.softcap);' 'l.shape.scale, 0);'
mutant device_cap_forgotten gpu/backend/cap.cu 'cases/variants.cases' \
  'if (l->shape.softcap > 0)' 'if (l->shape.softcap < 0)'
mutant bias_under_the_cap gpu/lane/logits.cuh 'cases/variants.cases' \
  'return l.shape.softcap > 0 ? 0 : ' 'return '
mutant masked_without_sink gpu/methods/h2o.cu 'cases/variants.cases' \
  'if (sink) mass +=' 'if (!sink) mass +='
mutant sinks_not_carried traces/trace/convert.c 'cases/variants.cases' \
  '|| !strcmp(part, "sinks")' '|| !strcmp(part, "sums")'
# A smaller trace.
mutant slim_a_row_early traces/trace/keep.c 'traces/check_slim.sh' \
  '? prompt_len - keep->last : 0' '? prompt_len - keep->last - 1 : 0'
mutant slim_first_rows traces/trace/slim.c 'traces/check_slim.sh' \
  '(const char *)x->data + h * head + gone' '(const char *)x->data + h * head'
mutant slim_sums_of_one_head traces/trace/slim.c 'traces/check_slim.sh' \
  'data_of(w->s, i), g, w->kernel' 'data_of(w->s, i), 0 * g, w->kernel'
mutant plan_without_sums traces/trace/plan.c 'traces/check_slim.sh' \
  'rows_from(p, l, 0) == n' 'rows_from(p, l, 0) != n'
mutant plan_of_the_first traces/trace/plan.c 'traces/check_slim.sh' \
  '.outputs = x->o != NULL,' '.outputs = true,'
mutant plan_many_heads traces/trace/config.c 'traces/check_slim.sh' \
  'return x ? json_is_true(x) : usual;' 'return usual;'
mutant windowed_by_others traces/trace/synth_row.c 'synth' \
  'x->turn[other]' 'x->turn[0 * other]'
mutant value_charged_twice ref/lane/bytes.c 'cases/variants.cases' \
  'return k == v ? kv_lane_shared(l, k) : 0;' 'return 0 * (k + v);'
mutant session_held_is_raw sim/run/session/session_feed.c 'session' \
  'kv_lane_value(l, i, v + ' 'kv_lane_value(l, 0, v + '
mutant session_held_in_part sim/run/session/session_feed.c 'session' \
  'part = part || n->meta[i].scanned;' '(void)i;'

# Methods within a sliding window.
mutant slides_one_late ref/backend/backend.c 'cases/windowed.cases' \
  'from = l->step - w + 1' 'from = l->step - w'
mutant slid_rows_stay ref/backend/backend.c 'cases/windowed.cases' \
  'move_rows(s, l, l->n, m, list);' ''
mutant observed_past_the_window ref/backend/observation.c \
  'cases/windowed.cases' \
  'uint32_t from = (uint32_t)kv_layer_first(l->data, t);' 'uint32_t from = 0;'
mutant device_sees_past_the_window gpu/backend/slide.cu \
  'cases/windowed.cases' 's[i] = -FLT_MAX;' 's[i] = s[i];'
mutant device_rows_stay gpu/backend/slide.cu 'cases/windowed.cases' \
  'int64_t own = i < m ? row[list[i]] : 0;' 'int64_t own = row[i];'
mutant spread_past_the_window ref/parts/grow.h 'cases/windowed.cases' \
  'seen >= window ? window - 1 : seen' 'seen < 0 ? window - 1 : seen'
mutant session_sees_past_the_window sim/run/session/session_feed.c 'session' \
  'from = kv_layer_first(l->data, t);' 'from = 0 * t;'
mutant session_without_sinks sim/run/session/session_feed.c 'session' \
  's->attend.sink = kv_layer_sink(l->data, l->first_head);' ''
mutant share_of_the_prompt sim/replay/engine/cell_windows.c \
  'cases/windowed.cases' '&& w && w < p ? w : p' '&& w > p ? w : p'
mutant peak_of_unseen sim/replay/engine/layer.c 'cases/windowed.cases' \
  'if (l->data->window)' 'if (0)'
mutant windowed_layer_chooses ref/parts/parts_layers.c \
  'cases/windowed.cases' 'list_by(filters_of, shape, out)' \
  'filters_of(shape->n_layers, out)'
