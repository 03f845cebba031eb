/* SPDX-License-Identifier: Apache-2.0
 * Every stage of a KV head, from q, k and v alone: check_vectors.sh calls it.
 * IN OUT LAYER ,STEPS, METHOD A,B,C HEAD,GROUP,PROMPT,TOKENS,D,D_V,SCALE where
 * A,B,C: h2o budget,recent; quest budget,page; kivi bits,group,residual */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h> // clang-format off
#define F(i, n) for (int i = 0; i < (n); i++)
#define PUT(x, h, n) io(#x, h, x, (int)sizeof *(x) * (n))
enum { N = 1024, A = N * 64 }; typedef union { float f; uint32_t u;
  } word; static float E[] = {0x1.6a523ap-10f, 0x1.12396ep-7f, 0x1.5558aap-5f, 0x1.555492p-3f, 0x1.fffffcp-2f, 1, 1}, K[A], V[A],
  B[] = {-0x1.07d518p-3f, 0x1.1e699p-3f, -0x1.f32c66p-4f, 0x1.1ed606p-3f, -0x1.559c8cp-3f, 0x1.99d048p-3f, -0x1.fffefap-3f, 0x1.555506p-2f,
  -.5f}, Q[8][A], k[A], v[A], s[8][N], page_min[A], page_max[A], chunk_acc[A], chunk_sum[N], chunk_max[N], scores[N], logits[N],
  out[N], lse[1], scale; static int S, P, T, g, m, d, D, a, b, c, n, ask = 1, entries[N], order[N], chosen[N], view[N], page_table[2 * N];
  static char *side = ""; static char **arg, in[N]; static uint8_t codes[A]; static _Float16 scales[A], minima[A]; static int64_t column[N];
void io(char *stage, int h, void *x, int size) { char p[999], step[32] = ""; if (size >= 0) snprintf(step, 32, ".steps.%d", S);
  snprintf(p, 999, "%s/%s%s.layers.%s%s.heads.%d.bin", arg[1 + (size >= 0)], side, stage, arg[3], step, h); FILE *f = ask ? fopen(p,
  size < 0 ? "rb" : "wb") : 0; if (f && (size < 0 ? fread(x, 1, 4 * A, f) : fwrite(x, 1, size, f)) + 1) fclose(f); }
float poly(float *x, int deg, float r) { float y = *x; while (deg--) y = fmaf(y, r, *++x);
  return y; } float expm(float x) { word t = {fmaf(x, 0x1.715476p+0f, 0x1.8p23f)}; float y = t.f - 0x1.8p23f;
  word q = {poly(E, 6, fmaf(y, -0x1.7f7d1cp-20f, fmaf(y, -0x1.62e4p-1f, x)))}; q.u += (t.u - 0x4b400000u) << 23; return x < -87 ? 0 : q.f; }
float logp(float x) { word w = {x}; int e = (int)(w.u - 0x3f2aaaabu) >> 23; w.u -= (uint32_t)e << 23;
  float f = w.f - 1; return fmaf(e, 0x1.62e43p-1f, fmaf(poly(B, 8, f), f * f, f)); } int64_t fix(float p) { return llrint(p * 0x1p40);
  } float unfix(int64_t x) { return (float)x * 0x1p-40f; } uint32_t key(float x) { word w = {x}; return w.u ^ (w.u >> 31 ? ~0u : 1u << 31);
  } void box(float *low, float *top, float x) { if (key(x) < key(*low)) *low = x; if (key(x) > key(*top)) *top = x; }
void choose(int h, int size, int best) {
  int y = 0; F(i, size) { int r = 0; F(j, size) { uint32_t p = key(scores[i]), q = key(scores[j]); r += q > p || (q == p && j < i);
  } order[r] = i; in[i] = r < best; } F(i, size) if (in[i]) chosen[y++] = i; PUT(scores, h, size); PUT(order, h, size); PUT(chosen, h, y); }
/* The first `rows` rows of x; `tall` rows and `wide` elements share a scale. */ void quantise(char *what, float *x, float *read,
  int rows, int w, int tall, int wide) { int z = 0, L = (1 << a) - 1; for (int r = 0; r < rows; r += tall) for (int e = 0; e < w;
  e += wide, z++) { float low = x[r * w + e], top = low; F(i, tall) F(j, wide) if (e + j < w) box(&low, &top, x[(r + i) * w + e + j]);
  scales[z] = (_Float16)((top - low) / L); minima[z] = (_Float16)low; F(i, tall) F(j, wide) if (e + j < w) { int y = (r + i) * w + e + j;
  float s = (float)scales[z], l = (float)minima[z]; codes[y] = s > 0 ? rintf(fminf(fmaxf((x[y] - l) / s, 0), L)) : 0;
  read[y] = fmaf(codes[y], s, l); } } F(i, n) page_table[2 * i] = i < rows ? i : -1, page_table[2 * i + 1] = i < rows ? i / tall : -1;
  side = what; PUT(page_table, g, 2 * n); PUT(codes, g, rows * w); PUT(scales, g, z); PUT(minima, g, z); PUT(read, g, n * w); side = ""; }
void attend(int h, float *s, int size) { float M = -INFINITY, L = 0; int C = (size + 127) / 128;
  int64_t z[N] = {0}; memset(chunk_acc, 0, 4 * A); memset(out, 0, 4 * N); F(j, size) M = fmaxf(M, logits[j] = s[view[j]]);
  F(j, size) chunk_max[j / 128] = j % 128 ? fmaxf(chunk_max[j / 128], logits[j]) : logits[j];
  F(j, size) { float y = expm(logits[j] - chunk_max[j / 128]), *to = chunk_acc + j / 128 * D; z[j / 128] += fix(y); F(e, D) to[e] = fmaf(y,
  v[entries[view[j]] * D + e], to[e]); } F(q, C) { float w = expm(chunk_max[q] - M); L = fmaf(w, chunk_sum[q] = unfix(z[q]), L);
  F(e, D) out[e] = fmaf(w, chunk_acc[q * D + e], out[e]); } F(e, D) out[e] /= L; *lse = M + logp(L); PUT(view, h, size);
  PUT(logits, h, size); PUT(chunk_max, h, C); PUT(chunk_sum, h, C); PUT(chunk_acc, h, C * D); PUT(out, h, D); PUT(lse, h, 1); }
void quest(int h) { int C = (n + b - 1) / b, best = a / b > 1 ? a / b : 1, size = 0; float *q = Q[h % m] + (S - 1) * d;
  memset(in, 1, N); F(j, n) F(x, d) { int i = j / b * d + x; if (j % b == 0) page_min[i] = page_max[i] = K[j * d + x];
  box(&page_min[i], &page_max[i], K[j * d + x]); } F(i, C) { scores[i] = 0; F(x, d) { float e = q[x] * page_min[i * d + x], f = e;
  box(&f, &e, q[x] * page_max[i * d + x]); scores[i] += e; } } if (a < n && best < C) choose(h, C - 1, best - 1), in[C - 1] = 1;
  F(i, n) if (in[i / b]) view[size++] = i; PUT(page_min, g, C * d); PUT(page_max, g, C * d); attend(h, s[h % m], size); }
void heavy(void) { int y = 0, past = n - b; F(h, m) {
  float M = s[h][0], r, p[N]; int64_t z = 0; F(i, n) M = fmaxf(M, s[h][i]); F(i, n) z += fix(p[i] = expm(s[h][i] - M)); r = 1 / unfix(z);
  F(i, n) column[i] += fix(p[i] * r); } if (S >= P) PUT(column, g, n); if (S < P || n <= a) return; F(i, past) scores[i] = unfix(column[i]);
  choose(g, past, a - b); F(i, n) if (i >= past || in[i]) entries[y] = entries[i], column[y++] = column[i]; n = y; }
int main(int argc, char **argv) { char w = *(arg = argv)[5], t[16]; if (argc != 8 || sscanf(argv[6],
  "%d,%d,%d", &a, &b, &c) < 1 || sscanf(argv[7], "%d,%d,%d,%d,%d,%d,%f", &g, &m, &P, &T, &d, &D, &scale) != 7) return 2;
  io("k", g, K, -1); io("v", g, V, -1); F(h, m) io("q", g * m + h, Q[h], -1); F(r, T) { S = r + 1; snprintf(t, 16, ",%d,", S);
  ask = strstr(argv[4], t) != 0; entries[n] = r; column[n++] = 0; memcpy(k, K, 4 * A); memcpy(v, V, 4 * A); if (S > P) PUT(entries, g, n);
  if (w == 'k' && r >= P) quantise("k_", K, k, r / c * c, d, b, 1), quantise("v_", V, v, r > c ? r - c : 0, D, 1, b);
  F(h, m) F(i, n) { float y = 0; F(x, d) y = fmaf(Q[h][r * d + x], k[entries[i] * d + x], y); s[h][view[i] = i] = y * scale + 0;
  } if (S > P && ask) F(h, m) { if (w == 'q') quest(g * m + h); else { F(i, n) view[i] = i; attend(g * m + h, s[h], n);
  } } if (w == 'h') heavy(); if (S == P || (S > P && strchr("hk", w))) io("kept", g, entries, 4 * n); } return 0; }
