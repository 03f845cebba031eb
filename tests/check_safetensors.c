/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the container. Every way in which a safetensors file can be wrong
 * is refused with a sentence that names the file and the reason. What the
 * writer wrote, the reader reads back to the byte, in one file or in shards,
 * with data on multiples of 64. A write that fails leaves nothing behind.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "traces/safetensors.h"
#include "traces/writer.h"

static char folder[] = "/tmp/kv_check_st_XXXXXX";

static const char *in_folder(const char *name) {
  static char path[4][512];
  static int turn;
  char *p = path[turn++ % 4];
  snprintf(p, sizeof path[0], "%s/%s", folder, name);
  return p;
}

static void write_file(const char *path, size_t n, const void *data) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

/* A file of this header and so many bytes of data. */
static const char *raw(const char *name, size_t length, const char *header,
                       size_t data) {
  unsigned char *all = calloc(1, 8 + length + data);
  const char *path = in_folder(name);
  uint64_t n = length;
  memcpy(all, &n, 8);
  memcpy(all + 8, header, length);
  write_file(path, 8 + length + data, all);
  free(all);
  return path;
}

static void refuse(const char *path, const char *name, const char *reason) {
  kv_err e = {0};
  kv_st *s = (kv_st *)&e;
  assert_int_equal(kv_st_open(path, &s, &e), KV_INPUT);
  assert_null(s);
  assert_int_equal(e.rc, KV_INPUT);
  if (!strstr(e.text, name) || !strstr(e.text, reason)) {
    fail_msg("\"%s\" names not %s and %s", e.text, name, reason);
  }
  for (const char *c = e.text; *c; c++) {
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
    {"{\"a\":" T("4", "0", "4") "}", 4, "shape is not a list"},
    {"{\"a\":" T("[-1]", "0", "4") "}", 4, "no whole number"},
    {"{\"a\":" T("[4.0]", "0", "4") "}", 4, "no whole number"},
    {"{\"a\":" T("[4e0]", "0", "4") "}", 4, "no whole number"},
    {"{\"a\":" T("[\"4\"]", "0", "4") "}", 4, "no whole number"},
    {"{\"a\":" T("[4]", "-1", "4") "}", 4, "pair of whole numbers"},
    {"{\"a\":" T("[4]", "0", "4.0") "}", 4, "pair of whole numbers"},
    {"{\"a\":" T("[4]", "0", "4,4") "}", 4, "pair of whole numbers"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":0}}", 4,
     "pair of whole numbers"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],"
     "\"strides\":[1]}}",
     4, "has fields beside"},
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
    {"{\"line\\nbreak\":1}", 0, "tensor line?break: is not an object"},
};

static void wrong_headers_are_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
    const wrong *w = &wrongs[i];
    refuse(raw("wrong.st", strlen(w->header), w->header, w->data), "wrong.st",
           w->reason);
  }
}

static void nul_in_the_header_is_refused(void **state) {
  (void)state;
  static const char header[] = "{\"a\0b\":1}";
  refuse(raw("nul.st", sizeof header - 1, header, 0), "nul.st",
         "not valid JSON");
}

static void wrong_lengths_are_refused(void **state) {
  (void)state;
  unsigned char b[16] = {0};
  write_file(in_folder("short.st"), 7, b);
  refuse(in_folder("short.st"), "short.st", "too short");
  write_file(in_folder("empty.st"), 0, b);
  refuse(in_folder("empty.st"), "empty.st", "too short");
  b[0] = 9;
  write_file(in_folder("long.st"), 16, b);
  refuse(in_folder("long.st"), "long.st", "longer than the file");
  uint64_t n = 100000001;
  memcpy(b, &n, 8);
  write_file(in_folder("huge.st"), 16, b);
  refuse(in_folder("huge.st"), "huge.st", "the limit is 100000000");
  memset(b, 0xff, 8);
  write_file(in_folder("most.st"), 16, b);
  refuse(in_folder("most.st"), "most.st", "the limit is 100000000");
  refuse(in_folder("none.st"), "none.st", "No such file");
  refuse(folder, folder, "not a regular file");
}

static void deep_nesting_is_refused(void **state) {
  (void)state;
  enum { DEEP = 1000000 };
  char *text = malloc(DEEP);
  memset(text, '[', DEEP);
  memcpy(text, "{\"a\":", 5);
  refuse(raw("deep.st", DEEP, text, 0), "deep.st", "not valid JSON");
  free(text);
}

static kv_st *take(const char *path) {
  kv_err e = {0};
  kv_st *s;
  if (kv_st_open(path, &s, &e)) fail_msg("%s", e.text);
  return s;
}

static void odd_but_legal_headers_are_read(void **state) {
  (void)state;
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

enum { TENSORS = 5 };

static const uint64_t sizes[TENSORS] = {1000, 64, 0, 4000, 100};

/* Five tensors of bytes, appended in pieces of `piece`. */
static const char *write_set(const char *path, uint64_t shard, uint64_t piece) {
  static char made[512];
  const char *result;
  kv_err e = {0};
  kv_st_writer *w;
  unsigned char data[5164];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 7);
  assert_int_equal(kv_st_writer_open(path, shard, &w, &e), KV_OK);
  for (int i = 0; i < TENSORS; i++) {
    char name[16];
    snprintf(name, sizeof name, "t%d", i);
    assert_int_equal(kv_st_writer_declare(w, name, KV_ST_U8, 1, &sizes[i], &e),
                     KV_OK);
  }
  assert_int_equal(kv_st_writer_declare(w, "t1", KV_ST_U8, 0, NULL, &e),
                   KV_USAGE);
  assert_non_null(strstr(e.text, "declared twice"));
  assert_int_equal(kv_st_writer_meta(w, "k\"ey", "v\xc3\xa4lue\n", &e), KV_OK);
  assert_int_equal(kv_st_writer_meta(w, "bad", "\xff", &e), KV_USAGE);
  for (size_t at = 0; at < sizeof data; at += piece) {
    uint64_t n = sizeof data - at < piece ? sizeof data - at : piece;
    assert_int_equal(kv_st_writer_append(w, n, data + at, &e), KV_OK);
  }
  assert_int_equal(kv_st_writer_finish(w, &result, &e), KV_OK);
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

static int entries(void) {
  int n = 0;
  DIR *d = opendir(folder);
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

static void what_is_written_is_read(void **state) {
  (void)state;
  for (uint64_t piece = 1; piece < 6000; piece = piece * 3 + 1) {
    int before = entries() + (piece == 1);
    read_set(write_set(in_folder("one.safetensors"), 0, piece), 1);
    assert_int_equal(entries(), before);
  }
}

static void sharded_sets_are_one(void **state) {
  (void)state;
  const char *path = write_set(in_folder("s.safetensors"), 1100, 999);
  assert_string_equal(path, in_folder("s.safetensors.index.json"));
  assert_int_equal(access(in_folder("s-00001-of-00003.safetensors"), R_OK), 0);
  read_set(path, 3);
}

static void say(const char *name, const char *text) {
  write_file(in_folder(name), strlen(text), text);
}

static void wrong_indexes_are_refused(void **state) {
  (void)state;
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
      {"{\"weight_map\":{\"a\":\"../x.st\"}}", "i.index.json", "leaves"},
      {"{\"weight_map\":{\"a\":\"/x.st\"}}", "i.index.json", "leaves"},
      {"{\"weight_map\":{\"a\":\"x\\\\y.st\"}}", "i.index.json", "leaves"},
      {"{\"weight_map\":{\"a\":\"..\"}}", "i.index.json", "leaves"},
      {"{\"weight_map\":{\"a\":\"\"}}", "i.index.json", "leaves"},
      {"{\"weight_map\":{\"a\":\"gone.st\"}}", "gone.st", "No such file"},
      {"{\"weight_map\":{\"b\":\"p.st\"}}", "p.st", "tensor b is not in it"},
      {"{\"weight_map\":{\"a\":\"p.st\",\"b\":\"q.st\"}}", "q.st",
       "tensor a stands in two shards"},
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
    refuse(in_folder("i.index.json"), bad[i].name, bad[i].reason);
  }
  say("i.index.json", "{\"metadata\":{\"total_size\":1,\"odd\":[]},\"more\":1,"
                      "\"weight_map\":{\"a\":\"p.st\"}}");
  kv_st_close(take(in_folder("i.index.json")));
}

/* A limit on file size stands for a full disk: the write fails alike. */
static void a_failed_write_leaves_nothing(void **state) {
  (void)state;
  struct rlimit old, small;
  kv_err e = {0};
  kv_st_writer *w;
  const uint64_t n = 1 << 20;
  int before = entries();
  char *zeros = calloc(1, n);
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &old);
  for (uint64_t shard = 1; shard <= n; shard *= n) {
    const char *path = in_folder("full.safetensors");
    assert_int_equal(kv_st_writer_open(path, shard, &w, &e), KV_OK);
    for (int i = 0; i < 2; i++) {
      kv_st_writer_declare(w, i ? "b" : "a", KV_ST_U8, 1, &n, &e);
    }
    assert_int_equal(kv_st_writer_append(w, n, zeros, &e), KV_OK);
    small = (struct rlimit){1 << 16, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    kv_rc rc = kv_st_writer_append(w, n, zeros, &e);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(rc, KV_RESOURCE);
    assert_non_null(strstr(e.text, "full"));
    assert_non_null(strstr(e.text, "nothing was written"));
    kv_st_writer_close(w);
    assert_int_equal(entries(), before);
  }
  free(zeros);
}

static void a_writer_needs_a_place(void **state) {
  (void)state;
  kv_err e = {0};
  kv_st_writer *w;
  const char *paths[] = {in_folder("no/such/x.safetensors"), "/dev/null"};
  const kv_rc codes[] = {KV_RESOURCE, KV_USAGE};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(kv_st_writer_open(paths[i], 0, &w, &e), KV_OK);
    assert_int_equal(kv_st_writer_finish(w, NULL, &e), codes[i]);
    kv_st_writer_close(w);
  }
  struct stat s;
  assert_int_equal(stat("/dev/null", &s), 0);
  assert_true(S_ISCHR(s.st_mode));
}

static void shrinking_becomes_a_sentence(void **state) {
  (void)state;
  enum { SIZE = 1 << 20 };
  char header[100];
  snprintf(header, sizeof header, "{\"a\":" T("[%d]", "0", "%d") "}", SIZE,
           SIZE);
  const char *path = raw("shrink.st", strlen(header), header, SIZE);
  kv_st *s = take(path);
  kv_err e = {0};
  volatile const unsigned char *data = kv_st_find(s, "a")->data;
  assert_int_equal(data[SIZE - 1], 0);
  assert_int_equal(kv_st_damaged(s, &e), KV_OK);
  assert_int_equal(truncate(path, 100), 0);
  unsigned sum = 0;
  for (int i = 0; i < SIZE; i += 512) sum += data[i];
  assert_int_equal(sum, 0);
  assert_int_equal(kv_st_damaged(s, &e), KV_INPUT);
  assert_non_null(strstr(e.text, "shrink.st"));
  /* Growing back does not heal: what was read is gone. */
  assert_int_equal(truncate(path, (long)strlen(header) + 8 + SIZE), 0);
  assert_int_equal(kv_st_damaged(s, &e), KV_INPUT);
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
static void foreign_signals_pass(void **state) {
  (void)state;
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

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  char command[100];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_headers_are_refused),
      cmocka_unit_test(nul_in_the_header_is_refused),
      cmocka_unit_test(wrong_lengths_are_refused),
      cmocka_unit_test(deep_nesting_is_refused),
      cmocka_unit_test(odd_but_legal_headers_are_read),
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(sharded_sets_are_one),
      cmocka_unit_test(wrong_indexes_are_refused),
      cmocka_unit_test(a_failed_write_leaves_nothing),
      cmocka_unit_test(a_writer_needs_a_place),
      cmocka_unit_test(shrinking_becomes_a_sentence),
      cmocka_unit_test(foreign_signals_pass),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
