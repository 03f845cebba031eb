# SPDX-License-Identifier: Apache-2.0
#
# The mutants: sourced by run.sh, one call each.
#
#   mutant NAME FILE 'CHECK...' 'OLD TEXT' 'NEW TEXT'
#
# seeds one fault: OLD, which stands in FILE exactly once, becomes NEW (OLD
# empty: NEW becomes the first line). Every CHECK named must fail then. CHECK:
# x for tests/check_x, else a script of tests/. `also FILE OLD NEW` is a
# further edit of the mutant before it.

# Arithmetic: seen in digests of full mantissas only.
mutant observation_divides ref/backend/attend.c 'golden.sh' \
  'kernel->scale(1.0f / kv_unfix(mass), n, p);' \
  'for (int j = 0; j < n; j++) p[j] = p[j] / kv_unfix(mass);'
mutant merge_fuses_product ref/lane/verbs.c 'golden.sh' \
  'into[x] = kv_fma(a, into[x], b * from[x]) / den;' \
  'into[x] = kv_fma(b, from[x], a * into[x]) / den;'
mutant bound_fuses ref/kernels/logits.h 'kernels' \
  'a[v] = v_add(a[v], v_max(low, high));' \
  'a[v] = v_max(v_fma(one, vec_of(type, lo, at), a[v]),
                   v_fma(one, vec_of(type, hi, at), a[v])), (void)low,
      (void)high;'
mutant chunk_of_64 ref/backend/attend.h 'golden.sh' \
  'enum { KV_CHUNK = 128 };' 'enum { KV_CHUNK = 64 };'
mutant weigh_rounds ref/kernels/weigh.h 'golden.sh kernels' \
  'v_fma(one, b[v], a[r][v]);' 'v_add(v_mul(one, b[v]), a[r][v]);'
mutant weigh_tiles_overlap ref/kernels/weigh.h 'kernels' \
  'w.p += (size_t)rows * ldp;' 'w.p += (size_t)(rows - (i > 0)) * ldp;'
mutant fix_rows_overflow ref/kernels/elements.h 'sums' \
  'FIX_ROWS = 512' 'FIX_ROWS = 16384'
mutant exp_sums_overflow ref/kernels/elements.h 'sums' \
  'enum { SUMS = 32 };' 'enum { SUMS = 4096 };'
mutant exp_sum_coarse ref/kernels/elements.h 'sums kernels golden.sh' \
  'v_add(rest, v_one(FINE))' 'v_add(v_sub(p, p), v_one(FINE))'
mutant spoilt_logit_missed ref/kernels/elements.h 'sums' \
  'z[v] = v_spoil(x, z[v]);' 'z[v] = v ? v_spoil(x, z[v]) : z[v];'
mutant sums_of_unseen ref/backend/observation.c 'observation' \
  'memset(e + visible, 0, (size_t)(a->seen - visible) * sizeof *e);' ''
mutant sums_of_other_heads ref/backend/observation.c 'observation' \
  '(size_t)a->heads * x->stride, r, x->sum + at);' \
  'x->stride, r, x->sum + at);'
mutant logits_overwritten ref/backend/observation.c 'observation whims' \
  'a->want & (KV_P | KV_S) ? x->p : x->s' 'a->want & KV_P ? x->p : x->s'
mutant one_set_rounds ref/kernels/vec_avx2.h 'check_six_runs.sh kernels' \
  '_mm256_fmadd_ps(a, b, c)' '_mm256_add_ps(_mm256_mul_ps(a, b), c)'
case ${CC:-gcc} in
*clang*) ;; # knows no such pragma
*)
  mutant fast_math_codes ref/formats/minmax.c 'format' '' \
    '#pragma GCC optimize("unsafe-math-optimizations")'
  mutant fast_math_kernels ref/kernels/kernels.c 'kernels golden.sh' '' \
    '#pragma GCC optimize("unsafe-math-optimizations")'
  ;;
esac
# Where heads see different coded entries.
mutant made_of_last_head ref/backend/decode.c 'laws' \
  'for (int h = 0; h < l->queries; h++)
    for (int r = 0; r < x->view[h].runs; r++) {' \
  'for (int h = l->queries - 1; h < l->queries; h++)
    for (int r = 0; r < x->view[h].runs; r++) {'
mutant decoded_again ref/backend/attend.c 'laws' \
  'if (x->materialised.k && coded_key(l, i + n)) {' \
  'if (x->materialised.k && !l->n && coded_key(l, i + n)) {'
mutant device_made_one_off gpu/backend/materialise.cu 'laws' \
  'if (wanted[at / d_v])' 'if (wanted[at / d_v] && at >= d_v)'
# A chunk of the method's own.
mutant own_chunk_unweighed ref/backend/attend.c 'chunk' \
  'return more ? kv_max(best, more->m) : best;' '(void)more; return best;'
mutant device_own_chunk_late gpu/backend/join.cu 'chunk' \
  'a.all = kv_fma(w, more[1], a.all);' 'a.all = kv_add(a.all, more[1]);'
mutant own_chunk_lost_of_two ref/lane/compose.c 'chunk' \
  'whole->there |= c.there;' ''
mutant own_chunk_unchecked ref/backend/decode.c 'chunk' \
  'if (there && sound(c, d_v)) return;' 'if (there) return;'
mutant cut_at_first_tie sim/replay/measure/rank.c 'measures' \
  'if (w->value[i] == cut.least && equals-- > 0)' \
  'if (w->value[i] == cut.least && equals-- > 1)'
mutant bracket_trusted sim/replay/measure/rank.c 'measures' \
  'if (m < k) m = kernel->at_least(s, n, -INFINITY, w->value, w->token);' ''
mutant bracket_trusted_within sim/replay/measure/rank.c 'measures' \
  'k <= above || k > m || between == n' 'between == n'
mutant bracket_overwritten sim/replay/measure/rank.c 'measures' \
  'return nth_by_key(all, of, rank);' 'return nth_by_key(a, n, k);'
# Messages of layers.
mutant message_not_in_journal ref/backend/leaves.c 'down' \
  'if (said) add_message(&h, lane[0].step, said, bytes);' ''
mutant message_of_a_step_ago sim/replay/engine/order.c 'down' \
  'kv_messages_at(r->above, o->closing)' \
  'kv_messages_at(r->above, o->closing > 0 ? o->closing - 1 : 0)'
mutant down_resumed_in_parts sim/replay/engine/replay.c 'down' \
  'if (p->there[c * layers + i]) kv_cell_forget(p->all[c], i);' 'continue;'
mutant down_session_unordered sim/run/session/session_feed.c 'down' \
  'f[-1].arrived < step)' 'f[-1].arrived < 0)'
mutant down_compared_alone sim/run/compare/compare.c 'down' \
  'if (!rc && w->side[0].above) rc = walk_above(w, index, e);' ''
mutant device_message_unsent gpu/host/step.c 'down' \
  'sizeof head + (above ? bytes : 0));' 'sizeof head);'
mutant lse_without_log ref/backend/attend.c 'golden.sh' \
  'lse[head] = x->best[head] + kv_log(l);' \
  'lse[head] = x->best[head] + kv_log(l) * (l > 2);'
mutant recode_unrounded_scale ref/formats/rules.h 'golden.sh format' \
  'r.scale = kv_round_f16(kv_div(width, (float)((1 << c->bits) - 1)));' \
  'r.scale = kv_div(width, (float)((1 << c->bits) - 1));'
mutant named_rounded_scale ref/formats/minmax.c 'named' \
  'if (c->rule == KV_RULE_UNROUNDED) by = kv_minmax_unrounded(c, min, max);' ''
mutant absmax_no_subnormals ref/formats/rules.h 'named' \
  'uint32_t unit = (uint32_t)(127 + 24 - bias - m) << 23;' \
  'uint32_t unit = (uint32_t)(128 + 24 - bias - m) << 23;'
mutant atom_base_anywhere ref/formats/rules.h 'zeropoint' \
  'p.other = kv_code_clamp(c, kv_rint(kv_div(-min, p.scale)));' \
  'p.other = kv_rint(kv_div(-min, p.scale));'
mutant qserve_constant_run ref/formats/rules.h 'named' \
  'if (p.scale > 0) return p;' 'if (p.scale >= 0) return p;'
mutant names_both_of_keys sim/ask/short.c 'methods' \
  '*v = dash + 1;' '*v = name;'
mutant quant_codes_all ref/methods/quant.c 'methods' \
  'int end = lane->n - o->residual;' 'int end = lane->n;'
mutant class_not_in_state ref/lane/lane.c 'golden.sh' \
  '  if (classes) w[n++] = l->tier[i];' '  (void)classes;'
mutant merge_takes_class ref/lane/verbs.c 'verbs' \
  'l->dropped = true;
  check_mean' 'l->dropped = true;
  if (l->tier) l->tier[into] = l->tier[from];
  check_mean'
mutant sweep_forgets_tail ref/lane/verbs.c 'verbs' \
  'l->n -= l->marked;
  l->marked = l->tail = 0;' 'l->n -= l->marked;
  l->marked = 0;'
mutant merge_closes_at_once ref/lane/verbs.c 'verbs' \
  'note(l, into));
  mark(l, from);' 'note(l, into));
  mark(l, from), kv_sweep(l);'
mutant bias_forgotten ref/lane/lane.c 'golden.sh methods' \
  'return l->needs->merge_bias * kv_log((float)l->weight[i]);' 'return 0;'

# Selection.
mutant top_ties_reversed ref/parts/parts.c 'parts golden.sh' \
  'for (int i = 0; i < longest && equals > 0; i++)' \
  'for (int i = longest - 1; i >= 0 && equals > 0; i--)'
mutant argmin_ties ref/parts/parts.c 'parts' \
  'kv_key(score[i]) < kv_key(score[best])' \
  'kv_key(score[i]) <= kv_key(score[best])'
mutant top_p_one_short ref/parts/parts.c 'parts' \
  'if (*above + sum[next] >= target) break;' \
  'if (*above + sum[next] > target) break;'
mutant top_p_behind_nan ref/parts/parts.c 'parts' \
  's[kv_argmax(s, n, NULL)], n, e)' 'kernel->max(s, n), n, e)'
mutant group_skips_a_head ref/parts/parts.c 'golden.sh methods' \
  'for (int h = 0; h < rows->heads; h++) {
    int plane' 'for (int h = rows->heads > 1; h < rows->heads; h++) {
    int plane'
mutant view_without_last_page ref/methods/quest.c 'golden.sh methods' \
  'if (forced) in[pages - 1] = true;' 'if (forced) in[pages - 1] = false;'
mutant filter_of_one_head ref/parts/filter.c 'methods' \
  'best[i] = h ? kv_max(best[i], x[i]) : x[i];' \
  'best[i] = h ? best[i] : x[i];'
mutant wait_forgotten ref/methods/omnikv.h 'methods' \
  'layer - l->layer[i] <= o->wait' 'layer - l->layer[i] < o->wait'
mutant fetched_from_device sim/replay/measure/cost.c 'check_classes.sh' \
  'if (!(l->needs->host >> kv_class_of(l, i) & 1)) mark[i] = 0;' '(void)mark;'
mutant copy_rounds_down ref/methods/twilight.h 'methods' \
  'y = kv_rint(' 'y = (float)(int)('
mutant chunk_beyond_budget ref/methods/chunkkv.h 'methods' \
  'c.length > room) c.length = room > 0 ? room : 1;' \
  'room <= 0) c.length = 1;'
mutant first_stage_forgotten ref/methods/criticalkv.c 'methods' \
  'score[i] = in[i] ? kv_float(0x7f7fffffu) : kv_score_finite(by);' \
  'score[i] = kv_score_finite(by), (void)in;'
mutant cap_of_first_head ref/methods/headkv.h 'methods' \
  'h < group' 'h < 1'
mutant sinks_unseen sim/run/grade/ranked.c 'judge' \
  'x->first = (int)(x->flags - flags);' ''
mutant narrows_nothing ref/lane/compose.c 'methods' \
  'query.within = &first;' ''
mutant worst_page_first ref/kernels/logits.h 'kernels golden.sh' \
  'a[v] = v_add(a[v], v_max(low, high));' \
  'a[v] = v_sub(a[v], v_max(low, high));'
mutant seen_one_too_many ref/parts/parts.c 'methods golden.sh' \
  '(float)(step - (int)id[i])' '(float)(step + 1 - (int)id[i])'
mutant prefill_at_every_step ref/methods/tova.c 'methods' \
  'needs->every = every_step;' 'needs->every = 1;'

# A budget a layer.
mutant one_plan_for_all ref/backend/backend.c 'layers' \
  's->plan = kv_plan_of(s->opened, data->layer);' \
  's->plan = kv_plan_of(s->opened, 0);'
mutant list_by_recorded_layer sim/replay/engine/cell_layers.c 'layers' \
  'int layer = c->trace->layer[index].data.layer;' 'int layer = index;'
mutant recall_of_first_layer sim/replay/measure/fidelity_row.c 'layers' \
  'r->f->budget[r->layer]' 'r->f->budget[0]'
mutant lists_are_one_spec sim/ask/spec.c 'layers' \
  '(!a->layers || memcmp(' '(true || memcmp('
mutant layers_miss_their_sums sim/replay/engine/cell_layers.c 'colsum' \
  'c->layer[l].colsum = c->plan.colsum;' ''

# Observation.
mutant observation_sees_future ref/backend/observation.c 'golden.sh' \
  'visible = a->seen - (a->rows - 1 - i / a->heads);' \
  'visible = a->seen - (a->rows - 1 - i / a->heads) +
      (i / a->heads < a->rows - 1);'
mutant window_one_row_short ref/ground/chunk.h 'laws' \
  'int from = s->prompt_len - rows;' 'int from = s->prompt_len - rows + 1;'
mutant observation_always ref/backend/backend.c 'laws' \
  's->plan->needs.decode_rows &&' '1 &&'
mutant lengths_promised ref/methods/tova.c 'laws' \
  'needs->decode_rows = every_step;' \
  'needs->decode_rows = every_step, needs->lengths = true;'
mutant lengths_for_reads sim/run/sweep/search.c 'run' \
  '(!reads || !plan->method->view)' '1'

# Store, journal, ledger.
mutant keep_unrecorded ref/lane/verbs.c 'laws' \
  'size_t m = (size_t)(live - n);' \
  'size_t m = (size_t)(live - n), was = l->verbs.n;'
also ref/lane/verbs.c '  w[0] = (uint32_t)m;' \
  '  l->verbs.n = was, w[0] = (uint32_t)m;'
mutant merge_forgets_weight ref/lane/verbs.c 'laws' \
  'l->weight[into] += l->weight[from];' ''
mutant member_lost ref/lane/verbs.c 'laws' \
  'l->last[into] = l->last[from];' ''
mutant move_one_off ref/lane/verbs.c 'laws' \
  'l->room.list[i] = i == to ? from : next++;' \
  'l->room.list[i] = i == to + (to < from) ? from : next++;'
mutant positions_are_free ref/lane/bytes.c 'laws' \
  '(l->dropped ? 4 : 0) +' '0 +'
mutant group_dies_early ref/lane/verbs.c 'laws' \
  'if (--s->live[r->block] == 0)' 'if (--s->live[r->block] <= 1)'
mutant metadata_is_free ref/lane/bytes.c 'laws' \
  'sum->metadata += (int64_t)slab[f].bytes.metadata;' ''
mutant state_without_columns ref/lane/lane.c 'golden.sh' \
  'w[n++] = kv_bits_of(l->column[c].f[i]);' 'w[n++] = 0;'
mutant view_unrecorded ref/backend/decode.c 'laws' \
  '*w++ = (uint32_t)v->run[r].first;' '*w++ = 0;'

# Measures.
mutant peak_after_compression sim/replay/measure/cost.c 'cost' \
  'int64_t all = total_of(&s) + s.excess;' 'int64_t all = total_of(&s);'
mutant percentile_off_by_one sim/replay/measure/tally.c 'measures' \
  'return (n * percent + 99) / 100 - 1;' 'return n * percent / 100;'

# Grading.
mutant grade_goes_its_own_way sim/run/grade/grade.c 'grade' \
  'if (g->follow_ours || t.fault || !fits ||' \
  'if (!g->follow_ours || t.fault || !fits ||'
mutant grade_sees_the_future sim/run/grade/grade.c 'grade' \
  'else if (first >= l->step)' 'else if (first > l->step)'
mutant tie_looks_at_one_side sim/run/grade/judge.c 'judge' \
  't->far = fmax(t->far, share((double)score, (double)s->by->cut));' \
  'if (s->ours[i])
     t->far = fmax(t->far, share((double)score, (double)s->by->cut));'
mutant tie_of_the_window sim/run/grade/judge.c 'judge grade' \
  't->forced = true;' ''
mutant tie_grows_the_budget sim/run/grade/judge.c 'judge grade' \
  't->took != t->left && j->theirs != j->ours && !any_count' 'false'
mutant cut_of_the_left sim/run/grade/ranked.c 'judge' \
  'left |= x[l].fate[i] == KV_LEFT;' 'left = true;'
mutant tolerance_absolute sim/run/grade/outputs.c 'grade' \
  ' - o->how.rtol * size' ''

# The session: pieces, views and books.
mutant session_block_early sim/run/session/session_feed.c 'session' \
  'if (rc || end < full || s->given)' 'if (rc || s->given)'
mutant session_slot sim/run/session/session_feed.c 'session' \
  'f->step_row = f->arrived;' 'f->step_row = f->arrived - 1;'
mutant session_ids_kept sim/run/session/session.c 'session' \
  'if (l->verbs.n) s->hand' 'if (0) s->hand'
mutant session_prompt_sees_itself_not sim/run/session/session_feed.c 'session' \
  'kv_lane_append(&l, entered, p->first - entered);' \
  'kv_lane_append(&l, entered, 1);'
mutant session_view_after sim/run/session/session_feed.c 'session' \
  'f->id + (size_t)lane * (size_t)s->cell.shape.n_tokens;' \
  'kv_layer_lane(f->layer, 0, lane)->id;'
mutant session_closes_ended sim/run/session/session_feed.c 'session_calls' \
  'return kv_session_none(e);
  if (s->ended)' 'return kv_session_none(e);
  if (s->ended && step < 0)'
mutant session_takes_inexact sim/run/session/session_feed.c 'session_calls' \
  'if (convert(s, side, from, in, out) >= 0)' \
  'if (convert(s, side, from, in, out) >= side->width)'
mutant session_commits_refused sim/run/session/session_feed.c 'session_calls' \
  'if (!rc) rc = run(s, f, step, q, out, e);' \
  'if (rc) f->arrived = step; else rc = run(s, f, step, q, out, e);'
mutant session_mode_kept sim/run/session/session_feed.c 'session_calls' \
  'rc = run(s, f, step, q, out, e);
  fesetenv(&mode);' 'rc = run(s, f, step, q, out, e);
  (void)mode;'
mutant session_mean_of_all sim/replay/measure/cost.c 'session' \
  'int first = c->blocks - 1;
  int64_t sum = 0, n = 0;' 'int first = 0;
  int64_t sum = 0, n = 0;'

# Kernels of others, traces in another type, text of others.
mutant outputs_by_element sim/run/grade/outputs.c 'grade' \
  'double size = row_size(out, width);' 'double size = fabs((double)out[0]);'
mutant least_tie_forgets_order sim/run/grade/judge.c 'judge' \
  'if (out->why && reason(s, &t, out, INFINITY)) out->least_tie = INFINITY;' ''
mutant rows_of_first_head traces/trace/rows.c 'colsum attention' \
  'x->g = g;' 'x->g = 0;'
mutant entropy_of_few traces/trace/attention.c 'attention' \
  'x->log[j] = p[j] < FLT_MIN' 'x->log[j] = p[j] < 1e-3f'
mutant whole_step_needed traces/trace/critical.c 'attention' \
  'j < of && want > 0;' 'j < of;'
mutant needle_a_row_late traces/trace/attention.c 'attention' \
  'int at = token + 1 - a->start;' 'int at = token - a->start;'
mutant attention_by_last_block traces/trace/attention.c 'attention' \
  'add(&w->sums[(g * (size_t)w->blocks + b) * (size_t)w->group + m],' \
  'add(&w->sums[(g * (size_t)w->blocks) * (size_t)w->group + m],'
mutant convert_keeps_sums traces/trace/convert.c 'colsum' \
  'return kv_colsum_can(w->c->from, *layer) ? SUMS : LEAVE;' 'return CARRY;'
mutant text_turns_around ref/ground/plain.c 'check_inputs.sh' \
  '(c >= 0x2028 && c <= 0x202e)' '(c >= 0x2028 && c <= 0x2029)'

# A device takes any format for one that it knows.
mutant format_unknown_taken gpu/host/store.c 'format_unknown' \
  'if (s->device->format(format) >= 0) continue;' \
  'if (s->device->format(format) >= -1) continue;'

# Needs.
mutant need_forgotten ref/lane/needs.c 'needs' \
  '    ONE(lengths, BOOL, ALL, 0, 1),' ''
mutant need_unchecked sim/replay/engine/cell.c 'needs' \
  'if (!mode) return rc ? rc : kv_needs_check(needs, e);' \
  'if (!mode) return rc;'
# Lanes of one KV head that hold different tokens; who wants no logits.
mutant observation_of_lane_0 ref/backend/observation.c 'observation whims' \
  'if (l->dropped || l->holes || l->rewritten) return false;' '(void)l;'
mutant observation_unasked ref/backend/observation.c 'observation' \
  'if (!(a->want & KV_LOGITS)) return -1;' ''
mutant observation_unasked_decode ref/lane/method.h 'observation' \
  '(observes && n->decode_rows && n->want & KV_LOGITS);' \
  '(observes && n->decode_rows);'
mutant view_shown_unasked ref/backend/decode.c 'observation whims' \
  '.s = s->plan->needs.view_logits ?' '.s = x->all ?'
mutant device_drops_observation gpu/host/step.c 'whims' \
  'if (s->plan->needs.want & KV_LOGITS) {' \
  'if (s->plan->needs.want & (KV_P | KV_SUM)) {'
mutant turned_back_not_forth ref/lane/lane.c 'methods' \
  'if (is_turned(l, i)) kv_turn_forth(l->turns, l->id[i], out);' ''

# Bytes by class.
mutant group_told_twice ref/lane/bytes.c 'laws' \
  'of->walked[r->block] = true;' ''
mutant class_of_the_first ref/lane/bytes.c 'methods check_classes.sh' \
  '*kv_bytes_of_tier(sum, l->tier[i]) += bytes;' 'of_0 += bytes;'
mutant classes_not_put sim/store/db_write.c 'check_classes.sh' \
  'if (!kv_bytes_has(b, i)) continue;' 'if (!kind->counts) continue;'

mutant both_sides_have_blocks ref/lane/lane.c 'verbs gpu_bytes' \
  'values = kv_codes_values(c) ? cap : 0;' 'values = cap;'
mutant sides_are_alike ref/formats/formats.c 'needs' 'a->sides == b->sides &&' \
  'a->sides >= 0 &&'
mutant a_log_a_layer gpu/host/shared.c 'gpu_bytes' \
  'log->of == plan)' 'log->of != plan)'
mutant one_log_for_cells gpu/host/shared.c 'gpu_bytes' \
  '!(log->device == device && log->of == plan)' 'log->device != device'
mutant full_slab_is_full ref/lane/lane.c 'verbs' \
  'cap++; /*' '/*'
mutant records_cramped ref/lane/lane.c 'verbs' \
  '(8 * (size_t)kv_needs_changes(n) + 2)' '(8 * (size_t)kv_needs_changes(n))'
mutant rewrites_cramped ref/lane/lane.h 'gpu_bytes' \
  'int each = n->codings ? kv_needs_changes(n) : 1;' 'int each = 0;'
# The page manager.
mutant pages_turn_overwrites ref/pages/plan.h 'pages' \
  'ids[left] = ids[right];' ''
mutant pages_refused_are_counted ref/pages/pages.c 'pages' \
  'if (b->job[i / b->p->parts].refused) continue;' ''
mutant pages_none_in_reserve ref/pages/plan.h 'pages' \
  'high += s->variant == KV_PAGES_CODE && s->tokens[KV_LOW] > 0;' ''
mutant pages_any_step ref/pages/geometry.c 'pages' \
  'PAGE_STEP = VALUE_ALIGN' 'PAGE_STEP = CODES_ALIGN'
mutant pages_ends_meet ref/pages/plan.h 'pages' \
  '> s->table ? least : n;' '> s->table + 9 ? least : n;'
mutant demotions_uncounted sim/replay/layout/layout_unified.c \
  'layouts' \
  's->books.moved += was[at] && was[at] != t + 1;' '(void)was;'
mutant unified_frees_nothing sim/replay/layout/layout_unified.c \
  'layouts_hand' \
  'if (gone > 0)' 'if (gone > 1 << 20)'
mutant regular_moves_all sim/replay/layout/layouts.c 'layouts' \
  'add(&to->changed_kept, s->kept);' 'add(&to->changed_kept, s->fullest);'
mutant regular_union_once sim/replay/layout/layout_regular.c 'layouts' \
  'if (--*sharers_of(s, lane, place)) return;' \
  '--*sharers_of(s, lane, place);'
mutant reserve_unseen sim/replay/layout/layouts.c 'layouts' \
  'kv_larger(was->pages, s->most_pages) - s->pages' 'was->pages - s->pages'
mutant pages_turns_unseen ref/pages/pages.c 'pages' \
  'return turns || sum.give > 0;' '(void)turns; return sum.give > 0;'
