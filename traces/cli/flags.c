/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of kvtrace's verbs: --name value, --name=value, -x value, and `--`
 * before names that begin with a dash.
 */
#define _GNU_SOURCE 1
#include <assert.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "traces/cli/kvtrace.h"
#include "traces/text/json.h"
#include "traces/text/text.h"
#include "traces/text/threads.h"

const kv_verb *const kv_verbs[] = {&kv_verb_info, &kv_verb_check,
                                   &kv_verb_convert, &kv_verb_synth, NULL};

static int count(const kv_verb *verb) {
  int n = 0;
  while (verb->flags[n].name) n++;
  assert(n <= KV_FLAGS_MOST && "the call has room for the table");
  return n;
}

static kv_rc unknown(const kv_verb *verb, const char *text, kv_err *e) {
  const char *names[KV_FLAGS_MOST + 1];
  char a[KV_SHOW], word[32] = "";
  int n = count(verb);
  for (int i = 0; i < n; i++) names[i] = verb->flags[i].name;
  names[n++] = "help";
  strncat(word, text + strspn(text, "-"), sizeof word - 1);
  word[strcspn(word, "=")] = 0;
  const char *near = kv_text_nearest(word, n, names);
  return kv_fail(e, KV_USAGE,
                 "unknown option %s%s%s%s; kvtrace %s --help "
                 "lists them",
                 kv_show(text, a), near ? "; did you mean --" : "",
                 near ? near : "", near ? "?" : "", verb->name);
}

/* Place of the option in the table; -1 where there is none. */
static int look_up(const kv_verb *verb, const char *text, const char **value) {
  int n = count(verb);
  *value = NULL;
  for (int i = 0; i < n; i++) {
    const kv_flag *f = &verb->flags[i];
    size_t length = strlen(f->name);
    if (text[1] != '-') {
      if (!f->letter || text[1] != f->letter) continue;
      if (text[2]) *value = text + 2;
      return i;
    }
    if (strncmp(text + 2, f->name, length) != 0) continue;
    if (text[2 + length] == '=') *value = text + 3 + length;
    if (text[2 + length] == 0 || *value) return i;
  }
  return -1;
}

kv_rc kv_flags_parse(const kv_verb *verb, int n, char *const *arguments,
                     const char **path, kv_verb_call *call, kv_err *e) {
  int only_paths = 0;
  *call = (kv_verb_call){.path = path};
  for (int i = 0; i < n; i++) {
    const char *text = arguments[i], *value;
    if (only_paths || text[0] != '-' || !text[1]) {
      path[call->n_paths++] = text;
      continue;
    }
    if (strcmp(text, "--") == 0) {
      only_paths = 1;
      continue;
    }
    int at = look_up(verb, text, &value);
    if (at < 0) return unknown(verb, text, e);
    const kv_flag *f = &verb->flags[at];
    if (f->argument && !value && i + 1 < n) value = arguments[++i];
    if (!value != !f->argument) {
      return kv_fail(e, KV_USAGE, "--%s %s %s", f->name,
                     f->argument ? "needs" : "takes no",
                     f->argument ? f->argument : "value");
    }
    call->value[at] = value ? value : "";
  }
  return KV_OK;
}

const char *kv_flag_value(const kv_verb *verb, const kv_verb_call *call,
                          const char *name) {
  int i = 0;
  while (verb->flags[i].name && strcmp(verb->flags[i].name, name) != 0) i++;
  assert(verb->flags[i].name && "the option is in the table");
  return call->value[i];
}

kv_rc kv_flag_format(const kv_verb *verb, const kv_verb_call *call, int *json,
                     kv_err *e) {
  const char *text = kv_flag_value(verb, call, "format");
  char a[KV_SHOW];
  *json = text && strcmp(text, "json") == 0;
  if (!text || *json || strcmp(text, "table") == 0) return KV_OK;
  return kv_fail(e, KV_USAGE, "--format is table or json, not %s",
                 kv_show(text, a));
}

kv_rc kv_flag_dtype(const kv_verb *verb, const kv_verb_call *call, bool *any,
                    kv_dtype *out, kv_err *e) {
  static const char *const names[] = {"F16", "BF16", "F32"};
  const char *text = kv_flag_value(verb, call, "dtype");
  char a[KV_SHOW];
  *any = text != NULL;
  for (int i = 0; text && i < 3; i++) {
    if (strcasecmp(text, names[i]) != 0) continue;
    *out = (kv_dtype)i;
    return KV_OK;
  }
  if (!text) return KV_OK;
  return kv_fail(e, KV_USAGE, "--dtype is F16, BF16 or F32, not %s",
                 kv_show(text, a));
}

void kv_catch_signals(void (*handler)(int number)) {
  struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGINT, &act, NULL);
  sigaction(SIGTERM, &act, NULL);
  signal(SIGXFSZ, SIG_IGN);
}

kv_rc kv_print_json(const char *path, char *text, kv_err *e) {
  char a[KV_SHOW];
  kv_rc rc = KV_OK;
  if (!kv_json_end()) {
    rc = kv_no_memory(e, "what is printed", 0);
  } else if (!text) {
    rc = kv_fail(e, KV_INPUT,
                 "%s: its path is not UTF-8, so JSON cannot hold it",
                 kv_show(path, a));
  } else {
    puts(text);
  }
  free(text);
  return rc;
}

kv_rc kv_choose_kernels(const kv_kernels **out, kv_err *e) {
  const char *name = getenv("KVREPLAY_ISA");
  char note[128] = "";
  kv_rc rc = KV_OK;
  *out = kv_kernels_best();
  if (name && *name) rc = kv_kernels_named(name, out, note, e);
  if (note[0]) fprintf(stderr, "kvtrace: %s\n", note);
  if (!rc && kv_threads() < omp_get_max_threads())
    fprintf(stderr,
            "kvtrace: only %d of %d threads can be made here (ulimit -u, or "
            "the machine's limit): slower, and the same numbers\n",
            kv_threads(), omp_get_max_threads());
  return rc;
}
