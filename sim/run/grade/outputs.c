/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparing outputs: sim/run/grade/outputs.h.
 */
#include "sim/run/grade/outputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "ref/ground/text.h"
#include "traces/container/safetensors.h"

const int kv_ulp_most[KV_ULP_BUCKETS - 1] = {0, 1, 2, 4, 8, 16, 64};

typedef struct side {
  const char *data;
  kv_st_dtype type;
} side;

/* The worst elements of the wrong rows of a layer. */
typedef struct places {
  kv_output_place *at;
  int64_t n, room;
} places;

struct kv_outputs {
  kv_st *files;
  const kv_trace *trace;
  const char *path;
  int prompt_len, steps;
  kv_outputs_how how; /* with tolerances filled in */
  side *o, *lse;      /* [n_layers]; lse data NULL: none */
  kv_output_sums *sums;
  places *wrong; /* [n_layers]; empty unless how.all */
  bool no_memory;
};

/* --- numbers ------------------------------------------------------------ */

static float load(side s, size_t i) {
  float wide;
  uint16_t half;
  if (s.type == KV_ST_F32) {
    memcpy(&wide, s.data + i * sizeof wide, sizeof wide);
    return wide;
  }
  memcpy(&half, s.data + i * sizeof half, sizeof half);
  return s.type == KV_ST_F16 ? kv_from_f16(half) : kv_from_bf16(half);
}

/* Rank of a finite number among those of its type, counted from zero: two
 * numbers are as many ulp apart as their ranks differ. */
static int64_t place_of(kv_st_dtype type, float x) {
  uint32_t u = kv_bits(x), sign = 0x80000000u;
  if (type != KV_ST_F32) {
    u = type == KV_ST_F16 ? kv_to_f16(x) : kv_to_bf16(x);
    sign = 0x8000u;
  }
  return u & sign ? -(int64_t)(u & (sign - 1)) : (int64_t)u;
}

static int bucket(kv_st_dtype type, float theirs, float ours) {
  int64_t apart = place_of(type, theirs) - place_of(type, ours);
  int b = 0;
  if (!isfinite(theirs) || !isfinite(ours)) return KV_ULP_BUCKETS - 1;
  if (apart < 0) apart = -apart;
  while (b < KV_ULP_BUCKETS - 1 && apart > kv_ulp_most[b]) b++;
  return b;
}

double kv_output_relative(const kv_output_sums *s) {
  if (s->ours > 0) return sqrt(s->square / s->ours);
  return s->square > 0 ? INFINITY : 0;
}

void kv_output_add(const kv_output_sums *from, kv_output_sums *to) {
  if (from->wrong && !to->wrong) to->first = from->first;
  if (from->rows && (!to->rows || from->most > to->most))
    to->worst = from->worst;
  if (from->lses && (!to->lses || from->lse_most > to->lse_most))
    to->lse_worst = from->lse_worst;
  to->most = fmax(to->most, from->most);
  to->lse_most = fmax(to->lse_most, from->lse_most);
  to->rows += from->rows;
  to->wrong += from->wrong;
  to->elements += from->elements;
  to->matched += from->matched;
  to->lses += from->lses;
  to->lse_matched += from->lse_matched;
  to->lse_other += from->lse_other;
  to->square += from->square;
  to->ours += from->ours;
  for (int b = 0; b < KV_ULP_BUCKETS; b++) to->ulp[b] += from->ulp[b];
}

const char *kv_output_text(const kv_output_place *p, char out[KV_OUTPUT_TEXT]) {
  char element[32] = "LSE";
  if (p->element >= 0) snprintf(element, 32, "element %d", p->element);
  snprintf(out, KV_OUTPUT_TEXT,
           "layer %d, step %d, query head %d, %s: %.9g, ours is %.9g", p->layer,
           p->step, p->head, element, (double)p->theirs, (double)p->ours);
  return out;
}

/* --- a row -------------------------------------------------------------- */

/* |theirs - ours|; infinite if either is not finite, because then nothing shows
 * that theirs is right. */
static double apart(float theirs, float ours) {
  bool both = isfinite(theirs) && isfinite(ours);
  return both ? fabs((double)theirs - (double)ours) : INFINITY;
}

/* How far a number exceeds its tolerance; <= 0: it matches. size: what the
 * relative tolerance multiplies. */
static double outside(const kv_outputs *o, const kv_output_place *p,
                      double size) {
  return apart(p->theirs, p->ours) - o->how.atol - o->how.rtol * size;
}

/* The largest finite magnitude of a row: an infinite one would tolerate
 * anything. Not by fmax, because of a fault in GCC 12 for aarch64 at -O3. */
static double row_size(const float *out, size_t width) {
  float most = 0;
  for (size_t x = 0; x < width; x++)
    if (isfinite(out[x]) && fabsf(out[x]) > most) most = fabsf(out[x]);
  return (double)most;
}

static double lse_size(float lse) {
  return isfinite(lse) ? fmax(1, fabs((double)lse)) : 1;
}

static void element(const kv_outputs *o, kv_output_sums *s, kv_st_dtype type,
                    const kv_output_place *p, double size) {
  double d = apart(p->theirs, p->ours);
  if (s->elements++ == 0 || d > s->most) s->worst = *p;
  s->most = fmax(s->most, d);
  s->square += d * d;
  if (isfinite(p->ours)) s->ours += (double)p->ours * (double)p->ours;
  s->ulp[bucket(type, p->theirs, p->ours)]++;
  s->matched += outside(o, p, size) <= 0;
}

/* Reads an LSE as a natural logarithm. */
static float read_lse(side s, size_t row, bool base2) {
  static const double ln2 = 0.69314718055994530942;
  float x = load(s, row);
  return base2 ? (float)((double)x * ln2) : x;
}

static void lse_of(const kv_outputs *o, kv_output_sums *s,
                   const kv_output_place *p, float other) {
  double d = apart(p->theirs, p->ours), size = lse_size(p->ours);
  kv_output_place q = *p;
  q.theirs = other;
  if (s->lses++ == 0 || d > s->lse_most) s->lse_worst = *p;
  s->lse_most = fmax(s->lse_most, d);
  s->lse_matched += outside(o, p, size) <= 0;
  s->lse_other += outside(o, &q, size) <= 0;
}

static void keep_wrong(kv_outputs *o, int index, const kv_output_place *p) {
  places *w = &o->wrong[index];
  if (w->n == w->room) {
    int64_t room = w->room ? 2 * w->room : 64;
    kv_output_place *more = realloc(w->at, (size_t)room * sizeof *more);
    if (!more) {
      o->no_memory = true;
      return;
    }
    w->at = more;
    w->room = room;
  }
  w->at[w->n++] = *p;
}

/* The element of a row that exceeds its tolerance most. */
typedef struct furthest {
  double by; /* 0: none exceeds */
  kv_output_place place;
} furthest;

static void look(const kv_outputs *o, const kv_output_place *p, double size,
                 furthest *f) {
  double by = outside(o, p, size);
  if (by > f->by) *f = (furthest){by, *p};
}

void kv_outputs_row(kv_outputs *o, int index, int step, int head,
                    const float *out, float lse) {
  kv_output_sums *s = &o->sums[index];
  side values = o->o[index], lses = o->lse[index];
  size_t width = (size_t)o->trace->shape.d_v;
  size_t row =
      (size_t)head * (size_t)o->steps + (size_t)(step - o->prompt_len - 1);
  double size = row_size(out, width);
  kv_output_place p = {o->trace->layer[index].data.layer, step, head, 0, 0, 0};
  furthest f = {0};
  for (size_t x = 0; x < width; x++) {
    p.element = (int)x;
    p.theirs = load(values, row * width + x);
    p.ours = out[x];
    element(o, s, values.type, &p, size);
    look(o, &p, size, &f);
  }
  if (lses.data) {
    bool base2 = o->how.lse_base2;
    p.element = -1;
    p.theirs = read_lse(lses, row, base2);
    p.ours = lse;
    lse_of(o, s, &p, read_lse(lses, row, !base2));
    look(o, &p, lse_size(lse), &f);
  }
  s->rows++;
  if (!(f.by > 0)) return;
  if (s->wrong++ == 0) s->first = f.place;
  if (o->how.all) keep_wrong(o, index, &f.place);
}

/* --- the file ----------------------------------------------------------- */

static kv_rc find(const kv_outputs *o, int index, const char *what, int rank,
                  side *out, kv_err *e) {
  char name[64], show[KV_SHOW];
  const kv_shape *s = &o->trace->shape;
  const uint64_t shape[3] = {(uint64_t)s->n_heads, (uint64_t)o->steps,
                             (uint64_t)s->d_v};
  snprintf(name, sizeof name, "layers.%d.%s", o->trace->layer[index].data.layer,
           what);
  const kv_st_tensor *t = kv_st_find(o->files, name);
  *out = (side){0};
  if (!t && rank == 2) return KV_OK;
  if (!t)
    return kv_fail(e, KV_INPUT, "%s: tensor %s is missing",
                   kv_show(o->path, show), name);
  bool fits = (int)t->rank == rank;
  for (int i = 0; fits && i < rank; i++) fits = t->shape[i] == shape[i];
  if (!fits)
    return kv_fail(e, KV_INPUT,
                   "%s: tensor %s must have shape [%d, %d%s]: query heads, "
                   "steps after the prompt of %d tokens%s",
                   kv_show(o->path, show), name, s->n_heads, o->steps,
                   rank == 3 ? ", d_v" : "", o->prompt_len,
                   rank == 3 ? ", elements" : "");
  if (t->dtype != KV_ST_F32 && t->dtype != KV_ST_F16 && t->dtype != KV_ST_BF16)
    return kv_fail(e, KV_INPUT,
                   "%s: tensor %s is %s; it must be F32, F16 or BF16",
                   kv_show(o->path, show), name, kv_st_dtype_name(t->dtype));
  *out = (side){(const char *)t->data, t->dtype};
  return KV_OK;
}

/* All layers must have one type, because there is one tolerance. */
static kv_rc check_types(const kv_outputs *o, kv_err *e) {
  char show[KV_SHOW];
  for (int i = 1; i < o->trace->n_layers; i++)
    if (o->o[i].type != o->o[0].type)
      return kv_fail(e, KV_INPUT,
                     "%s: tensor layers.%d.o is %s but layers.%d.o is %s; "
                     "write all outputs in one type",
                     kv_show(o->path, show), o->trace->layer[i].data.layer,
                     kv_st_dtype_name(o->o[i].type),
                     o->trace->layer[0].data.layer,
                     kv_st_dtype_name(o->o[0].type));
  return KV_OK;
}

static void tolerate(kv_outputs *o) {
  kv_st_dtype type = o->o[0].type;
  if (o->how.atol < 0) o->how.atol = 1e-5;
  if (o->how.rtol >= 0) return;
  o->how.rtol = type == KV_ST_F32 ? 1.3e-6 : type == KV_ST_F16 ? 1e-3 : 1.6e-2;
}

kv_rc kv_outputs_open(const char *path, const kv_trace *t, int prompt_len,
                      const kv_outputs_how *how, kv_outputs **out, kv_err *e) {
  kv_outputs *o = kv_zalloc(1, sizeof *o);
  size_t n = (size_t)t->n_layers;
  if (!o) return kv_no_memory(e, "outputs", sizeof *o);
  *o = (kv_outputs){.trace = t,
                    .how = *how,
                    .path = path,
                    .prompt_len = prompt_len,
                    .steps = t->shape.n_tokens - prompt_len,
                    .o = kv_zalloc(n, sizeof *o->o),
                    .lse = kv_zalloc(n, sizeof *o->lse),
                    .sums = kv_zalloc(n, sizeof *o->sums),
                    .wrong = kv_zalloc(n, sizeof *o->wrong)};
  kv_rc rc = KV_OK;
  if (!o->o || !o->lse || !o->sums || !o->wrong)
    rc = kv_no_memory(e, "outputs", n * sizeof *o->sums);
  if (!rc) rc = kv_st_open(path, &o->files, e);
  for (int i = 0; !rc && i < t->n_layers; i++) {
    rc = find(o, i, "o", 3, &o->o[i], e);
    if (!rc) rc = find(o, i, "lse", 2, &o->lse[i], e);
  }
  if (!rc) rc = check_types(o, e);
  if (!rc) tolerate(o);
  if (rc)
    kv_outputs_close(o);
  else
    *out = o;
  return rc;
}

void kv_outputs_close(kv_outputs *o) {
  if (!o) return;
  kv_st_close(o->files);
  for (int i = 0; o->wrong && i < o->trace->n_layers; i++) free(o->wrong[i].at);
  free(o->wrong);
  free(o->o);
  free(o->lse);
  free(o->sums);
  free(o);
}

const kv_output_sums *kv_outputs_layer(const kv_outputs *o, int index) {
  return &o->sums[index];
}

const kv_output_place *kv_outputs_wrong(const kv_outputs *o, int index,
                                        int64_t *n) {
  *n = o->wrong[index].n;
  return o->wrong[index].at;
}

const char *kv_outputs_type(const kv_outputs *o) {
  return kv_st_dtype_name(o->o[0].type);
}

const kv_outputs_how *kv_outputs_asked(const kv_outputs *o) { return &o->how; }

kv_rc kv_outputs_damaged(const kv_outputs *o, kv_err *e) {
  if (o->no_memory)
    return kv_no_memory(e, "the wrong rows", sizeof(kv_output_place));
  return kv_st_damaged(o->files, e);
}
