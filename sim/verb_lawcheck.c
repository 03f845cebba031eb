/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay lawcheck`: every law, on every trace, at every budget; then every
 * value of the method's choices on one. Children do the work
 * (sim/lawcheck.h): no thread may begin here.
 */
#include "sim/verbs.h"

#include "sim/lawcheck.h"
#include "sim/options_lawcheck.h"
#include "sim/signal.h"
#include "traces/trace.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_TRACES = 64, MOST_LAWS = 32, BUDGETS = 4 };

typedef struct asked {
  const char *trace; /* as it was named */
  char *file;        /* of a made one */
} asked;

typedef struct session {
  kv_lawcheck_options options;
  char folder[64]; /* of the made traces */
  asked trace[MOST_TRACES];
  int traces;
  const char *law[MOST_LAWS];
  int laws;
  int held[MOST_LAWS], refused[MOST_LAWS], broken;
  bool dead[MOST_LAWS]; /* broken once: not asked again */
  bool over;            /* hooks are broken: nothing else can be asked */
  char reason[512];     /* of the last refusal */
} session;

/* --- what to ask -------------------------------------------------------- */

static kv_rc take_laws(session *s, kv_err *e) {
  const kv_list *only = &s->options.laws;
  char names[256] = "";
  for (int i = 0; kv_lawcheck_law(i); i++) {
    size_t n = strlen(names);
    snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
             kv_lawcheck_law(i));
    if (!only->n) s->law[s->laws++] = kv_lawcheck_law(i);
  }
  for (int i = 0; i < only->n && i < MOST_LAWS; i++) {
    if (!kv_lawcheck_statement(only->item[i]))
      return kv_fail(e, KV_USAGE, "no law is called %.40s; there are %s",
                     only->item[i], names);
    s->law[s->laws++] = only->item[i];
  }
  return KV_OK;
}

static kv_rc add_trace(session *s, const char *name, kv_err *e) {
  kv_trace *t = NULL;
  if (s->traces == MOST_TRACES)
    return kv_fail(e, KV_USAGE, "more than %d traces", MOST_TRACES);
  asked *to = &s->trace[s->traces++];
  *to = (asked){.trace = name};
  if (strncmp(name, "made:", 5)) {
    kv_rc rc = kv_trace_open(name, &t, e);
    kv_trace_close(t);
    return rc;
  }
  size_t room = strlen(s->folder) + strlen(name) + 32;
  to->file = malloc(room);
  if (!to->file) return kv_no_memory(e, "a file name", room);
  snprintf(to->file, room, "%s/%d.safetensors", s->folder, s->traces);
  return kv_lawcheck_make(name, to->file, kv_interrupted, e);
}

static kv_rc take_traces(session *s, kv_err *e) {
  const kv_list *only = &s->options.traces;
  const char *base = getenv("TMPDIR");
  snprintf(s->folder, sizeof s->folder, "%.40s/kvreplay.XXXXXX",
           base && *base && strlen(base) < 40 ? base : "/tmp");
  if (!mkdtemp(s->folder)) {
    kv_rc rc = kv_fail(e, KV_RESOURCE,
                       "no folder %s for made traces: set TMPDIR", s->folder);
    s->folder[0] = 0;
    return rc;
  }
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < only->n; i++) rc = add_trace(s, only->item[i], e);
  for (int i = 0; !rc && !only->n && kv_lawcheck_made(i); i++)
    rc = add_trace(s, kv_lawcheck_made(i), e);
  return rc;
}

/* With all that is in it, also what a child that was ended left. */
static void remove_folder(const char *folder) {
  DIR *d = opendir(folder);
  for (struct dirent *f; d && (f = readdir(d));)
    unlinkat(dirfd(d), f->d_name, 0);
  if (d) closedir(d);
  rmdir(folder);
}

static void clean(session *s) {
  for (int i = 0; i < s->traces; i++) free(s->trace[i].file);
  if (s->folder[0]) remove_folder(s->folder);
  kv_list_free(&s->options.method);
  kv_list_free(&s->options.traces);
  kv_list_free(&s->options.laws);
}

/* --- asking ------------------------------------------------------------- */

/* What is broken, and the command that asks for it alone. */
static void say_broken(session *s, const char *spec, const asked *t,
                       int entries, const kv_lawcheck_said *said) {
  printf("broken: law %s, on %s", said->law, t->trace);
  if (entries >= 0) printf(", budget %d", entries);
  printf("\n  %s\n  law %s: %s\n  again: kvreplay lawcheck '%s' --law %s "
         "--trace '%s'",
         said->e.text, said->law, kv_lawcheck_statement(said->law), spec,
         said->law, t->trace);
  if (entries >= 0) printf(" -b %d", entries);
  if (s->options.prompt_len) printf(" -p %d", s->options.prompt_len);
  putchar('\n');
  s->broken++;
}

/* A crash may break another law than the one that was asked. */
static void bury(session *s, const char *law, int number) {
  s->over = !strcmp(law, "hooks");
  s->dead[number] = true;
  for (int i = 0; i < s->laws; i++)
    if (!strcmp(s->law[i], law)) s->dead[i] = true;
}

static kv_rc hear(session *s, int law, const char *text, const asked *t,
                  int entries, const kv_lawcheck_said *said, kv_err *e) {
  s->held[law] += said->e.rc == KV_OK;
  s->refused[law] += said->e.rc == KV_REFUSED;
  if (said->e.rc == KV_REFUSED) {
    snprintf(s->reason, sizeof s->reason, "%s", said->e.text);
  } else if (said->e.rc == KV_DIFFERENT) {
    say_broken(s, text, t, entries, said);
    bury(s, said->law, law);
  } else if (said->e.rc) {
    return kv_fail(e, said->e.rc, "%s", said->e.text);
  }
  return KV_OK;
}

static kv_rc ask_cell(session *s, const kv_spec *spec, const char *text,
                      const asked *t, int entries, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && !s->over && i < s->laws; i++) {
    kv_lawcheck c = {.law = s->law[i],
                     .trace = t->trace,
                     .file = t->file,
                     .spec = spec,
                     .entries = entries,
                     .prompt_len = s->options.prompt_len,
                     .stop = kv_interrupted};
    kv_lawcheck_said said;
    if (s->dead[i]) continue;
    rc = kv_lawcheck_ask(&c, &said, e);
    if (!rc && kv_interrupted()) rc = kv_fail(e, KV_RESOURCE, "interrupted");
    if (!rc) rc = hear(s, i, text, t, entries, &said, e);
  }
  return rc;
}

static kv_rc ask_trace(session *s, const kv_spec *spec, const char *text,
                       const asked *t, kv_err *e) {
  int tokens = kv_lawcheck_tokens(t->trace);
  const int own[BUDGETS] = {6, 24, 48, tokens ? tokens : 512};
  if (!kv_spec_wants_budget(spec)) return ask_cell(s, spec, text, t, -1, e);
  if (s->options.budget)
    return ask_cell(s, spec, text, t, s->options.budget, e);
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < BUDGETS; i++)
    rc = ask_cell(s, spec, text, t, own[i], e);
  return rc;
}

/* The n-th of choices a|b|c, or false. */
static bool cut(const char *choices, int n, size_t size, char *out) {
  while (choices && n-- > 0) {
    choices = strchr(choices, '|');
    if (choices) choices++;
  }
  if (choices) snprintf(out, size, "%.*s", (int)strcspn(choices, "|"), choices);
  return choices != NULL;
}

/* Every value of every choice that was not typed, on the first trace. */
static kv_rc ask_choices(session *s, const kv_spec *spec, const char *text,
                         kv_err *e) {
  char value[128], longer[2048];
  int budget = s->options.budget ? s->options.budget : 48;
  kv_rc rc = KV_OK;
  for (int p = 0; !rc && spec->method->params && spec->method->params[p].name;
       p++) {
    const kv_param *param = &spec->method->params[p];
    if (param->kind != KV_CHOICE || spec->given[p]) continue;
    for (int i = 0; !rc && cut(param->choices, i, sizeof value, value); i++) {
      kv_spec one = {0};
      if (!strcmp(value, param->fallback)) continue;
      snprintf(longer, sizeof longer, "%s:%s=%s", text, param->name, value);
      rc = kv_spec_parse(kv_method_at, longer, &one, e);
      if (!rc)
        rc = ask_cell(s, &one, longer, &s->trace[0],
                      kv_spec_wants_budget(&one) ? budget : -1, e);
      kv_spec_free(&one);
    }
  }
  return rc;
}

/* --- the command -------------------------------------------------------- */

static int conclude(const session *s, const kv_method *m) {
  int held = 0;
  kv_err e = {0};
  for (int i = 0; i < s->laws; i++) {
    held += s->held[i];
    if (s->options.quiet || s->broken) continue;
    printf("%-9s holds in %d cells", s->law[i], s->held[i]);
    if (s->refused[i]) printf(", cannot be asked in %d", s->refused[i]);
    printf("\n          ");
    kv_help_wrap(stdout, 10, 10, kv_lawcheck_statement(s->law[i]));
  }
  if (s->broken) {
    printf("%s: %d law%s broken%s\n", m->name, s->broken,
           s->broken == 1 ? "" : "s",
           s->over ? "; the others were not asked" : "");
    return KV_DIFFERENT;
  }
  if (held) {
    printf("%s: %d law%s\n", m->name, s->laws,
           s->laws == 1 ? " holds" : "s hold");
    return KV_OK;
  }
  kv_fail(&e, KV_USAGE, "no cell could run: %s", s->reason);
  return kv_say(&e);
}

/* What had been asked by then. */
static int interrupted(const session *s) {
  char note[160];
  int held = 0;
  for (int i = 0; i < s->laws; i++) held += s->held[i];
  snprintf(note, sizeof note,
           "interrupted: of what had been asked, %d held and %d were broken; "
           "repeat the command to ask all",
           held, s->broken);
  kv_note(note);
  return KV_EXIT_INTERRUPTED;
}

static kv_rc ask_all(session *s, const kv_spec *spec, kv_err *e) {
  const char *text = s->options.method.item[0];
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < s->traces; i++)
    rc = ask_trace(s, spec, text, &s->trace[i], e);
  if (!rc && !s->options.laws.n) rc = ask_choices(s, spec, text, e);
  return rc;
}

int kv_verb_lawcheck(int argc, char **argv) {
  session s = {0};
  kv_err e = {0};
  kv_spec spec = {0};
  kv_asked what = KV_ASKED_WORK;
  int code;
  kv_rc rc =
      kv_options_parse(&kv_command_lawcheck, argc, argv, &s.options, &what, &e);
  if (!rc && what != KV_ASKED_WORK) {
    code = kv_verb_answer(what, &kv_command_lawcheck);
    clean(&s);
    return code;
  }
  if (!rc)
    rc = kv_spec_parse(kv_method_at, s.options.method.item[0], &spec, &e);
  if (!rc && spec.method->decisions)
    rc = kv_fail(&e, KV_USAGE,
                 "%s follows a file and decides nothing: laws are asked of "
                 "methods",
                 spec.method->name);
  if (!rc) rc = take_laws(&s, &e);
  if (!rc) rc = take_traces(&s, &e);
  if (!rc) rc = ask_all(&s, &spec, &e);
  if (kv_interrupted())
    code = interrupted(&s);
  else
    code = rc ? kv_say(&e) : conclude(&s, spec.method);
  kv_spec_free(&spec);
  clean(&s);
  return code;
}
