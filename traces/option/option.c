/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing command lines: traces/option/option.h.
 */
#include "traces/option/option.h"

#include "ref/ground/text.h"
#include <assert.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST = 48, MOST_CHOICES = 16, FIRST = 256 };

const kv_option kv_common_options[] = {
    {.slot = KV_SLOT_HELP,
     .name = "help",
     .letter = 'h',
     .min = KV_ASKED_HELP,
     .max = KV_ASKED_ALL,
     .common = true,
     .group = "About",
     .help = "print this text"},
    {.slot = KV_SLOT_HELP,
     .name = "version",
     .letter = 'V',
     .min = KV_ASKED_VERSION,
     .common = true,
     .help = "print version, commit, compiler, flags and kernel set"},
    {.slot = KV_SLOT_END}};

const kv_option *kv_option_next(const kv_command *c, const kv_option *o) {
  bool common = o == &kv_common_options[0] || o == &kv_common_options[1];
  o = o ? o + 1 : c->options;
  if ((o == NULL || o->slot == KV_SLOT_END) && !common) o = kv_common_options;
  return o->slot == KV_SLOT_END ? NULL : o;
}

/* --- values ------------------------------------------------------------- */

/* The tables in getopt_long's format. */
typedef struct form {
  int n;
  const kv_option *option[MOST];
  bool given[MOST];
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
        (struct option){o->name,
                        o->argument                         ? required_argument
                        : o->slot == KV_SLOT_HELP && o->max ? optional_argument
                                                            : no_argument,
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
    return kv_fail(e, KV_USAGE, "--%s must be a number from %d to %d, not '%s'",
                   o->name, o->min, o->max, kv_show(text, show));
  }
  *out = (int)value;
  return KV_OK;
}

static kv_rc wide(const kv_option *o, const char *text, uint64_t *out,
                  kv_err *e) {
  char show[KV_SHOW];
  if (kv_text_count(text, UINT64_MAX, out)) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "--%s must be a whole number below 2^64, not '%s'", o->name,
                 kv_show(text, show));
}

/* The choices of an option; copy holds their text. */
static int choices(const kv_option *o, size_t size, char *copy,
                   const char *name[MOST_CHOICES]) {
  int n = 0;
  assert((!o->choices || strlen(o->choices) < size) && "choices are short");
  snprintf(copy, size, "%s", o->choices ? o->choices : "");
  for (char *at = *copy ? copy : NULL; at && n < MOST_CHOICES;) {
    name[n++] = at;
    at = strchr(at, '|');
    if (at) *at++ = 0;
  }
  for (int i = 0; o->words && o->words(i) && n < MOST_CHOICES; i++)
    name[n++] = o->words(i);
  return n;
}

static kv_rc choose(const kv_option *o, const char *text, int *out, kv_err *e) {
  char copy[128], show[KV_SHOW], all[256] = "";
  const char *name[MOST_CHOICES];
  int n = choices(o, sizeof copy, copy, name);
  for (int i = 0; i < n; i++) {
    size_t at = strlen(all);
    snprintf(all + at, sizeof all - at, "%s%s", i ? "|" : "", name[i]);
    if (strcasecmp(name[i], text)) continue;
    *out = o->min + i;
    return KV_OK;
  }
  const char *near = kv_text_nearest(text, n, name);
  return kv_fail(e, KV_USAGE, "--%s must be one of %s, not '%s'%s%s%s", o->name,
                 all, kv_show(text, show), near ? "; did you mean " : "",
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
  case KV_SLOT_WIDE:
    return wide(o, text, slot, e);
  case KV_SLOT_CHOICE:
    return choose(o, text, slot, e);
  case KV_SLOT_END:
  case KV_SLOT_HELP:
    break;
  }
  return KV_OK;
}

/* --- errors -------------------------------------------------------------- */

kv_rc kv_no_such(const char *what, const char *text, int n,
                 const char *const *names, const char *else_, kv_err *e) {
  char show[KV_SHOW];
  int dashes = (int)strspn(text, "-");
  const char *near = kv_text_nearest(text + dashes, n, names);
  if (!near)
    return kv_fail(e, KV_USAGE, "no %s %s; %s", what, kv_show(text, show),
                   else_);
  return kv_fail(e, KV_USAGE, "no %s %s; did you mean %.*s%s?", what,
                 kv_show(text, show), dashes, text, near);
}

/* KV_USAGE for a long option that getopt refused, which may have a value. */
static kv_rc unknown(const form *f, const char *text, kv_err *e) {
  const char *names[MOST];
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
  for (int i = 0; i < f->n; i++) names[i] = f->option[i]->name;
  return kv_no_such("option", name, f->n, names, "--help lists them", e);
}

/* The index of an option; -1: none. */
static int place(const form *f, int got) {
  int i = got >= FIRST ? got - FIRST : 0;
  while (got < FIRST && i < f->n && f->option[i]->letter != got) i++;
  return i < f->n ? i : -1;
}

static kv_rc refuse(const form *f, int got, char **argv, kv_err *e) {
  int at = optopt ? place(f, optopt) : -1;
  const kv_option *o = at < 0 ? NULL : f->option[at];
  char letter[3] = {'-', (char)optopt, 0};
  if (got == ':')
    return kv_fail(e, KV_USAGE, "--%s needs a value: --%s %s", o->name, o->name,
                   o->argument);
  if (o) return kv_fail(e, KV_USAGE, "--%s takes no value", o->name);
  if (optopt)
    return kv_no_such("option", letter, 0, NULL, "--help lists them", e);
  return unknown(f, argv[optind - 1], e);
}

static kv_rc all_given(const kv_command *c, const form *f, kv_err *e) {
  for (int i = 0; i < f->n; i++) {
    const kv_option *o = f->option[i];
    if (o->must && !f->given[i])
      return kv_fail(e, KV_USAGE, "%s needs --%s %s: %s", c->name, o->name,
                     o->argument, o->help);
  }
  return KV_OK;
}

static kv_rc operands(const kv_command *c, int argc, char **argv, void *values,
                      kv_err *e) {
  int n = argc - optind;
  char show[KV_SHOW];
  if (n < c->least) {
    return kv_fail(e, KV_USAGE, "%s needs %s; --help shows examples", c->name,
                   c->operands);
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
  kv_rc rc = KV_OK;
  build(c, &f);
  *asked = KV_ASKED_WORK;
  opterr = 0;
  optind = 0; /* GNU: reset the state of an earlier call */
  while (!rc &&
         (got = getopt_long(argc, argv, f.letters, f.wide, NULL)) != -1) {
    if (got == '?' || got == ':') return refuse(&f, got, argv, e);
    int at = place(&f, got);
    const kv_option *o = f.option[at];
    if (o->slot == KV_SLOT_HELP) {
      *asked = (kv_asked)(optarg ? o->max : o->min);
      if (!optarg || !strcmp(optarg, "all")) return KV_OK;
      return kv_fail(e, KV_USAGE, "--%s=%.40s is not --%s=all", o->name, optarg,
                     o->name);
    }
    f.given[at] = true;
    rc = store(o, argc, o->argument ? optarg : NULL, values, e);
  }
  if (!rc) rc = operands(c, argc, argv, values, e);
  if (!rc) rc = all_given(c, &f, e);
  return rc ? rc : kv_options_apart(c, values, 0, NULL, e);
}

static void forget(void *values, size_t offset) {
  kv_list *l = (kv_list *)((char *)values + offset);
  free(l->item);
  *l = (kv_list){0};
}

void kv_options_free(const kv_command *c, void *values) {
  if (c->most) forget(values, c->offset);
  for (const kv_option *o = c->options; o && o->slot != KV_SLOT_END; o++)
    if (o->slot == KV_SLOT_LIST) forget(values, o->offset);
}
