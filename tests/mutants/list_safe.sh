# SPDX-License-Identifier: Apache-2.0
#
# Mutants of what keeps files, results and processes from harm: form as in
# list.sh.

# What is written over.
mutant apart_by_name traces/container/apart.c 'check_overwrite.sh' \
  'return a->st_dev == b->st_dev && a->st_ino == b->st_ino;' \
  'return a == b;'
mutant apart_from_nothing traces/option/files.c 'check_overwrite.sh' \
  'if (made)' 'if (made && p.folder)'
mutant database_is_no_file traces/container/apart.c 'check_overwrite.sh' \
  'return all && memcmp(text, head, sizeof text) == 0;' \
  'return all && memcmp(text, head, sizeof text) > 0;'
mutant link_is_replaced traces/container/newfile.c 'check_overwrite.sh' \
  'char *target = link ? realpath(path, NULL) : NULL;' \
  'char *target = link ? NULL : NULL;'
mutant export_over_input analysis/command_export.c 'check_overwrite.sh' \
  'if (kv_places_apart(1, &in, 1, &out, &e))' \
  'if (kv_places_apart(0, &in, 1, &out, &e))'
mutant report_not_to_stdout traces/container/apart.c 'check_overwrite.sh' \
  'if (!out[i].instead)' 'if (!out[i].folder)'

# An end in time.
mutant stop_is_not_heard sim/commands/signal.c 'check_stop.sh' \
  '    else
      sem_post(&watch.called);' '    else
      errno = 0;'
mutant stop_leaves_files sim/commands/signal.c 'check_stop.sh' \
  '      kv_note(stuck);
    kv_leftover_remove();' '      kv_note(stuck);'
mutant stop_says_nothing sim/commands/command_run.c 'check_stop.sh' \
  '  kv_row_writer_close(s->rows, NULL);' ''

# The right sentence and code, in help, page and completion, too.
mutant page_leaves_flags_out traces/option/man.c 'check_cli.sh' \
  'plain(out, o->name);' 'plain(out, o->argument ? o->name : "");'
mutant completion_knows_letters traces/option/completion.c 'check_cli.sh' \
  'fprintf(out, "--%s ", o->name);' \
  'if (o->letter) fprintf(out, "--%s ", o->name);'
mutant help_skips_options traces/option/help.c 'check_cli.sh' \
  '    option(out, o);' '    if (!o->must) option(out, o);'
mutant nothing_is_required traces/option/option.c 'check_cli.sh' \
  'if (o->must && !f->given[i])' 'if (o->must && f->given[i])'
mutant version_is_failure sim/db/db_open.c 'db_faults' \
  'if (version < 0)' 'if (version < -9)'
mutant table_is_memory sim/db/db_fail.c 'db_faults' \
  '{SQLITE_ERROR, KV_INPUT,' '{SQLITE_EMPTY, KV_INPUT,'
mutant wait_is_silent sim/db/db_wait.c 'db_faults' \
  'w->tell(w->self, db->path, writer(db));' 'db->told = false;'
mutant bad_trace_stops_all sim/commands/job.c 'check_inputs.sh' \
  'if (rc != KV_INPUT || !s->goes_on' 'if (rc || !s->goes_on'
mutant bad_trace_stored sim/commands/command_run.c 'check_inputs.sh' \
  '!*stopped && !*bad && i' '!*stopped && i'
mutant failure_is_silent sim/commands/command_run.c 'check_inputs.sh' \
  'if (failed && !bad) tell_failed(s, r);' '(void)tell_failed;'
mutant plus_escapes_nothing sim/spec/spec.h 'spec' \
  '#define KV_SPEC_ESCAPED ":,+\\"' '#define KV_SPEC_ESCAPED ":,\\"'
