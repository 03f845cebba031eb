/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sheet/sheet_trace.h"

#include "sim/train/train.h"
#include "traces/trace/synth.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Above layer 2 every method does what it does in most layers, and in omnikv
 * layer 2 chooses for those below. */
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
                "no folder %s for a synthetic trace: set TMPDIR", x->folder);
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

static void name_file(const kv_sheet_trace *x, const char *method, size_t room,
                      char *out) {
  snprintf(out, room, "%s/%s.safetensors", x->folder, method);
}

void kv_sheet_trace_close(kv_sheet_trace *x) {
  kv_trace_close(x->trace);
  if (x->folder[0]) {
    char path[160];
    unlink(x->path);
    for (int i = 0; kv_trainer_name(i); i++) {
      name_file(x, kv_trainer_name(i), sizeof path, path);
      unlink(path);
    }
    rmdir(x->folder);
  }
  *x = (kv_sheet_trace){0};
}

static bool has_trainer(const char *method) {
  int i = 0;
  while (kv_trainer_name(i) && strcmp(kv_trainer_name(i), method)) i++;
  return kv_trainer_name(i) != NULL;
}

static kv_rc train(const kv_sheet_trace *x, const char *method,
                   const kv_kernels *kernels, int threads, const char *path,
                   kv_err *e) {
  const char *from = x->path;
  kv_train *train = NULL;
  bool stopped;
  kv_train_ask ask = {.spec = method,
                      .traces = 1,
                      .path = &from,
                      .output = path,
                      .steps = 1,
                      .most = 64,
                      .keep = 600,
                      .threads = threads,
                      .kernels = kernels};
  kv_rc rc = kv_trainer_parse(method, &ask.of, &ask.params, e);
  if (!rc) ask.dtype = ask.of->dtype;
  if (!rc) rc = kv_train_open(&ask, &train, e);
  if (!rc) rc = kv_train_run(train, NULL, &stopped, e);
  if (!rc) rc = kv_train_write(train, e);
  kv_train_close(train);
  free(ask.params);
  return rc;
}

kv_rc kv_sheet_trace_file(const kv_sheet_trace *x, const kv_kernels *kernels,
                          int threads, kv_spec *spec, bool *made, kv_err *e) {
  const kv_param *p;
  kv_rc rc = KV_OK;
  *made = false;
  for (int i = 0; !rc && (p = kv_method_file(spec->method, i)); i++) {
    kv_file *f = kv_spec_file(spec, i);
    const char *method = kv_spec_reader(spec, i)->name;
    if (*f->path || kv_file_optional(p)) continue;
    if (!has_trainer(method))
      return kv_fail(e, KV_REFUSED, "%s reads a file: write %s:%s=FILE", method,
                     method, p->name);
    name_file(x, method, sizeof f->path, f->path);
    *made = true;
    if (access(f->path, F_OK))
      rc = train(x, method, kernels, threads, f->path, e);
  }
  return rc;
}
