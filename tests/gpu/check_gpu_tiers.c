/* SPDX-License-Identifier: Apache-2.0
 *
 * A store whose coded rows lie in unified pages, on the executor:
 * - journal, state and outputs are the reference's, which has slots, whether
 *   threads and blocks run forwards or backwards;
 * - its slabs have no bytes of their own, and every free page is scribbled over
 *   at every step: what attention, verbs and reports read stands in pages that
 *   the lane holds;
 * - the host's blocks are, byte for byte, what stands in those pages;
 * - after every block and step the ids of tables and ring are all pages, each
 *   once; each lane has pages for the numbers that it uses, right after the
 *   prompt as many as the formula says, and never more than its tokens could
 *   fill;
 * - attention walks the pages where formats and views allow, and else reads
 *   rows one by one; and formats that have no page stay in slabs;
 * - where attention walks pages, it copies their codes once for up to 8 heads,
 *   32 bytes at a time, and threads hardly wait for each other; rows that
 * cannot be copied whole are not copied at all.
 */
#include "gpu/host/backends.h"
#include "gpu/host/tiers.h"
#include "ref/pages/pages.h"
#include "tests/gpu/gpucell.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 230, PROMPT = 180, BUDGET = 96 };

/* order.cc */
void order_of_threads(int reverse);
void copies_of(const void *from, size_t bytes);
void copies_made(uint64_t of[3]);

/* Where the rows of a case must lie, and how attention must read them. */
typedef enum expected { SLABS, READ, WALKED } expected;

static kv_device device;
static kv_backend in_pages;
static char trace[512];
static expected must;
static int blocks, walked, read_rows; /* of the replay */
static int64_t turned, given;
static int64_t numbers[KV_TIERS];     /* of each tier, of all steps and lanes */
static bool fast[KV_TIERS][KV_SIDES]; /* are whole rows copied? */
static int64_t pieces;                /* of 16 bytes, that attention copies */

/* --- the device and its backend ------------------------------------------- */

static void attend(void *stream, const kv_gpu_layer *l, int masked) {
  read_rows++;
  kv_device_emu()->attend(stream, l, masked);
}

static void attend_paged(void *stream, const kv_gpu_layer *l,
                         const kv_gpu_paged *p) {
  walked++;
  kv_device_emu()->attend_paged(stream, l, p);
}

static kv_rc open_in_pages(const kv_plan *plan, kv_store **out, kv_err *e) {
  kv_plan *asked = (kv_plan *)plan; /* the cell's own */
  asked->paged = true;
  return kv_gpu_open(&device, asked, out, e);
}

/* Claims an id; every one must be claimed once. */
static void claim(const kv_gpu_pages *p, char *owned, int32_t id) {
  assert_in_range(id, 0, p->shape.pages - 1);
  assert_int_equal(owned[id]++, 0);
}

static void claim_lane(const kv_gpu_pages *p, char *owned, int i) {
  const int32_t *row = p->table + (int64_t)i * p->shape.table;
  kv_pages_count held = p->held[i];
  assert_true(held.of[KV_HIGH] + held.of[KV_LOW] <= p->shape.table);
  for (int x = 0; x < held.of[KV_HIGH]; x++) claim(p, owned, row[x]);
  for (int x = 0; x < held.of[KV_LOW]; x++)
    claim(p, owned, row[p->shape.table - 1 - x]);
}

/* Ids of tables and ring are a permutation; what is free becomes noise. */
static void check_pages(const kv_store *s) {
  const kv_gpu_pages *p = &s->tiers->u.p;
  const kv_gpu_paged *rows = &s->tiers->rows;
  char *owned = calloc((size_t)p->shape.pages, 1);
  assert_non_null(owned);
  for (int i = 0; i < s->lanes; i++) claim_lane(p, owned, i);
  for (int x = 0; x < p->front->count; x++) {
    int32_t id = p->ring[kv_pages_place(p->front->start, x, p->shape.pages)];
    claim(p, owned, id);
    memset(rows->pool + id * rows->page, 0x7f, (size_t)rows->page);
  }
  for (int id = 0; id < p->shape.pages; id++) assert_int_equal(owned[id], 1);
  free(owned);
}

/* The host has the bytes of a side of an entry as they lie in its page. */
static void must_mirror(const kv_store *s, int lane, int t, int side,
                        const kv_cell_ref *ref) {
  const kv_gpu_paged *rows = &s->tiers->rows;
  const kv_gpu_paged_tier *tier = &rows->tier[t];
  const kv_gpu_paged_side *of = &tier->side[side];
  const kv_lane *m = &s->mirror[lane];
  const kv_slab *slab = (side ? m->v_slab : m->k_slab) + of->slab;
  const char *block = slab->data + (size_t)ref->block * slab->size;
  int page = ref->block / tier->tokens, at = ref->block % tier->tokens;
  int entry = t == KV_LOW ? rows->entries - 1 - page : page;
  const char *from =
      rows->pool + rows->table[lane * rows->entries + entry] * rows->page;
  assert_memory_equal(block, from + of->meta_at + at * of->meta,
                      (size_t)of->meta);
  assert_memory_equal(block + of->meta, from + of->codes_at + at * of->codes,
                      (size_t)of->codes);
}

/* A lane has pages for the numbers of its tiers, and its slabs no bytes. */
static void check_lane(const kv_store *s, int i, bool prompt) {
  const kv_gpu_lane *l = &s->layer.lane[i]; /* it is near */
  const kv_gpu_paged *rows = &s->tiers->rows;
  for (int t = 0; t < KV_TIERS && rows->tier[t].tokens; t++) {
    const kv_gpu_paged_tier *tier = &rows->tier[t];
    const kv_gpu_slab *k = &l->k_slab[tier->side[KV_SIDE_K].slab];
    const kv_gpu_slab *v = &l->v_slab[tier->side[KV_SIDE_V].slab];
    int32_t held = s->tiers->u.p.held[i].of[t];
    int32_t least = kv_pages_for(k->used, tier->tokens);
    assert_null(k->data);
    assert_null(v->data);
    assert_int_equal(k->used, v->used);
    assert_in_range(held, least,
                    prompt ? least : kv_pages_for(k->cap, tier->tokens) + 1);
    for (int j = 0; j < l->n; j++)
      if (l->k[j].format == tier->side[KV_SIDE_K].slab) {
        assert_int_equal(l->k[j].block, l->v[j].block);
        must_mirror(s, i, t, KV_SIDE_K, &l->k[j]);
        must_mirror(s, i, t, KV_SIDE_V, &l->v[j]);
      }
  }
}

/* Adds what the next step copies. It copies the keys of all numbers of a tier,
 * also of those without an entry. It copies the values of entries once for up
 * to 8 heads, except in the last chunk, where the new token is not coded yet.
 */
static void foresee(const kv_store *s, int i) {
  const kv_gpu_lane *l = &s->layer.lane[i];
  for (int t = 0; t < KV_TIERS; t++) {
    const kv_gpu_paged_side *side = s->tiers->rows.tier[t].side;
    int64_t own = 0, used = l->k_slab[side[KV_SIDE_K].slab].used;
    for (int j = 0; j < l->n / KV_GPU_CHUNK * KV_GPU_CHUNK; j++)
      own += l->k[j].format == side[KV_SIDE_K].slab;
    if (fast[t][KV_SIDE_K]) pieces += used * (side[KV_SIDE_K].codes / 16);
    if (fast[t][KV_SIDE_V])
      pieces += (l->queries + 7) / 8 * own * (side[KV_SIDE_V].codes / 16);
    numbers[t] += used;
  }
}

static void end_step(kv_store *s) {
  bool prompt = s->end <= s->shape.prompt_len;
  blocks++;
  for (int i = 0; s->tiers && s->end < s->shape.n_tokens && i < s->lanes; i++)
    foresee(s, i);
  assert_int_equal(must == SLABS, s->tiers == NULL);
  for (int i = 0; s->tiers && i < s->lanes; i++) check_lane(s, i, prompt);
  if (s->tiers) {
    check_pages(s);
    if (prompt)
      copies_of(s->tiers->rows.pool,
                (size_t)(s->tiers->u.p.shape.pages * s->tiers->rows.page));
    turned = s->tiers->u.p.front->books.turned;
    given = s->tiers->u.p.front->books.given;
  }
  kv_backend_emu.end_step(s);
}

/* --- replays -------------------------------------------------------------- */

static const gpucell cell = {.trace = trace, .budget = BUDGET};

static void must_match(const char *text, const kv_digest of_ref[GPUCELL_ENDS],
                       int reverse) {
  kv_digest of_pages[GPUCELL_ENDS];
  blocks = walked = read_rows = 0;
  order_of_threads(reverse);
  gpucell_replay(&cell, text, &in_pages, of_pages);
  order_of_threads(0);
  assert_true(blocks >= GPUCELL_LAYERS * (TOKENS - PROMPT + 1));
  gpucell_must_match(text, reverse ? "backwards" : "forwards", of_ref,
                     of_pages);
  if ((must == WALKED) != (walked > 0) || (walked > 0) == (read_rows > 0))
    fail_msg("%s: attention walked pages in %d steps, and read rows in %d",
             text, walked, read_rows);
}

static void must_be_alike(const char *text, int first, int last) {
  kv_digest of_ref[GPUCELL_ENDS];
  gpucell_replay(&cell, text, &kv_backend_ref, of_ref);
  for (int reverse = first; reverse <= last; reverse++)
    must_match(text, of_ref, reverse);
}

static void make_trace(kv_dtype dtype, int d) {
  gpucell_trace("tiers", dtype, d, TOKENS, PROMPT, trace);
}

/* --- tests ---------------------------------------------------------------- */

TEST(test_specs) {
  static const struct {
    const char *spec;
    expected where;
  } cases[] = {{"leankv:alpha_h=1.5:alpha_l=1.2", WALKED},
               {"leankv:variant=code:alpha_h=1.5:alpha_l=1.2", WALKED},
               {"leankv:sparsity=layer:alpha_h=1.5:alpha_l=1.2", WALKED},
               {"leankv:sparsity=static:alpha_h=1.5:alpha_l=1.2", WALKED},
               {"leankv:high=k8v8:low=k4v4:alpha_h=1.5:alpha_l=1.2", WALKED},
               {"snapkv:window=16+int4", WALKED},
               {"tova+int8", WALKED},
               {"h2o+int8", READ},
               {"dense+quant:k=e4m3:v=qserve4:groups=2", READ},
               {"dense+quant:k=int8:rope=before", READ},
               {"dense+k8v4:residual=32", WALKED},
               {"quest:page=8:skip=0+int4", READ},
               {"leankv:high=k8v4:low=k8v2", SLABS},
               {"leankv:middle_1=k8v2:alpha_1=0.9", SLABS},
               {"kivi:residual=32:group=32", SLABS},
               {"h2o", SLABS}};
  int turning = 0; /* cases in which reserved pages became low ones */
  make_trace(KV_F32, 32);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    must = cases[i].where;
    turned = given = 0;
    /* LeanKV in either variant in both orders, others in one or the other. */
    must_be_alike(cases[i].spec, i < 2 ? 0 : (int)i % 2,
                  i < 2 ? 1 : (int)i % 2);
    if (turned > 0 && given > 0) turning++;
  }
  assert_in_range(turning, 3, 5);
}

/* Rows of any length and type. */
TEST(test_types) {
  must = WALKED;
  make_trace(KV_F16, 36);
  must_be_alike("leankv:alpha_h=1.5:alpha_l=1.2:high_v_groups=3", 0, 1);
  make_trace(KV_BF16, 20);
  must_be_alike("snapkv:window=16+int2", 0, 1);
}

static void must_have_copied(const char *text) {
  uint64_t of[3]; /* copies, sectors of 32 bytes, turns of 8 threads */
  copies_made(of);
  if ((int64_t)of[0] != pieces)
    fail_msg("%s: %d pieces were copied, not %d", text, (int)of[0],
             (int)pieces);
  if (8 * of[1] > 5 * of[0] || 16 * of[2] > 3 * of[0])
    fail_msg("%s: of %d copies %d sectors and %d turns", text, (int)of[0],
             (int)of[1], (int)of[2]);
}

/* Groups of 1 to 13 heads, values wider and narrower than keys, rows that are
 * copied whole and rows that are not. */
TEST(test_shapes) {
  static const struct {
    rig_case c;
    const char *spec;
    bool fast[KV_TIERS][KV_SIDES];
  } cases[] = {
      {RIG_SHAPE(2, 2, 128, 128, 530, 490),
       "leankv:window=8:alpha_h=1.1:alpha_l=0.7:high=k8v4:low=k4v2",
       {{true, true}, {true, true}}},
      {RIG_SHAPE(8, 1, 128, 128, 400, 360),
       "leankv:window=8:alpha_h=1.9:alpha_l=1.6:high=k8v4:low=k4v2"
       ":high_k_groups=2:high_v_groups=2:low_k_groups=2:low_v_groups=4",
       {{true, true}, {true, true}}},
      {RIG_SHAPE(13, 1, 64, 128, 300, 260),
       "leankv:window=8:alpha_h=1.9:alpha_l=1.6:high=k8v4:low=k2v1"
       ":low_v_groups=2",
       {{true, true}, {true, true}}},
      {RIG_SHAPE(4, 2, 256, 256, 200, 160),
       "leankv:window=8:alpha_h=1.4:alpha_l=1.2:high=k8v4:low=k4v2",
       {{false, true}, {true, true}}},
      {RIG_SHAPE(4, 1, 128, 64, 200, 160),
       "leankv:window=8:alpha_h=1.9:alpha_l=1.6:high=k8v8:low=k4v4",
       {{true, false}, {true, false}}},
      {RIG_SHAPE(6, 2, 36, 20, 300, 260),
       "leankv:window=8:alpha_h=1.9:alpha_l=1.6:high=k8v4:low=k4v2"
       ":high_k_groups=3:high_v_groups=2:low_v_groups=4",
       {{false, false}, {false, false}}}};
  must = WALKED;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rig_case c = cases[i].c;
    kv_digest of_ref[GPUCELL_ENDS], of[GPUCELL_ENDS];
    memcpy(fast, cases[i].fast, sizeof fast);
    rig_data(&c, 7 + (uint32_t)i);
    gpucell_layer(&c, cases[i].spec, &kv_backend_ref, of_ref);
    for (int reverse = 0; reverse < 2; reverse++) {
      pieces = numbers[KV_HIGH] = numbers[KV_LOW] = 0;
      walked = 0;
      order_of_threads(reverse);
      gpucell_layer(&c, cases[i].spec, &in_pages, of);
      order_of_threads(0);
      gpucell_must_match(cases[i].spec, "a shape", of_ref, of);
      assert_true(walked > 0 && numbers[KV_HIGH] > 0 && numbers[KV_LOW] > 0);
      must_have_copied(cases[i].spec);
    }
    rig_data_free(&c);
  }
}

int main(void) {
  if (!kv_device_emu()) return 77;
  device = *kv_device_emu();
  device.attend = attend;
  device.attend_paged = attend_paged;
  in_pages = kv_backend_emu;
  in_pages.open = open_in_pages;
  in_pages.end_step = end_step;
  return tests_run("gpu_tiers", scratch_make, scratch_remove);
}
