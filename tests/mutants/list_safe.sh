# SPDX-License-Identifier: Apache-2.0
#
# Mutants of what keeps files, results and processes from harm: form as in
# list.sh.

# What is written over.
mutant apart_by_name traces/container/apart.c 'cases/overwrite.cases' \
  'return a->st_dev == b->st_dev && a->st_ino == b->st_ino;' \
  'return a == b;'
mutant apart_from_log traces/container/apart.c 'cases/overwrite.cases' \
  'in[i].database && k < inputs' 'in[i].database && k < 0'
mutant check_over_file sim/cli/command_check.c 'cases/overwrite.cases' \
  'kv_cells_options_apart(&kv_command_check, &o->cells, e)' 'KV_OK'
mutant apart_from_nothing traces/option/files.c 'cases/overwrite.cases' \
  'if (made)' 'if (made && p.folder)'
mutant database_is_no_file traces/container/apart.c 'cases/overwrite.cases' \
  'return all && memcmp(text, head, sizeof text) == 0;' \
  'return all && memcmp(text, head, sizeof text) > 0;'
mutant link_is_replaced traces/container/newfile.c 'cases/overwrite.cases' \
  'char *target = link ? realpath(path, NULL) : NULL;' \
  'char *target = link ? NULL : NULL;'
mutant export_over_input analysis/command_export.c 'cases/overwrite.cases' \
  'if (kv_places_apart(1, &in, 1, &out, &e))' \
  'if (kv_places_apart(0, &in, 1, &out, &e))'
mutant report_not_to_stdout traces/container/apart.c 'cases/overwrite.cases' \
  'if (!out[i].instead)' 'if (!out[i].folder)'

# An end in time.
mutant stop_is_not_heard sim/cli/signal.c 'check_stop.sh' \
  '    else
      sem_post(&watch.called);' '    else
      errno = 0;'
mutant stop_leaves_files sim/cli/signal.c 'check_stop.sh' \
  '      kv_note(stuck);
    kv_leftover_remove();' '      kv_note(stuck);'
mutant stop_says_nothing sim/cli/command_run.c 'check_stop.sh' \
  '  kv_row_writer_close(s->rows, NULL);' ''

# The right sentence and code, in help, page and completion, too.
mutant page_leaves_flags_out traces/option/man.c 'cases/cli.cases' \
  'plain(out, o->name);' 'plain(out, o->argument ? o->name : "");'
mutant completion_knows_letters traces/option/completion.c 'cases/cli.cases' \
  'fprintf(out, "--%s ", o->name);' \
  'if (o->letter) fprintf(out, "--%s ", o->name);'
mutant help_skips_options traces/option/help.c 'cases/cli.cases' \
  '    option(out, o);' '    if (!o->must) option(out, o);'
mutant nothing_is_required traces/option/option.c 'cases/cli.cases' \
  'if (o->must && !f->given[i])' 'if (o->must && f->given[i])'
mutant version_is_failure sim/store/db_open.c 'db_faults' \
  'version != kv_db_schema' 'version > kv_db_schema'
mutant table_is_memory sim/store/db_fail.c 'db_faults' \
  '{SQLITE_ERROR, KV_INPUT,' '{SQLITE_EMPTY, KV_INPUT,'
mutant wait_is_silent sim/store/db_wait.c 'db_faults' \
  'w->tell(w->self, db->path, writer(db));' '(void)writer(db);'
mutant bad_trace_stops_all sim/cli/job.c 'check_inputs.sh' \
  'if (rc != KV_INPUT || !s->goes_on' 'if (rc || !s->goes_on'
mutant bad_trace_stored sim/cli/command_run.c 'check_inputs.sh' \
  '!*stopped && !*bad && i' '!*stopped && i'
mutant failure_is_silent sim/cli/command_run.c 'check_inputs.sh' \
  'if (failed && !bad) tell_failed(s, r);' '(void)tell_failed;'
mutant plus_escapes_nothing sim/ask/spec.h 'spec' \
  '#define KV_SPEC_ESCAPED ":,+\\"' '#define KV_SPEC_ESCAPED ":,\\"'

# What is no number is called right: one in each of who compares.
mutant nan_is_equal traces/trace/check.c 'judge check_inputs.sh' \
  'return difference == 0 ? 0 :' 'return !(difference > 0) ? 0 :'
mutant nan_is_passed_over traces/trace/check.h 'judge check_inputs.sh' \
  'return a <= b || b != b ? b : a;' 'return a <= b ? b : a;'
mutant nan_is_forgotten traces/trace/check.h 'judge' \
  'return a <= b || b != b ? b : a;' 'return !(b <= a) ? b : a;'
mutant nan_is_no_json traces/text/json.c 'check_inputs.sh' \
  'if (isfinite(x)) return json_real(x);' \
  'if (x == x || 1) return json_real(x);'
mutant ours_may_be_nan sim/run/grade/outputs.c 'judge' \
  'bool both = isfinite(theirs) && isfinite(ours);' \
  'bool both = isfinite(theirs);'
mutant infinity_tolerates sim/run/grade/outputs.c 'judge check_inputs.sh' \
  'isfinite(out[x]) && fabsf(out[x]) > most' 'fabsf(out[x]) > most'
mutant infinity_tolerates_sums sim/run/grade/outputs.c 'judge' \
  'return isfinite(lse) ? fmax(1, fabs((double)lse)) : 1;' \
  'return fmax(1, fabs((double)lse));'
mutant nan_is_no_error sim/replay/measure/fidelity_prompt.c 'check_inputs.sh' \
  'if (isnan(square)) *most' 'if (isnan(*most)) *most'

# What is refused, and what is asked for without a word.
mutant refusal_is_silent sim/cli/refusals.c 'check_refused.sh' \
  'if (*line) kv_note(line);' 'if (*line && r.missed) kv_note(line);'
mutant missed_is_done sim/cli/refusals.c 'check_refused.sh' \
  'return strict || r.missed ? KV_INPUT : KV_OK;' \
  'return strict ? KV_INPUT : KV_OK;'
mutant all_is_named sim/ask/spec.c 'check_refused.sh' \
  'one.of_all = rc == KV_OK;' ''
mutant shard_knows_itself_only sim/cli/refusals.c 'check_refused.sh' \
  't->runs |= s->shares.runs[s->shares.first[at] + cell];' '(void)cell;'
mutant default_wants_budget sim/ask/spec.c 'check_refused.sh' \
  'return kv_spec_wants_budget(s) && p->knob != KV_KNOB_RESOLVED;' \
  'return p && kv_spec_wants_budget(s);'
mutant file_of_the_pair sim/replay/engine/cell.c 'check_refused.sh' \
  'const char *name = kv_spec_reader(&c->spec, i)->name;' \
  'const char *name = c->spec.method->name;'
mutant pair_writes_over sim/cli/options_cells.c 'check_refused.sh' \
  'kv_spec_reader(s, i)->name' 's->method->name'

# Names of databases, headers, and what no cache holds.
mutant name_is_uri sim/store/db_open.c 'cases/overwrite.cases' \
  '*path == '\''/'\'' ? "" : "./", path' '"", path'
mutant part_is_uri analysis/database/merge.c 'cases/overwrite.cases' \
  '*out == '\''/'\'' ? "" : "./"' '""'
mutant padding_untold traces/container/header.c 'check_inputs.sh' \
  'if (rc == KV_INPUT) tell_padding' 'if (rc == KV_OK) tell_padding'
mutant expanded_in_one_layer traces/trace/expanded.c 'expanded' \
  'look(t, &t->layer[t->n_layers - 1].data, token, &e);' ''
mutant padded_is_expanded traces/trace/expanded.c 'expanded' \
  'shared == s->d || !e.something' 'shared == s->d'

# What an engine appended: whole, once, and alike where it is there twice.
mutant pack_takes_holes traces/container/chunks.c 'traces/check_pack.sh' \
  'else if (head[0] != c->tokens)' 'else if (head[0] < c->tokens)'
mutant pack_takes_cut_chunks traces/container/chunks.c 'traces/check_pack.sh' \
  'head[1] <= (left - HEAD) / row' 'head[1] <= left / row + 1'
mutant pack_needs_no_last_rank traces/trace/pack.c 'traces/check_pack.sh' \
  'return next == p->n_heads ?' 'return next <= p->n_heads ?'
mutant pack_takes_heads_twice traces/trace/pack.c 'traces/check_pack.sh' \
  'if (x[i].head < next)' 'if (x[i].head < next - 99)'
mutant pack_needs_no_kv_head traces/trace/pack.c 'traces/check_pack.sh' \
  'if (to > g) rc' 'if (to > g + 99) rc'
mutant pack_compares_a_byte traces/trace/pack_write.c 'traces/check_pack.sh' \
  'if (memcmp(to, rows, size) != 0)' 'if (memcmp(to, rows, 1) != 0)'
mutant pack_takes_nan traces/trace/pack_write.c 'traces/check_pack.sh' \
  'if (at == all) return KV_OK;' 'if (at <= all) return KV_OK;'
mutant pack_over_its_folder traces/cli/kvtrace_pack.c 'traces/check_pack.sh' \
  'kv_places_apart(1, &in, 1, &out, e)' \
  'kv_places_apart(1, &in, i == 0, &out, e)'
mutant dump_keeps_padding traces/examples/dump_vllm.py 'traces/check_pack.sh' \
  'x.reshape(-1, *size)[:n]' 'x.reshape(-1, *size)[: n + 3]'
