/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions files: what is written reads back, and everything that a trace
 * cannot follow is refused with a sentence that says where; pages and lists
 * out of order are followed alike by all backends. That a replay gives the
 * outputs of who decided is check_replay.sh.
 */
#include <stdio.h>
#include <string.h>

#include "gpu/host/backends.h"
#include "sim/replay/engine/replay.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/tracefile.h"
#include "traces/container/writer.h"
#include "traces/decisions/decisions.h"
#include "traces/decisions/decisions_write.h"

enum { MOST = 64 };

/* Steps of layer 0 and what lanes 0 and 1 hold; layer 1 holds all. */
typedef struct lists {
  int steps, starts, items;
  int32_t step[MOST];
  int64_t start[MOST];
  int32_t item[MOST];
} lists;

/* Right: after the prompt of 6, four and three tokens; after 8, five each. */
static const lists right = {
    2,
    5,
    17,
    {6, 8},
    {0, 4, 7, 12, 17},
    {0, 2, 3, 5, 1, 4, 5, 0, 3, 5, 6, 7, 1, 4, 5, 6, 7}};
static const lists none = {0, 1, 0, {0}, {0}, {0}};

static char hex[65];

static void put(kv_st_writer *w, int layer, const char *what, kv_st_dtype type,
                int n, const void *data, bool append) {
  char name[64];
  uint64_t shape = (uint64_t)n, size = type == KV_ST_I64 ? 8 : 4;
  snprintf(name, sizeof name, "layers.%d.%s", layer, what);
  if (append)
    assert_int_equal(kv_st_writer_append(w, shape * size, data, NULL), KV_OK);
  else
    assert_int_equal(kv_st_writer_declare(w, name, type, 1, &shape, NULL),
                     KV_OK);
}

static void put_layer(kv_st_writer *w, int layer, const lists *l, bool append) {
  put(w, layer, "steps", KV_ST_I32, l->steps, l->step, append);
  put(w, layer, "indptr", KV_ST_I64, l->starts, l->start, append);
  put(w, layer, "positions", KV_ST_I32, l->items, l->item, append);
}

/* A decisions file with one pair of its metadata replaced, or left out. */
static const char *write_file(const meta *other, const lists *l, int layers) {
  const meta all[] = {{"format", "kvdecisions"}, {"version", "1"},
                      {"name", "mine"},          {"trace", hex},
                      {"kind", "stored"},        {"head", "kv"},
                      {"unit", "token"}};
  const char *path = scratch_path("d.safetensors");
  kv_st_writer *w;
  bool known = false;
  assert_int_equal(kv_st_writer_open(path, 0, &w, NULL), KV_OK);
  for (int i = 0; i < layers; i++) put_layer(w, i, i ? &none : l, false);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    bool mine = other && strcmp(other->key, all[i].key) == 0;
    const char *value = mine ? other->value : all[i].value;
    known |= mine;
    if (value) kv_st_writer_meta(w, all[i].key, value, NULL);
  }
  if (other && !known) kv_st_writer_meta(w, other->key, other->value, NULL);
  for (int i = 0; i < layers; i++) put_layer(w, i, i ? &none : l, true);
  assert_int_equal(kv_st_writer_finish(w, NULL, NULL), KV_OK);
  kv_st_writer_close(w);
  return path;
}

static kv_rc open_file(const char *path, kv_decisions_file **f, kv_err *e) {
  kv_trace *t = tracefile_open();
  kv_shape shape = t->shape;
  shape.prompt_len = PROMPT;
  kv_rc rc = kv_decisions_open(path, t, PROMPT, f, e);
  if (!rc) {
    rc = kv_decisions_fit((*f)->asset, &shape, true, &(*f)->form, e);
    if (rc) kv_decisions_close(*f);
  }
  kv_trace_close(t);
  return rc;
}

static void is_refused(const meta *m, const lists *l, int layers, kv_rc want,
                       const char *word) {
  kv_decisions_file *f = NULL;
  kv_rc rc = open_file(write_file(m, l, layers), &f, &told);
  if (rc == KV_OK) fail_msg("taken, not refused for: %s", word);
  if (rc != want || !strstr(told.text, word))
    fail_msg("%d \"%s\", not %d and \"%s\"", rc, told.text, want, word);
}

static int start(void **state) {
  scratch_make(state);
  tracefile_write(NULL, 0, NULL, 0);
  kv_digest identity = tracefile_identity();
  kv_digest_hex(&identity, hex);
  return 0;
}

/* --- what is right ------------------------------------------------------ */

TEST(right_is_read) {
  kv_decisions_file *f = NULL;
  works(open_file(write_file(NULL, &right, LAYERS), &f, &told));
  const kv_decisions_form *d = &f->form;
  assert_true(d->stores && !d->views && d->decodes && !d->reindex);
  assert_int_equal(f->asset->layers, LAYERS);
  assert_string_equal(f->name, "mine");
  kv_lists first = kv_decisions_stored(f, 0),
           second = kv_decisions_stored(f, 1);
  const kv_lists *l = &first;
  kv_items at6 = kv_lists_find(l, 6, 1), at8 = kv_lists_find(l, 8, 0);
  assert_int_equal(at6.n, 3);
  assert_memory_equal(at6.item, right.item + 4, 12);
  assert_int_equal(at8.n, 5);
  assert_memory_equal(at8.item, right.item + 7, 20);
  assert_null(kv_lists_find(l, 7, 0).item);
  assert_null(kv_lists_find(l, 9, 0).item);
  assert_null(kv_lists_find(&second, 6, 0).item);
  assert_null(kv_asset_layer(f->asset, 2));
  assert_int_equal(kv_decisions_view(f, 0).steps, 0);
  kv_decisions_close(f);
}

/* Views of pages, beside what is stored: written, read, the same. */
static const int32_t page[] = {0, 1, 0, 1, 2, 0, 2, 3};

static const char *write_both(const lists *stored) {
  static const int32_t at[] = {8};
  static const int64_t from[] = {0, 2, 4, 5, 8};
  kv_decided layer[LAYERS] = {0};
  for (int i = 0; i < LAYERS; i++)
    layer[i] = (kv_decided){
        i,
        {KV, 1, !i, stored->step, i ? none.start : stored->start, stored->item},
        {HEADS, 2, 1, at, from, page}};
  kv_decisions out = {.stores = true,
                      .views = true,
                      .reindex = true,
                      .stored_heads = KV,
                      .layers = LAYERS,
                      .layer = layer};
  kv_shape shape = {.n_heads = HEADS, .n_kv_heads = KV, .prompt_len = PROMPT};
  kv_digest identity = tracefile_identity();
  const char *path = scratch_path("both.safetensors");
  assert_int_equal(
      kv_decisions_write(path, "two", &identity, &shape, &out, NULL), KV_OK);
  return path;
}

TEST(both_kinds_return) {
  kv_decisions_file *f = NULL;
  lists stored = right;
  stored.steps = 1;
  const char *path = write_both(&stored);
  works(open_file(path, &f, &told));
  const kv_decisions_form *d = &f->form;
  kv_lists view = kv_decisions_view(f, 1);
  assert_true(d->stores && d->views && d->reindex && !d->decodes);
  assert_int_equal(kv_decisions_view(f, 0).page, 2);
  assert_int_equal(kv_decisions_stored(f, 0).page, 1);
  kv_items last = kv_lists_find(&view, 8, HEADS - 1);
  assert_int_equal(last.n, 3);
  assert_memory_equal(last.item, page + 5, 12);
  kv_decisions_close(f);
}

/* Digests of a replay of what was written. */
static kv_layer_digests follow(const char *path, const kv_backend *backend) {
  char text[700];
  kv_spec spec;
  kv_cell cell, *each = &cell;
  bool stopped;
  kv_trace *t = tracefile_open();
  snprintf(text, sizeof text, "replay:columns=1:file=%s", path);
  works(kv_spec_parse(kv_method_at, text, &spec, &told));
  kv_asked_cell asked = {.spec = &spec, .entries = -1};
  kv_replay_how how = {.backend = backend,
                       .kernels = kv_kernels_best(),
                       .threads = 1,
                       .scores = true};
  works(kv_cell_open(t, 0, how.kernels, &asked, &cell, &told));
  assert_string_equal(cell.result.reason, "");
  works(kv_replay(t, &each, 1, &how, &stopped, &told));
  kv_layer_digests d = {cell.result.journal, cell.result.state,
                        cell.result.output, cell.result.scores};
  kv_cell_close(&cell);
  kv_spec_free(&spec);
  kv_trace_close(t);
  return d;
}

TEST(all_backends_follow) {
  const kv_backend *emu = kv_backend_find("emu", NULL);
  lists turned = right, straight = right;
  turned.steps = straight.steps = 1;
  turned.item[0] = 5, turned.item[3] = 0;
  if (!emu) skip();
  kv_layer_digests a = follow(write_both(&turned), &kv_backend_ref);
  kv_layer_digests b = follow(write_both(&turned), emu);
  kv_layer_digests c = follow(write_both(&straight), emu);
  assert_true(same_digest(a.journal, b.journal));
  assert_true(same_digest(a.state, b.state));
  assert_true(same_digest(a.output, b.output));
  assert_false(same_digest(b.journal, c.journal));
}

/* --- what is not -------------------------------------------------------- */

TEST(wrong_words) {
  static const struct {
    meta m;
    kv_rc rc;
    const char *word;
  } all[] = {
      {{"format", "kvtrace"}, KV_INPUT, "format is kvtrace"},
      {{"version", "2"}, KV_INPUT, "version is 2"},
      {{"name", NULL}, KV_INPUT, "name is missing"},
      {{"trace", "abc"}, KV_INPUT, "trace is abc"},
      {{"trace", "00000000000000000000000000000000"
                 "00000000000000000000000000000000"},
       KV_REFUSED,
       "to another trace"},
      {{"kind", "kept"}, KV_INPUT, "kind is kept"},
      {{"head", NULL}, KV_INPUT, "head is missing"},
      {{"head", "query"},
       KV_INPUT,
       "indptr must have one number for each step"},
      {{"unit", "page:0"}, KV_INPUT, "unit is page:0"},
      {{"unit", "word"}, KV_INPUT, "write token or page:N"},
      {{"reindex", "yes"}, KV_INPUT, "reindex is yes"},
      {{"block", "-1"}, KV_INPUT, "block is -1"},
      {{"prompt_len", "7"}, KV_REFUSED, "use --prompt-len 7"},
      {{"kind", "view"}, KV_REFUSED, "views must start after the prompt"},
      {{"kind", "stored+view"}, KV_REFUSED, "view.steps is missing"},
      {{"unit", "page:2"},
       KV_REFUSED,
       "page 3 has no live token among the 6 seen"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    is_refused(&all[i].m, &right, LAYERS, all[i].rc, all[i].word);
}

TEST(wrong_lists) {
  static const struct {
    int what; /* 0 step, 1 start, 2 item */
    int at, value;
    kv_rc rc;
    const char *word;
  } all[] = {
      {0, 1, 6, KV_INPUT, "steps must ascend"},
      {0, 1, 11, KV_INPUT, "steps must ascend within"},
      {0, 0, 0, KV_INPUT, "steps must ascend within"},
      {0, 0, 5, KV_REFUSED, "step 5, layer 0, lane 0: the prompt of 6 tokens"},
      {1, 0, 1, KV_INPUT, "indptr must start at 0"},
      {1, 2, 3, KV_INPUT, "indptr descends"},
      {1, 4, 16, KV_INPUT, "and end at the number of positions"},
      {1, 1, 0, KV_REFUSED, "step 6, layer 0, lane 0: the list is empty"},
      {2, 1, 0, KV_REFUSED, "step 6, layer 0, lane 0: position 0 appears"},
      {2, 4, -1, KV_REFUSED, "position -1 is outside the trace's 10"},
      {2, 4, 10, KV_REFUSED, "position 10 is outside the trace's 10"},
      {2, 6, 6, KV_REFUSED, "position 6 is not live: it arrives at step 7"},
      {2, 8, 1, KV_REFUSED,
       "step 8, layer 0, lane 0: position 1 is not live: it was dropped at "
       "step 6"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    lists l = right;
    if (all[i].what == 0) l.step[all[i].at] = all[i].value;
    if (all[i].what == 1) l.start[all[i].at] = all[i].value;
    if (all[i].what == 2) l.item[all[i].at] = all[i].value;
    is_refused(NULL, &l, LAYERS, all[i].rc, all[i].word);
  }
}

TEST(missing_layer) {
  is_refused(NULL, &right, 1, KV_REFUSED, "tensor layers.1.steps is missing");
}

/* A block of three ends at 3 and 6: steps there are compressed, 5 is not. */
TEST(steps_of_blocks) {
  const meta block = {"block", "3"};
  kv_decisions_file *f = NULL;
  lists l = right;
  l.step[0] = 5;
  is_refused(&block, &l, LAYERS, KV_REFUSED, "no block ends at this step");
  l = (lists){1, 3, 3, {3}, {0, 2, 3}, {0, 2, 1}};
  works(open_file(write_file(&block, &l, LAYERS), &f, &told));
  assert_int_equal(f->form.block, 3);
  assert_false(f->form.decodes);
  kv_decisions_close(f);
}

int main(void) { return tests_run("decisions", start, scratch_remove); }
