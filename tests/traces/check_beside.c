/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file beside a trace is for its model: by what the model is, where both
 * say it, else by what it is called.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/tracefile.h"
#include "traces/container/writer.h"
#include "traces/decisions/asset.h"

#define ONE "11111111111111111111111111111111111111111111111111111111111111aa"
#define TWO "22222222222222222222222222222222222222222222222222222222222222bb"

/* "METHOD.NAME.safetensors" in a folder. */
static const char *at(const char *folder, const char *name) {
  char x[300];
  snprintf(x, sizeof x, "%s/%s.safetensors", folder, name);
  return scratch_path(x);
}

/* A file of one tensor with this metadata; NULL: without it. */
static void put(const char *folder, const char *name, const char *model,
                const char *digest) {
  const uint64_t one = 1;
  const int32_t number = 7;
  kv_st_writer *w;
  unlink(at(folder, name));
  assert_int_equal(kv_st_writer_open(at(folder, name), 0, &w, NULL), KV_OK);
  kv_st_writer_declare(w, "x", KV_ST_I32, 1, &one, NULL);
  if (model) kv_st_writer_meta(w, "model", model, NULL);
  if (digest) kv_st_writer_meta(w, "model_digest", digest, NULL);
  kv_st_writer_append(w, sizeof number, &number, NULL);
  assert_int_equal(kv_st_writer_finish(w, NULL, NULL), KV_OK);
  kv_st_writer_close(w);
}

static void put_damaged(const char *folder, const char *name) {
  FILE *f = fopen(at(folder, name), "w");
  assert_non_null(f);
  fputs("text", f);
  fclose(f);
}

static void clear(const char *folder) {
  static const char *const name[] = {"less.a",     "less.b", "less.some_M",
                                     "less.x.y",   "less",   "lesser.a",
                                     "palu.some_M"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    unlink(at(folder, name[i]));
}

/* What the trace says of its model; NULL: nothing. */
static const char *model, *digest;

/* It finds this file, or is refused by a sentence with this in it. */
static void finds(kv_rc code, const char *want) {
  const meta also[] = {{digest ? "model_digest" : NULL, digest}, {NULL, NULL}};
  const meta m = {"model", model};
  char path[1024] = "";
  tracefile_also = also;
  tracefile_write(&m, 0, NULL, 0);
  tracefile_also = NULL;
  kv_trace *t = tracefile_open();
  kv_rc rc = kv_asset_beside(t, "less", sizeof path, path, &told);
  kv_trace_close(t);
  if (rc != code) fail_msg("%d, not %d: %s%s", rc, code, told.text, path);
  if (!strstr(rc ? told.text : path, want))
    fail_msg("\"%s\", not \"%s\"", rc ? told.text : path, want);
}

static int start(void **state) {
  int rc = scratch_make(state);
  unsetenv("KVREPLAY_ASSETS");
  mkdir(scratch_path("assets"), 0777);
  mkdir(scratch_path("other"), 0777);
  mkdir(scratch_path("a:b"), 0777);
  return rc;
}

static int stop(void **state) {
  rmdir(scratch_path("assets"));
  rmdir(scratch_path("other"));
  rmdir(scratch_path("a:b"));
  return scratch_remove(state);
}

static int empty(void **state) {
  (void)state;
  model = "some/M", digest = NULL;
  unsetenv("KVREPLAY_ASSETS");
  clear("assets");
  clear("other");
  clear("a:b");
  return 0;
}

/* --- by its name, as before there were digests --------------------------- */

TEST_ON(by_name, empty, empty) {
  finds(KV_OK, "/assets/less.some_M.safetensors"); /* where it would lie */
  put("assets", "less.a", "another", ONE);
  put("assets", "lesser.a", "some/M", NULL); /* of another method */
  put("assets", "less", "some/M", NULL);
  put("assets", "palu.some_M", "some/M", NULL);
  put_damaged("assets", "less.b");
  finds(KV_OK, "/assets/less.some_M.safetensors");
  put("assets", "less.a", "some/M", ONE); /* called so inside */
  finds(KV_OK, "/assets/less.a.safetensors");
  put("assets", "less.some_M", "whatever", TWO); /* is not asked */
  finds(KV_OK, "/assets/less.some_M.safetensors");
  put_damaged("assets", "less.some_M"); /* who reads it says so */
  finds(KV_OK, "/assets/less.some_M.safetensors");
  model = NULL;
  finds(KV_REFUSED, "metadata names no model");
}

/* --- by what it is -------------------------------------------------------- */

TEST_ON(by_content, empty, empty) {
  digest = ONE;
  finds(KV_OK, "/assets/less.some_M.safetensors");
  put("assets", "less.a", "another", ONE);
  put("assets", "less.b", "some/M", TWO);
  finds(KV_OK, "/assets/less.a.safetensors"); /* however it is called */
  put("assets", "less.a", NULL, TWO " " ONE); /* of several models */
  finds(KV_OK, "/assets/less.a.safetensors");
  put("assets", "less.some_M", NULL, NULL); /* says nothing */
  finds(KV_OK, "/assets/less.a.safetensors");
  put("assets", "less.a", NULL, ONE "2"); /* no digest, one longer */
  finds(KV_OK, "/assets/less.some_M.safetensors");
  put("assets", "less.some_M", NULL, ONE);
  finds(KV_OK, "/assets/less.some_M.safetensors");
  model = NULL; /* the trace's numbers are known, no name */
  finds(KV_OK, "/assets/less.some_M.safetensors");
  clear("assets");
  finds(KV_OK, "/assets/less." ONE ".safetensors");
}

/* Two fine-tunes that are called alike. */
TEST_ON(of_another, empty, empty) {
  digest = ONE;
  put("assets", "less.some_M", "some/M", TWO);
  finds(KV_REFUSED, "less.some_M.safetensors has another model_digest");
  put("assets", "less.a", "some/M", NULL); /* older than digests */
  finds(KV_OK, "/assets/less.a.safetensors");
  put("assets", "less.a", NULL, ONE);
  finds(KV_OK, "/assets/less.a.safetensors");
  digest = TWO;
  finds(KV_OK, "/assets/less.some_M.safetensors");
}

TEST_ON(of_two, empty, empty) {
  digest = ONE;
  put("assets", "less.a", NULL, ONE);
  put("assets", "less.b", NULL, ONE);
  finds(KV_REFUSED, "are both for this model; name one");
  put("assets", "less.some_M", NULL, ONE); /* called so, too */
  finds(KV_OK, "/assets/less.some_M.safetensors");
}

TEST_ON(elsewhere, empty, empty) {
  char list[900];
  put("other", "less.a", "some/M", ONE);
  put("other", "less.some_M", "some/M", NULL);
  snprintf(list, sizeof list, ":/nowhere::%s", scratch_path("other"));
  setenv("KVREPLAY_ASSETS", list, 1);
  finds(KV_OK, "/assets/less.some_M.safetensors"); /* a name is not enough */
  digest = ONE;
  finds(KV_OK, "/other/less.a.safetensors");
  put("assets", "less.b", NULL, ONE); /* nearer */
  finds(KV_OK, "/assets/less.b.safetensors");
  put("a:b", "less.b", NULL, TWO); /* a colon of a name */
  snprintf(list, sizeof list, "%s", scratch_path("a\\:b"));
  setenv("KVREPLAY_ASSETS", list, 1);
  digest = TWO;
  finds(KV_OK, "/a:b/less.b.safetensors");
}

int main(void) { return tests_run("beside", start, stop); }
