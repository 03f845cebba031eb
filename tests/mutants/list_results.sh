# SPDX-License-Identifier: Apache-2.0
#
# Mutants of what is read from a database and shown: see list.sh.
mutant needle_share_is_mass sim/measure/measure.c 'fidelity' \
  'got->mean / dense->mean' 'got->mean'
mutant codes_mix analysis/sql/runs.sql 'check_results.sh' \
  "iif(method = 'replay', subject, method ||" \
  "iif(method <> 'x', subject, method ||"
mutant damage_is_shown analysis/database/laws.c 'check_results.sh' \
  'if (!holds(&all->law[i], v[i]))' 'if (!holds(&all->law[i], v[i]) && !v[i])'
mutant text_is_markup analysis/tables/text.c 'check_results.sh' \
  'fputs(at ? entity[at - special] : one, f);' \
  'fputs(at ? one : one, f), (void)entity;'
mutant old_values_contradict analysis/database/differ.c 'check_results.sh' \
  '(d.measures = s.measures AND d.value IS NOT s.value)' \
  'd.value IS NOT s.value'
mutant log_stays sim/db/db_open.c 'check_results.sh' \
  'PRAGMA journal_mode = DELETE", NULL, NULL, NULL);' \
  'PRAGMA user_version", NULL, NULL, NULL);'
# What intervals are made of, and where it is kept.
mutant squares_about_zero sim/measure/stat.c 'moments' \
  'kv_square(value[i] - s.mean)' 'kv_square(value[i])'
mutant passes_round_rank sim/measure/tally.c 'moments' \
  'while (t->rank[r] >= t->at[r][digit])' \
  'while (t->rank[r] > t->at[r][digit])'
mutant shelf_stays sim/measure/spill.c 'moments' \
  'if (s->file) madvise(' 'if (!s) madvise('
mutant moments_not_compared sim/db/db_diff.c 'old_db' \
  'kv_db_compare_moments(a, b, where);' ''
mutant drift_of_run_compared sim/db/db_diff.c 'old_db' \
  'for (int i = 0; i <= a->n_parts &&' 'for (int i = 0; i < 1 &&'
mutant asset_bytes_not_put sim/db/db_write.c 'db' \
  'if (isnan(x)) continue;' 'if (isnan(x) || i == 10) continue;'
mutant scalars_uncompared sim/db/db_diff.c 'old_db' \
  'compare_number(s->name, x, y, where))' \
  'compare_number(s->name, x, x, where))'
mutant scalars_of_first_file analysis/database/differ.c 'check_results.sh' \
  'd.name WHERE d.value != s.value' 'd.name WHERE d.value = -s.value'
mutant drift_of_all_steps sim/measure/fidelity_total.c 'moments' \
  'for (int i = r->step[0]; i < r->step[1]; i++)' \
  'for (int i = 0; i < f->steps; i++)'
# What ranks answers, and means of some traces.
mutant some_among_all analysis/database/say.h 'check_means.sh' \
  'ORDER BY summary.traces < summary.traces_all, summary.needle' \
  'ORDER BY summary.needle'
mutant spread_for_error analysis/sql/means.sql 'check_means.sh' \
  'standard_error(mass) AS mass_se' '2 * standard_error(mass) AS mass_se'
mutant holm_for_one analysis/compare/paired.c 'check_means.sh' \
  'double level = p[order[i]] * (m - i);' 'double level = p[order[i]];'
mutant flips_one_sided analysis/compare/paired.c 'check_means.sh' \
  'return fabs(s) >= fabs(found)' 'return s >= fabs(found)'
mutant all_lines_named analysis/page/plot.c 'check_means.sh' \
  'if (!on_front(p, i)) break;' 'if (!drawn(p, p->mark + i)) break;'
mutant names_on_names analysis/page/plot.c 'check_means.sh' \
  '|| overlaps(at, n, taken))' '|| (overlaps(at, n, taken) && w < 0))'
mutant ties_agree analysis/compare/rank.c 'check_answers.sh' \
  'same += ones((up & more)' 'same += ones((both & ~(up | down)) | (up & more)'
mutant kl_turned analysis/compare/ranked.c 'check_answers.sh' \
  '{"kl", "kl", ERROR}' '{"kl", "kl", SHARE}'
mutant none_left_out analysis/compare/rank.c 'check_answers.sh' \
  'w->x->method[w->a[p]] != method &&' 'method >= 0 ||'
mutant lse_error_signed analysis/compare/ranked_read.c 'check_answers.sh' \
  'iif(m.size, abs(v.value), v.value)' 'v.value'
mutant other_bytes_ranked analysis/sql/ranks.sql 'check_answers.sh' \
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
mutant claims_best_row sim/python/kvreplay/claims/claim.py 'check_python.sh' \
  'return max((x.verdict' 'return min((x.verdict'
mutant claims_beside_decides sim/python/kvreplay/claims/claim.py \
  'check_python.sh' 'for x in found if not x.look.beside]' 'for x in found]'
mutant claims_drift_rises sim/python/kvreplay/claims/hardkv.py \
  'check_python.sh' '"least < 0 AND slowest < 0"' '"least < 0"'
mutant capacity_tables_of_k4v2 sim/commands/command_lengths.c \
  'check_capacity.sh check_python.sh' 'high = {{8, 4}, {1, 1}};' \
  'high = {{4, 2}, {1, 1}};'
mutant release_step_edited sim/db/db_schema.c 'release/check_release.sh' \
  'budget INTEGER, observe TEXT NOT NULL' 'budget INTEGER, observe TEXT'
# What a command costs and says.
mutant search_is_linear sim/spec/budget_search.c 'search' \
  'high = high > most / 2 ? most : 2 * high)' 'high++)'
mutant threads_by_name sim/engine/replay.c 'search' \
  'return w == NULL && how->backend->threads;' 'return w == NULL;'
mutant one_thread_unsaid sim/commands/command_run.c 'check_cli.sh' \
  'if (!rc) kv_job_say_one_thread(&s->of, &how);' ''
mutant tune_misses_the_end sim/tune/search.c 'tuning' \
  '(int64_t)j * (size - 1)' '(int64_t)j * (size - 2)'
mutant tune_leaps_to_one sim/tune/search.c 'tuning' \
  's->step[i] = (s->step[i] + 1) / 2;' 's->step[i] = 1;'
mutant tune_lse_has_a_sign sim/tune/goal.c 'goal' \
  'strncmp(key, name, strlen(name)) ? x : fabs(x)' 'name ? x : fabs(x)'
mutant tune_sees_one_trace sim/tune/goal.c 'goal' \
  'j->mean[m] += value_of(g->measure[m].key, x);' \
  'j->mean[m] = i ? j->mean[m] : x * rows;'
mutant tune_trusts_its_traces sim/commands/tune_report.c 'check_tune.sh' \
  '!kv_tune_met(&m->held[m->search.best])' \
  '!kv_tune_met(&m->judged[m->search.best])'
mutant tune_sorts_by_name sim/commands/tune_table.c 'check_tune.sh' \
  'return kv_tune_score_compare(&x->score, &y->score) < 0;' 'return false;'
mutant tune_praises_oracles sim/commands/tune_table.c 'check_tune.sh' \
  '(rulers == n || !rules(l->of[i]))' '(rulers <= n)'
mutant tune_praises_unheld sim/commands/tune_table.c 'check_tune.sh' \
  'return !held || kv_tune_met(held);' 'return !held || held->score.ran;'
mutant tune_reaches_the_first sim/commands/command_tune.c 'check_tune.sh' \
  'if (t->shape.n_tokens > longest) longest = t->shape.n_tokens;' \
  'if (t->shape.n_tokens < 200) longest = t->shape.n_tokens;'
mutant tune_knob_typed_or_not sim/tune/space.c 'tuning' \
  '|| spec->given[p - spec->method->params]' ''
mutant tune_ranges_for_one sim/commands/options_tune.c 'check_tune.sh' \
  'found = true;' 'found = true, i = o->methods - 1;'
mutant verify_skips_layouts sim/commands/verify_cell.c 'check_verify.sh' \
  'kv_rc rc = ask_layouts(db, v, b, x->layout, e);' \
  'kv_rc rc = KV_OK; (void)ask_layouts;'
# What a method is lent, apart from what it holds.
mutant asset_bytes_are_none sim/engine/cell.c 'assets check_reads.sh' \
  'c->asset ? (int64_t)c->asset->bytes : 0' '0'

# Papers and their BibTeX.
mutant paper_unnumbered ref/methods/tova.c 'bibtex' \
  '"arXiv:2401.06104"' '"NeurIPS"'
mutant authors_kept sim/show/bibtex.c 'bibtex' \
  '" and ", " and ", " and others"' '" and ", " and ", " et al."'

# What a method may see.
mutant observe_not_in_key sim/db/db_key.c 'db check_observe.sh' \
  'if (r->observe) kv_db_line(h,' 'if (r->observe < 0) kv_db_line(h,'
mutant context_behind_question sim/spec/observe.c 'segments' \
  's->end <= question->start && ' ''
mutant dense_seen_otherwise analysis/sql/views.sql 'check_observe.sh' \
  'AND d.prompt_len = r.prompt_len AND d.observe = r.observe
    AND d.arithmetic = r.arithmetic
  LEFT JOIN counted o' 'AND d.prompt_len = r.prompt_len
    AND d.arithmetic = r.arithmetic
  LEFT JOIN counted o'

# Later questions as prompts.
mutant turns_compress_as_steps ref/backend/backend.c 'turns' \
  'static void prompt(kv_store *s, int end) { s->shape.prompt_len = end; }' \
  'static void prompt(kv_store *s, int end) { (void)s, (void)end; }'
mutant turns_vote_twice ref/methods/adakv.c 'turns' \
  'kv_score_forget(at, lane[l], &o->s);' 'kv_score_forget(at, lane[0], &o->s);'
mutant turns_share_of_first ref/methods/adakv.c 'turns' \
  'all += x->base[l];' 'all += x->base[0];'
mutant turns_count_within sim/measure/cost_total.c 'turns' \
  'if (!closed(&all)) continue;' ''

# The pictures of the page.
mutant heads_of_one_trace analysis/sql/pictures.sql 'check_pictures.sh' \
  'count(*) AS traces, avg(kept) AS kept, avg(share) AS share' \
  'count(*) AS traces, avg(kept) AS kept, max(share) AS share'
mutant pages_of_every_trace analysis/sql/pictures.sql 'check_pictures.sh' \
  'FROM place WHERE cells = most)' 'FROM place)'
mutant squares_by_column analysis/page/heat.c 'check_pictures.sh' \
  'double x = h->value[r * h->columns + c];
      if (isfinite(x))' 'double x = h->value[c * h->columns + r];
      if (isfinite(x))'
mutant survivors_of_bin analysis/database/survivors.c 'check_pictures.sh' \
  '(double)there / entered' '(double)there / (last - first)'
mutant overlap_of_one_side analysis/database/survivors.c 'check_pictures.sh' \
  'either += x || y;' 'either += x;'
mutant shown_by_head sim/look/survive.c 'check_pictures.sh' \
  'if (count && stamp[t] != mark) count[t]++;' 'if (count) count[t]++;'
mutant tokens_not_compared sim/db/db_survival.c 'check_pictures.sh old_db' \
  'if (gone || shown)' 'if (gone && !shown && !run)'
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
mutant bars_side_by_side analysis/figures/held.c 'check_figures.sh' \
  '.x1 = at + x};' '.x1 = x};'
mutant paid_from_prompt analysis/sql/formats.sql 'check_figures.sh' \
  'max(l.rewritten, ran.prompt_len) + break_even AS paid' \
  'ran.prompt_len + 2 * break_even AS paid'
mutant figure_of_first_file analysis/database/merge.c \
  'traces/check_trace_figures.sh' \
  'SET value = min(d.value, s.value)"' 'SET value = d.value"'
mutant weights_supersede_none analysis/sql/runs.sql 'check_figures.sh' \
  "json_extract(params, '$.compressor')" "json_extract(params, '$.recent')"
mutant latents_quartered_twice analysis/sql/deltakv.sql 'check_figures.sh' \
  '(layers - full) * per_stride / layers) +' \
  '(layers - full) * per_stride / layers) + (part - 1) * .05 +'
mutant ablation_by_any_weights analysis/sql/deltakv.sql 'check_figures.sh' \
  "WHEN refs = 'none' AND learned = 'none' THEN" "WHEN refs = 'none' THEN"
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
mutant line_enters_late traces/prefill/pattern.c 'prefill' \
  'while (n < r * g->block - 1)' 'while (n < r * g->block && n < g->tokens)'
mutant pair_counted_twice traces/prefill/pattern.c 'prefill' \
  'if (!x->left || at < 0 || x->in[at]) return;' \
  'if (!x->left || at < 0) return;'
mutant topk_first_rows traces/prefill/pattern.c 'prefill' \
  'if (k < g->first[i + 1] - g->first[i])
        take_pair' \
  'if (k < i - g->from[i])
        take_pair'
mutant window_has_all_pairs traces/prefill/blocks.c 'prefill' \
  'x->from[b] = kv_layer_first(data, b * block) / block;' 'x->from[b] = 0;'
mutant last_rows_of_first_head traces/prefill/hints.c 'check_kvtrace.sh' \
  '(size_t)(h % r->group) * r->stride' '0 * (size_t)h'
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
mutant together_keeps_pages sim/layout/together.c 'together' \
  'kv_pool_compact(x, 1, &leave);' '(void)leave;'
mutant together_all_alike sim/layout/together_open.c 'together' \
  'if (alike(&x->tier[i], t))' 'if (alike(&x->tier[i], t) || i)'
mutant together_uncompared sim/db/db_pool.c 'check_requests.sh' \
  'if (!*what) return KV_OK;' 'if (what) return KV_OK;'
mutant pools_stay_as_they_were sim/db/db_pool.c 'old_db' \
  'if (!rc && (!found || before) && !db->still)' \
  'if (!rc && !found && !db->still)'
mutant maps_stay_unknown sim/db/db_layout.c 'old_db' \
  'coalesce(map_peak, excluded.map_peak)' 'map_peak'
mutant lacking_map_contradicts sim/db/db_layout.c 'old_db' \
  'if (was->map_end >= 0) kv_db_tell' 'kv_db_tell'
mutant number_that_differs_unsaid sim/db/db_value.c 'check_verify.sh' \
  'if (*what || kv_db_same(one, was, now)) continue;' \
  'if (kv_db_same(one, was, was)) continue;'
mutant numbers_of_first_pool analysis/database/merge.c 'check_requests.sh' \
  'AND s.place = d.place AND d.blocks IS NULL' \
  'AND s.place = d.place AND 0'
mutant step_in_the_log analysis/database/forward.c \
  'release/check_release.sh' 'bytes[18] = bytes[19] = 1;' ''
mutant step_unnumbered analysis/database/forward.c \
  'release/check_release.sh' 'PRAGMA user_version = 2' \
  'PRAGMA user_version = 1'
mutant old_file_written analysis/database/check.c \
  'release/check_release.sh' 'version < VERSION_KNOWN && write)' \
  'version < 1 && write)'
mutant queue_overtaken sim/layout/together.c 'together' \
  '!reserve(x, i, last_of(x) < 0, step))' \
  '!reserve(x, i, last_of(x) < 0, step) && !x->n)'
mutant queue_in_two_steps sim/layout/together.c 'check_requests.sh' \
  'if (x->made_room) return true;' ''
mutant stays_for_now sim/layout/together.c 'check_requests.sh' \
  'if (x->ahead[k] > x->result.pages)' 'if (!k && x->ahead[k] < 0)'
mutant bytes_of_the_end sim/layout/together_pool.c 'check_requests.sh' \
  'return point_of(r, r->block)->most;' 'return point_of(r, r->block)->bytes;'
mutant arrivals_late sim/layout/arrivals.c 'check_requests.sh' \
  'if (i && a->poisson)' 'if (a->poisson)'
mutant map_of_held_rows sim/layout/layout_pages.c 'layouts' \
  '((step + asked->page - 1) / asked->page);' '(step / asked->page);'
mutant columns_one_early sim/db/db_value.c 'db' \
  '++at, INT64_MIN, INT64_MAX);' 'at, INT64_MIN, INT64_MAX), at++;'
mutant layout_numbers_lost sim/db/db_sql.c 'check_verify.sh' \
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
mutant evaluation_on_any_platform sim/db/evaluation_name.c 'db' \
  'kv_db_line_int(&h, "threads", r->threads);' ''
mutant evaluation_code_unread sim/db/evaluation_name.c 'db' \
  'file[n++] = kv_st_digest(st, 0);' ''
mutant evaluations_uncompared sim/db/db_evaluation_put.c 'db' \
  'compare(&before, r, where);' '(void)compare, *where = 0;'
mutant evaluation_reported_early sim/db/db_evaluation_put.c 'db' \
  'rc = kv_db_end(s->db, rc, e);' ''
mutant evaluation_unsaid sim/commands/command_verify.c 'check_verify.sh' \
  'if (s->evaluations)' 'if (!s)'
mutant task_counts_anyway analysis/sql/answers.sql 'check_answers.sh' \
  'a.dense_exact >= .6' 'a.dense_exact >= .1'
mutant old_code_answers analysis/sql/answers.sql 'check_answers.sh' \
  'WHERE age = 1;' 'WHERE age > 0;'
mutant answers_contradict analysis/database/differ.c 'check_answers.sh' \
  'WHERE w.there IS NOT w.here' 'WHERE w.there < w.here AND w.at < 3'
mutant error_over_questions analysis/sql/answers.sql 'check_answers.sh' \
  'n.asked, n.measure, n.item;' 'n.asked, n.measure, n.item, n.question;'
mutant items_for_questions analysis/sql/answers.sql 'check_answers.sh' \
  "sum(status = 'ok') AS questions" \
  "2 * count(DISTINCT iif(status = 'ok', item, NULL)) AS questions"
mutant reason_of_each_row analysis/command_table.c 'check_answers.sh' \
  'bool last = kv_grid_end(&g, r, "reason") == r + 1;' 'bool last = true;'
mutant python_old_answers sim/python/kvreplay/results.py 'check_answers.sh' \
  'for x in rows if x["run_id"] in newest]' 'for x in rows]'
# What the fullest of ranks holds, beside its layout.
mutant ranks_of_other_runs analysis/sql/formats.sql 'check_python.sh' \
  'ON k.run_id = l.run_id AND l.layout IN (k.whole, k.layout)' \
  'ON k.run_id = l.run_id AND l.layout IN (k.whole, k.layout, l.layout)'
mutant even_of_one_rank analysis/sql/formats.sql 'check_python.sh' \
  'ranks * k.bytes_mean / nullif(' 'k.bytes_mean / nullif('
