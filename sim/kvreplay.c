/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreplay: picks the verb. Data on standard output, messages on standard
 * error, one line each. Exit codes: ref/err.h, and 130 when interrupted.
 */
#include "sim/signal.h"
#include "sim/verbs.h"
#include "traces/text.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_verb(const char *name) {
  const char *names[KV_MOST_VERBS];
  char show[KV_SHOW];
  kv_err e = {0};
  int n = 0;
  for (const kv_verb *v = kv_verbs; v->command; v++) {
    names[n++] = v->command->verb;
  }
  const char *near = kv_text_nearest(name, n, names);
  if (near) {
    kv_fail(&e, KV_USAGE, "no command %s; did you mean %s?",
            kv_show(name, show), near);
  } else {
    kv_fail(&e, KV_USAGE, "no command %s; `kvreplay --help` lists them",
            kv_show(name, show));
  }
  return kv_say(&e);
}

/* No verb: only --help and --version are left. */
static int alone(int argc, char **argv) {
  kv_asked asked;
  kv_err e = {0};
  if (argc < 2) {
    kv_fail(&e, KV_USAGE, "no command; `kvreplay --help` lists them");
    return kv_say(&e);
  }
  if (kv_options_parse(&kv_command_kvreplay, argc, argv, NULL, &asked, &e)) {
    return kv_say(&e);
  }
  return asked == KV_ASKED_WORK ? alone(1, argv) : kv_verb_answer(asked, NULL);
}

static int dispatch(int argc, char **argv) {
  if (argc < 2 || argv[1][0] == '-') return alone(argc, argv);
  for (const kv_verb *v = kv_verbs; v->command; v++) {
    if (strcmp(v->command->verb, argv[1]) == 0) {
      return v->run(argc - 1, argv + 1);
    }
  }
  return no_verb(argv[1]);
}

int main(int argc, char **argv) {
  kv_err e = {0};
  kv_signals_catch();
  int code = dispatch(argc, argv);
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  if (code) return code; /* its sentence was said */
  kv_fail(&e, KV_RESOURCE, "standard output cannot be written: %s",
          strerror(errno));
  return kv_say(&e);
}
