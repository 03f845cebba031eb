/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the container. Every way in which a safetensors file can be wrong
 * is refused with a sentence that names the file and the reason; what is odd
 * but legal is read. A file that shrinks under the map becomes a sentence. What
 * the writer wrote, the reader reads back to the byte, in one file or in
 * shards, appended in pieces of any size, with data on multiples of 64. A write
 * that fails leaves nothing behind and says so.
 */
#define _GNU_SOURCE 1
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "traces/container/safetensors.h"
#include "traces/container/writer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file of this header and so many bytes of data. */
static const char *raw(const char *name, size_t length, const char *header,
                       size_t data) {
  unsigned char *all = calloc(1, 8 + length + data);
  const char *path = scratch_path(name);
  uint64_t n = length;
  memcpy(all, &n, 8);
  memcpy(all + 8, header, length);
  scratch_write(path, 8 + length + data, all);
  free(all);
  return path;
}

static void refuse(const char *path, const char *name, const char *reason) {
  kv_st *s = (kv_st *)&told;
  assert_int_equal(kv_st_open(path, &s, &told), KV_INPUT);
  assert_null(s);
  assert_int_equal(told.rc, KV_INPUT);
  if (!strstr(told.text, name) || !strstr(told.text, reason)) {
    fail_msg("\"%s\" names not %s and %s", told.text, name, reason);
  }
  for (const char *c = told.text; *c; c++) {
    assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
  }
}

#define T(shape, begin, end)                                                   \
  "{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]" \
  "}"

typedef struct wrong {
  const char *header;
  size_t data;
  const char *reason;
} wrong;

static const wrong wrongs[] = {
    {"", 0, "not valid JSON"},
    {"{", 0, "not valid JSON"},
    {"{}x", 0, "not valid JSON"},
    {"[]", 0, "not a JSON object"},
    {"3", 0, "not valid JSON"},
    {"{\"a\":" T("[4]", "0", "4") ",\"a\":" T("[4]", "0", "4") "}", 4,
     "duplicate key"},
    {"{\"a\":" T("[4]", "0", "4") ",\"\\u0061\":" T("[4]", "4", "8") "}", 8,
     "duplicate key"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],"
     "\"data_offsets\":[0,1]}}",
     1, "duplicate key"},
    {"{\"\xff\":1}", 0, "not UTF-8"},
    {"{\"\xc0\xaf\":1}", 0, "not UTF-8"},
    {"{\"\xed\xa0\x80\":1}", 0, "not UTF-8"},
    {"{\"\xf4\x90\x80\x80\":1}", 0, "not UTF-8"},
    {"{\"\xe2\x82", 0, "not UTF-8"},
    {"{\"a\\u0000b\":" T("[4]", "0", "4") "}", 4, "not valid JSON"},
    {"{\"a\":1}", 0, "tensor a: is not an object"},
    {"{\"a\":{}}", 0, "tensor a: has no dtype"},
    {"{\"a\":{\"dtype\":8,\"shape\":[],\"data_offsets\":[0,1]}}", 1,
     "tensor a: has no dtype"},
    {"{\"a\":{\"dtype\":\"F7\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
     "tensor a: unknown dtype F7"},
    {"{\"a\":{\"dtype\":\"f32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
     "unknown dtype f32"},
    {"{\"a\":" T("4", "0", "4") "}", 4, "shape that is not a list"},
    {"{\"a\":" T("[-1]", "0", "4") "}", 4, "other than whole numbers"},
    {"{\"a\":" T("[4.0]", "0", "4") "}", 4, "other than whole numbers"},
    {"{\"a\":" T("[4e0]", "0", "4") "}", 4, "other than whole numbers"},
    {"{\"a\":" T("[\"4\"]", "0", "4") "}", 4, "other than whole numbers"},
    {"{\"a\":" T("[4]", "-1", "4") "}", 4, "pair of whole numbers"},
    {"{\"a\":" T("[4]", "0", "4.0") "}", 4, "pair of whole numbers"},
    {"{\"a\":" T("[4]", "0", "4,4") "}", 4, "pair of whole numbers"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":0}}", 4,
     "pair of whole numbers"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],"
     "\"strides\":[1]}}",
     4, "has fields other than"},
    {"{\"a\":" T("[18446744073709551615]", "0", "4") "}", 4, "not valid JSON"},
    {"{\"a\":" T("[9223372036854775807,3]", "0", "4") "}", 4, "overflows"},
    {"{\"a\":" T("[4294967296,4294967296]", "0", "4") "}", 4, "overflows"},
    {"{\"a\":" T("[2305843009213693952]", "0", "0") "}", 0, "overflows"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
     "whole byte"},
    {"{\"a\":" T("[5]", "0", "4") "}", 4, "do not fit its shape"},
    {"{\"a\":" T("[4]", "4", "0") "}", 4, "leaves a hole"},
    {"{\"a\":" T("[4]", "0", "4") ",\"b\":" T("[4]", "5", "9") "}", 9,
     "tensor b: leaves a hole"},
    {"{\"a\":" T("[4]", "0", "4") ",\"b\":" T("[4]", "3", "7") "}", 7,
     "tensor b: overlaps"},
    {"{\"a\":" T("[4]", "0", "4") ",\"b\":" T("[4]", "0", "4") "}", 4,
     "overlaps"},
    {"{\"a\":" T("[4]", "0", "4") ",\"b\":" T("[0]", "4", "3") "}", 4,
     "ends before it begins"},
    {"{\"a\":" T("[4]", "0", "4") "}", 5, "1 trailing bytes"},
    {"{\"a\":" T("[4]", "0", "4") "}", 3, "1 missing bytes"},
    {"{}", 1, "1 trailing bytes"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "metadata a is not a string"},
    {"{\"__metadata__\":{\"a\":null}}", 0, "metadata a is not a string"},
    {"{\"line\\nbreak\":1}", 0, "tensor line\\x0abreak: is not an object"},
};

TEST(wrong_headers_are_refused) {
  for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
    const wrong *w = &wrongs[i];
    refuse(raw("wrong.st", strlen(w->header), w->header, w->data), "wrong.st",
           w->reason);
  }
}

TEST(nul_in_the_header_is_refused) {
  static const char header[] = "{\"a\0b\":1}";
  refuse(raw("nul.st", sizeof header - 1, header, 0), "nul.st",
         "not valid JSON");
}

TEST(wrong_lengths_are_refused) {
  unsigned char b[16] = {0};
  scratch_write(scratch_path("short.st"), 7, b);
  refuse(scratch_path("short.st"), "short.st", "too short");
  scratch_write(scratch_path("empty.st"), 0, b);
  refuse(scratch_path("empty.st"), "empty.st", "too short");
  b[0] = 9;
  scratch_write(scratch_path("long.st"), 16, b);
  refuse(scratch_path("long.st"), "long.st", "longer than the file");
  uint64_t n = 100000001;
  memcpy(b, &n, 8);
  scratch_write(scratch_path("huge.st"), 16, b);
  refuse(scratch_path("huge.st"), "huge.st", "the limit of 100000000");
  memset(b, 0xff, 8);
  scratch_write(scratch_path("most.st"), 16, b);
  refuse(scratch_path("most.st"), "most.st", "the limit of 100000000");
  refuse(scratch_path("none.st"), "none.st", "No such file");
  refuse(scratch_folder(), scratch_folder(), "not a regular file");
}

TEST(deep_nesting_is_refused) {
  enum { DEEP = 1000000 };
  char *text = malloc(DEEP);
  memset(text, '[', DEEP);
  memcpy(text, "{\"a\":", 5);
  refuse(raw("deep.st", DEEP, text, 0), "deep.st", "not valid JSON");
  free(text);
}

static kv_st *take(const char *path) {
  kv_st *s;
  works(kv_st_open(path, &s, &told));
  return s;
}

TEST(odd_but_legal_headers_are_read) {
  static const char header[] =
      " \n{\"b\":" T("[2]", "4", "6") ",\"\\u0061\":" T(
          "[]", "0", "1") ",\"z\":" T("[3,0]", "6",
                                      "6") ",\"c\":" T("[3]", "1", "4") "}\t ";
  kv_st *s = take(raw("odd.st", strlen(header), header, 6));
  assert_int_equal(kv_st_count(s), 4);
  assert_string_equal(kv_st_at(s, 0)->name, "a");
  assert_int_equal(kv_st_find(s, "a")->bytes, 1);
  assert_int_equal(kv_st_find(s, "z")->bytes, 0);
  assert_ptr_equal((const char *)kv_st_find(s, "c")->data + 3,
                   kv_st_find(s, "b")->data);
  assert_null(kv_st_find(s, "d"));
  assert_int_equal(kv_st_meta_count(s), 0);
  kv_st_close(s);
  s = take(raw("nothing.st", 2, "{}", 0));
  assert_int_equal(kv_st_count(s), 0);
  kv_st_close(s);
}

static void say(const char *name, const char *text) {
  scratch_write(scratch_path(name), strlen(text), text);
}

TEST(wrong_indexes_are_refused) {
  static const struct {
    const char *text, *name, *reason;
  } bad[] = {
      {"{", "i.index.json", "not valid JSON"},
      {"{\"a\":\"\xff\"}", "i.index.json", "not UTF-8"},
      {"{\"weight_map\":{},\"weight_map\":{}}", "i.index.json", "duplicate"},
      {"{}", "i.index.json", "weight_map"},
      {"[]", "i.index.json", "weight_map"},
      {"{\"weight_map\":{}}", "i.index.json", "no shard"},
      {"{\"weight_map\":{\"a\":1}}", "i.index.json", "does not name a file"},
      {"{\"weight_map\":{\"a\":\"../x.st\"}}", "i.index.json", "outside"},
      {"{\"weight_map\":{\"a\":\"/x.st\"}}", "i.index.json", "outside"},
      {"{\"weight_map\":{\"a\":\"x\\\\y.st\"}}", "i.index.json", "outside"},
      {"{\"weight_map\":{\"a\":\"..\"}}", "i.index.json", "outside"},
      {"{\"weight_map\":{\"a\":\"\"}}", "i.index.json", "outside"},
      {"{\"weight_map\":{\"a\":\"gone.st\"}}", "gone.st", "No such file"},
      {"{\"weight_map\":{\"b\":\"p.st\"}}", "p.st", "tensor b is missing"},
      {"{\"weight_map\":{\"a\":\"p.st\",\"b\":\"q.st\"}}", "q.st",
       "tensor a appears in two shards"},
      {"{\"weight_map\":{\"a\":\"r.st\"}}", "i.index.json", "hold 2 tensors"},
      {"{\"weight_map\":{\"a\":\"p.st\",\"c\":\"m.st\"}}", "m.st",
       "disagree about metadata k"},
  };
  static const char one[] =
      "{\"__metadata__\":{\"k\":\"1\"},\"a\":" T("[1]", "0", "1") "}";
  static const char two[] =
      "{\"a\":" T("[1]", "0", "1") ",\"b\":" T("[1]", "1", "2") "}";
  static const char other[] =
      "{\"__metadata__\":{\"k\":\"2\"},\"c\":" T("[1]", "0", "1") "}";
  raw("p.st", strlen(one), one, 1);
  raw("q.st", strlen(two), two, 2);
  raw("r.st", strlen(two), two, 2);
  raw("m.st", strlen(other), other, 1);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    say("i.index.json", bad[i].text);
    refuse(scratch_path("i.index.json"), bad[i].name, bad[i].reason);
  }
  say("i.index.json", "{\"metadata\":{\"total_size\":1,\"odd\":[]},\"more\":1,"
                      "\"weight_map\":{\"a\":\"p.st\"}}");
  kv_st_close(take(scratch_path("i.index.json")));
}

TEST(shrinking_becomes_a_sentence) {
  enum { SIZE = 1 << 20 };
  char header[100];
  snprintf(header, sizeof header, "{\"a\":" T("[%d]", "0", "%d") "}", SIZE,
           SIZE);
  const char *path = raw("shrink.st", strlen(header), header, SIZE);
  kv_st *s = take(path);
  volatile const unsigned char *data = kv_st_find(s, "a")->data;
  assert_int_equal(data[SIZE - 1], 0);
  works(kv_st_damaged(s, &told));
  assert_int_equal(truncate(path, 100), 0);
  unsigned sum = 0;
  for (int i = 0; i < SIZE; i += 512) sum += data[i];
  assert_int_equal(sum, 0);
  fails(kv_st_damaged(s, &told), KV_INPUT, "shrink.st");
  /* Growing back does not heal: what was read is gone. The signal alone
   * knows it, when size and time are as they were. */
  const struct stat *seen = kv_st_file_stat(s, 0);
  const struct timespec times[2] = {seen->st_atim, seen->st_mtim};
  assert_int_equal(truncate(path, (long)strlen(header) + 8 + SIZE), 0);
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
  assert_int_equal(kv_st_damaged(s, &told), KV_INPUT);
  kv_st_close(s);
}

static sigjmp_buf elsewhere;
static volatile sig_atomic_t foreign;

static void on_foreign(int number) {
  (void)number;
  foreign++;
  siglongjmp(elsewhere, 1);
}

/* A SIGBUS that is none of ours goes to who was there before. */
TEST(foreign_signals_pass) {
  struct sigaction mine = {.sa_handler = on_foreign}, old, now;
  sigaction(SIGBUS, &mine, &old);
  kv_st *s = take(raw("f.st", 2, "{}", 0));
  foreign = 0;
  if (sigsetjmp(elsewhere, 1) == 0) raise(SIGBUS);
  assert_int_equal(foreign, 1);
  kv_st_close(s);
  sigaction(SIGBUS, &old, &now);
  assert_ptr_equal(now.sa_handler, on_foreign);
}

/* --- the writer --------------------------------------------------------- */

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

int main(void) {
  return tests_run("safetensors", scratch_make, scratch_remove);
}
