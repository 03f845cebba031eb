/* SPDX-License-Identifier: Apache-2.0
 *
 * The identity of an evaluation: its parts are checked, the method's code is
 * found, and all of it is hashed. Names are hashes of a few lines of text, so
 * that anyone can compute them again:
 *
 *   question   model HEX | task | item | question N | request HEX |
 *              prompt_len N | tokens N
 *   platform   torch | transformers | processor | threads N | dtype
 *   key        question HEX | platform HEX | method | code | arithmetic N |
 *              basis | target
 */
#include "sim/store/evaluation_part.h"

#include "ref/ground/arith.h"
#include "sim/ask/door.h"
#include "sim/ask/spec.h"
#include "traces/container/safetensors.h"
#include <fenv.h>
#include <stdio.h>
#include <string.h>

/* --- checking the key ------------------------------------------------------
 */

static const struct {
  const char *what;
  size_t at;
  bool needed;
} texts[] = {{"model", offsetof(kv_evaluation, model), true},
             {"task", offsetof(kv_evaluation, task), true},
             {"item", offsetof(kv_evaluation, item), true},
             {"method", offsetof(kv_evaluation, method), true},
             {"code", offsetof(kv_evaluation, code), false},
             {"context", offsetof(kv_evaluation, context), false},
             {"target", offsetof(kv_evaluation, target), false},
             {"torch", offsetof(kv_evaluation, torch), true},
             {"transformers", offsetof(kv_evaluation, transformers), true},
             {"processor", offsetof(kv_evaluation, processor), true},
             {"dtype", offsetof(kv_evaluation, dtype), true}};

static kv_rc check_texts(const kv_evaluation *r, kv_err *e) {
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const char *text;
    memcpy(&text, (const char *)r + texts[i].at, sizeof text);
    if (texts[i].needed && !*kv_evaluation_text(text))
      return kv_fail(e, KV_USAGE,
                     "the evaluation has no %s, which is part of its name",
                     texts[i].what);
    if (strchr(kv_evaluation_text(text), '\n'))
      return kv_fail(e, KV_USAGE, "the evaluation's %s must be a single line",
                     texts[i].what);
  }
  return KV_OK;
}

static kv_rc check_basis(const char *basis, kv_err *e) {
  for (int i = 0; i < KV_BASES; i++)
    if (!strcmp(basis, kv_basis_names[i])) return KV_OK;
  return kv_fail(
      e, KV_USAGE,
      "the evaluation's basis is %.40s; it must be entries, prompt, ratio, "
      "end, mean, peak, read or traffic, or \"\" without a budget",
      basis);
}

static kv_rc check_code(const char *code, kv_err *e) {
  enum { MOST = sizeof((kv_evaluation_name *)0)->code - 1 };
  if (strlen(code) <= MOST) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "the evaluation's code is %.40s.., longer than %d bytes; give "
                 "a digest of it",
                 code, MOST);
}

static kv_rc check_asked(const kv_evaluation *r, kv_err *e) {
  kv_digest d;
  if (!r || r->abi != KV_EVALUATION_ABI)
    return kv_fail(e, KV_USAGE,
                   "the evaluation has ABI %d but this library has %d; build "
                   "against its header",
                   r ? r->abi : 0, KV_EVALUATION_ABI);
  kv_rc rc = check_texts(r, e);
  if (rc) return rc;
  if (r->question < 0 || r->prompt_len < 0 || r->threads < 0 ||
      r->tokens < r->prompt_len)
    return kv_fail(
        e, KV_USAGE,
        "question %d, %d threads, %d tokens with a prompt of %d: counts must "
        "be 0 or more, and the prompt at most the tokens",
        r->question, r->threads, r->tokens, r->prompt_len);
  if (!kv_digest_read(r->request_digest, &d) ||
      (*kv_evaluation_text(r->model_digest) &&
       !kv_digest_read(r->model_digest, &d)))
    return kv_fail(
        e, KV_USAGE,
        "request_digest and model_digest must be 64 hex digits each");
  rc = check_code(kv_evaluation_text(r->code), e);
  return rc ? rc : check_basis(kv_evaluation_text(r->basis), e);
}

/* --- the method's code -----------------------------------------------------
 */

/* Leaves out files that cannot be read: the method then answers nothing, and
 * once its file exists its code is different. */
static void code_of(const kv_spec *spec, char out[65]) {
  kv_digest file[KV_SPEC_FILES];
  int n = 0;
  for (int i = 0; i < KV_SPEC_FILES; i++) {
    const kv_file *f = kv_spec_file(spec, i);
    kv_st *st = NULL;
    if (!f || !*f->path || kv_st_open(f->path, &st, NULL)) continue;
    file[n++] = kv_st_digest(st, 0);
    kv_st_close(st);
  }
  kv_code(spec->method, n, file, out);
}

static kv_rc find_code(const char *method, kv_evaluation_name *n, kv_err *e) {
  kv_spec spec = {0};
  char code[65];
  fenv_t mode;
  fegetenv(&mode);
  kv_float_ground(); /* before numbers are parsed */
  kv_rc rc = kv_spec_parse(kv_method_at, method, &spec, e);
  fesetenv(&mode);
  if (rc) return rc;
  code_of(&spec, code);
  n->revision = spec.method->revision;
  n->arithmetic = KV_ARITHMETIC;
  if (*code)
    snprintf(n->code, sizeof n->code, "%s", code);
  else
    snprintf(n->code, sizeof n->code, "revision %d", n->revision);
  kv_spec_free(&spec);
  return KV_OK;
}

/* --- digests ---------------------------------------------------------------
 */

static void end(kv_sha256 *h, char out[65]) {
  kv_digest d = kv_sha256_end(h);
  kv_digest_hex(&d, out);
}

/* Adds a file that the method read but does not name to its code. */
static void name_file(const char *file, kv_evaluation_name *n) {
  kv_sha256 h;
  kv_sha256_init(&h);
  kv_db_line(&h, "code", n->code);
  kv_db_line(&h, "file", file);
  end(&h, n->code);
}

static void name_model(const kv_evaluation *r, char out[65]) {
  kv_sha256 h;
  if (*kv_evaluation_text(r->model_digest)) {
    snprintf(out, 65, "%s", r->model_digest);
    return;
  }
  kv_sha256_init(&h);
  kv_db_line(&h, "model", r->model);
  end(&h, out);
}

static void name_question(const kv_evaluation *r, kv_evaluation_name *n) {
  kv_sha256 h;
  kv_sha256_init(&h);
  kv_db_line(&h, "model", n->model);
  kv_db_line(&h, "task", r->task);
  kv_db_line(&h, "item", r->item);
  kv_db_line_int(&h, "question", r->question);
  kv_db_line(&h, "request", r->request_digest);
  kv_db_line_int(&h, "prompt_len", r->prompt_len);
  kv_db_line_int(&h, "tokens", r->tokens);
  end(&h, n->question);
}

static void name_platform(const kv_evaluation *r, kv_evaluation_name *n) {
  kv_sha256 h;
  kv_sha256_init(&h);
  kv_db_line(&h, "torch", r->torch);
  kv_db_line(&h, "transformers", r->transformers);
  kv_db_line(&h, "processor", r->processor);
  kv_db_line_int(&h, "threads", r->threads);
  kv_db_line(&h, "dtype", r->dtype);
  end(&h, n->platform);
}

static void name_key(const kv_evaluation *r, kv_evaluation_name *n) {
  kv_sha256 h;
  kv_sha256_init(&h);
  kv_db_line(&h, "question", n->question);
  kv_db_line(&h, "platform", n->platform);
  kv_db_line(&h, "method", r->method);
  kv_db_line(&h, "code", n->code);
  kv_db_line_int(&h, "arithmetic", n->arithmetic);
  kv_db_line(&h, "basis", kv_evaluation_text(r->basis));
  kv_db_line(&h, "target", kv_evaluation_text(r->target));
  end(&h, n->key);
}

kv_rc kv_evaluation_name_of(const kv_evaluation *r, kv_evaluation_name *n,
                            kv_err *e) {
  *n = (kv_evaluation_name){0};
  kv_rc rc = check_asked(r, e);
  if (rc) return rc;
  const char *code = kv_evaluation_text(r->code);
  bool file = !strncmp(code, "file ", 5);
  if (*code && !file)
    snprintf(n->code, sizeof n->code, "%s", code);
  else
    rc = find_code(r->method, n, e);
  if (rc) return rc;
  if (file) name_file(code, n);
  name_model(r, n->model);
  name_question(r, n);
  name_platform(r, n);
  name_key(r, n);
  return KV_OK;
}
