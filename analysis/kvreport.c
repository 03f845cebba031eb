/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport: reads the database of results, never writes to it (merge writes
 * to its own OUT). Data on stdout, one line on stderr when something is
 * wrong.
 */
#include "analysis/say.h"
#include "analysis/verbs.h"

#include "commit.h"
#include "config.h"
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char *const formats[] = {"table", "csv", "json", "jsonl", NULL};

static const kv_verb *find(const char *name) {
  for (const kv_verb *v = kv_verbs; v->name; v++)
    if (!strcmp(v->name, name)) return v;
  return NULL;
}

static int unknown_verb(const char *name) {
  const char *names[16];
  int n = 0;
  for (const kv_verb *v = kv_verbs; v->name; v++) names[n++] = v->name;
  names[n] = NULL;
  return kv_say_no("verb", name, names);
}

static int unknown_flag(const kv_verb *v, const char *given) {
  const char *names[16];
  int n = 0;
  for (const kv_flag *o = kv_flags; o->letter; o++)
    if (strchr(v->options, o->letter)) names[n++] = o->name;
  names[n] = NULL;
  if (!n)
    return kv_say(KV_EXIT_USAGE, "kvreport %s takes no option, not '%s'",
                  v->name, given);
  return kv_say(KV_EXIT_USAGE,
                "kvreport %s has no option '%s' or lacks its value: did you "
                "mean --%s?",
                v->name, given,
                kv_nearest_name(given + strspn(given, "-"), names));
}

static int take_format(const char *text, kv_args *a) {
  for (int i = 0; formats[i]; i++)
    if (!strcmp(formats[i], text)) {
      a->format = (kv_grid_format)i;
      a->format_given = true;
      return KV_EXIT_OK;
    }
  return kv_say_no("format", text, formats);
}

static int take(const kv_verb *v, int letter, const char *given, kv_args *a) {
  if (letter == 'h') return KV_EXIT_OK;
  if (letter == '?' || letter == ':' || !strchr(v->options, letter))
    return unknown_flag(v, given);
  if (letter == 'f') return take_format(optarg, a);
  if (letter == 'w') a->where = optarg;
  if (letter == 'o') a->output = optarg;
  if (letter == 'm') a->mean = true;
  if (letter == 'H') a->history = true;
  return KV_EXIT_OK;
}

static int parse(const kv_verb *v, int argc, char **argv, kv_args *a,
                 bool *help) {
  static const struct option options[] = {
      {"format", required_argument, NULL, 'f'},
      {"where", required_argument, NULL, 'w'},
      {"output", required_argument, NULL, 'o'},
      {"mean", no_argument, NULL, 'm'},
      {"history", no_argument, NULL, 'H'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0}};
  int letter, rc;
  opterr = 0;
  for (;;) {
    const char *given = optind < argc ? argv[optind] : "";
    letter = getopt_long(argc, argv, ":f:w:o:mHh", options, NULL);
    if (letter < 0) break;
    if (*given != '-') given = argv[optind - 1];
    rc = take(v, letter, given, a);
    if (rc) return rc;
    if (letter == 'h') *help = true;
  }
  a->n_files = argc - optind;
  a->file = argv + optind;
  if (!*help && (a->n_files < v->least || a->n_files > v->most))
    return kv_say(KV_EXIT_USAGE, "usage: kvreport %s %s", v->name, v->usage);
  return KV_EXIT_OK;
}

/* Options without a verb; the last two are for the build. */
static int bare(const char *option) {
  if (!strcmp(option, "--help") || !strcmp(option, "-h"))
    kv_help(stdout);
  else if (!strcmp(option, "--version") || !strcmp(option, "-V"))
    printf("kvreport %s (%s)\n%s\n%s\nSQLite %s\n", VERSION, KV_COMMIT,
           KV_COMPILER, KV_CFLAGS, sqlite3_libversion());
  else if (!strcmp(option, "--man"))
    kv_man(stdout);
  else if (!strcmp(option, "--completion"))
    kv_completion(stdout);
  else
    return unknown_verb(option);
  return kv_output_close(stdout, NULL);
}

/* jansson leaves a value out of a tree, or loses a byte of a text, when it
 * gets no memory, and not all of its functions tell. */
static void *noticed(size_t n) {
  void *p = malloc(n);
  if (!p) kv_say_short();
  return p;
}

int main(int argc, char **argv) {
  kv_args a = {.format = KV_TABLE};
  const kv_verb *v;
  bool help = false;
  int rc;
  json_set_alloc_funcs(noticed, free);
  signal(SIGXFSZ, SIG_IGN); /* a file too large is a failed write */
  if (argc < 2)
    return kv_say(KV_EXIT_USAGE, "what is to be done? See kvreport --help");
  v = find(argv[1]);
  if (!v) return bare(argv[1]);
  rc = parse(v, argc - 1, argv + 1, &a, &help);
  if (rc || !help) return rc ? rc : v->run(&a);
  printf("Example:\n  %s\n\nkvreport %s %s\n  %s\n", v->example, v->name,
         v->usage, v->help);
  for (const kv_flag *o = kv_flags; o->letter; o++)
    if (strchr(v->options, o->letter))
      printf("  -%c, --%s%s%s\n      %s\n", o->letter, o->name,
             o->value ? " " : "", o->value ? o->value : "", o->help);
  return kv_output_close(stdout, NULL);
}
