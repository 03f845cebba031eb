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
mutant evidence_divides ref/attend.c 'golden.sh' \
  'kernel->scale(1.0f / kv_unfix(mass), n, p);' \
  'for (int j = 0; j < n; j++) p[j] = p[j] / kv_unfix(mass);'
mutant merge_fuses_product ref/verbs.c 'golden.sh' \
  'into[x] = kv_fma(a, into[x], b * from[x]) / den;' \
  'into[x] = kv_fma(b, from[x], a * into[x]) / den;'
mutant bound_fuses ref/kernels/bound.h 'kernels' \
  'a[v] = v_add(a[v], v_max(low, high));' \
  'a[v] = v_max(v_fma(one, vec_of(type, lo, at), a[v]),
                   v_fma(one, vec_of(type, hi, at), a[v])), (void)low,
      (void)high;'
mutant chunk_of_64 ref/attend.h 'golden.sh' \
  'enum { KV_CHUNK = 128 };' 'enum { KV_CHUNK = 64 };'
mutant weigh_rounds ref/kernels/weigh.h 'golden.sh kernels' \
  'v_fma(one, b[v], a[r][v]);' 'v_add(v_mul(one, b[v]), a[r][v]);'
mutant one_set_rounds ref/kernels/vec_avx2.h 'check_six_runs.sh kernels' \
  '_mm256_fmadd_ps(a, b, c)' '_mm256_add_ps(_mm256_mul_ps(a, b), c)'
case ${CC:-gcc} in
*clang*) ;; # knows no such pragma
*)
  mutant fast_math_codes ref/format_kivi.c 'format' '' \
    '#pragma GCC optimize("unsafe-math-optimizations")'
  mutant fast_math_kernels ref/kernels/kernels.c 'kernels golden.sh' '' \
    '#pragma GCC optimize("unsafe-math-optimizations")'
  ;;
esac
mutant lse_without_log ref/attend.c 'golden.sh' \
  'lse[i] = top + kv_log(l);' 'lse[i] = top + kv_log(l) * (l > 2);'
mutant recode_unrounded_scale ref/format_kivi.c 'golden.sh format' \
  'r->scale[i] = scale > 0 ? scale : 1;' \
  'r->scale[i] = scale > 0 ? kv_div(width, levels) : 1;'
mutant bias_forgotten ref/lane.c 'golden.sh methods' \
  'return l->needs->merge_bias * kv_log((float)l->weight[i]);' 'return 0;'

# Selection.
mutant top_ties_reversed ref/parts.c 'parts golden.sh' \
  'for (int i = 0; i < longest && equals > 0; i++)' \
  'for (int i = longest - 1; i >= 0 && equals > 0; i--)'
mutant argmin_ties ref/parts.c 'parts' \
  'kv_key(score[i]) < kv_key(score[best])' \
  'kv_key(score[i]) <= kv_key(score[best])'
mutant top_p_one_short ref/parts.c 'parts' \
  'if (*above + sum[next] >= target) break;' \
  'if (*above + sum[next] > target) break;'
mutant group_skips_a_head ref/parts_score.c 'golden.sh methods' \
  'for (int h = 0; h < rows->heads; h++) {
    int plane' 'for (int h = rows->heads > 1; h < rows->heads; h++) {
    int plane'
mutant view_without_last_page ref/methods/quest.c 'golden.sh methods' \
  'if (forced) in[pages - 1] = true;' 'if (forced) in[pages - 1] = false;'
mutant worst_page_first ref/kernels/bound.h 'check_orders.sh' \
  'a[v] = v_add(a[v], v_max(low, high));' \
  'a[v] = v_sub(a[v], v_max(low, high));'

# Evidence.
mutant evidence_sees_future ref/evidence.c 'golden.sh' \
  'visible = seen - (rows - 1 - i / x->heads);' \
  'visible = seen - (rows - 1 - i / x->heads) + (i / x->heads < rows - 1);'
mutant window_one_row_short ref/evidence.c 'laws' \
  'int from = s->plan->shape->prompt_len - s->plan->needs.prompt_rows;' \
  'int from = s->plan->shape->prompt_len - s->plan->needs.prompt_rows + 1;'
mutant evidence_always ref/backend.c 'laws' \
  's->plan->needs.decode_rows &&' '1 &&'
mutant lengths_promised ref/methods/tova.c 'laws' \
  'needs->decode_rows = true;' \
  'needs->decode_rows = true, needs->lengths = true;'
mutant lengths_for_reads sim/search.c 'run' \
  '(basis != KV_BASIS_READ || !plan->method->view)' '1'

# Store, journal, ledger.
mutant keep_unrecorded ref/verbs.c 'laws' \
  'size_t m = (size_t)(l->n - n);' \
  'size_t m = (size_t)(l->n - n), was = l->verbs.n;'
also ref/verbs.c '  w[0] = (uint32_t)m;' \
  '  l->verbs.n = was, w[0] = (uint32_t)m;'
mutant merge_forgets_weight ref/verbs.c 'laws' \
  'l->weight[into] += l->weight[from];' ''
mutant member_lost ref/verbs.c 'laws' \
  'l->last[into] = l->last[from];' ''
mutant move_one_off ref/verbs.c 'laws' \
  'l->room.list[i] = i == to ? from : next++;' \
  'l->room.list[i] = i == to + (to < from) ? from : next++;'
mutant positions_are_free ref/lane.c 'laws' \
  '(l->dropped ? 4 : 0) +' '0 +'
mutant group_dies_early ref/verbs.c 'laws' \
  'if (--s->live[r->block] == 0)' 'if (--s->live[r->block] <= 1)'
mutant metadata_is_free ref/lane.c 'laws' \
  'sum->metadata += (int64_t)slab[f].bytes.metadata;' ''
mutant state_without_columns ref/lane.c 'golden.sh' \
  'w[n++] = kv_bits_of(l->column[c].f[i]);' 'w[n++] = 0;'
mutant view_unrecorded ref/decode.c 'laws' \
  '*w++ = (uint32_t)v->run[r].first;' '*w++ = 0;'

# Measures.
mutant peak_after_settling sim/cost.c 'cost' \
  'int64_t all = total_at(c, i) + get(&c->at[i].excess);' \
  'int64_t all = total_at(c, i);'
mutant percentile_off_by_one sim/stat.c 'measures' \
  'return (n * percent + 99) / 100 - 1;' 'return n * percent / 100;'

# Grading.
mutant grade_goes_its_own_way sim/grade.c 'grade' \
  'if (g->follow_ours || t.fault || !fits ||' \
  'if (!g->follow_ours || t.fault || !fits ||'
mutant grade_sees_the_future sim/grade.c 'grade' \
  'else if (first >= l->step)' 'else if (first > l->step)'
mutant tie_looks_at_one_side sim/judge.c 'judge' \
  'if (!near((double)score, (double)s->by->cut, tie)) t->far = true;' \
  'if (s->ours[i] && !near((double)score, (double)s->by->cut, tie))
     t->far = true;'
mutant tie_of_the_window sim/judge.c 'judge grade' \
  't->forced = true;' ''
mutant tie_grows_the_budget sim/judge.c 'judge grade' \
  't->took != t->left && j->theirs != j->ours && !any_count' 'false'
mutant cut_of_the_left sim/ranked.c 'judge' \
  'left |= x[l].fate[i] == KV_LEFT;' 'left = true;'
mutant tolerance_absolute sim/outputs.c 'grade' \
  ' - o->rtol * fabs(p->ours)' ''

# The kernels, on the executor.
mutant device_ties gpu/radix.cuh 'gpu_parts' '<= last);' '< last);'
mutant device_smallest gpu/parts.cuh 'gpu_parts' \
  '| ~(uint32_t)i;' '| (uint32_t)i;'
mutant device_order gpu/parts_order.cuh 'gpu_parts' \
  'set ? said : ~said' 'said'
mutant device_rounds gpu/values.cuh 'check_backends.sh' \
  'a[h] = kv_fma(w.x[u], v[u], a[h]);' \
  'a[h] = kv_add(kv_mul(w.x[u], v[u]), a[h]);'
mutant device_never_waits gpu/attend.cu 'check_backends.sh' \
  'kv_async_wait<KV_VALUE_STAGES - 1>();' ''
mutant device_waits_late gpu/logits.cu 'check_backends.sh' \
  'kv_async_wait<STAGES - 1>();' 'kv_async_wait<STAGES>();'
mutant device_no_barrier gpu/logits.cu 'check_backends.sh' \
  'if (own.row.at) link<QUERIES>(stage(s), type, acc);
    __syncthreads();' 'if (own.row.at) link<QUERIES>(stage(s), type, acc);'
mutant device_shares_unlike gpu/attend.cu 'check_backends.sh gpu_reads' \
  'return kv_block_sum(other) == 0;' 'return kv_block_sum(other) >= 0;'
mutant device_reads_twice gpu/attend.cu 'gpu_reads' \
  'else if (h != first)' 'else if (h < first)'
mutant emu_copies_early gpu/emu_async.cc 'emu_words' \
  'if (own->groups - a->group > left)' 'if (own->groups - a->group >= left)'
mutant device_forgets_row gpu/evidence.cu 'check_backends.sh' \
  'if (i < seen_by(l, lane, r))' 'if (i < seen_by(l, lane, r) - 1)'
mutant device_divides_once gpu/verbs.cuh 'gpu_verbs' \
  'kv_div(kv_fma(a, kv_gpu_element(into, x), y), den)' \
  'kv_mul(kv_fma(a, kv_gpu_element(into, x), y), kv_div(1.0f, den))'

# The session: pieces, views and books.
mutant session_block_early sim/session_feed.c 'session' \
  'if (rc || end < full) continue;' 'if (rc) continue;'
mutant session_slot sim/session_feed.c 'session' \
  'f->step_row = f->arrived;' 'f->step_row = f->arrived - 1;'
mutant session_ids_kept sim/session.c 'session' \
  'if (l->verbs.n) s->hand' 'if (0) s->hand'
mutant session_prompt_sees_itself_not sim/session_prompt.c 'session' \
  'kv_lane_append(&l, entered, p->first - entered);' \
  'kv_lane_append(&l, entered, 1);'
mutant session_view_after sim/session_read.c 'session' \
  'f->id + (size_t)lane * (size_t)s->cell.shape.n_tokens;' \
  'kv_layer_lane(f->layer, 0, lane)->id;'
mutant session_takes_inexact sim/session_rows.c 'session_calls' \
  'if (convert(s, side, from, in, out) >= 0)' \
  'if (convert(s, side, from, in, out) >= side->width)'
mutant session_commits_refused sim/session_feed.c 'session_calls' \
  'if (!rc) rc = run(s, f, step, q, out, e);' \
  'if (rc) f->arrived = step; else rc = run(s, f, step, q, out, e);'
mutant session_mode_kept sim/session_feed.c 'session_calls' \
  'fesetenv(&mode);' '(void)mode;'
mutant session_mean_of_all sim/cost.c 'session' \
  'int first = c->blocks - 1;
  int64_t sum = 0;' 'int first = 0;
  int64_t sum = 0;'
