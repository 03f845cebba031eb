# SPDX-License-Identifier: Apache-2.0
#
# Mutants of what is read from a database and shown: see list.sh.
mutant needle_share_is_mass sim/replay/measure/measure.c 'fidelity' \
  'got->mean / dense->mean' 'got->mean'
mutant codes_mix analysis/sql/runs.sql 'cases/results.cases' \
  "iif(method = 'replay', subject, method ||" \
  "iif(method <> 'x', subject, method ||"
mutant damage_is_shown analysis/database/laws.c 'cases/results.cases' \
  'if (!holds(&all->law[i], v[i]))' 'if (!holds(&all->law[i], v[i]) && !v[i])'
mutant text_is_markup analysis/tables/text.c 'cases/results.cases' \
  'fputs(at ? entity[at - special] : one, f);' \
  'fputs(at ? one : one, f), (void)entity;'
mutant old_values_contradict sim/store/union.c 'cases/results.cases' \
  'WHEN d.measures = s.measures AND d.%s' 'WHEN d.%s'
mutant log_stays sim/store/db_open.c 'cases/results.cases' \
  'PRAGMA main.journal_mode = DELETE", NULL, NULL, NULL);' \
  'PRAGMA user_version", NULL, NULL, NULL);'
# What intervals are made of, and where it is kept.
mutant squares_about_zero sim/replay/measure/tally.c 'measures' \
  'kv_square(value[i] - s.mean)' 'kv_square(value[i])'
mutant passes_round_rank sim/replay/measure/tally.c 'measures' \
  'while (t->rank[r] >= t->at[r][digit])' \
  'while (t->rank[r] > t->at[r][digit])'
mutant shelf_stays sim/replay/measure/spill.c 'measures' \
  'if (s->file) madvise(' 'if (!s) madvise('
mutant moments_not_compared sim/store/tables.c 'db cases/results.cases' \
  'SQL(mean, SAME, "BLOB' 'SQL(mean, FIRST, "BLOB'
mutant drift_not_compared sim/store/tables.c 'db cases/results.cases' \
  'D(drift))' 'MEMBER(drift, drift, "REAL", '\''d'\'', FIRST, 0))'
mutant asset_bytes_not_put sim/store/db_write.c 'db' \
  'if (isnan(x)) continue;' 'if (isnan(x) || i == 10) continue;'
mutant scalars_uncompared sim/store/tables.c 'db cases/results.cases' \
  'KEY_TEXT(name), SQL(value, SAME' 'KEY_TEXT(name), SQL(value, FIRST'
mutant drift_of_all_steps sim/replay/measure/fidelity_total.c 'measures' \
  'for (int i = r->step[0]; i < r->step[1]; i++)' \
  'for (int i = 0; i < f->steps; i++)'
# What ranks answers, and means of some traces.
mutant some_among_all analysis/database/say.h 'check_means.sh' \
  'ORDER BY summary.traces < summary.traces_all, summary.needle' \
  'ORDER BY summary.needle'
mutant spread_for_error analysis/sql/means.sql 'check_means.sh' \
  'shown: avg(@N) AS @N, standard_error(@N)' \
  'shown: avg(@N) AS @N, 2 * standard_error(@N)'
mutant holm_for_one analysis/compare/paired.c 'check_means.sh' \
  'double level = p[order[i]] * (m - i);' 'double level = p[order[i]];'
mutant flips_one_sided analysis/compare/paired.c 'check_means.sh' \
  'return fabs(s) >= fabs(found)' 'return s >= fabs(found)'
mutant all_lines_named analysis/page/plot.c 'check_means.sh' \
  'if (!on_front(p, i)) break;' 'if (!drawn(p, p->mark + i)) break;'
mutant names_on_names analysis/page/plot.c 'check_means.sh' \
  '|| overlaps(at, n, taken))' '|| (overlaps(at, n, taken) && w < 0))'
mutant ties_agree analysis/compare/rank.c 'cases/answers.cases' \
  'same += ones((up & more)' 'same += ones((both & ~(up | down)) | (up & more)'
mutant kl_turned sim/replay/measure/measure.h 'cases/answers.cases' \
  'X(KL, kl, STEPS, LESS,' 'X(KL, kl, STEPS, MORE,'
mutant none_left_out analysis/compare/rank.c 'cases/answers.cases' \
  'w->x->method[w->a[p]] != method &&' 'method >= 0 ||'
mutant lse_error_signed analysis/compare/ranked.c 'cases/answers.cases' \
  'iif(m.size, abs(v.value), v.value)' 'v.value'
mutant other_bytes_ranked analysis/sql/ranks.sql 'cases/answers.cases' \
  '> .1 * max(share, middle)' '> .2 * max(share, middle)'
mutant outliers_take_axis analysis/page/axis.c 'check_means.sh' \
  'most = 10 * y[m / 2];' 'most = HUGE_VAL;'
mutant lines_look_alike analysis/page/looks.c 'check_means.sh' \
  '(kv_look){of, n % KV_SHAPES,' '(kv_look){of, n % 2,'
mutant python_mean_error sim/python/kvreplay/results.py 'check_means.sh' \
  'line[key + ".se"] = (math.sqrt(squares / (n - 1) / n)' \
  'line[key + ".se"] = (math.sqrt(squares / n / n)'
mutant python_grade_nan sim/python/kvreplay/grade.py 'check_python.sh' \
  '_NONE.get(y, y) if isinstance(y, str) else y' 'y'
mutant claims_best_row sim/python/kvreplay/claims/table.py 'check_python.sh' \
  'return max(found' 'return min(found'
mutant claims_beside_decides sim/python/kvreplay/claims/table.py \
  'check_python.sh' 'if not claim["looks"][x["look"]]["beside"]]' ']'
mutant claims_drift_rises sim/python/kvreplay/claims/claims.sql \
  'check_python.sh' "'least < 0 AND slowest < 0'" "'least < 0'"
mutant capacity_tables_of_k4v2 sim/cli/command_lengths.c \
  'check_capacity.sh check_python.sh' 'high = {{8, 4}, {1, 1}};' \
  'high = {{4, 2}, {1, 1}};'
# What a command costs and says.
mutant search_is_linear sim/ask/budget.c 'budget' \
  'high = high > most / 2 ? most : 2 * high)' 'high++)'
mutant threads_by_name sim/replay/engine/replay.c 'budget' \
  'return w == NULL && how->backend->threads;' 'return w == NULL;'
mutant one_thread_unsaid sim/cli/command_run.c 'cases/cli.cases' \
  'if (!rc) kv_job_say_one_thread(&s->of, &how);' ''
mutant tune_misses_the_end sim/run/tune/search.c 'tuning' \
  '(int64_t)j * (size - 1)' '(int64_t)j * (size - 2)'
mutant tune_leaps_to_one sim/run/tune/search.c 'tuning' \
  's->step[i] = (s->step[i] + 1) / 2;' 's->step[i] = 1;'
mutant tune_lse_has_a_sign sim/cli/show/goal.c 'tuning' \
  'strncmp(key, name, strlen(name)) ? x : fabs(x)' 'name ? x : fabs(x)'
mutant tune_sees_one_trace sim/cli/show/goal.c 'tuning' \
  'j->mean[m] += value_of(g->measure[m].key, x);' \
  'j->mean[m] = i ? j->mean[m] : x * rows;'
mutant tune_trusts_its_traces sim/cli/tune_report.c 'cases/tune.cases' \
  '!kv_tune_met(&m->held[m->search.best])' \
  '!kv_tune_met(&m->judged[m->search.best])'
mutant tune_sorts_by_name sim/cli/tune_report.c 'cases/tune.cases' \
  'return kv_tune_score_compare(&x->score, &y->score) < 0;' 'return false;'
mutant tune_praises_oracles sim/cli/tune_report.c 'cases/tune.cases' \
  '(baselines == n || !oracle(l->of[i]))' '(baselines <= n)'
mutant tune_praises_unheld sim/cli/tune_report.c 'cases/tune.cases' \
  'return !held || kv_tune_met(held);' 'return !held || held->score.ran;'
mutant tune_reaches_the_first sim/cli/command_tune.c 'cases/tune.cases' \
  'if (t->shape.n_tokens > longest) longest = t->shape.n_tokens;' \
  'if (t->shape.n_tokens < 200) longest = t->shape.n_tokens;'
mutant tune_knob_typed_or_not sim/run/tune/space.c 'tuning' \
  '|| spec->given[p - spec->method->params]' ''
mutant tune_ranges_for_one sim/cli/command_tune.c 'cases/tune.cases' \
  'found = true;' 'found = true, i = o->methods - 1;'
mutant verify_skips_layouts sim/cli/verify_rows.c 'cases/verify.cases' \
  'kv_rc rc = ask_layouts(db, v, b, x->layout, e);' \
  'kv_rc rc = KV_OK; (void)ask_layouts;'
# What a method is lent, apart from what it holds.
mutant asset_bytes_are_none sim/replay/engine/cell.c 'assets check_reads.sh' \
  'c->asset ? (int64_t)c->asset->bytes : 0' '0'

# Papers and their BibTeX.
mutant paper_unnumbered ref/methods/tova.c 'bibtex' \
  '"arXiv:2401.06104"' '"NeurIPS"'
mutant authors_kept sim/cli/show/bibtex.c 'bibtex' \
  '" and ", " and ", " and others"' '" and ", " and ", " et al."'

# What a method may see.
mutant observe_not_in_key sim/store/db_key.c 'db cases/observe.cases' \
  'if (r->observe) kv_db_line(h,' 'if (r->observe < 0) kv_db_line(h,'
mutant context_behind_question sim/ask/observe.c 'segments' \
  's->end <= question->start && ' ''
mutant dense_seen_otherwise analysis/sql/views.sql 'cases/observe.cases' \
  'AND d.prompt_len = r.prompt_len AND d.observe = r.observe
    AND d.arithmetic = r.arithmetic
  LEFT JOIN counted o' 'AND d.prompt_len = r.prompt_len
    AND d.arithmetic = r.arithmetic
  LEFT JOIN counted o'

# Later questions as prompts.
mutant turns_compress_as_steps ref/backend/backend.c 'segments' \
  'static void prompt(kv_store *s, int end) { s->shape.prompt_len = end; }' \
  'static void prompt(kv_store *s, int end) { (void)s, (void)end; }'
mutant turns_vote_twice ref/methods/adakv.c 'segments' \
  'kv_score_forget(at, lane[l], &o->s);' 'kv_score_forget(at, lane[0], &o->s);'
mutant turns_share_of_first ref/methods/adakv.c 'segments' \
  'all += x->base[l];' 'all += x->base[0];'
mutant turns_count_within sim/replay/measure/cost.c 'segments' \
  'if (!closed(&all)) continue;' ''

# The pictures of the page.
mutant heads_of_one_trace analysis/sql/pictures.sql 'check_pictures.sh' \
  'count(*) AS traces, avg(kept) AS kept, avg(share) AS share' \
  'count(*) AS traces, avg(kept) AS kept, max(share) AS share'
mutant pages_of_every_trace analysis/sql/pictures.sql 'check_pictures.sh' \
  'FROM place WHERE cells = most)' 'FROM place)'
mutant squares_by_column analysis/page/maps.c 'check_pictures.sh' \
  'double x = m->value[r * m->columns + c];
      if (isfinite(x))' 'double x = m->value[c * m->columns + r];
      if (isfinite(x))'
mutant survivors_of_bin analysis/database/survivors.c 'check_pictures.sh' \
  '(double)there / entered' '(double)there / (last - first)'
mutant overlap_of_one_side analysis/database/survivors.c 'check_pictures.sh' \
  'either += x || y;' 'either += x;'
mutant shown_by_head sim/run/look/survive.c 'check_pictures.sh' \
  'if (count && stamp[t] != mark) count[t]++;' 'if (count) count[t]++;'
mutant tokens_not_compared sim/store/tables.c 'check_pictures.sh db' \
  'SQL(gone, SAME' 'SQL(gone, FIRST'
mutant needles_turned analysis/page/maps.c 'check_pictures.sh' \
  'm->value[y * m->columns + x] =' 'm->value[x * m->columns + y] ='
mutant needles_not_of_dense analysis/sql/pictures.sql 'check_pictures.sh' \
  'asked, depth, length,
    avg(needle_share) AS needle_share' 'asked, depth, length,
    avg(needle_mass) AS needle_share'

# Figures of how tokens are stored and of what heads attend to.
mutant mirror_of_itself analysis/sql/formats.sql 'check_figures.sh' \
  'AND b.arithmetic = a.arithmetic AND b.k = a.v AND b.v = a.k' \
  'AND b.arithmetic = a.arithmetic AND b.k = a.k AND b.v = a.v'
mutant pruning_of_any_bits analysis/sql/formats.sql 'check_figures.sh' \
  "NOT coded OR (k = 'int8' AND v = 'int8'" \
  "NOT coded OR (k_bits + v_bits > 0"
mutant dropped_is_kept analysis/sql/formats.sql 'check_figures.sh' \
  'avg(1 - kept / n_tokens) AS dropped' 'avg(kept / n_tokens) AS dropped'
mutant pages_without_end analysis/sql/formats.sql 'check_figures.sh' \
  '(n_tokens - s.step) % every = 0' '(s.step - prompt_len) % 7 = 0'
mutant bars_side_by_side analysis/page/figure.c 'check_figures.sh' \
  'item->x0 = at;' 'item->x0 = 0;'
mutant paid_from_prompt analysis/sql/formats.sql 'check_figures.sh' \
  'max(l.rewritten, ran.prompt_len) + break_even AS paid' \
  'ran.prompt_len + 2 * break_even AS paid'
mutant weights_supersede_none analysis/sql/runs.sql 'check_figures.sh' \
  "json_extract(params, '$.compressor')" "json_extract(params, '$.recent')"
mutant latents_quartered_twice analysis/sql/deltakv.sql 'check_figures.sh' \
  '(layers - full) * per_stride / layers) +' \
  '(layers - full) * per_stride / layers) + (part - 1) * .05 +'
mutant ablation_by_any_weights analysis/sql/deltakv.sql 'check_figures.sh' \
  "WHEN refs = 'none' AND learned = 'none' THEN" "WHEN refs = 'none' THEN"
mutant figure_of_first_file sim/store/tables.c 'traces/check_trace_figures.sh' \
  'SQL(value, LESSER, "ANY NOT NULL"))' 'SQL(value, FIRST, "ANY NOT NULL"))'
mutant learned_unsaid sim/python/kvreplay/figures/weights.py \
  'traces/check_trace_figures.sh' \
  'meta.get("trained_references") == "none"' \
  'meta.get("trained_references") == "no"'
mutant references_of_all_alike analysis/sql/deltakv.sql 'check_figures.sh' \
  "WHEN refs = 'none' THEN 'without references, learned with'" \
  "WHEN refs = '' THEN 'without references, learned with'"
mutant nearest_may_be_itself sim/python/kvreplay/figures/residuals.py \
  'traces/check_trace_figures.sh' \
  'token < row[:, None]' 'token + 1 < row[:, None]'
mutant later_of_equals sim/python/kvreplay/figures/residuals.py \
  'traces/check_trace_figures.sh' \
  'np.lexsort((j, exact, i))' 'np.lexsort((-j, exact, i))'
mutant keys_stay_turned sim/python/kvreplay/figures/residuals.py \
  'traces/check_trace_figures.sh' 'flat(turned_back(t, k))' 'flat(k)'
mutant anchor_of_raw_token sim/python/kvreplay/figures/residuals.py \
  'traces/check_trace_figures.sh' \
  'quantised(x[::10], 256)' 'quantised(x[::10], bins)'
mutant mean_of_k_always sim/python/kvreplay/figures/residuals.py \
  'traces/check_trace_figures.sh' \
  'yield total / np.maximum(n, 1)' 'yield total / 4'
mutant score_of_last_head sim/python/kvreplay/figures/attention.py \
  'traces/check_trace_figures.sh' 'sums.max(0)[has]' 'sums[-1][has]'
mutant class_of_next_edge sim/python/kvreplay/figures/attention.py \
  'traces/check_trace_figures.sh' \
  'np.arange(first + 1, last + 1)' 'np.arange(first, last)'

# Sparse prefill, and what looks at nothing.
prefill_py=sim/python/kvreplay/prefill.py
mutant line_enters_late "$prefill_py" 'cases/kvtrace.cases' \
  'upto[max(0, r * block - 1)]' 'upto[r * block]'
mutant topk_of_unseen "$prefill_py" 'cases/kvtrace.cases' \
  'np.where(x.seen, -x.pooled, np.inf)' '-x.pooled'
mutant window_has_all_pairs "$prefill_py" 'cases/kvtrace.cases' \
  'reduceat(near.any(0), starts)' 'reduceat(token <= first, starts)'
mutant last_rows_of_first_head "$prefill_py" 'cases/kvtrace.cases' \
  't.q(layer)[h, :n]' 't.q(layer)[0, :n]'
mutant printed_rounds_down ref/methods/pyramidkv.h 'methods' \
  '* l) + whole) /' '* l)) /'
mutant stride_from_start ref/methods/strided.h 'methods' \
  '(n - 1 - i) % s == 0' 'i % s == 0'

# Compression again of the window methods.
mutant grow_one_late ref/parts/grow.h 'methods' \
  'if (n <= budget) n = budget + 1;' 'if (n <= budget) n = budget + 2;'
mutant grow_pools_sinks ref/parts/parts_grow.c 'methods' \
  'w->kernel, g->sinks, n, score);' 'w->kernel, 0, n, score);'
# Requests over one pool.
mutant together_keeps_pages sim/run/look/together.c 'together' \
  'pool_compact(x, 1, &leave);' '(void)leave;'
mutant together_all_alike sim/run/look/together.c 'together' \
  'if (alike(&x->tier[i], t))' 'if (alike(&x->tier[i], t) || i)'
mutant together_uncompared sim/store/db_pool.c 'cases/requests.cases' \
  'if (rc || !found) return rc;' 'if (rc || n) return rc;'
mutant requests_merge_anyhow sim/store/tables.c 'cases/requests.cases' \
  'I(put_back))' \
  'MEMBER(put_back, put_back, "INTEGER NOT NULL", '\''i'\'', FIRST, 0))'
mutant number_that_differs_unsaid sim/store/union.c 'cases/verify.cases' \
  'c->rule == KV_DB_SAME || c->rule == KV_DB_EQUAL;' \
  'c->rule == KV_DB_EQUAL;'
mutant queue_overtaken sim/run/look/together.c 'together' \
  '!reserve(x, i, last_of(x) < 0, step))' \
  '!reserve(x, i, last_of(x) < 0, step) && !x->n)'
mutant queue_in_two_steps sim/run/look/together.c 'cases/requests.cases' \
  'if (x->made_room) return true;' ''
mutant stays_for_now sim/run/look/together.c 'cases/requests.cases' \
  'if (x->ahead[k] > x->result.pages)' 'if (!k && x->ahead[k] < 0)'
mutant bytes_of_the_end sim/run/look/together.c 'cases/requests.cases' \
  'return point_of(r, r->block)->most;' 'return point_of(r, r->block)->bytes;'
mutant arrivals_late sim/run/look/arrivals.c 'cases/requests.cases' \
  'if (i && a->poisson)' 'if (a->poisson)'
mutant map_of_held_rows sim/replay/layout/layout_pages.c 'layouts' \
  '((step + asked->page - 1) / asked->page);' '(step / asked->page);'
mutant columns_one_early sim/store/db_value.c 'db' \
  '++at, INT64_MIN, INT64_MAX);' 'at, INT64_MIN, INT64_MAX), at++;'
mutant layout_numbers_lost sim/store/db_sql.c 'cases/verify.cases' \
  "c->type == 'o' && whole < 0 ?" "c->type == 'o' ?"
# What shares of the probability select, and drift on the page.
mutant map_of_all sim/python/kvreplay/figures/selection.py \
  'traces/check_trace_figures.sh' \
  'np.arange(n) < after[:, None], -1' 'np.arange(n) <= after[:, None], -1'
mutant drift_backwards analysis/sql/drifts.sql 'check_figures.sh' \
  'f32_sum(mean, step - prompt_len)' 'f32_sum(mean, n_tokens - step)'
# A number on the first page that no command prints.
mutant page_lies README.md 'check_docs.sh' '0.9855' '0.9854'
# `kvreplay evaluate`, what of it needs no torch.
mutant asked_at_every_budget sim/python/kvreplay/evaluate/asks.py \
  'check_python.sh' 'or basis in BYTES)' 'or basis)'
mutant mean_of_some_unmarked sim/python/kvreplay/evaluate/table.py \
  'check_python.sh' 'if n == every else' 'if n else'
mutant unanswerable_counts sim/python/kvreplay/evaluate/table.py \
  'check_python.sh' 'x is None or x >= LEAST' 'x is None or x >= 0'
mutant one_of_four_is_right sim/python/kvreplay/evaluate/item.py \
  'check_python.sh' 'of = any if self.any else all' 'of = any'
mutant question_is_compressed sim/python/kvreplay/evaluate/compose.py \
  'check_python.sh' '"") if ends == "inside" else' '"") if ends else'
mutant file_of_any_model sim/python/kvreplay/evaluate/assets.py \
  'check_python.sh' 'if digest and digest in known.split():' 'if known:'
# Evaluations.
mutant evaluation_on_any_platform sim/store/evaluation_name.c 'db' \
  'kv_db_line_int(&h, "threads", r->threads);' ''
mutant evaluation_code_unread sim/store/evaluation_name.c 'db' \
  'file[n++] = kv_st_digest(st, 0);' ''
mutant evaluations_uncompared sim/store/tables.c 'db' \
  'SQL(spec, SAME' 'SQL(spec, FIRST'
mutant evaluation_reported_early sim/store/db_evaluation_put.c 'db' \
  'rc = kv_db_end(s->db, rc, e);' ''
mutant evaluation_unsaid sim/cli/command_verify.c 'cases/verify.cases' \
  'if (s->evaluations)' 'if (!s)'
mutant task_counts_anyway analysis/sql/answers.sql 'cases/answers.cases' \
  'a.dense_exact >= .6' 'a.dense_exact >= .1'
mutant old_code_answers analysis/sql/answers.sql 'cases/answers.cases' \
  'WHERE age = 1;' 'WHERE age > 0;'
mutant error_over_questions analysis/sql/answers.sql 'cases/answers.cases' \
  'n.asked, n.measure, n.item;' 'n.asked, n.measure, n.item, n.question;'
mutant items_for_questions analysis/sql/answers.sql 'cases/answers.cases' \
  "sum(status = 'ok') AS questions" \
  "2 * count(DISTINCT iif(status = 'ok', item, NULL)) AS questions"
mutant reason_of_each_row analysis/command_table.c 'cases/answers.cases' \
  'bool last = kv_grid_end(&g, r, "reason") == r + 1;' 'bool last = true;'
mutant python_old_answers sim/python/kvreplay/results.py 'cases/answers.cases' \
  'for x in rows if x["run_id"] in newest]' 'for x in rows]'
# What the fullest of ranks holds, beside its layout.
mutant ranks_of_other_runs analysis/sql/formats.sql 'check_python.sh' \
  'ON k.run_id = l.run_id AND l.layout IN (k.whole, k.layout)' \
  'ON k.run_id = l.run_id AND l.layout IN (k.whole, k.layout, l.layout)'
mutant even_of_one_rank analysis/sql/formats.sql 'check_python.sh' \
  'ranks * k.bytes_mean / nullif(' 'k.bytes_mean / nullif('
