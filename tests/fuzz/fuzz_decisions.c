/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: whatever a decisions file says, a trace either refuses it
 * with a sentence, or follows it to the end: the engine's own assertions hold
 * at every step. The first byte chooses block and kind, the second the number
 * of steps; then come steps, list lengths and positions, a byte each. `h`
 * first: the rest is the whole file.
 */
#define _GNU_SOURCE 1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/replay/engine/replay.h"
#include "traces/container/writer.h"
#include "traces/decisions/decisions_write.h"
#include "traces/trace/trace.h"

enum { T = 12, P = 6, D = 2, KV = 2, HEADS = 4, MOST = 512 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* In memory where that is possible: the writer waits for the disk. */
static char folder[64] = "/dev/shm/kv_fuzz_XXXXXX", file[80], path[80];
static kv_trace *trace;
static kv_digest identity;

static void must(int right) {
  if (!right) abort();
}

/* --- the trace ---------------------------------------------------------- */

static void put_tensor(kv_st_writer *w, const char *name, int heads,
                       bool append) {
  uint64_t shape[3] = {(uint64_t)heads, T, D};
  float row[HEADS * T * D];
  for (int i = 0; i < heads * T * D; i++) row[i] = (float)(i % 7) - 3;
  must((append
            ? kv_st_writer_append(w, sizeof *row * shape[0] * T * D, row, NULL)
            : kv_st_writer_declare(w, name, KV_ST_F32, 3, shape, NULL)) ==
       KV_OK);
}

static void put_trace(kv_st_writer *w) {
  static const char *const meta[][2] = {
      {"format", "kvtrace"}, {"version", "1"},       {"model", "fuzz"},
      {"n_layers", "1"},     {"n_heads", "4"},       {"n_kv_heads", "2"},
      {"head_dim", "2"},     {"layers", "all"},      {"attn.scale", "1"},
      {"prompt_len", "6"},   {"rope.layout", "half"}};
  for (int append = 0; append < 2; append++) {
    put_tensor(w, "layers.0.q", HEADS, append);
    put_tensor(w, "layers.0.k", KV, append);
    put_tensor(w, "layers.0.v", KV, append);
    for (size_t i = 0; !append && i < sizeof meta / sizeof *meta; i++)
      must(kv_st_writer_meta(w, meta[i][0], meta[i][1], NULL) == KV_OK);
  }
}

static void leave(void) {
  kv_trace_close(trace);
  unlink(path);
  unlink(file);
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  kv_st_writer *w;
  (void)argc, (void)argv;
  unsetenv("HOME");
  unsetenv("XDG_CACHE_HOME");
  if (!mkdtemp(folder)) {
    strcpy(folder, "/tmp/kv_fuzz_XXXXXX");
    must(mkdtemp(folder) != NULL);
  }
  atexit(leave);
  snprintf(path, sizeof path, "%s/t.safetensors", folder);
  snprintf(file, sizeof file, "%s/d.safetensors", folder);
  must(kv_st_writer_open(path, 0, &w, NULL) == KV_OK);
  put_trace(w);
  must(kv_st_writer_finish(w, NULL, NULL) == KV_OK);
  kv_st_writer_close(w);
  must(kv_trace_open(path, &trace, NULL) == KV_OK);
  must(kv_trace_identity(trace, &identity, NULL) == KV_OK);
  return 0;
}

/* --- decisions ---------------------------------------------------------- */

typedef struct source {
  const uint8_t *at, *end;
} source;

static int next(source *s) { return s->at < s->end ? *s->at++ : 0; }

typedef struct room {
  int32_t step[T + 4], item[MOST];
  int64_t start[(T + 4) * HEADS + 1];
} room;

static kv_lists draw(source *s, room *r, int heads, int page) {
  kv_lists l = {heads, page, next(s) % (T + 3), r->step, r->start, r->item};
  int64_t items = 0;
  for (int i = 0; i < l.steps; i++) r->step[i] = next(s);
  r->start[0] = 0;
  for (int k = 0; k < l.steps * heads; k++) {
    for (int n = next(s) % T; n && items < MOST; n--)
      r->item[items++] = (int8_t)next(s);
    r->start[k + 1] = items;
  }
  return l;
}

static void write_drawn(const uint8_t *bytes, size_t n) {
  static room stored, view;
  source s = {bytes, bytes + n};
  int how = next(&s), page = how & 8 ? 2 : 1;
  kv_decided layer = {0};
  kv_decisions d = {.stores = (how & 3) != 1,
                    .views = (how & 3) == 1 || (how & 3) == 2,
                    .reindex = false,
                    .block = how & 4 ? 1 + how / 64 : 0,
                    .layers = 1,
                    .layer = &layer};
  int heads = how & 16 ? HEADS : KV;
  d.stored_heads = d.stores ? heads : KV;
  layer.stored = draw(&s, &stored, heads, d.views ? 1 : page);
  layer.view = draw(&s, &view, d.stores ? HEADS : heads, page);
  must(kv_decisions_write(file, "fuzz", &identity, &trace->shape, &d, NULL) ==
       KV_OK);
}

/* --- following ---------------------------------------------------------- */

static void follow(void) {
  char text[128];
  kv_spec spec;
  kv_cell cell = {0}, *each = &cell;
  bool stopped;
  kv_err e = {0};
  snprintf(text, sizeof text, "replay:columns=1:meta=3:file=%s", file);
  must(kv_spec_parse(kv_method_at, text, &spec, NULL) == KV_OK);
  kv_asked_cell asked = {.spec = &spec, .entries = -1};
  kv_replay_how how = {
      .backend = &kv_backend_ref, .kernels = kv_kernels_best(), .threads = 1};
  kv_rc rc = kv_cell_open(trace, 0, how.kernels, &asked, &cell, &e);
  must(!rc || (rc == KV_INPUT && e.text[0] && !strpbrk(e.text, "\n\r")));
  must(rc || cell.runs || cell.result.reason[0]);
  if (!rc) must(kv_replay(trace, &each, 1, &how, &stopped, &e) == KV_OK);
  kv_cell_close(&cell);
  kv_spec_free(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (n && bytes[0] == 'h') {
    FILE *f = fopen(file, "wb");
    must(f && fwrite(bytes + 1, 1, n - 1, f) == n - 1 && fclose(f) == 0);
  } else {
    write_drawn(bytes, n);
  }
  follow();
  return 0;
}
