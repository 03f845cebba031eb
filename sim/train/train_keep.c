/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of a training: FILE.training beside the result. A header, then
 * values, moments and sums as they lie in memory, then the SHA-256 of all that;
 * for the machine that wrote it. Appears whole or not at all.
 */
#include "sim/train/train.h"

#include "ref/ground/sha256.h"
#include "sim/spec/param.h"
#include "sim/train/product.h"
#include "traces/container/newfile.h"
#include "traces/text/text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct header {
  char magic[8];
  kv_digest of; /* what was asked */
  int64_t step;
  double seen, weight;
} header;

/* --- what was asked ------------------------------------------------------- */

static void add_text(kv_sha256 *h, const char *text) {
  kv_sha256_add(h, text, strlen(text) + 1);
}

static kv_rc digest_of(const kv_train *x, kv_digest *out, kv_err *e) {
  const kv_train_ask *a = &x->ask;
  char *spec = kv_params_spec(a->of->name, a->of->params, a->params);
  kv_sha256 h;
  kv_rc rc = spec ? KV_OK : kv_no_memory(e, "a specification", 1);
  kv_sha256_init(&h);
  if (spec) add_text(&h, spec);
  add_text(&h, a->kernels->name);
  add_text(&h, kv_product_by());
  kv_sha256_add(&h, &x->steps, sizeof x->steps);
  kv_sha256_add(&h, &a->seed, sizeof a->seed);
  kv_sha256_add(&h, &a->rate, sizeof a->rate);
  kv_sha256_add(&h, &a->most, sizeof a->most);
  for (int i = 0; i < x->data.learned && !rc; i++) {
    kv_digest d;
    rc = kv_trace_identity(x->data.trace[i].trace, &d, e);
    kv_sha256_add(&h, &d, sizeof d);
  }
  *out = kv_sha256_end(&h);
  free(spec);
  return rc;
}

/* --- the parts behind the header ------------------------------------------ */

enum { PARTS = 4 };

static int parts_of(const kv_train *x, void **part, size_t *bytes) {
  size_t n = (size_t)x->data.layers * x->t.floats * sizeof(float);
  void *all[PARTS] = {x->value, x->m, x->v, x->sum};
  for (int i = 0; i < PARTS; i++) {
    part[i] = all[i];
    bytes[i] = n;
  }
  bytes[PARTS - 1] = (size_t)x->data.layers * x->t.sums * sizeof(double);
  return PARTS;
}

kv_rc kv_train_keep(const kv_train *x, kv_err *e) {
  header head = {.step = x->step, .seen = x->seen, .weight = x->weight};
  kv_newfile file = {0};
  kv_sha256 h;
  void *part[PARTS];
  size_t bytes[PARTS];
  kv_digest sum;
  memcpy(head.magic, "kvtrain1", sizeof head.magic);
  kv_rc rc = digest_of(x, &head.of, e);
  if (!rc) rc = kv_newfile_open(x->checkpoint, &file, e);
  if (!rc) rc = kv_newfile_write(&file, sizeof head, &head, e);
  kv_sha256_init(&h);
  kv_sha256_add(&h, &head, sizeof head);
  for (int i = 0, n = parts_of(x, part, bytes); i < n && !rc; i++) {
    rc = kv_newfile_write(&file, bytes[i], part[i], e);
    kv_sha256_add(&h, part[i], bytes[i]);
  }
  sum = kv_sha256_end(&h);
  if (!rc) rc = kv_newfile_write(&file, sizeof sum, &sum, e);
  if (!rc) rc = kv_newfile_flush(&file, e);
  if (!rc) rc = kv_newfile_publish(1, &file, e);
  kv_newfile_discard(&file);
  return rc;
}

/* --- reading -------------------------------------------------------------- */

static kv_rc damaged(const kv_train *x, kv_err *e) {
  char show[KV_SHOW];
  return kv_fail(e, KV_INPUT,
                 "%s is no whole checkpoint of a training: remove it to train "
                 "from the beginning",
                 kv_show(x->checkpoint, show));
}

static kv_rc of_another(const kv_train *x, kv_err *e) {
  char show[KV_SHOW];
  return kv_fail(e, KV_USAGE,
                 "%s is of a training with other parameters or traces: remove "
                 "it, or take another output",
                 kv_show(x->checkpoint, show));
}

static kv_rc take(kv_train *x, FILE *f, const header *head, kv_err *e) {
  kv_sha256 h;
  void *part[PARTS];
  size_t bytes[PARTS];
  kv_digest sum, own;
  kv_sha256_init(&h);
  kv_sha256_add(&h, head, sizeof *head);
  for (int i = 0, n = parts_of(x, part, bytes); i < n; i++) {
    if (fread(part[i], 1, bytes[i], f) != bytes[i]) return damaged(x, e);
    kv_sha256_add(&h, part[i], bytes[i]);
  }
  own = kv_sha256_end(&h);
  if (fread(&sum, sizeof sum, 1, f) != 1 || getc(f) != EOF ||
      memcmp(&sum, &own, sizeof sum))
    return damaged(x, e);
  x->step = x->resumed = head->step;
  x->seen = head->seen;
  x->weight = head->weight;
  return KV_OK;
}

kv_rc kv_train_recall(kv_train *x, kv_err *e) {
  FILE *f = fopen(x->checkpoint, "rb");
  header head;
  kv_digest of;
  char show[KV_SHOW];
  if (!f && errno == ENOENT) return KV_OK;
  if (!f)
    return kv_fail(e, KV_INPUT, "%s: %s", kv_show(x->checkpoint, show),
                   strerror(errno));
  kv_rc rc = digest_of(x, &of, e);
  if (!rc && (fread(&head, sizeof head, 1, f) != 1 ||
              memcmp(head.magic, "kvtrain1", sizeof head.magic)))
    rc = damaged(x, e);
  if (!rc && memcmp(&head.of, &of, sizeof of)) rc = of_another(x, e);
  if (!rc) rc = take(x, f, &head, e);
  fclose(f);
  return rc;
}
