/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/sheet/sheet_trace.h"

#include "ref/ground/arith.h"
#include "ref/ground/formula.h"
#include "traces/container/writer.h"
#include "traces/trace/synth.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From layer 2 on every method behaves as in most layers; in omnikv layer 2
 * chooses for later layers. */
static const int layers[] = {2, 5, 20};
enum { TOKENS = 576, PROMPT = 512, HEADS = 8, KV_HEADS = 4 };

kv_rc kv_sheet_trace_open(const kv_kernels *kernels, kv_sheet_trace *x,
                          kv_err *e) {
  const char *base = getenv("TMPDIR");
  *x = (kv_sheet_trace){0};
  snprintf(x->folder, sizeof x->folder, "%.40s/kvreplay.XXXXXX",
           base && *base && strlen(base) < 40 ? base : "/tmp");
  if (!mkdtemp(x->folder)) {
    kv_rc rc =
        kv_fail(e, KV_RESOURCE,
                "cannot make the folder %s for a synthetic trace; set TMPDIR",
                x->folder);
    x->folder[0] = 0;
    return rc;
  }
  kv_synth synth = {.like = *kv_geometry_find("llama-3.1-8b"),
                    .n_tokens = TOKENS,
                    .prompt_len = PROMPT,
                    .seed = 1,
                    .n_recorded = (int)(sizeof layers / sizeof *layers),
                    .layers = layers};
  synth.like.n_heads = HEADS;
  synth.like.n_kv_heads = KV_HEADS;
  snprintf(x->path, sizeof x->path, "%s/t.safetensors", x->folder);
  kv_rc rc = kv_synth_write(&synth, kernels, x->path, e);
  return rc ? rc : kv_trace_open(x->path, &x->trace, e);
}

/* --- files of weights ----------------------------------------------------- */

enum { D = 128, WIDTH = KV_HEADS * 2 * D, HIDDEN = WIDTH * 3 / 2 };

/* Tensors of each layer, in the sizes that `kvreplay train METHOD` writes.
 * Their contents affect nothing that the sheet shows. */
static const struct made {
  const char *method, *name;
  int rank;
  uint64_t dim[3];
} made_of[] = {{"less", "query.in.weight", 3, {HEADS, 512, D}},
               {"less", "query.out.weight", 3, {HEADS, 8, 512}},
               {"less", "key.in.weight", 3, {KV_HEADS, 512, D}},
               {"less", "key.out.weight", 3, {KV_HEADS, 8, 512}},
               {"less", "key.mix.weight", 3, {KV_HEADS, 8, 8}},
               {"less", "key.scale", 2, {KV_HEADS, 8}},
               {"less", "key.mix.scale", 2, {KV_HEADS, 8}},
               {"deltakv", "compress.in.weight", 2, {2 * HIDDEN, WIDTH}},
               {"deltakv", "compress.out.weight", 2, {WIDTH / 4, HIDDEN}},
               {"deltakv", "decompress.out.weight", 2, {WIDTH, WIDTH / 4}},
               {"palu", "key.basis", 3, {1, WIDTH / 2, WIDTH / 2}},
               {"palu", "value.basis", 3, {1, WIDTH / 2, WIDTH / 2}},
               {"palu", "key.energy", 2, {1, WIDTH / 2}},
               {"palu", "value.energy", 2, {1, WIDTH / 2}}};
enum { MADE = sizeof made_of / sizeof *made_of };

static uint64_t count_of(const struct made *x) {
  uint64_t n = 1;
  for (int i = 0; i < x->rank; i++) n *= x->dim[i];
  return n;
}

/* Numbers within 1 / 16 of 0. */
static kv_rc append(const struct made *x, uint64_t *state, kv_st_writer *w,
                    kv_err *e) {
  uint64_t n = count_of(x);
  uint16_t *out = kv_zalloc(n, sizeof *out);
  if (!out) return kv_no_memory(e, "weights", n * sizeof *out);
  for (uint64_t i = 0; i < n; i++)
    out[i] = kv_to_f16((float)(int64_t)(kv_mix((*state)++) >> 40) * 0x1p-27f -
                       0x1p-4f);
  kv_rc rc = kv_st_writer_append(w, n * sizeof *out, out, e);
  free(out);
  return rc;
}

/* KV_REFUSED: the method is not in the table. */
static kv_rc write_file(const char *method, const char *path, kv_err *e) {
  enum { LAYERS = sizeof layers / sizeof *layers };
  kv_st_writer *w = NULL;
  char text[64];
  int from = 0, to;
  uint64_t state = 0;
  while (from < MADE && strcmp(made_of[from].method, method)) from++;
  for (to = from; to < MADE && !strcmp(made_of[to].method, method);) to++;
  if (from == to) return KV_REFUSED;
  kv_rc rc = kv_st_writer_open(path, 0, &w, e);
  for (int i = from; i < to; i++)
    for (int l = 0; l < LAYERS && !rc; l++) {
      const struct made *x = &made_of[i];
      snprintf(text, sizeof text, "layers.%d.%s", layers[l], x->name);
      rc = kv_st_writer_declare(w, text, KV_ST_F16, x->rank, x->dim, e);
    }
  snprintf(text, sizeof text, "kvreplay-%s", method);
  if (!rc) rc = kv_st_writer_meta(w, "format", text, e);
  if (!rc) rc = kv_st_writer_meta(w, "compressor", "swiglu", e); /* deltakv */
  for (int i = from * LAYERS; i < to * LAYERS && !rc; i++)
    rc = append(&made_of[i / LAYERS], &state, w, e);
  if (!rc) rc = kv_st_writer_finish(w, NULL, e);
  kv_st_writer_close(w);
  return rc;
}

static void name_file(const kv_sheet_trace *x, const char *method, size_t room,
                      char *out) {
  snprintf(out, room, "%s/%s.safetensors", x->folder, method);
}

void kv_sheet_trace_close(kv_sheet_trace *x) {
  kv_trace_close(x->trace);
  if (x->folder[0]) {
    char path[160];
    unlink(x->path);
    for (int i = 0; i < MADE; i++) {
      name_file(x, made_of[i].method, sizeof path, path);
      unlink(path);
    }
    rmdir(x->folder);
  }
  *x = (kv_sheet_trace){0};
}

kv_rc kv_sheet_trace_file(const kv_sheet_trace *x, kv_spec *spec, bool *made,
                          kv_err *e) {
  const kv_param *p;
  kv_rc rc = KV_OK;
  *made = false;
  for (int i = 0; !rc && (p = kv_method_file(spec->method, i)); i++) {
    kv_file *f = kv_spec_file(spec, i);
    const char *method = kv_spec_reader(spec, i)->name;
    if (*f->path || kv_file_optional(p)) continue;
    name_file(x, method, sizeof f->path, f->path);
    if (access(f->path, F_OK)) rc = write_file(method, f->path, e);
    if (rc == KV_REFUSED)
      return kv_fail(e, rc, "%s needs a file; write %s:%s=FILE", method, method,
                     p->name);
    *made = true;
  }
  return rc;
}
