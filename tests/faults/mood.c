/* SPDX-License-Identifier: Apache-2.0
 *
 * A process in an unusual mood. Preloaded into a program, it does before
 * main what a host, a plugin or a start file compiled with fast math may
 * have done. The program must give the same digests.
 *
 *   KV_MOOD=flush   denormals are flushed to zero, in and out (FTZ, DAZ)
 *   KV_MOOD=up      rounding is upwards
 *   KV_MOOD=locale  the locale of the environment is in force (LC_ALL)
 *
 * KV_MOOD_SEEN=F: the file F then says what printf makes of 1.5.
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#  include <immintrin.h>
#endif

/* Bits of MXCSR: 15 FTZ, 6 DAZ, 14 and 13 the rounding. */
static void set(unsigned bits) {
#ifdef __SSE2__
  _mm_setcsr(_mm_getcsr() | bits);
#else
  (void)bits;
#endif
}

__attribute__((constructor)) static void begin(void) {
  const char *mood = getenv("KV_MOOD"), *path = getenv("KV_MOOD_SEEN");
  if (!mood) return;
  if (strcmp(mood, "flush") == 0) set(0x8040);
  if (strcmp(mood, "up") == 0) set(0x4000);
  if (strcmp(mood, "locale") == 0) setlocale(LC_ALL, "");
  FILE *f = path ? fopen(path, "w") : NULL;
  if (!f) return;
  fprintf(f, "%.1f\n", 1.5);
  fclose(f);
}
