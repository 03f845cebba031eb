/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting while another process writes the database: up to a minute, with a
 * message after a moment; an interrupt ends the wait. /proc/locks shows which
 * process it is. (Asking for the lock itself would need a descriptor of the
 * file, and closing that would release SQLite's own locks: fcntl(2), "advisory
 * record locking".)
 */
#include "sim/store/db_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  SILENT_MS = 300,      /* no message for waits that end sooner */
  MOST_MS = 60000,      /* after that, SQLITE_BUSY */
  WAL_WRITE = 120,      /* byte of -shm that a WAL's writer locks */
  RESERVED = 0x40000001 /* byte of the file that other writers lock */
};

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The process in a line of /proc/locks that locks that byte of that file, such
 * as "7: POSIX  ADVISORY  WRITE 4711 fd:01:1234 120 120"; 0 in other lines. */
static long holder(const char *line, unsigned long inode, long byte) {
  unsigned long node;
  long pid, from, to = -1;
  if (sscanf(line, "%*d: POSIX %*s WRITE %ld %*x:%*x:%lu %ld %ld", &pid, &node,
             &from, &to) < 3)
    return 0;
  if (node != inode || from > byte || (to >= 0 && to < byte)) return 0;
  return pid != (long)getpid() && pid > 0 ? pid : 0;
}

static long writer_of(const char *path, long byte) {
  char line[256];
  struct stat s;
  long pid = 0;
  FILE *f = stat(path, &s) ? NULL : fopen("/proc/locks", "re");
  while (f && !pid && fgets(line, sizeof line, f))
    pid = holder(line, (unsigned long)s.st_ino, byte);
  if (f) fclose(f);
  return pid;
}

static long writer(const kv_db *db) {
  char shm[sizeof db->path + 8];
  snprintf(shm, sizeof shm, "%s-shm", db->path);
  long pid = writer_of(shm, WAL_WRITE);
  return pid ? pid : writer_of(db->path, RESERVED);
}

bool kv_db_wait_on(kv_db *db, int asked) {
  const kv_db_wait *w = &db->wait;
  int64_t now = now_ms();
  if (asked == 0) {
    db->waits_since = now;
    db->notified = false;
  }
  if ((w->stop && w->stop()) || now - db->waits_since > MOST_MS) return false;
  if (w->tell && !db->notified && now - db->waits_since >= SILENT_MS) {
    db->notified = true;
    w->tell(w->self, db->path, writer(db));
  }
  struct timespec a_while = {0, (asked < 10 ? 1 + asked * 5l : 50l) * 1000000};
  nanosleep(&a_while, NULL); /* a signal ends it early */
  return true;
}

static int busy(void *db, int asked) { return kv_db_wait_on(db, asked); }

void kv_db_wait_for_others(kv_db *db) {
  sqlite3_busy_handler(db->sql, busy, db);
}
