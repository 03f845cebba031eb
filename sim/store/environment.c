/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/store/environment.h"

#include "commit.h"
#include "config.h"
#include <jansson.h>
#include <locale.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#  include <cpuid.h>
#  include <xmmintrin.h>
#  define X86 1
#else
#  define X86 0
#endif

static void put(char *out, size_t size, const char *text) {
  snprintf(out, size, "%s", text ? text : "unknown");
}

#if X86
/* The brand string: leaves 0x80000002..4 of cpuid, 16 bytes each. */
static void look_cpu(kv_environment *e) {
  unsigned r[12];
  char text[sizeof r + 1] = {0};
  const char *start = text;
  size_t n;
  if ((unsigned)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u) return;
  for (unsigned i = 0; i < 3; i++)
    __get_cpuid(0x80000002u + i, r + 4 * i, r + 4 * i + 1, r + 4 * i + 2,
                r + 4 * i + 3);
  memcpy(text, r, sizeof r);
  while (*start == ' ') start++;
  for (n = strlen(start); n && start[n - 1] == ' ';) n--;
  snprintf(e->cpu, sizeof e->cpu, "%.*s", (int)n, start);
}

/* MXCSR: bit 15 FTZ, bit 6 DAZ, bits 13 and 14 the rounding. */
static void look_float(kv_environment *e) {
  static const char *const name[4] = {"nearest", "down", "up", "zero"};
  unsigned csr = _mm_getcsr();
  e->ftz = csr >> 15 & 1;
  e->daz = csr >> 6 & 1;
  put(e->rounding, sizeof e->rounding, name[csr >> 13 & 3]);
}
#else
static void look_cpu(kv_environment *e) {
  struct utsname u;
  if (!uname(&u)) put(e->cpu, sizeof e->cpu, u.machine);
}

static void look_float(kv_environment *e) {
  put(e->rounding, sizeof e->rounding, NULL);
}
#endif

static void look_os(kv_environment *e) {
  struct utsname u;
  if (uname(&u))
    put(e->os, sizeof e->os, NULL);
  else
    snprintf(e->os, sizeof e->os, "%.50s %.70s %.60s", u.sysname, u.release,
             u.machine);
}

static void look_command(int argc, char *const *argv, kv_environment *e) {
  size_t used = 0;
  for (int i = 0; i < argc && used < sizeof e->command; i++)
    used += (size_t)snprintf(e->command + used, sizeof e->command - used,
                             "%s%s", i ? " " : "", argv[i]);
}

/* UTC with microseconds, to order programs started within one second. */
static void look_clock(kv_environment *e) {
  struct timespec now;
  struct tm utc;
  size_t n = 0;
  if (clock_gettime(CLOCK_REALTIME, &now)) return;
  if (gmtime_r(&now.tv_sec, &utc))
    n = strftime(e->started, sizeof e->started, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(e->started + n, sizeof e->started - n, ".%06ldZ",
           now.tv_nsec / 1000);
}

void kv_environment_look(const char *isa, int argc, char *const *argv,
                         kv_environment *out) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  memset(out, 0, sizeof *out);
  put(out->version, sizeof out->version, VERSION);
  put(out->commit, sizeof out->commit, KV_COMMIT);
  out->dirty = strstr(KV_COMMIT, "-dirty") != NULL;
  put(out->compiler, sizeof out->compiler, KV_COMPILER);
  put(out->flags, sizeof out->flags, KV_CFLAGS);
  put(out->cpu, sizeof out->cpu, NULL);
  put(out->isa, sizeof out->isa, isa);
  out->cores = cores > 0 ? (int)cores : 1;
  put(out->locale, sizeof out->locale, setlocale(LC_ALL, NULL));
  put(out->sqlite, sizeof out->sqlite, sqlite3_libversion());
  put(out->jansson, sizeof out->jansson, JANSSON_VERSION);
  look_cpu(out);
  look_float(out);
  look_os(out);
  look_command(argc, argv, out);
  look_clock(out);
}
