/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/inspect/cachegen.h"

#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"

enum { GROUP = 10, ANCHOR_BINS = 256, MOST_BINS = 256 };
#define LOG_2 0x1.62e42fefa39efp-1

const char *const kv_entropy_part[KV_ENTROPY_PARTS] = {"k", "v"};
const char *const kv_coding_name[KV_CODINGS] = {"deltas", "tokens"};

/* A layer's keys or values, a token a row; counts of codes by channel. */
typedef struct job {
  int n, width;
  const float *row;              /* [n][width] */
  double *anchor, *left, *back;  /* [width]: decoded; what is coded, decoded */
  int32_t (*plain)[MOST_BINS];   /* [width] of the alphabet of bins */
  int32_t (*anchors)[MOST_BINS]; /* [width] of that of anchors */
  double missed, squares;
} job;

int kv_entropy_bins(int part, int layer, int n_layers) {
  int fine = n_layers / (part == KV_ENTROPY_KEYS ? 3 : 16);
  return layer < (fine > 1 ? fine : 1) ? 32 : 16;
}

/* --- quantising ----------------------------------------------------------- */

/* What is in left, into back, its codes counted. */
static void quantise(job *w, int bins, int32_t (*count)[MOST_BINS]) {
  int c = bins / 2 - 1;
  double most = 0;
  for (int i = 0; i < w->width; i++) {
    double x = w->left[i] < 0 ? -w->left[i] : w->left[i];
    if (x > most) most = x;
  }
  double scale = (double)kv_from_bf16(kv_to_bf16((float)most));
  for (int i = 0; i < w->width; i++) {
    double y = scale > 0 ? __builtin_rint(w->left[i] * c / scale) : 0;
    int code = y < -c ? -c : y > c ? c : (int)y;
    count[i][code + c]++;
    w->back[i] = code * scale / c;
  }
}

static void code_token(job *w, int t, int bins, bool deltas) {
  const float *x = w->row + (size_t)t * (size_t)w->width;
  bool first = deltas && t % GROUP == 0;
  for (int i = 0; i < w->width; i++)
    w->left[i] = (double)x[i] - (deltas && !first ? w->anchor[i] : 0);
  quantise(w, first ? ANCHOR_BINS : bins, first ? w->anchors : w->plain);
  for (int i = 0; i < w->width; i++) {
    double gap = w->left[i] - w->back[i];
    if (first) w->anchor[i] = w->back[i];
    w->missed += gap * gap;
    w->squares += (double)x[i] * (double)x[i];
  }
}

/* --- entropy -------------------------------------------------------------- */

/* n log n - sum of c log c, in bits: what n codes of these counts need. */
static double bits_of(const int32_t count[MOST_BINS]) {
  double sum = 0;
  int64_t n = 0;
  for (int i = 0; i < MOST_BINS; i++) {
    if (!count[i]) continue;
    n += count[i];
    sum += (double)count[i] * (double)kv_log((float)count[i]);
  }
  return n ? ((double)n * (double)kv_log((float)n) - sum) / LOG_2 : 0;
}

static void measure(job *w, int bins, bool deltas, kv_entropy *out) {
  double bits = 0, elements = (double)w->n * w->width;
  size_t size = (size_t)w->width * sizeof *w->plain;
  memset(w->plain, 0, size);
  memset(w->anchors, 0, size);
  w->missed = w->squares = 0;
  for (int t = 0; t < w->n; t++) code_token(w, t, bins, deltas);
  for (int i = 0; i < w->width; i++)
    bits += bits_of(w->plain[i]) + bits_of(w->anchors[i]);
  *out =
      (kv_entropy){.bins = bins,
                   .elements = (int64_t)w->n * w->width,
                   .bits = bits / elements,
                   .scales = 16. / w->width,
                   .tables = 16. * (bins + (deltas ? ANCHOR_BINS : 0)) / w->n,
                   .error = w->squares > 0 ? w->missed / w->squares : 0};
}

/* --- a layer -------------------------------------------------------------- */

static void read_rows(const kv_shape *s, const kv_kernels *kernel,
                      const void *from, int d, float *to) {
  size_t size = (size_t)d * kv_dtype_size(s->dtype);
  for (int t = 0; t < s->n_tokens; t++)
    for (int g = 0; g < s->n_kv_heads; g++, to += d) {
      size_t at = (size_t)g * (size_t)s->n_tokens + (size_t)t;
      kernel->widen(s->dtype, (const char *)from + at * size, (size_t)d, to);
    }
}

static kv_rc do_part(const kv_trace *t, int i, int part,
                     const kv_kernels *kernel, kv_entropy *out, kv_err *e) {
  const kv_shape *s = &t->shape;
  const kv_layer_data *data = &t->layer[i].data;
  bool keys = part == KV_ENTROPY_KEYS;
  int d = keys ? s->d : s->d_v, bins;
  job w = {.n = s->n_tokens, .width = s->n_kv_heads * d};
  size_t width = (size_t)w.width;
  float *row = kv_zalloc((size_t)w.n * width, sizeof *row);
  double *three = kv_zalloc(3 * width, sizeof *three);
  w.plain = kv_zalloc(2 * width, sizeof *w.plain);
  kv_rc rc = KV_OK;
  if (!row || !three || !w.plain) {
    rc = kv_no_memory(e, "codes of a layer", (size_t)w.n * width * sizeof *row);
  } else {
    read_rows(s, kernel, keys ? data->k : data->v, d, row);
    w.row = row;
    w.anchor = three;
    w.left = three + width;
    w.back = three + 2 * width;
    w.anchors = w.plain + width;
    bins = kv_entropy_bins(part, data->layer, s->n_layers);
    for (int c = 0; c < KV_CODINGS; c++)
      measure(&w, bins, c == KV_CODED_DELTAS, &out[c]);
  }
  free(row);
  free(three);
  free(w.plain);
  return rc;
}

kv_rc kv_entropy_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                       kv_entropy *out, kv_err *e) {
  kv_rc rc = kv_trace_scan_layer(t, i, e);
  for (int part = 0; part < KV_ENTROPY_PARTS && !rc; part++)
    rc = do_part(t, i, part, kernel, out + part * KV_CODINGS, e);
  return rc ? rc : kv_trace_damaged(t, e);
}
