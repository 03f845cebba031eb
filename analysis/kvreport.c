/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport: reads a database of results and never writes to it (merge writes to
 * its own OUT). Data on stdout; one line on stderr if something is wrong.
 */
#include "analysis/commands.h"
#include "analysis/database/say.h"

#include <jansson.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>

/* Without memory jansson omits a value from a tree, or a byte of a text, and
 * not all of its functions report it. */
static void *noticed(size_t n) {
  void *p = malloc(n);
  if (!p) kv_tell_short();
  return p;
}

int main(int argc, char **argv) {
  json_set_alloc_funcs(noticed, free);
  /* Without the count of SQLite's memory, which nobody reads, threads do not
   * wait for its lock. */
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  signal(SIGXFSZ, SIG_IGN); /* a too large file is a failed write */
  return kv_command_main(&kv_kvreport, argc, argv);
}
