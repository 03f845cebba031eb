/* SPDX-License-Identifier: Apache-2.0
 *
 * --version: sim/version.h.
 */
#include "config.h"

#include "commit.h"
#include "sim/version.h"

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
          "flags     %s\n"
          "ISA       %s\n"
          "CUDA      no\n"
          "BLIS      %s\n",
          program, VERSION, KV_COMMIT, KV_COMPILER, KV_CFLAGS, isa, BLIS);
}
