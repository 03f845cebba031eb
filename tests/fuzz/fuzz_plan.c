/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: whatever a config.json holds, and whatever is typed for
 * --rows and --layers, gives a plan whose bytes add up or a sentence, never a
 * crash or a leak. The first byte chooses: `r` rows, `l` layers, both of
 * Llama-3.1-8B; else the bytes are the file.
 */
#define _GNU_SOURCE 1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "traces/trace/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Whether it succeeded; else there must be a sentence. */
static bool said(kv_rc rc, const kv_err *e) {
  if (rc && (!e->text[0] || strpbrk(e->text, "\n\r") || rc != e->rc)) abort();
  return rc == KV_OK;
}

static void cost(kv_plan *p, const kv_keep *keep) {
  kv_err e = {0};
  kv_cost c;
  p->shape.n_tokens = 8192;
  p->shape.prompt_len = 8000;
  if (!said(kv_plan_cost(p, keep, &c, &e), &e)) return;
  if (c.k <= 0 || c.v <= 0 || c.q <= 0 || c.o < 0 || c.sums < 0 || c.rest < 0)
    abort();
  if (c.all != c.k + c.v + c.q + c.o + c.sums + c.rest) abort();
  if (c.layers < 1 || c.layers > p->n || c.rows < 192 || c.rows > 8192) abort();
}

static void typed(const char *text) {
  kv_keep keep = {.last = KV_KEEP_ALL};
  kv_err e = {0};
  kv_plan p;
  kv_rc rc = *text == 'r' ? kv_keep_rows(text + 1, &keep.last, &e)
                          : kv_keep_layers(text + 1, &keep, &e);
  if (said(rc, &e)) {
    for (int i = 1; i < keep.n_layers; i++)
      if (keep.layers[i] <= keep.layers[i - 1]) abort();
    if (kv_plan_of_model(kv_geometry_find("llama-3.1-8b"), &p, &e)) abort();
    cost(&p, &keep);
    kv_plan_free(&p);
  }
  kv_keep_free(&keep);
}

static void configured(const uint8_t *bytes, size_t n) {
  const kv_keep all = {.last = KV_KEEP_ALL}, some = {.last = 64, .no_o = true};
  char path[64];
  kv_err e = {0};
  kv_plan p;
  int fd = memfd_create("config", MFD_CLOEXEC);
  if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (said(kv_plan_of_config(path, &p, &e), &e)) {
    cost(&p, &all);
    cost(&p, &some);
    kv_plan_free(&p);
  }
  close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char text[256];
  if (n && n < sizeof text && (bytes[0] == 'r' || bytes[0] == 'l')) {
    memcpy(text, bytes, n);
    text[n] = 0;
    typed(text);
  } else {
    configured(bytes, n);
  }
  return 0;
}
