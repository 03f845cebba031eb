/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport: reads the database of results, never writes to it (merge writes
 * to its own OUT). Data on stdout, one line on stderr when something is
 * wrong.
 */
#include "analysis/commands.h"
#include "analysis/database/say.h"

#include <jansson.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>

/* jansson leaves a value out of a tree, or loses a byte of a text, when it
 * gets no memory, and not all of its functions tell. */
static void *noticed(size_t n) {
  void *p = malloc(n);
  if (!p) kv_tell_short();
  return p;
}

int main(int argc, char **argv) {
  json_set_alloc_funcs(noticed, free);
  /* Nobody asks how much memory SQLite has, which threads wait to count. */
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  signal(SIGXFSZ, SIG_IGN); /* a file too large is a failed write */
  return kv_command_main(&kv_kvreport, argc, argv);
}
