/* SPDX-License-Identifier: Apache-2.0
 *
 * Anonymous memory of long replays against what the engine promises: the
 * rewritten rows that the row itself counts, 64 MiB a thread and 100 MiB. The
 * trace is mapped from its file and is not in it.
 */
#include "tests/bench/bench.h"

#include <stdio.h>

static const double mib = 1048576;

static void measure(const bench *b, const char *methods, int threads) {
  static row_set got;
  char what[96];
  bench once = *b;
  once.runs = 1;
  child c = bench_replay(
      &once, (replay){.methods = methods, .threads = threads}, &got);
  double bound = (100 + 64 * threads) * mib;
  for (int i = 0; i < got.n; i++) bound += got.row[i].rewritten;
  snprintf(what, sizeof what, "%s (%.0f s)", methods, c.wall);
  bench_line(b, (line){.what = what,
                       .unit = "MiB",
                       .value = c.anon / mib,
                       .peer = bound / mib,
                       .high = 1});
}

/* Many layers and steps of a short prompt: it is not what is stored that is
 * large then, but what is measured, 11 numbers a head and step of each layer
 * (sim/measure/fidelity.h). */
static void measure_values(const bench *b) {
  int layers = b->small ? 16 : 32;
  char record[128] = "0", *end = record + 1;
  for (int i = 1; i < layers; i++)
    end += snprintf(end, (size_t)(record + sizeof record - end), ",%d", i);
  bench_synth(b, record, 64, 1024);
  bench_theme(b,
              b->small ? "the same, 64 + 1,024 tokens, 16 layers"
                       : "the same, 64 + 1,024 tokens, 32 layers",
              "bound");
  measure(b, "window,snapkv,quest,h2o", 1);
}

void theme_memory(const bench *b) {
  static const char *const method[] = {
      "window", "snapkv",       "quest",
      "kivi",   "streamingllm", "window,snapkv,quest,kivi"};
  bench_synth(b, "8", b->small ? 8192 : 131072, 16);
  bench_theme(b,
              b->small ? "peak RssAnon, 8,192 + 16 tokens, 1 layer, -b 10%"
                       : "peak RssAnon, 131,072 + 16 tokens, 1 layer, -b 10%",
              "bound");
  for (int i = 0; i < 6; i++)
    if (!b->small || i % 3 == 0) measure(b, method[i], 1);
  if (!b->small) measure(b, method[5], 2);
  bench_synth(b, "8", b->small ? 2048 : 16384, 16);
  bench_theme(b,
              b->small ? "the same, 2,048 + 16 tokens"
                       : "the same, 16,384 + 16 tokens",
              "bound");
  measure(b, "h2o", 1);
  measure_values(b);
}
