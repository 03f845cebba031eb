/* SPDX-License-Identifier: Apache-2.0
 *
 * train DIR [check]: trains the model of model.h by DIR/recipe, on two threads
 * that each take half of every batch.  A line of the recipe is a phase:
 *
 *   steps T micro lr lr_end weight_decay stream heads shard
 *
 * (micro: batches of 2 x 2048 tokens a step; stream, heads: factors of the
 * penalties of model.h).
 * The file is read again when a phase ends, so lines may be added.  The state
 * is saved every few minutes and a new start goes on from it; sums are taken in
 * one order, so the same recipe gives the same weights.  With "check" the
 * gradient of one batch is written instead (test_train.py compares it).
 */
#include "optimizer.h"
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <time.h>
enum { NT = 2 };
typedef struct {
  int T;
  long count;
  const uint16_t *ids;
  const uint8_t *code;
} shard;
typedef struct {
  long steps;
  int T, micro;
  float lr, lr_end, wd, stream, heads;
  char name[64];
} phase;
static float *W, *M1, *M2, *SUM;
static packs P;
static work K[NT];
static rope_table RT;
static char *DIR;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
static void die(const char *what, const char *name) {
  fprintf(stderr, "train: %s %s\n", what, name);
  exit(1);
}
static shard shard_open(const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s.bin", DIR, name);
  FILE *f = fopen(path, "rb");
  if (!f) die("cannot open", path);
  int32_t h[2];
  if (fread(h, 4, 2, f) != 2) die("short", path);
  shard s = {.T = h[0], .count = h[1]};
  size_t a = (size_t)s.count * (s.T + 1) * 2, b = (size_t)s.count * s.T;
  char *p = room(a + b);
  if (fread(p, 1, a + b, f) != a + b) die("short", path);
  fclose(f);
  s.ids = (uint16_t *)p, s.code = (uint8_t *)p + a;
  return s;
}
static float gauss(uint64_t *x) {
  float s = 0;
  for (int i = 0; i < 12; i++) {
    *x += 0x9e3779b97f4a7c15u;
    uint64_t z = *x;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u,
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    s += (float)((z ^ z >> 31) >> 40) / 16777216.f;
  }
  return s - 6;
}
static void fill(float *w, long n, float sd, uint64_t *x) {
  for (long i = 0; i < n; i++) w[i] = sd * gauss(x);
}
static void fresh(void) {
  uint64_t x = 1;
  fill(W + EMBED, V * C, .1f, &x), fill(W + HEAD, V * C, .02f, &x);
  for (int i = 0; i < C; i++) W[NORM + i] = 1;
  for (int l = 0; l < L; l++) {
    for (int i = 0; i < 2 * C; i++) W[at(l, LN1) + i] = 1;
    for (int i = 0; i < 2 * D; i++) W[at(l, QN) + i] = 1.2f;
    fill(W + at(l, WQKV), QKV * C, .5f / 16, &x),
        fill(W + at(l, WO), C * H * D, .2f / 22.6f, &x);
    fill(W + at(l, WGU), 2 * F * C, .5f / 16, &x),
        fill(W + at(l, WD), C * F, .2f / 22.6f, &x);
  }
}
/* position in the recipe: steps of all earlier phases and of this one */
typedef struct {
  int64_t step, phase, in_phase, tokens;
  double seconds;
} place;
static void save(place at_, const char *name) {
  char path[512], tmp[520];
  snprintf(path, sizeof path, "%s/%s", DIR, name),
      snprintf(tmp, sizeof tmp, "%s.tmp", path);
  FILE *f = fopen(tmp, "wb");
  if (!f) die("cannot write", tmp);
  fwrite(&at_, sizeof at_, 1, f), fwrite(W, 4, SIZE, f), fwrite(M1, 4, SIZE, f),
      fwrite(M2, 4, SIZE, f);
  if (fclose(f) || rename(tmp, path)) die("cannot write", path);
}
static place load(void) {
  char path[512];
  place at_ = {0};
  snprintf(path, sizeof path, "%s/state", DIR);
  FILE *f = fopen(path, "rb");
  if (!f) {
    fresh();
    return at_;
  }
  if (fread(&at_, sizeof at_, 1, f) != 1 || fread(W, 4, SIZE, f) != SIZE ||
      fread(M1, 4, SIZE, f) != SIZE || fread(M2, 4, SIZE, f) != SIZE)
    die("short", path);
  fclose(f);
  return at_;
}
static int recipe(long want, phase *p) {
  char path[512], line[512];
  snprintf(path, sizeof path, "%s/recipe", DIR);
  FILE *f = fopen(path, "r");
  if (!f) die("cannot open", path);
  long i = 0;
  int found = 0;
  while (!found && fgets(line, sizeof line, f)) {
    if (line[0] == '#' || line[0] == '\n') continue;
    if (i++ == want)
      found = sscanf(line, "%ld %d %d %f %f %f %f %f %63s", &p->steps, &p->T,
                     &p->micro, &p->lr, &p->lr_end, &p->wd, &p->stream,
                     &p->heads, p->name) == 9;
  }
  fclose(f);
  return found;
}
static void repack_all(void) {
#pragma omp parallel num_threads(NT)
  {
    static _Thread_local b16 *tmp;
    if (!tmp) tmp = room(1024 * 512 * 2);
#pragma omp for schedule(dynamic)
    for (int i = 0; i <= 4 * L; i++) repack_one(i, W, &P, tmp);
  }
}
/* nats a byte where a byte weighs 1, share of answers right as a whole (runs
 * of weight above 1), mass on BOS by layer */
static void evaluate(const char *name) {
  shard s = shard_open(name);
  double nats[NT] = {0}, bytes[NT] = {0}, right[NT] = {0}, runs[NT] = {0},
         rows = 0;
  int per = TOKENS / s.T;
#pragma omp parallel num_threads(NT)
  {
    int me = omp_get_thread_num();
    work *k = &K[me];
    memset(k->bos, 0, sizeof k->bos);
    for (long b = me * per; b + per <= s.count; b += NT * per) {
      const uint16_t *ids = s.ids + b * (s.T + 1);
      const uint8_t *code = s.code + b * s.T;
      forward(k, W, &P, ids, s.T + 1, (long)per * s.T, s.T, &RT, 1);
      int run = 0, ok = 1;
      for (long t = 0; t < (long)per * s.T; t++) {
        const float *z = k->logits + t * VP;
        int best = 0, y = ids[t / s.T * (s.T + 1) + t % s.T + 1];
        double m = 0;
        for (int i = 1; i < V; i++) best = z[i] > z[best] ? i : best;
        for (int i = 0; i < V; i++) m += exp(z[i] - z[best]);
        if (code[t] == 50) nats[me] += z[best] + log(m) - z[y], bytes[me]++;
        if (run && (code[t] < 60 || t % s.T == 0))
          runs[me]++, right[me] += ok, run = 0;
        if (code[t] >= 60) run++, ok = (run == 1 || ok) && best == y;
      }
    }
#pragma omp atomic
    rows += (double)(s.count / (NT * per) * per) * (s.T - 64);
  }
  printf("   %-12s", name);
  if (bytes[0])
    printf(" %.4f nats", (nats[0] + nats[1]) / (bytes[0] + bytes[1]));
  if (runs[0])
    printf(" exact %.3f of %.0f", (right[0] + right[1]) / (runs[0] + runs[1]),
           runs[0] + runs[1]);
  printf("  BOS");
  for (int l = 0; l < L; l++) {
    double m = 0, top = 0;
    for (int h = 0; h < H; h++) {
      double x = (K[0].bos[l][h] + K[1].bos[l][h]) / rows;
      m += x / H, top = x > top ? x : top;
    }
    printf(" %.2f(%.2f)", m, top);
  }
  printf("\n");
  free((void *)s.ids);
}
static void report(place *q, double lossavg, float lr) {
  printf("%6.0fs step %ld tok %.2fM lr %.4f loss %.4f  pen", q->seconds,
         (long)q->step, q->tokens / 1e6, lr, lossavg);
  for (int l = 0; l < L; l++)
    printf(" %.2f", K[0].penalty[l] / TOKENS), K[0].penalty[l] = 0;
  printf("\n");
  evaluate("eval_text"), evaluate("eval_kv512"), evaluate("eval_kv2048"),
      evaluate("eval_back");
  fflush(stdout);
}
static void gradient(shard *s, long first, phase *p, float scale) {
  int per = TOKENS / p->T;
#pragma omp parallel num_threads(NT)
  {
    int me = omp_get_thread_num();
    work *k = &K[me];
    memset(k->grad, 0, (size_t)SIZE * 4);
    memset(k->penalty, 0, sizeof k->penalty);
    k->loss = 0;
    for (int m = 0; m < p->micro; m++) {
      long b = (first + (m * NT + me) * per) % (s->count / per * per);
      const uint16_t *ids = s->ids + b * (s->T + 1);
      forward(k, W, &P, ids, s->T + 1, TOKENS, p->T, &RT, 0);
      k->loss +=
          loss_back(k, ids, s->code + b * s->T, s->T + 1, TOKENS, p->T, scale);
      backward(k, W, &P, ids, s->T + 1, TOKENS, p->T, &RT, p->stream, p->heads,
               scale);
    }
#pragma omp barrier
#pragma omp for schedule(static)
    for (long i = 0; i < SIZE; i++) SUM[i] = K[0].grad[i] + K[1].grad[i];
  }
}
int main(int argc, char **argv) {
  if (argc < 2) die("usage:", "train DIR [check]");
  DIR = argv[1];
  W = room(SIZE * 4L), M1 = room(SIZE * 4L), M2 = room(SIZE * 4L),
  SUM = room(SIZE * 4L);
  P = packs_new();
  muon_room mr[NT] = {muon_new(), muon_new()};
  for (int i = 0; i < NT; i++) K[i] = work_new();
  for (int t = 0; t < LONGEST; t++)
    for (int i = 0; i < D / 2; i++) {
      double x = t * pow(10000, -2.0 * i / D);
      RT.cs[t][i] = cos(x), RT.sn[t][i] = sin(x);
    }
  place q = load();
  printf("parameters %d, at step %ld\n", SIZE - (VP - V) * C, (long)q.step);
  repack_all();
  if (argc > 2) {
    phase p;
    if (!recipe(0, &p)) die("no phase in", "recipe");
    shard s = shard_open(p.name);
    double t = now();
    gradient(&s, 0, &p, 1.f / (NT * p.micro * TOKENS));
    printf("loss %.6f, %.0f tokens a second\n",
           (K[0].loss + K[1].loss) / (NT * p.micro * TOKENS),
           NT * p.micro * TOKENS / (now() - t));
    save(q, "check_state");
    char path[512];
    snprintf(path, sizeof path, "%s/check_grad", DIR);
    FILE *f = fopen(path, "wb");
    fwrite(SUM, 4, SIZE, f), fclose(f);
    return 0;
  }
  double begun = now() - q.seconds, told = now(), saved = now(), avg = 0;
  phase p;
  for (; recipe(q.phase, &p); q.phase++, q.in_phase = 0) {
    shard s = shard_open(p.name);
    long per_step = NT * p.micro * (TOKENS / p.T);
    printf("phase %ld: %ld steps T %d micro %d lr %g..%g wd %g stream %g heads "
           "%g %s\n",
           (long)q.phase, p.steps, p.T, p.micro, p.lr, p.lr_end, p.wd, p.stream,
           p.heads, p.name);
    for (; q.in_phase < p.steps; q.in_phase++) {
      gradient(&s, q.in_phase * per_step % s.count, &p,
               1.f / (NT * p.micro * TOKENS));
      double loss = (K[0].loss + K[1].loss) / (NT * p.micro * TOKENS);
      avg = avg ? .98 * avg + .02 * loss : loss;
      if (!(loss < 100)) die("loss is no number at a step of", p.name);
      float lr = p.lr + (p.lr_end - p.lr) * q.in_phase / p.steps;
      if (q.step < 100) lr *= (q.step + 1) / 100.f;
      state st = {W, SUM, M1, M2};
      rates ra = {lr, .15f * lr, p.wd, .2f * lr};
#pragma omp parallel num_threads(NT)
#pragma omp for schedule(dynamic)
      for (int j = 0; j < JOBS; j++)
        optimize(j, st, ra, q.step + 1, &mr[omp_get_thread_num()]);
      repack_all();
      q.step++, q.tokens += per_step * p.T, q.seconds = now() - begun;
      if (now() - told > (q.seconds < 300 ? 30 : 90))
        report(&q, avg, lr), told = now();
      if (now() - saved > 180) {
        place n = q;
        n.in_phase++;
        save(n, "state"), saved = now();
      }
    }
    place n = q;
    n.phase++, n.in_phase = 0;
    save(n, "state");
    free((void *)s.ids);
  }
  report(&q, avg, 0);
  return 0;
}
