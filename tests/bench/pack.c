/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace pack against copying the same bytes on the same disk: chunks of four
 * ranks, a prompt in pieces of 2,048 tokens and decode steps of one, are packed
 * and copied in turns, both until the disk has them. And anonymous memory
 * against its bound, a layer's rows and 64 MiB.
 */
#include "tests/bench/bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "traces/trace/trace.h"

enum { RANKS = 4, PIECE = 2048, COPY = 1 << 20 };

typedef struct dump {
  const bench *b;
  const kv_trace *t;
  char folder[300];
} dump;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(int good, const char *what) {
  if (!good) bench_fail("cannot write %s", what);
}

/* Rows of tokens at..at+n of `heads` heads from the first on, token by token.
 */
static void put_rows(const dump *x, FILE *f, const void *data, int first,
                     int heads, int at, int n) {
  const kv_shape *s = &x->t->shape;
  size_t size = (size_t)s->d * kv_dtype_size(s->dtype);
  for (int t = at; t < at + n; t++)
    for (int h = first; h < first + heads; h++)
      must(fwrite((const char *)data +
                      ((size_t)h * (size_t)s->n_tokens + (size_t)t) * size,
                  size, 1, f) == 1,
           "chunks");
}

static void put_rank(const dump *x, int layer, int rank) {
  const kv_shape *s = &x->t->shape;
  const kv_layer_data *l = &x->t->layer[layer].data;
  int heads = s->n_heads / RANKS, kv = s->n_kv_heads / RANKS;
  char path[400];
  snprintf(path, sizeof path, "%s/%d.%d.chunks", x->folder, layer, rank);
  FILE *f = fopen(path, "wb");
  must(f != NULL, path);
  fprintf(f,
          "{\"layer\":%d,\"dtype\":\"%s\",\"head\":%d,\"heads\":%d,"
          "\"kv_head\":%d,\"kv_heads\":%d,\"head_dim\":%d}\n",
          layer, s->dtype == KV_BF16 ? "BF16" : "F16", rank * heads, heads,
          rank * kv, kv, s->d);
  for (int64_t at = 0; at < s->n_tokens;) {
    int64_t left = s->prompt_len - at, n = left > PIECE ? PIECE : left;
    const int64_t head[2] = {at, n > 0 ? n : 1};
    must(fwrite(head, sizeof head, 1, f) == 1, path);
    put_rows(x, f, l->q, rank * heads, heads, (int)at, (int)head[1]);
    put_rows(x, f, l->k, rank * kv, kv, (int)at, (int)head[1]);
    put_rows(x, f, l->v, rank * kv, kv, (int)at, (int)head[1]);
    at += head[1];
  }
  must(fclose(f) == 0, path);
}

static void put_all(const dump *x) {
  const kv_shape *s = &x->t->shape;
  char path[400];
  must(mkdir(x->folder, 0700) == 0, x->folder);
  for (int l = 0; l < x->t->n_layers; l++)
    for (int r = 0; r < RANKS; r++) put_rank(x, l, r);
  snprintf(path, sizeof path, "%s/trace.json", x->folder);
  FILE *f = fopen(path, "w");
  must(f != NULL, path);
  fprintf(f,
          "{\"n_layers\":%d,\"n_heads\":%d,\"n_kv_heads\":%d,"
          "\"prompt_len\":%d,\"attn.scale\":1}",
          x->t->n_layers, s->n_heads, s->n_kv_heads, s->prompt_len);
  must(fclose(f) == 0, path);
}

/* Calls `each` with the path of every file of the dump. */
static void walk(const dump *x, void (*each)(const char *path, int to),
                 int to) {
  char path[600];
  DIR *d = opendir(x->folder);
  must(d != NULL, x->folder);
  for (struct dirent *f; (f = readdir(d)) != NULL;) {
    snprintf(path, sizeof path, "%s/%s", x->folder, f->d_name);
    if (f->d_name[0] != '.') each(path, to);
  }
  closedir(d);
}

static void copy_one(const char *path, int to) {
  static char piece[COPY];
  int from = open(path, O_RDONLY);
  must(from >= 0, path);
  for (ssize_t n; (n = read(from, piece, sizeof piece)) > 0;)
    must(write(to, piece, (size_t)n) == n, path);
  close(from);
}

static void remove_one(const char *path, int to) {
  (void)to;
  unlink(path);
}

/* Seconds to copy all files into one, to the disk. Like pack it first removes
 * what it wrote last, so that both write into memory that was just freed: that
 * of a virtual machine may be dear to touch for the first time. */
static double copy(const dump *x) {
  char path[400];
  snprintf(path, sizeof path, "%s/copy", x->b->folder);
  unlink(path);
  double start = now();
  int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  must(to >= 0, path);
  walk(x, copy_one, to);
  must(fsync(to) == 0 && close(to) == 0, path);
  return now() - start;
}

static child pack(const dump *x) {
  char out[400];
  snprintf(out, sizeof out, "%s/packed.safetensors", x->b->folder);
  char *argv[] = {"traces/kvtrace",
                  "pack",
                  "-q",
                  (char *)(uintptr_t)x->folder,
                  "-o",
                  out,
                  NULL};
  unlink(out);
  return bench_command(x->b, argv);
}

static void measure(const dump *x, double layer) {
  const double mib = 1048576, all = layer * x->t->n_layers / 1e6;
  double packed[BENCH_MOST_RUNS], copied[BENCH_MOST_RUNS], most = 0;
  for (int i = 0; i < x->b->runs; i++) {
    child c = pack(x);
    packed[i] = all / c.wall;
    copied[i] = all / copy(x);
    most = c.anon > most ? c.anon : most;
  }
  bench_line(x->b, (line){.what = "packing / copying, to the disk",
                          .unit = "MB/s",
                          .value = bench_median(x->b->runs, packed),
                          .peer = bench_median(x->b->runs, copied),
                          .low = 0.5});
  bench_line(x->b, (line){.what = "RssAnon / a layer's rows and 64 MiB",
                          .unit = "MiB",
                          .value = most / mib,
                          .peer = layer / mib + 64,
                          .high = 1});
}

void theme_pack(const bench *b) {
  dump x = {.b = b};
  char path[400];
  kv_trace *t = NULL;
  kv_err e = {0};
  bench_synth(b, "8,24", b->small ? 2048 : 16384, b->small ? 64 : 256);
  snprintf(path, sizeof path, "%s/trace.safetensors", b->folder);
  snprintf(x.folder, sizeof x.folder, "%s/dump", b->folder);
  if (kv_trace_open(path, &t, &e)) bench_fail("%s", e.text);
  const kv_shape *s = &t->shape;
  x.t = t;
  put_all(&x);
  unlink(path);
  bench_theme(b, "kvtrace pack, 4 ranks, 2 layers of Llama-3.1-8B", "copy");
  measure(&x, (double)(s->n_heads + 2 * s->n_kv_heads) * s->d * s->n_tokens *
                  (double)kv_dtype_size(s->dtype));
  kv_trace_close(t);
  walk(&x, remove_one, 0);
  rmdir(x.folder);
}
