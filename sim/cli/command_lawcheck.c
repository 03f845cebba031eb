/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay lawcheck`: checks every law on every trace at every budget, then
 * every value of the method's choices on one trace. Children do the work
 * (sim/run/laws/lawcheck.h), so no thread may be started here.
 */
#include "sim/cli/commands.h"

#include "sim/ask/param.h"
#include "sim/cli/options_cells.h"
#include "sim/cli/show/law_report.h"
#include "sim/cli/show/law_traces.h"
#include "sim/cli/signal.h"
#include "sim/run/laws/lawcheck.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LAWS = 32, BUDGETS = 4, LONG = 1000, SECONDS = 20 };

/* Filled by the option table below. */
typedef struct options_of {
  kv_list method; /* one specification, or a plugin's path */
  kv_list traces; /* paths or made:NAME; none: every synthetic trace */
  kv_list laws;   /* names; none: every law */
  int budget;     /* entries per lane; 0: several budgets, and every token */
  int prompt_len; /* tokens; 0: the trace's own */
  int seconds;    /* limit for one call of a hook */
  bool quiet;     /* the table prints broken laws only, without counts */
  int format;     /* kv_law_format */
} options_of;

typedef struct task {
  options_of options;
  kv_spec spec;
  kv_law_traces traces;
  const char *law[MOST_LAWS];
  int laws;
  kv_law_report report;
  bool dead[MOST_LAWS]; /* broken, or pointless because another law is broken */
  bool over;            /* law hooks is broken: nothing else can be checked */
  char reason[512];     /* of the last refusal */
} task;

static kv_rc take_laws(task *s, kv_err *e) {
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
      return kv_fail(e, KV_USAGE, "no law is called %.40s; choose from %s",
                     only->item[i], names);
    s->law[s->laws++] = only->item[i];
  }
  return KV_OK;
}

/* --- checking ----------------------------------------------------------- */

/* Quotes text for a shell. */
static void quote(const char *text, size_t size, char *out) {
  size_t n = 0;
  out[n++] = '\'';
  for (; *text && n + 6 < size; text++) {
    if (*text == '\'') n += (size_t)snprintf(out + n, size - n, "'\\'");
    out[n++] = *text;
  }
  snprintf(out + n, size - n, "'");
}

/* The command that checks only one law on one cell. */
static void say_again(const task *s, const kv_law_answer *a, size_t size,
                      char *out) {
  char spec[2200], trace[2200], budget[32] = "", prompt[32] = "", wait[32] = "";
  quote(a->spec, sizeof spec, spec);
  quote(a->trace, sizeof trace, trace);
  if (a->entries >= 0) snprintf(budget, sizeof budget, " -b %d", a->entries);
  if (s->options.prompt_len)
    snprintf(prompt, sizeof prompt, " -p %d", s->options.prompt_len);
  if (s->options.seconds != SECONDS)
    snprintf(wait, sizeof wait, " -w %d", s->options.seconds);
  snprintf(out, size, "kvreplay lawcheck %s --law %s --trace %s%s%s%s", spec,
           a->law, trace, budget, prompt, wait);
}

/* Records an answer. A crash may break another law than the one checked. Then
 * the checked law is refused, and the broken one reported once. */
static kv_rc hear(task *s, int law, const char *text, int trace, int entries,
                  const kv_lawcheck_said *said, kv_err *e) {
  char again[5000] = "";
  kv_law_answer a = {.law = said->law,
                     .spec = text,
                     .trace = s->traces.trace[trace].name,
                     .entries = entries,
                     .reason = said->e.text,
                     .again = again};
  if (said->e.rc == KV_DIFFERENT)
    a.outcome = KV_LAW_BROKEN;
  else if (said->e.rc == KV_REFUSED)
    a.outcome = KV_LAW_REFUSED;
  else if (said->e.rc)
    return kv_fail(e, said->e.rc, "%s", said->e.text);
  if (a.outcome == KV_LAW_REFUSED)
    snprintf(s->reason, sizeof s->reason, "%s", said->e.text);
  if (a.outcome == KV_LAW_BROKEN) {
    s->dead[law] = true;
    s->over = !strcmp(said->law, "hooks");
    if (kv_law_report_count(&s->report, said->law, KV_LAW_BROKEN)) return KV_OK;
    for (int i = 0; i < s->laws; i++)
      if (!strcmp(s->law[i], said->law)) s->dead[i] = true;
    say_again(s, &a, sizeof again, again);
  }
  return kv_law_report_add(&s->report, &a, e);
}

static kv_rc ask_cell(task *s, const kv_spec *spec, const char *text, int trace,
                      int entries, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && !s->over && i < s->laws; i++) {
    kv_lawcheck c = {.law = s->law[i],
                     .trace = s->traces.trace[trace].name,
                     .file = s->traces.trace[trace].file,
                     .spec = spec,
                     .entries = entries,
                     .prompt_len = s->options.prompt_len,
                     .seconds = s->options.seconds,
                     .stop = kv_interrupted};
    kv_lawcheck_said said;
    if (s->dead[i]) continue;
    rc = kv_lawcheck_ask(&c, &said, e);
    if (!rc && kv_interrupted()) rc = kv_fail(e, KV_RESOURCE, "interrupted");
    if (!rc) rc = hear(s, i, text, trace, entries, &said, e);
  }
  return rc;
}

static kv_rc ask_trace(task *s, const kv_spec *spec, const char *text,
                       int trace, kv_err *e) {
  int tokens = kv_lawcheck_tokens(s->traces.trace[trace].name);
  const int own[BUDGETS] = {6, 24, 48, tokens ? tokens : 512};
  int first = tokens < LONG ? 0 : 2; /* small budgets only on short traces */
  if (!kv_spec_wants_budget(spec)) return ask_cell(s, spec, text, trace, -1, e);
  if (s->options.budget)
    return ask_cell(s, spec, text, trace, s->options.budget, e);
  kv_rc rc = KV_OK;
  for (int i = first; !rc && i < BUDGETS; i++)
    rc = ask_cell(s, spec, text, trace, own[i], e);
  return rc;
}

/* Copies the n-th of the choices a|b|c; false past the end. */
static bool cut(const char *choices, int n, size_t size, char *out) {
  while (choices && n-- > 0) {
    choices = strchr(choices, '|');
    if (choices) choices++;
  }
  if (choices) snprintf(out, size, "%.*s", (int)strcspn(choices, "|"), choices);
  return choices != NULL;
}

/* Checks every value of every choice that was not typed, on the first trace. */
static kv_rc ask_choices(task *s, const kv_spec *spec, const char *text,
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
      rc = kv_spec_copy(spec, &one, e);
      if (!rc) rc = kv_param_set(param, value, one.params, e);
      if (!rc)
        rc = ask_cell(s, &one, longer, 0,
                      kv_spec_wants_budget(&one) ? budget : -1, e);
      kv_spec_free(&one);
    }
  }
  return rc;
}

/* --- the command -------------------------------------------------------- */

static kv_rc ask_all(task *s, kv_err *e) {
  const kv_spec *spec = &s->spec;
  const char *text = s->options.method.item[0];
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < s->traces.n; i++)
    rc = ask_trace(s, spec, text, i, e);
  if (!rc && !s->options.laws.n) rc = ask_choices(s, spec, text, e);
  return rc;
}

/* Restarts the program with OMP_WAIT_POLICY set. Children usually have more
 * threads than processors, and threads that spin while waiting would make them
 * ten times slower; OpenMP reads the variable only when it is loaded. */
static void begin_patiently(int argc, char **argv) {
  static const char name[] = "OMP_WAIT_POLICY", own[] = "/proc/self/exe";
  char path[4096] = "";
  if (getenv(name) || readlink(own, path, sizeof path - 1) < 0 ||
      !strstr(path, "kvreplay")) /* for example, run by a loader */
    return;
  char **all = calloc((size_t)argc + 2, sizeof *all);
  if (!all || setenv(name, "passive", 1)) {
    free(all);
    return;
  }
  all[0] = (char *)"kvreplay";
  for (int i = 0; i < argc; i++) all[i + 1] = argv[i];
  execv(own, all);
  free(all); /* could not restart: continues as it is */
}

static void begin(void *self, int argc, char **argv) {
  ((task *)self)->options.seconds = SECONDS;
  begin_patiently(argc, argv);
}

static kv_rc check(void *self, kv_err *e) {
  task *s = self;
  kv_rc rc =
      kv_spec_parse(kv_method_at, s->options.method.item[0], &s->spec, e);
  if (!rc && s->spec.layers)
    rc = kv_fail(e, KV_USAGE,
                 "lawcheck needs one budget for all layers; give %s one with "
                 "-b, or none",
                 s->spec.method->name);
  return rc ? rc : take_laws(s, e);
}

/* After an error, too, what was checked so far is written completely. */
static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  kv_rc rc =
      kv_law_traces_open(&s->options.traces, kv_interrupted, &s->traces, e);
  if (!rc)
    kv_law_report_open((kv_law_format)s->options.format, s->options.quiet,
                       stdout, &s->report);
  if (!rc) rc = ask_all(s, e);
  *stopped = kv_interrupted();
  if ((rc || *stopped) && s->report.out)
    kv_law_report_close(&s->report, 0, NULL, NULL);
  return rc;
}

static void interrupted(void *self) {
  const int *count = ((task *)self)->report.count;
  char note[160];
  snprintf(note, sizeof note,
           "interrupted: %d laws held and %d were broken so far; repeat the "
           "command to check all",
           count[KV_LAW_HOLDS], count[KV_LAW_BROKEN]);
  kv_note(note);
}

/* Prints the result and closes the report. */
static int conclude(void *self) {
  task *s = self;
  const kv_method *m = s->spec.method;
  kv_err e = {0};
  FILE *out = stdout;
  bool words = s->options.format == KV_LAWS_TABLE;
  int broken = s->report.count[KV_LAW_BROKEN];
  int held = s->report.count[KV_LAW_HOLDS];
  if (kv_law_report_close(&s->report, s->laws, s->law, &e)) return kv_say(&e);
  if (broken && words)
    fprintf(out, "%s: %d law%s broken%s\n", m->name, broken,
            broken == 1 ? "" : "s",
            s->over ? "; the others were not checked" : "");
  if (broken) return KV_DIFFERENT;
  if (held && words)
    fprintf(out, "%s: %d law%s\n", m->name, s->laws,
            s->laws == 1 ? " holds" : "s hold");
  if (held) return KV_OK;
  kv_fail(&e, KV_USAGE, "no cell could run: %s", s->reason);
  return kv_say(&e);
}

static void clean(void *self) {
  task *s = self;
  kv_spec_free(&s->spec);
  kv_law_traces_close(&s->traces);
}

static const kv_task task_lawcheck = {sizeof(task), begin,    check, work,
                                      interrupted,  conclude, clean};

#define AT(member) .offset = offsetof(task, options.member)

static const kv_option options[] = {
    {KV_SLOT_LIST, "law", 'l', "NAME", AT(laws), .group = "What to check",
     .help = "only this law; may be repeated (default: every law)"},
    {KV_SLOT_LIST, "trace", 't', "TRACE", AT(traces), .use = KV_USE_READ,
     .help = "a trace file, or made:NAME; may be repeated (default: all made "
             "traces)"},
    {KV_SLOT_COUNT, "budget", 'b', "N", .min = 1, .max = 1 << 30, AT(budget),
     .help = "only this budget, in entries (default: 6, 24, 48 and every "
             "token)"},
    {KV_SLOT_COUNT, "prompt-len", 'p', "N", .min = 1, .max = 1 << 30,
     AT(prompt_len), .help = "the first N tokens are the prompt"},
    {KV_SLOT_COUNT, "patience", 'w', "SECONDS", .min = 1, .max = 1 << 20,
     AT(seconds),
     .help = "give up on a call of a hook after so long (default: 20)"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|json|junit",
     AT(format), .group = "What to print",
     .help = "standard output as table (the default), json or junit"},
    {KV_SLOT_FLAG, "quiet", 'q', AT(quiet),
     .help = "print only broken laws and the totals"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay lawcheck ./mine.so", "does a plugin obey the laws?"},
    {"kvreplay lawcheck ./mine.so:recent=3 --law full --trace made:short",
     "one law, on one trace"},
    {"kvreplay lawcheck snapkv -t traces/tiny/multiturn_11.safetensors",
     "a built-in method, on a recorded trace"},
    {"kvreplay lawcheck ./mine.so -f junit >laws.xml", "for a CI system"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Checks the laws that hold for every method: what a lane may hold; that "
    "journal and ledger tell the truth; that a full budget loses nothing; that "
    "nothing depends on threads, kernels or the order of work; that hooks "
    "write only what they may. Each law runs in a process of its own. A method "
    "that crashes or does not return is therefore reported like any other, "
    "with the hook.",
    "Without --law, lawcheck also tries every value of the method's choices. "
    "For a broken law it prints the command that checks that law alone. The "
    "exit code is then 1.",
    NULL};

const kv_command kv_command_lawcheck = {
    KV_COMMAND(lawcheck,
               "check that your method obeys the laws of every method"),
    KV_TAKES("SPEC", 1, 1, task, options.method, KV_USE_NONE),
    .words = kv_method_word};
