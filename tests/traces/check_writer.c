/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the writer. What it wrote, the reader reads back to the byte, in
 * one file or in shards, appended in pieces of any size, with data on
 * multiples of 64. A write that fails leaves nothing behind and says so.
 */
#define _GNU_SOURCE 1
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "traces/container/safetensors.h"
#include "traces/container/writer.h"

static kv_st *take(const char *path) {
  kv_st *s;
  works(kv_st_open(path, &s, &told));
  return s;
}

enum { TENSORS = 5 };

static const uint64_t sizes[TENSORS] = {1000, 64, 0, 4000, 100};

/* Five tensors of bytes, appended in pieces of `piece`. */
static const char *write_set(const char *path, uint64_t shard, uint64_t piece) {
  static char made[512];
  const char *result;
  kv_st_writer *w;
  unsigned char data[5164];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 7);
  works(kv_st_writer_open(path, shard, &w, &told));
  for (int i = 0; i < TENSORS; i++) {
    char name[16];
    snprintf(name, sizeof name, "t%d", i);
    works(kv_st_writer_declare(w, name, KV_ST_U8, 1, &sizes[i], &told));
  }
  fails(kv_st_writer_declare(w, "t1", KV_ST_U8, 0, NULL, &told), KV_USAGE,
        "declared twice");
  works(kv_st_writer_meta(w, "k\"ey", "v\xc3\xa4lue\n", &told));
  assert_int_equal(kv_st_writer_meta(w, "bad", "\xff", &told), KV_USAGE);
  for (size_t at = 0; at < sizeof data; at += piece) {
    uint64_t n = sizeof data - at < piece ? sizeof data - at : piece;
    works(kv_st_writer_append(w, n, data + at, &told));
  }
  works(kv_st_writer_finish(w, &result, &told));
  snprintf(made, sizeof made, "%s", result);
  kv_st_writer_close(w);
  return made;
}

static void read_set(const char *path, int files) {
  kv_st *s = take(path);
  size_t at = 0;
  assert_int_equal(kv_st_files(s), files);
  assert_int_equal(kv_st_count(s), TENSORS);
  assert_string_equal(kv_st_meta(s, "k\"ey"), "v\xc3\xa4lue\n");
  for (int i = 0; i < TENSORS; i++) {
    char name[16];
    snprintf(name, sizeof name, "t%d", i);
    const kv_st_tensor *t = kv_st_find(s, name);
    assert_non_null(t);
    assert_int_equal(t->bytes, sizes[i]);
    for (uint64_t j = 0; j < sizes[i]; j++, at++) {
      assert_int_equal(((const unsigned char *)t->data)[j],
                       (unsigned char)(at * 7));
    }
  }
  assert_int_equal((uintptr_t)kv_st_find(s, "t0")->data % 64, 0);
  assert_int_equal(kv_st_damaged(s, NULL), KV_OK);
  kv_st_release(s, kv_st_find(s, "t3"));
  assert_int_equal(*(const unsigned char *)kv_st_find(s, "t3")->data,
                   (unsigned char)(1064 * 7));
  kv_st_close(s);
}

TEST(what_is_written_is_read) {
  for (uint64_t piece = 1; piece < 6000; piece = piece * 3 + 1) {
    int before = scratch_entries() + (piece == 1);
    read_set(write_set(scratch_path("one.safetensors"), 0, piece), 1);
    assert_int_equal(scratch_entries(), before);
  }
}

TEST(sharded_sets_are_one) {
  const char *path = write_set(scratch_path("s.safetensors"), 1100, 999);
  assert_string_equal(path, scratch_path("s.safetensors.index.json"));
  assert_int_equal(access(scratch_path("s-00001-of-00003.safetensors"), R_OK),
                   0);
  read_set(path, 3);
}

/* A limit on file size stands for a full disk: the write fails alike. */
TEST(a_failed_write_leaves_nothing) {
  struct rlimit old, small;
  kv_st_writer *w;
  const uint64_t n = 1 << 20;
  int before = scratch_entries();
  char *zeros = calloc(1, n);
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &old);
  for (uint64_t shard = 1; shard <= n; shard *= n) {
    const char *path = scratch_path("full.safetensors");
    works(kv_st_writer_open(path, shard, &w, &told));
    for (int i = 0; i < 2; i++) {
      kv_st_writer_declare(w, i ? "b" : "a", KV_ST_U8, 1, &n, &told);
    }
    works(kv_st_writer_append(w, n, zeros, &told));
    small = (struct rlimit){1 << 16, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    kv_rc rc = kv_st_writer_append(w, n, zeros, &told);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(rc, KV_RESOURCE);
    must_say("full");
    must_say("nothing was written");
    kv_st_writer_close(w);
    assert_int_equal(scratch_entries(), before);
  }
  free(zeros);
}

TEST(a_writer_needs_a_place) {
  kv_st_writer *w;
  const char *paths[] = {scratch_path("no/such/x.safetensors"), "/dev/null"};
  const kv_rc codes[] = {KV_RESOURCE, KV_USAGE};
  for (int i = 0; i < 2; i++) {
    works(kv_st_writer_open(paths[i], 0, &w, &told));
    assert_int_equal(kv_st_writer_finish(w, NULL, &told), codes[i]);
    kv_st_writer_close(w);
  }
  struct stat s;
  assert_int_equal(stat("/dev/null", &s), 0);
  assert_true(S_ISCHR(s.st_mode));
}

int main(void) { return tests_run("writer", scratch_make, scratch_remove); }
