/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace: looks at, checks and makes attention traces. This file is main and
 * its help; a verb is a file of its own. Exit codes: 0 fine, 1 compared and
 * different, 2 usage, 3 bad input, 4 resources, 5 our fault, 130 interrupted.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commit.h"
#include "ref/kernels/kernels.h"
#include "traces/cli/kvtrace.h"
#include "traces/container/apart.h"
#include "traces/text/text.h"
#include "traces/text/threads.h"
#include "traces/trace/check.h"

static void print_examples(const kv_verb *verb) {
  for (int i = 0; verb->examples[i]; i++) printf("  %s\n", verb->examples[i]);
}

static int print_help(void) {
  puts("Examples:");
  for (int i = 0; kv_verbs[i]; i++) print_examples(kv_verbs[i]);
  puts("\nkvtrace VERB [OPTION]... [TRACE]");
  puts("Looks at, checks, converts and makes attention traces (safetensors "
       "files).\n");
  for (int i = 0; kv_verbs[i]; i++) {
    printf("  %-8s %s\n", kv_verbs[i]->name, kv_verbs[i]->summary);
  }
  puts("\n  --help     this, or behind a verb its options");
  puts("  --version  version, compiler and kernels");
  return 0;
}

static int print_verb_help(const kv_verb *verb) {
  const char *group = "";
  puts("Examples:");
  print_examples(verb);
  printf("\n%s\n%s.\n", verb->usage, verb->summary);
  for (const kv_flag *f = verb->flags; f->name; f++) {
    if (strcmp(group, f->group) != 0) printf("\n%s:\n", group = f->group);
    char left[48], letter[8] = "";
    if (f->letter) snprintf(letter, sizeof letter, "-%c, ", f->letter);
    snprintf(left, sizeof left, "%s--%s %s", letter, f->name,
             f->argument ? f->argument : "");
    printf("  %-24s %s\n", left, f->help);
  }
  if (verb->notes) printf("\n%s\n", verb->notes);
  return 0;
}

static int print_version(void) {
  printf("kvtrace %s (%s)\n", PACKAGE_VERSION, KV_COMMIT);
  printf("compiler  %s\nflags     %s\n", KV_COMPILER, KV_CFLAGS);
  printf("kernels   %s\n", kv_kernels_best()->name);
#ifdef HAVE_BLIS
  puts("BLIS      yes");
#else
  puts("BLIS      no");
#endif
  puts("CUDA      no");
  return 0;
}

static int fail(const kv_err *e) {
  fprintf(stderr, "kvtrace: %s\n", e->text);
  return (int)e->rc;
}

static const kv_verb *find_verb(const char *text, kv_err *e) {
  const char *names[8];
  char a[KV_SHOW];
  int n = 0;
  for (; kv_verbs[n]; n++) {
    if (strcmp(kv_verbs[n]->name, text) == 0) return kv_verbs[n];
    names[n] = kv_verbs[n]->name;
  }
  const char *near = kv_text_nearest(text, n, names);
  kv_fail(e, KV_USAGE, "unknown verb %s%s%s%s; kvtrace --help lists them",
          kv_show(text, a), near ? "; did you mean " : "", near ? near : "",
          near ? "?" : "");
  return NULL;
}

static int asks_help(const char *text) {
  return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0;
}

/* Output that did not reach its file is a failure, not a detail. */
static int flush(kv_err *e) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
  kv_fail(e, KV_RESOURCE, "cannot write to the standard output");
  return fail(e);
}

/* >> of the shell could have made a trace the standard output. */
static kv_rc read_only(const kv_verb_call *call, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < call->n_paths; i++) {
    kv_place in = {.what = "the trace", .path = call->path[i]};
    rc = kv_places_apart(1, &in, 0, NULL, e);
  }
  return rc;
}

static int run(const kv_verb *verb, int n, char **arguments, kv_err *e) {
  kv_verb_call call;
  for (int i = 0; i < n; i++) {
    if (asks_help(arguments[i])) return print_verb_help(verb);
  }
  const char **path = calloc((size_t)n + 1, sizeof *path);
  kv_rc rc = path ? kv_flags_parse(verb, n, arguments, path, &call, e)
                  : kv_no_memory(e, "the arguments", (size_t)n);
  if (!rc) rc = read_only(&call, e);
  if (!rc) rc = verb->run(&call, e);
  free(path);
  if (rc == KV_OK) return 0;
  return e->text[0] ? fail(e) : (int)rc;
}

static int work(int argc, char **argv) {
  kv_err e = {0};
  kv_second_setup();
  kv_float_ground();
  if (argc < 2) {
    kv_fail(&e, KV_USAGE, "a verb is missing; kvtrace --help lists them");
    return fail(&e);
  }
  int code;
  if (asks_help(argv[1])) {
    code = print_help();
  } else if (strcmp(argv[1], "--version") == 0) {
    code = print_version();
  } else {
    const kv_verb *verb = find_verb(argv[1], &e);
    if (!verb) return fail(&e);
    code = run(verb, argc - 2, argv + 2, &e);
  }
  int lost = flush(&e);
  return code ? code : lost;
}

int main(int argc, char **argv) {
  kv_ending_watch("kvtrace");
  int code = work(argc, argv);
  kv_ending_is_ours();
  return code;
}
