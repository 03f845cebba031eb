/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of measures, from the list in measure.h, and values derived from
 * two of them.
 */
#include "sim/replay/measure/measure.h"

#include <math.h>
#include <stdbool.h>

enum { LESS = -1, MORE = 1, NEITHER = 0, SIZE = 0 };

#define ROW(NAME, name, of, better, unit, columns, title, phrase)              \
  [KV_##NAME] = {#name, title, unit, better, KV_OF_##of},
const kv_measure_info kv_measure_table[KV_MEASURES] = {
    KV_MEASURES_EACH(ROW, KV_MEASURE_NONE)};

double kv_needle_share(const kv_stat *s) {
  const kv_stat *got = &s[KV_NEEDLE_MASS], *dense = &s[KV_NEEDLE_DENSE];
  bool there = got->count && dense->count && dense->mean > 0;
  return there ? got->mean / dense->mean : (double)NAN;
}
