/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay methods [NAME]`: the registry for people and programs. JSON is a
 * list of objects, of one where a name is given.
 */
#include "sim/verbs.h"

#include "sim/json.h"
#include "sim/options_methods.h"
#include "sim/param.h"
#include "sim/rows.h"
#include "sim/spec.h"
#include <string.h>

static const char *const kinds[] = {[KV_INT] = "integer",
                                    [KV_REAL] = "real",
                                    [KV_SHARE] = "share",
                                    [KV_CHOICE] = "choice",
                                    [KV_TEXT] = "text"};

static void attribute(bool colour, const char *code) {
  if (colour) printf("\033[%sm", code);
}

static void list(bool colour) {
  int width = 4;
  for (int i = 0; kv_method_at(i); i++) {
    int n = (int)strlen(kv_method_at(i)->name);
    if (n > width) width = n;
  }
  for (int i = 0; kv_method_at(i); i++) {
    attribute(colour, "1");
    printf("%-*s  ", width, kv_method_at(i)->name);
    attribute(colour, "0");
    kv_help_wrap(stdout, width + 2, width + 2, kv_method_at(i)->title);
  }
}

static void show_param(const kv_param *p, bool colour) {
  char range[KV_TEXT_MAX];
  kv_param_range(p, range);
  attribute(colour, "1");
  printf("  %s", p->name);
  attribute(colour, "0");
  printf("  %s%s%s", range, p->unit ? " " : "", p->unit ? p->unit : "");
  if (p->fallback) {
    printf("  (default %s)\n      ", p->fallback);
  } else if (strcmp(p->name, "budget") == 0) {
    fputs("  (set by -b)\n      ", stdout);
  } else {
    fputs("  (default worked out when a run opens)\n      ", stdout);
  }
  kv_help_wrap(stdout, 6, 6, p->help);
}

static void show(const kv_method *m, bool colour) {
  attribute(colour, "1");
  fputs(m->name, stdout);
  attribute(colour, "0");
  fputs("  ", stdout);
  kv_help_wrap(stdout, 4, (int)strlen(m->name) + 2, m->title);
  fputs("paper: ", stdout);
  kv_help_wrap(stdout, 7, 7, m->paper);
  printf("revision: %d\n", m->revision);
  puts(kv_params_count(m->params) ? "parameters:" : "no parameters");
  for (const kv_param *p = m->params; p && p->name; p++) show_param(p, colour);
}

static void text_or_null(kv_json *j, const char *key, const char *text) {
  if (text) {
    kv_json_text(j, key, text);
  } else {
    kv_json_null(j, key);
  }
}

/* The default as the value that params of a row would hold. */
static void fallback(kv_json *j, const kv_param *p) {
  if (p->fallback == NULL || p->kind == KV_CHOICE || p->kind == KV_TEXT) {
    text_or_null(j, "default", p->fallback);
  } else {
    kv_json_raw(j, "default", p->fallback);
  }
}

static void limit(kv_json *j, const char *key, const kv_param *p, double x) {
  if (p->kind == KV_CHOICE || p->kind == KV_TEXT) {
    kv_json_null(j, key);
  } else if (p->kind == KV_INT) {
    kv_json_integer(j, key, (int64_t)x);
  } else {
    kv_json_real(j, key, x);
  }
}

static void param_json(kv_json *j, const kv_param *p) {
  char range[KV_TEXT_MAX];
  kv_param_range(p, range);
  kv_json_open(j, NULL, '{');
  kv_json_text(j, "name", p->name);
  kv_json_text(j, "kind", kinds[p->kind]);
  fallback(j, p);
  kv_json_text(j, "range", range);
  limit(j, "min", p, p->min);
  limit(j, "max", p, p->max);
  text_or_null(j, "choices", p->kind == KV_CHOICE ? p->choices : NULL);
  text_or_null(j, "unit", p->unit);
  kv_json_text(j, "help", p->help);
  kv_json_close(j, '}');
}

static void method_json(kv_json *j, const kv_method *m) {
  kv_json_open(j, NULL, '{');
  kv_json_text(j, "name", m->name);
  kv_json_text(j, "title", m->title);
  kv_json_text(j, "paper", m->paper);
  kv_json_integer(j, "revision", m->revision);
  kv_json_open(j, "params", '[');
  for (const kv_param *p = m->params; p && p->name; p++) param_json(j, p);
  kv_json_close(j, ']');
  kv_json_close(j, '}');
}

static void json(const kv_method *one) {
  kv_json j = {stdout, false};
  kv_json_open(&j, NULL, '[');
  for (int i = 0; kv_method_at(i); i++) {
    if (one && one != kv_method_at(i)) continue;
    fputs(j.comma ? ",\n" : "\n", stdout);
    j.comma = false;
    method_json(&j, kv_method_at(i));
  }
  fputs("\n]\n", stdout);
}

int kv_verb_methods(int argc, char **argv) {
  kv_methods_options o = {.format = KV_ROWS_TABLE};
  kv_asked asked;
  kv_err e = {0};
  const kv_method *one = NULL;
  bool colour = kv_colour_wanted(stdout);
  kv_rc rc = kv_options_parse(&kv_command_methods, argc, argv, &o, &asked, &e);
  if (rc == KV_OK && asked != KV_ASKED_WORK) {
    rc = (kv_rc)kv_verb_answer(asked, &kv_command_methods);
    goto out;
  }
  if (rc == KV_OK && o.names.n) {
    rc = kv_registry_find(kv_method_at, o.names.item[0], &one, &e);
  }
  if (rc) {
    kv_say(&e);
  } else if (o.format == KV_ROWS_JSON) {
    json(one);
  } else if (one) {
    show(one, colour);
  } else {
    list(colour);
  }
out:
  kv_list_free(&o.names);
  return (int)rc;
}
