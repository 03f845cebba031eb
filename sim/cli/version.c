/* SPDX-License-Identifier: Apache-2.0
 *
 * --version: sim/cli/version.h.
 */
#include "config.h"

#include "commit.h"
#include "sim/cli/help.h"
#include "sim/cli/version.h"

#ifdef HAVE_BLIS
#  define BLIS "yes"
#else
#  define BLIS "no"
#endif

void kv_version_print(FILE *out, const char *program, const char *isa) {
  fprintf(out,
          "%s %s\n"
          "commit    %s\n"
          "compiler  %s\n"
          "flags     ",
          program, VERSION, KV_COMMIT, KV_COMPILER);
  kv_help_wrap(out, 10, 10, KV_CFLAGS);
  fprintf(out,
          "ISA       %s\n"
          "CUDA      no\n"
          "BLIS      %s\n",
          isa, BLIS);
}
