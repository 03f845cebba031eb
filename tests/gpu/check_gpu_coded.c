/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over coded rows on the executor. Replays of methods that code have
 * the digests of the reference: for keys that share scales by channel and for
 * rows with scales of their own, all widths of a code, all arithmetics, several
 * sizes of groups, rows and heads, lanes with raw rows at their end or between
 * coded ones. Kernels copy whole rows of codes, once for all heads, or compute
 * rows one by one; the number of copies shows which of the two they did.
 */
#include "gpu/host/backends.h"
#include "gpu/host/store.h"
#include "tests/gpu/gpucell.h"
#include "tests/support/test.h"

/* order.cc */
void order_of_threads(int reverse);
void copies_of(const void *from, size_t bytes);
void copies_made(uint64_t of[3]);

static kv_backend coded;
static int side;       /* the one whose copies are counted */
static int64_t pieces; /* of 16 bytes of that side that attention should copy */

/* Are the n entries from `first` on in the coding `slab`? */
static bool alike(const kv_cell_ref *ref, int slab, int first, int n) {
  for (int i = first; i < first + n; i++)
    if (ref[i].format != slab) return false;
  return true;
}

/* Adds what the next step copies: keys two chunks at a time, a row with its
 * scales where it has its own; values a chunk at a time. */
static void foresee(const kv_store *s) {
  const kv_gpu_lane *l = &s->layer.lane[0]; /* it is near */
  bool keys = side == KV_SIDE_K;
  int slab = KV_CODED + (keys ? 0 : 1), tile = KV_GPU_CHUNK * (keys ? 2 : 1);
  const kv_gpu_slab *of = (keys ? l->k_slab : l->v_slab) + slab;
  if (s->end == s->shape.prompt_len)
    copies_of(of->data, (size_t)of->cap * of->size);
  kv_coded_size one = kv_slab_bytes(&s->mirror[0].v_slab[slab], 1);
  int64_t row = ((int64_t)(one.codes + one.metadata) + 15) / 16;
  if (keys) {
    const kv_coding *c = &s->plan->needs.coding[0];
    const kv_minmax *m = c->settings;
    row = s->shape.d * m->bits / 8 / 16 + (kv_coding_members(c) == 1);
  }
  for (int i = 0; s->end < s->shape.n_tokens && i + tile <= l->n; i += tile)
    if (alike(keys ? l->k : l->v, slab, i, tile)) pieces += tile * row;
}

static void end_step(kv_store *s) {
  foresee(s);
  kv_backend_emu.end_step(s);
}

#define SHAPE(heads, d, n, ...)                                                \
  RIG_SHAPE(heads, 1, d, d, n, (n)-6, ##__VA_ARGS__)

static const struct {
  rig_case c;
  const char *spec;
  bool whole[KV_SIDES]; /* are rows of codes copied? */
} cases[] = {
    {SHAPE(1, 128, 300), "kivi:bits=2:group=32:residual=32", {1, 1}},
    {SHAPE(4, 128, 600, .half = true),
     "kivi:bits=2:group=32:residual=32",
     {1, 1}},
    {SHAPE(3, 128, 385), "kivi:bits=4:group=64:residual=64", {1, 1}},
    {SHAPE(8, 128, 290, .half = true),
     "kivi:bits=4:group=32:residual=32",
     {1, 1}},
    {SHAPE(5, 64, 300), "kivi:bits=4:group=32:residual=32", {1, 1}},
    {SHAPE(1, 32, 300), "kivi:bits=4:group=32:residual=32", {1, 1}},
    {SHAPE(1, 128, 270), "quant:k=int8:v=int8", {1, 1}},
    {SHAPE(4, 128, 300), "quant:k=int4:v=int4:groups=2", {1, 1}},
    {SHAPE(2, 128, 270), "quant:k=int1:v=int1:v_groups=8", {1, 1}},
    {SHAPE(3, 96, 270), "quant:k=sym8:v=sym8", {1, 1}},
    {SHAPE(8, 64, 270), "quant:k=sym4:v=sym4:k_groups=2:v_groups=8", {1, 1}},
    {SHAPE(5, 128, 270), "quant:k=e4m3:v=e4m3:k_groups=2", {1, 1}},
    {SHAPE(1, 32, 270), "quant:k=e5m2:v=e5m2:v_groups=2", {1, 1}},
    {SHAPE(2, 128, 270), "quant:k=qserve8:v=qserve8:v_groups=2", {1, 1}},
    {SHAPE(7, 128, 270), "quant:k=atom4:v=atom4:k_groups=2", {1, 1}},
    /* raw rows, and other codes, amid */
    {SHAPE(2, 64, 300), "quant:k=qserve8:v=qserve8:residual=50", {0, 1}},
    {SHAPE(2, 64, 300), "leankv:alpha_h=1.4:alpha_l=1.2:window=8", {0, 0}},
    /* too many blocks of keys; pairs in two blocks; rows of 20 bytes */
    {SHAPE(2, 128, 300), "kivi:bits=2:group=16:residual=16", {0, 1}},
    {SHAPE(1, 128, 300), "kivi:bits=2:group=21:residual=21", {0, 1}},
    {SHAPE(2, 80, 300), "kivi:bits=2:group=16:residual=16", {0, 1}},
    {SHAPE(1, 256, 270), "kivi:bits=4:group=32:residual=32", {0, 0}},
    {SHAPE(1, 64, 270), "quant:k=e4m3:v=e4m3:groups=4", {0, 1}},
    {SHAPE(1, 80, 270), "quant:k=sym8:v=sym8:groups=2", {0, 1}},
    {SHAPE(1, 160, 270), "quant:k=int8:v=int8", {0, 0}},
    {SHAPE(2, 64, 270), "quant:k=q4_0:v=nvfp4", {0, 0}},
};

/* Copies of keys are counted forwards, of values backwards. */
TEST(test_rows) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rig_case c = cases[i].c;
    kv_digest of_ref[GPUCELL_ENDS], of[GPUCELL_ENDS];
    uint64_t copied[3];
    rig_data(&c, 1 + (uint32_t)i);
    gpucell_layer(&c, cases[i].spec, &kv_backend_ref, of_ref);
    for (side = 0; side < KV_SIDES; side++) {
      pieces = 0;
      order_of_threads(side);
      gpucell_layer(&c, cases[i].spec, &coded, of);
      copies_made(copied);
      order_of_threads(0);
      gpucell_must_match(cases[i].spec, "coded rows", of_ref, of);
      int64_t want = cases[i].whole[side] ? pieces : 0;
      if ((int64_t)copied[0] != want)
        fail_msg("%s, d = %d: of %s %d pieces were copied, not %d",
                 cases[i].spec, c.d, side ? "values" : "keys", (int)copied[0],
                 (int)want);
    }
    rig_data_free(&c);
  }
}

int main(void) {
  if (!kv_device_emu()) return 77;
  coded = kv_backend_emu;
  coded.end_step = end_step;
  return tests_run("gpu_coded", NULL, NULL);
}
