/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of an asset: each is found by name, its type and shape are
 * compared with what the method requires, and its numbers are copied, floats as
 * binary32. A tensor for all layers is stored once.
 */
#include "traces/decisions/asset_part.h"

#include <stdio.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "ref/ground/text.h"

enum { ALIGN = 64, NAME = 128, SHAPE = 160 };

typedef struct finder {
  const kv_st *files;
  const kv_trace *trace;
  kv_asset_own *own;
} finder;

/* ask->name with the number of the layer. */
static void name_of(const kv_tensor_ask *ask, int layer, char out[NAME]) {
  const char *star = strchr(ask->name, '*');
  if (!star)
    snprintf(out, NAME, "%s", ask->name);
  else
    snprintf(out, NAME, "%.*s%d%s", (int)(star - ask->name), ask->name, layer,
             star + 1);
}

/* --- type --------------------------------------------------------------- */

typedef enum form { SAME, HALF, BRAIN, NONE } form;

static const struct {
  kv_st_dtype have;
  kv_tensor_type want;
  form form;
} known[] = {{KV_ST_F32, KV_T_F32, SAME},
             {KV_ST_F16, KV_T_F32, HALF},
             {KV_ST_BF16, KV_T_F32, BRAIN},
             {KV_ST_I32, KV_T_I32, SAME},
             {KV_ST_I64, KV_T_I64, SAME}};

static form form_of(kv_st_dtype have, kv_tensor_type want) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].have == have && known[i].want == want) return known[i].form;
  return NONE;
}

static const char *const wanted[] = {
    [KV_T_F32] = "F32, F16 or BF16", [KV_T_I32] = "I32", [KV_T_I64] = "I64"};

/* --- shape -------------------------------------------------------------- */

static int64_t length(const kv_shape *s, int dim) {
  const int of[] = {[-KV_DIM_LAYERS] = s->n_layers,
                    [-KV_DIM_HEADS] = s->n_heads,
                    [-KV_DIM_KV_HEADS] = s->n_kv_heads,
                    [-KV_DIM_D] = s->d,
                    [-KV_DIM_D_V] = s->d_v};
  return dim < 0 ? of[-dim] : dim;
}

static bool fits(const kv_shape *s, const kv_tensor_ask *ask,
                 const kv_st_tensor *x) {
  bool same = x->rank == ask->rank;
  for (int i = 0; same && i < ask->rank; i++)
    same = ask->dim[i] == KV_DIM_ANY ||
           x->shape[i] == (uint64_t)length(s, ask->dim[i]);
  return same;
}

/* "[2, *, 64]"; * is any length. */
static void show_asked(const kv_shape *s, const kv_tensor_ask *ask,
                       char out[SHAPE]) {
  size_t n = 0;
  out[n++] = '[';
  for (int i = 0; i < ask->rank; i++) {
    const char *comma = i ? ", " : "";
    int m = ask->dim[i] == KV_DIM_ANY
                ? snprintf(out + n, SHAPE - n, "%s*", comma)
                : snprintf(out + n, SHAPE - n, "%s%lld", comma,
                           (long long)length(s, ask->dim[i]));
    n += (size_t)m;
  }
  snprintf(out + n, SHAPE - n, "]");
}

static void show_list(int rank, const uint64_t *x, char out[SHAPE]) {
  size_t n = 0;
  out[n++] = '[';
  for (int i = 0; i < rank && n + 32 < SHAPE; i++)
    n += (size_t)snprintf(out + n, SHAPE - n, "%s%llu", i ? ", " : "",
                          (unsigned long long)x[i]);
  snprintf(out + n, SHAPE - n, "]");
}

/* --- numbers ------------------------------------------------------------ */

static void copy(const kv_st_tensor *x, form f, int64_t count, size_t size,
                 void *to) {
  const unsigned char *from = x->data; /* unaligned */
  float *out = to;
  if (f == SAME) {
    if (count) memcpy(to, from, (size_t)count * size);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    uint16_t half;
    memcpy(&half, from + i * 2, sizeof half);
    out[i] = f == HALF ? kv_from_f16(half) : kv_from_bf16(half);
  }
}

/* Element i of a tensor, as "[2, 0, 17]". */
static void show_place(int rank, const int64_t *dim, int64_t i,
                       char out[SHAPE]) {
  uint64_t at[KV_TENSOR_RANK];
  for (int x = rank - 1; x >= 0; x--) {
    at[x] = (uint64_t)(i % dim[x]);
    i /= dim[x];
  }
  show_list(rank, at, out);
}

static kv_rc all_finite(const kv_asset *a, const char *name, int rank,
                        const kv_tensor *t, kv_err *e) {
  const float *x = t->data;
  char place[SHAPE];
  int64_t i = 0;
  while (i < t->count && kv_finite(x[i])) i++;
  if (i == t->count) return KV_OK;
  show_place(rank, t->dim, i, place);
  return kv_fail(e, KV_INPUT, "%s: tensor %s holds NaN or Inf at %s", a->path,
                 name, place);
}

/* --- one by one --------------------------------------------------------- */

static const kv_st_tensor *look(const finder *f, const kv_tensor_ask *ask,
                                int layer, char name[NAME]) {
  name_of(ask, layer, name);
  return kv_st_find(f->files, name);
}

/* Checks one tensor in the l-th recorded layer: type and shape, and its count.
 * Adds to *bytes, the memory of all tensors so far. */
static kv_rc check(const finder *f, const kv_tensor_ask *ask, int l,
                   kv_tensor *out, size_t *bytes, kv_err *e) {
  const kv_asset *a = &f->own->asset;
  char name[NAME], have[SHAPE], want[SHAPE];
  const kv_st_tensor *x = look(f, ask, a->layer[l], name);
  bool free = ask->unwindowed && f->trace->layer[l].data.window;
  if (!x && (ask->optional || free)) return KV_OK;
  if (!x)
    return kv_fail(
        e, KV_REFUSED, "%s: tensor %s is missing%s", a->path, name,
        kv_tensor_layered(ask) ? ", and every recorded layer needs one" : "");
  if (form_of(x->dtype, ask->type) == NONE)
    return kv_fail(e, KV_INPUT, "%s: tensor %s is %s; it must be %s", a->path,
                   name, kv_st_dtype_name(x->dtype), wanted[ask->type]);
  if (!fits(&f->trace->shape, ask, x)) {
    show_list(x->rank, x->shape, have);
    show_asked(&f->trace->shape, ask, want);
    return kv_fail(e, KV_INPUT, "%s: tensor %s has shape %s; it must have %s",
                   a->path, name, have, want);
  }
  for (int i = 0; i < x->rank; i++) out->dim[i] = (int64_t)x->shape[i];
  out->count = (int64_t)(x->bytes * 8 / kv_st_dtype_bits(x->dtype));
  size_t n = (size_t)out->count * kv_tensor_size(ask->type);
  f->own->asset.bytes += n;
  *bytes += (n + ALIGN) / ALIGN * ALIGN; /* n = 0 takes memory, too */
  return KV_OK;
}

/* Copies the numbers of a checked tensor to *to. */
static kv_rc fill(const finder *f, const kv_tensor_ask *ask, int layer,
                  kv_tensor *out, char **to, kv_err *e) {
  char name[NAME];
  const kv_st_tensor *x = look(f, ask, layer, name);
  if (!x) return KV_OK;
  size_t size = kv_tensor_size(ask->type), n = (size_t)out->count * size;
  copy(x, form_of(x->dtype, ask->type), out->count, size, *to);
  out->data = *to;
  *to += (n + ALIGN) / ALIGN * ALIGN;
  return ask->type == KV_T_F32
             ? all_finite(&f->own->asset, name, ask->rank, out, e)
             : KV_OK;
}

/* Checks (to NULL) or fills the tensors of all layers. A tensor that layers
 * share is handled in the first. */
static kv_rc each(const finder *f, size_t *bytes, char **to, kv_err *e) {
  kv_asset *a = &f->own->asset;
  kv_tensor *all = (kv_tensor *)(uintptr_t)a->tensor;
  kv_rc rc = KV_OK;
  for (int l = 0; !rc && l < a->layers; l++)
    for (int i = 0; !rc && i < a->asked; i++) {
      kv_tensor *t = all + (size_t)l * (size_t)a->asked + i;
      if (l && !kv_tensor_layered(&a->ask[i]))
        *t = all[i];
      else if (to)
        rc = fill(f, &a->ask[i], a->layer[l], t, to, e);
      else
        rc = check(f, &a->ask[i], l, t, bytes, e);
    }
  return rc;
}

kv_rc kv_asset_find(const kv_st *files, const kv_trace *t, kv_asset_own *own,
                    kv_err *e) {
  finder f = {files, t, own};
  size_t bytes = ALIGN;
  kv_rc rc = each(&f, &bytes, NULL, e);
  if (rc) return rc;
  own->block = kv_zalloc(bytes, 1);
  if (!own->block) return kv_no_memory(e, "an asset", bytes);
  char *to = own->block;
  return each(&f, NULL, &to, e);
}
