# SPDX-License-Identifier: Apache-2.0
#
# Mutants of what compares backends: form as in list.sh.

# Where two part.
mutant ledgers_unread sim/run/compare/compare.c 'compare run' \
  'if (!look_ledger(&w->look, x, y)) return KV_OK;' \
  'if (!look_ledger(&w->look, x, y) || x) return KV_OK;'
mutant ledger_total_only sim/run/compare/compare.c 'compare run' \
  'if (!out->found) *out = total;' '*out = total;'
mutant hidden_unsought sim/run/compare/compare.c 'compare' \
  'find_hidden(w, *found ? n + 1 : n);' '(void)n;'
mutant prefix_one_long sim/run/compare/compare.c 'compare' \
  'int n = halve(w, 0, seen);' 'int n = halve(w, 0, seen) + 1;'
mutant second_layer_unseen sim/run/compare/compare.c 'compare run' \
  'parted = differing(d) >= 0;' 'parted = i == 0 && differing(d) >= 0;'
# Only a comparison looks at a lane before it compresses.
mutant looks_too_late sim/replay/engine/order.c 'compare' \
  '  if (o->compresses) o->compresses(o->self, who, lane);
  r->backend->compress(r->store, lane, r->scratch);' \
  '  r->backend->compress(r->store, lane, r->scratch);
  if (o->compresses) o->compresses(o->self, who, lane);'
mutant failure_is_equal sim/run/compare/compare.c 'compare run' \
  '    out->found = true;' '    out->found = false;'
mutant side_is_equal sim/run/compare/compare.c 'compare' \
  'for (int i = 0; i < KV_N_BYTE_KINDS; i++)' 'for (int i = 0; i < 3; i++)'
mutant scanned_is_lost sim/replay/measure/cost.c 'cost' \
  '  kv_counter_add(&h->scanned, row->scanned);
' ''
mutant read_is_equal sim/run/compare/compare.c 'compare' \
  'differ(l, -1, "read", x->read, y->read, "")' 'false'
mutant kept_is_equal sim/run/compare/compare.c 'compare' \
  's->combine == KV_COMBINE_EXACT &&' 's->combine == KV_COMBINE_EXACT && i &&'

# Scores that decide nothing else.
mutant gpu_bound_one_ulp gpu/methods/quest.cu 'check_backends.sh' \
  'kv_gpu_element(high, i))));
  }
  return u;' 'kv_gpu_element(high, i))));
  }
  return kv_float(kv_bits(u) + 1u);'
mutant simd_bound_one_ulp ref/kernels/logits.h 'check_six_runs.sh kernels' \
  'bound_as(KV_F32, n, d, q, lo, hi, u);' 'bound_as(KV_F32, n, d, q, lo, hi, u);
#ifdef __AVX2__
    for (int i = 0; i < n; i++) u[i] = u[i] * (1.0f + 0x1p-23f);
#endif'
mutant window_sum_one_ulp gpu/parts/parts.cuh 'check_backends.sh' \
  'out[i + j] = kv_unfix(own[j]);' \
  'out[i + j] = kv_float(kv_bits(kv_unfix(own[j])) + 1u);'
mutant scores_unhashed ref/lane/shown.c 'compare run' \
  'kv_sha256_add(&x->lane[lane], record, sizeof record);' ''
mutant masked_score_shown ref/lane/shown.c 'check_backends.sh' \
  'if (x->in && !x->in[i]) return KV_SHOWN_OUT;' ''
mutant compression_unshown gpu/host/step.c 'check_backends.sh' \
  '  show_part(s, stream);
  s->device->report(stream, &s->layer, KV_GPU_SAY_LANES, 0);' \
  '  s->device->report(stream, &s->layer, KV_GPU_SAY_LANES, 0);'
mutant second_in_firsts_place gpu/host/step.c 'cases/compose.cases' \
  'l.params = (const char *)l.params + p->offset;' ''
mutant rhythm_of_both ref/lane/compose.c 'cases/compose.cases' \
  'return kv_compression_due(needs, c->at.shape, c->at.step);' 'return true;'
mutant scores_always gpu/host/store.c 'gpu_traffic' \
  'if (!s->fault.rc && s->plan->scores)' 'if (!s->fault.rc)'
mutant scores_uncompared sim/run/compare/compare.c 'compare run' \
  'for (int i = 0; i < DIGESTS; i++)' 'for (int i = 0; i < 3; i++)'
mutant stored_scores_unread sim/store/tables.c 'db run' \
  'DIGEST(output, SAME), DIGEST_OR(scores, SAME))' \
  'DIGEST(output, SAME), DIGEST_OR(scores, ANY))'
mutant scores_never_added sim/store/union.c 'db' \
  '"coalesce(d.%s, excluded.%s)"' '"coalesce(d.%s, d.%s)"'

# What verify could not look at.
mutant plugin_is_other_code sim/cli/verify_rows.c 'run' \
  'return no(v, KV_VERIFY_NO_PLUGIN,' 'return no(v, KV_VERIFY_OTHER_CODE,'
mutant nothing_is_verified sim/cli/command_verify.c 'run' \
  'if (s->same) return KV_OK;' 'return KV_OK;'
mutant missing_beats_different sim/cli/command_verify.c 'run' \
  'if (s->differed) return KV_DIFFERENT;' ''

# Who runs, and what is kept of it.
mutant failed_is_left sim/cli/command_check.c 'run' \
  'b->cell[i].result.status != KV_CELL_REFUSED &&' \
  'second.cell[i].runs &&'
mutant ledger_conflict_lost sim/cli/command_check.c 'run' \
  'r.totals = got->totals;' ''
mutant any_backend_will_do sim/store/db_find.c 'run' \
  'int64_t n = !r->backend;' 'int64_t n = 1;'
mutant first_backend_named sim/store/db_read.c 'run' \
  '" ORDER BY c.backend = ? DESC, v.started,' \
  '" ORDER BY c.backend = ? ASC, v.started,'
mutant ratio_in_reals sim/ask/budget.c 'budget' \
  'return (int)((double)n * rest);' \
  'return (int)((wide)n * (wide)(b->den - b->num) / (wide)b->den) +
         (rest > 1);'
mutant search_moves_no_window ref/backend/backend.c 'laws' \
  'observe_step(s, &s->lane[i], x);
  kv_ref_slide(s, &s->lane[i]);' 'observe_step(s, &s->lane[i], x);'
mutant search_by_backend sim/run/sweep/search.c 'run' \
  'blind ? &kv_backend_blind : &kv_backend_cost' \
  'blind ? &kv_backend_blind : p->ask->how.backend'
mutant search_by_lines_alone sim/ask/budget.c 'budget' \
  'halve = level || (!halve && 2 * (hi.place - lo.place) > before);' \
  'halve = false;'
mutant block_unshown gpu/host/step.c 'check_backends.sh' \
  'if (shown == s->end) return KV_GPU_RECORD_BLOCK;' \
  'return KV_GPU_RECORD_BLOCK;'
mutant blocks_unrecorded gpu/host/step.c 'gpu_traffic' \
  'if (count != s->plan->needs.block || s->sums) return KV_GPU_RECORDS;' \
  'if (shown || !shown) return KV_GPU_RECORDS;'
mutant prompt_not_cut gpu/host/step.c 'gpu_traffic' \
  'return p->stop();' 'return false;'
mutant memory_ends_all sim/cli/command_run.c 'gpu_faults' \
  'return rc == KV_INPUT || (rc == KV_RESOURCE && lacked && lacked());' \
  'return rc == KV_INPUT || (rc == KV_RESOURCE && !lacked);'
