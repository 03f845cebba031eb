/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing command lines: sim/cli/option.h.
 */
#include "sim/cli/option.h"

#include "traces/text/text.h"
#include <assert.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 48, MOST_CHOICES = 16, FIRST = 256 };

const kv_option kv_common_options[] = {
    {.slot = KV_SLOT_HELP,
     .name = "help",
     .letter = 'h',
     .min = KV_ASKED_HELP,
     .group = "About",
     .help = "print this text"},
    {.slot = KV_SLOT_HELP,
     .name = "version",
     .letter = 'V',
     .min = KV_ASKED_VERSION,
     .help = "print version, commit, compiler, flags and kernel set"},
    {.slot = KV_SLOT_END}};

const kv_option *kv_option_next(const kv_command *c, const kv_option *o) {
  bool common = o == &kv_common_options[0] || o == &kv_common_options[1];
  o = o ? o + 1 : c->options;
  if ((o == NULL || o->slot == KV_SLOT_END) && !common) o = kv_common_options;
  return o->slot == KV_SLOT_END ? NULL : o;
}

void kv_list_free(kv_list *l) {
  if (l == NULL) return;
  free(l->item);
  l->item = NULL;
  l->n = 0;
}

/* The tables in the format of getopt_long. */
typedef struct form {
  int n;
  const kv_option *option[MOST];
  struct option wide[MOST + 1];
  char letters[2 * MOST + 3];
} form;

static void build(const kv_command *c, form *f) {
  char *at = f->letters;
  memset(f, 0, sizeof *f);
  *at++ = ':';
  for (const kv_option *o = NULL; (o = kv_option_next(c, o));) {
    assert(f->n < MOST && "a command has few options");
    f->option[f->n] = o;
    f->wide[f->n] =
        (struct option){o->name, o->argument ? required_argument : no_argument,
                        NULL, FIRST + f->n};
    f->n++;
    if (!o->letter) continue;
    *at++ = (char)o->letter;
    if (o->argument) *at++ = ':';
  }
}

static kv_rc push(kv_list *l, int argc, const char *text, kv_err *e) {
  size_t bytes = (size_t)argc * sizeof *l->item;
  if (l->item == NULL) l->item = malloc(bytes);
  if (l->item == NULL) return kv_no_memory(e, "the command line", bytes);
  l->item[l->n++] = text;
  return KV_OK;
}

static kv_rc count(const kv_option *o, const char *text, int *out, kv_err *e) {
  uint64_t value;
  char show[KV_SHOW];
  if (!kv_text_count(text, (uint64_t)o->max, &value) ||
      value < (uint64_t)o->min) {
    return kv_fail(e, KV_USAGE, "--%s %s is not a number from %d to %d",
                   o->name, kv_show(text, show), o->min, o->max);
  }
  *out = (int)value;
  return KV_OK;
}

static kv_rc choose(const kv_option *o, const char *text, int *out, kv_err *e) {
  char copy[128], show[KV_SHOW];
  const char *name[MOST_CHOICES];
  int n = 0;
  assert(strlen(o->choices) < sizeof copy && "choices of an option are short");
  strcpy(copy, o->choices);
  for (char *at = copy, *bar; at && n < MOST_CHOICES; at = bar) {
    name[n++] = at;
    bar = strchr(at, '|');
    if (bar) *bar++ = 0;
    if (strcmp(name[n - 1], text) == 0) {
      *out = n - 1;
      return KV_OK;
    }
  }
  const char *near = kv_text_nearest(text, n, name);
  return kv_fail(e, KV_USAGE, "--%s %s is none of %s%s%s%s", o->name,
                 kv_show(text, show), o->choices, near ? "; did you mean " : "",
                 near ? near : "", near ? "?" : "");
}

static kv_rc store(const kv_option *o, int argc, const char *text, void *values,
                   kv_err *e) {
  void *slot = (char *)values + o->offset;
  if (text && !*text) {
    return kv_fail(e, KV_USAGE, "--%s is empty; give it a %s", o->name,
                   o->argument);
  }
  switch (o->slot) {
  case KV_SLOT_FLAG:
    *(bool *)slot = true;
    return KV_OK;
  case KV_SLOT_TEXT:
    *(const char **)slot = text;
    return KV_OK;
  case KV_SLOT_LIST:
    return push(slot, argc, text, e);
  case KV_SLOT_COUNT:
    return count(o, text, slot, e);
  case KV_SLOT_CHOICE:
    return choose(o, text, slot, e);
  case KV_SLOT_END:
  case KV_SLOT_HELP:
    break;
  }
  return KV_OK;
}

static kv_rc unknown_letter(const kv_command *c, int letter, kv_err *e) {
  char one[2] = {(char)letter, 0}, show[KV_SHOW];
  return kv_fail(e, KV_USAGE, "no option -%s; `%s%s%s --help` lists them",
                 kv_show(one, show), c->program, c->name ? " " : "",
                 c->name ? c->name : "");
}

/* Explains a long option that getopt refused: unknown, or with a value it does
 * not take. */
static kv_rc unknown(const kv_command *c, const form *f, const char *text,
                     kv_err *e) {
  const char *names[MOST];
  char show[KV_SHOW], name[64];
  size_t n = strcspn(text + 2, "=");
  for (int i = 0; i < f->n; i++) names[i] = f->option[i]->name;
  if (n >= sizeof name) n = sizeof name - 1;
  memcpy(name, text + 2, n);
  name[n] = 0;
  const char *near = kv_text_nearest(name, f->n, names);
  if (near) {
    return kv_fail(e, KV_USAGE, "no option %s; did you mean --%s?",
                   kv_show(text, show), near);
  }
  return kv_fail(e, KV_USAGE, "no option %s; `%s%s%s --help` lists them",
                 kv_show(text, show), c->program, c->name ? " " : "",
                 c->name ? c->name : "");
}

static const kv_option *named(const form *f, int got) {
  if (got >= FIRST) return f->option[got - FIRST];
  for (int i = 0; i < f->n; i++) {
    if (f->option[i]->letter == got) return f->option[i];
  }
  return NULL;
}

static kv_rc refuse(const kv_command *c, const form *f, int got, char **argv,
                    kv_err *e) {
  const kv_option *o = optopt ? named(f, optopt) : NULL;
  if (got == ':') {
    return kv_fail(e, KV_USAGE, "--%s needs a value: --%s %s", o->name, o->name,
                   o->argument);
  }
  if (o) return kv_fail(e, KV_USAGE, "--%s takes no value", o->name);
  if (optopt) return unknown_letter(c, optopt, e);
  return unknown(c, f, argv[optind - 1], e);
}

static kv_rc operands(const kv_command *c, int argc, char **argv, void *values,
                      kv_err *e) {
  int n = argc - optind;
  char show[KV_SHOW];
  if (n < c->least) {
    return kv_fail(e, KV_USAGE, "%s needs %s; --help shows examples",
                   c->name ? c->name : c->program, c->operands);
  }
  if (n > c->most) {
    return kv_fail(e, KV_USAGE,
                   "%s is one argument too many; --help shows "
                   "examples",
                   kv_show(argv[optind + c->most], show));
  }
  for (int i = optind; i < argc; i++) {
    kv_rc rc = push((kv_list *)((char *)values + c->offset), argc, argv[i], e);
    if (rc) return rc;
  }
  return KV_OK;
}

kv_rc kv_options_parse(const kv_command *c, int argc, char **argv, void *values,
                       kv_asked *asked, kv_err *e) {
  form f;
  int got;
  build(c, &f);
  *asked = KV_ASKED_WORK;
  opterr = 0;
  optind = 0; /* GNU: reset the state of an earlier call */
  while ((got = getopt_long(argc, argv, f.letters, f.wide, NULL)) != -1) {
    if (got == '?' || got == ':') return refuse(c, &f, got, argv, e);
    const kv_option *o = named(&f, got);
    if (o->slot == KV_SLOT_HELP) {
      *asked = (kv_asked)o->min;
      return KV_OK;
    }
    kv_rc rc = store(o, argc, o->argument ? optarg : NULL, values, e);
    if (rc) return rc;
  }
  kv_rc rc = operands(c, argc, argv, values, e);
  return rc ? rc : kv_options_apart(c, values, 0, NULL, e);
}
