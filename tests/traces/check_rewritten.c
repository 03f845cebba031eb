/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace that is rewritten with what is no number while it is read: right
 * after a layer was looked at, after its prompt, in the midst of decoding; its
 * k, v, q or all of them; under every method, on the reference and on the
 * executor. Nothing aborts: the command ends with one sentence that names the
 * file, exit 3, and nothing of it is stored. So it is, where a logit tells,
 * if the file's time of change does not.
 */
#define _GNU_SOURCE 1
#include "gpu/host/backends.h"
#include "ref/ground/arith.h"
#include "sim/cli/commands.h"
#include "tests/support/program/command.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/tracefile.h"
#include "traces/container/safetensors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AFTER_LOOK, AFTER_PROMPT, AMID, PLACES };
enum { AT_STEP = 8, LAYER = 1 };

static const char *part;  /* k, v, q, or all three: kvq */
static uint32_t number;   /* what is written, as bits; 0: large numbers,
                            among which a few are none */
static int place, stride; /* every so manieth element */
static bool secretly;     /* the time of change is put back */
static bool written;

static char db[512];
static kv_backend wrapped;
static const kv_backend *real;

/* --- who writes --------------------------------------------------------- */

/* Where the data of the file's tensors begin. */
static off_t data_at(int fd) {
  uint64_t n;
  assert_int_equal(pread(fd, &n, sizeof n, 0), sizeof n);
  return (off_t)(8 + n);
}

/* A tensor's place in the file, by its distance from the first one's. */
static off_t offset_of(const kv_st *s, const kv_st_tensor *x, int fd) {
  const char *first = x->data;
  for (size_t i = 0; i < kv_st_count(s); i++)
    if ((const char *)kv_st_at(s, i)->data < first)
      first = kv_st_at(s, i)->data;
  return data_at(fd) + ((const char *)x->data - first);
}

static void overwrite(const kv_st *s, const char *name, int fd) {
  const kv_st_tensor *x = kv_st_find(s, name);
  off_t at = offset_of(s, x, fd);
  uint64_t any = 1;
  for (uint64_t i = 4; i < x->bytes; i += sizeof number * (uint64_t)stride) {
    any = any * 6364136223846793005u + 1442695040888963407u;
    float large = (float)(any >> 40) * 0x1p-13f - 1000;
    uint32_t bits = number           ? number
                    : any >> 60 == 0 ? 0x7fc00000
                                     : kv_bits(large);
    assert_int_equal(pwrite(fd, &bits, sizeof bits, at + (off_t)i),
                     sizeof bits);
  }
}

static void rewrite(void) {
  kv_st *s;
  struct stat was;
  char name[32];
  int fd = open(tracefile, O_RDWR);
  assert_true(fd >= 0 && fstat(fd, &was) == 0);
  assert_int_equal(kv_st_open(tracefile, &s, NULL), KV_OK);
  for (const char *c = part; *c; c++) {
    snprintf(name, sizeof name, "layers.%d.%c", LAYER, *c);
    overwrite(s, name, fd);
  }
  const struct timespec times[2] = {was.st_atim, was.st_mtim};
  if (secretly) assert_int_equal(futimens(fd, times), 0);
  kv_st_close(s);
  close(fd);
  written = true;
}

static void when(int now, int layer) {
  if (now == place && layer == LAYER && !written) rewrite();
}

/* --- a backend that looks on -------------------------------------------- */

static int layer_now;

static void begin(kv_store *s, const kv_layer_data *data) {
  layer_now = data->layer;
  when(AFTER_LOOK, layer_now);
  real->begin(s, data);
}

static void append(kv_store *s, int lane, int first, int count, kv_scratch *x) {
  if (first == PROMPT) when(AFTER_PROMPT, layer_now);
  if (first == AT_STEP) when(AMID, layer_now);
  real->append(s, lane, first, count, x);
}

static const kv_backend *wrap(const kv_backend *b) {
  real = b;
  wrapped = *b;
  wrapped.begin = begin;
  wrapped.append = append;
  return &wrapped;
}

/* These take the place of gpu/host/backends.c. */
const kv_backend *kv_backend_find(const char *name, kv_err *e) {
  if (!strcmp(name, "ref")) return wrap(&kv_backend_ref);
  if (!strcmp(name, "emu")) return wrap(&kv_backend_emu);
  kv_fail(e, KV_USAGE, "no backend is called '%s'", name);
  return NULL;
}

int kv_backends_default(const kv_backend **out, int room) {
  assert_true(room >= 1);
  out[0] = &kv_backend_ref;
  return 1;
}

/* --- what is said of it ------------------------------------------------- */

static void fresh(void) {
  static const struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
  tracefile_write(NULL, 0, NULL, 0);
  assert_int_equal(utimensat(AT_FDCWD, tracefile, old, 0), 0);
  unlink(db);
  written = false;
}

static int run(const char *backend, const char *method) {
  const char *const words[] = {"run", "-q", tracefile, "-m",    method,
                               "-b",  "4",  "-B",      backend, "--db",
                               db,    "-j", "1",       NULL};
  return command_call(kv_commands_call, words);
}

static void one(const char *backend, const char *method) {
  fresh();
  int code = run(backend, method);
  if (!written) fail_msg("exit %d, nothing was written: %s", code, said);
  if (code != 3 || !strstr(said, "t.safetensors: ") ||
      !strstr(said, "rewritten while it was read") ||
      strchr(said, '\n') != said + strlen(said) - 1)
    fail_msg("%s on %s, %s of %08x at place %d: exit %d: %s", method, backend,
             part, number, place, code, said);
  if (number_in(db, "SELECT count(*) FROM run") != 0)
    fail_msg("%s on %s: something was stored", method, backend);
}

/* Fixed-point sums of what is no number wrap around, on which no answer
 * depends; a sanitizer of signed overflow would stop at them. So, under one,
 * only the methods and kernels without scalar sums. */
#ifdef __SANITIZE_ADDRESS__
enum { SCALAR_SUMS = 0 };
static const char methods[] = "dense,window,streamingllm,oracle-topp:p=0.5";
#else
enum { SCALAR_SUMS = 1 };
static const char methods[] = "all,quest:skip=0:page=4,oracle-topp:p=0.5,"
                              "kivi:residual=4:group=4";
#endif

static void every(const char *backend, const char *isa, int strides, int n) {
  static const char *const parts[] = {"kvq", "k", "v", "q"};
  static const uint32_t numbers[] = {0, 0x7fc00000, 0xff800000};
  setenv("KVREPLAY_ISA", isa, 1);
  for (int i = 0; i < PLACES * strides * n * 3; i++) {
    place = i % PLACES;
    stride = i / PLACES % strides ? 61 : 1;
    part = parts[i / PLACES / strides % n];
    number = numbers[i / PLACES / strides / n];
    one(backend, methods);
  }
}

/* Each set of kernels has a way of its own with what is no number. */
TEST(test_ref) {
  if (SCALAR_SUMS) every("ref", "portable", 2, 4);
  every("ref", "", 2, 4);
}

TEST(test_emu) { every("emu", "", 1, 1); }

/* A logit that is none makes the layer be looked at again. The keys of a tile
 * of steps are read before the first of them, and what is written later is in
 * none of its logits: so each row by itself. */
TEST(test_secretly) {
  assert_int_equal(setenv("KVREPLAY_TILE", "1", 1), 0);
  secretly = true;
  stride = 1;
  part = "k";
  number = 0x7fc00000;
  for (place = 0; place < PLACES; place++)
    one("ref", SCALAR_SUMS ? "h2o,window" : "dense,window");
  part = "q";
  place = AMID;
  one("ref", "dense");
  secretly = false;
  assert_int_equal(unsetenv("KVREPLAY_TILE"), 0);
}

int main(void) {
  if (scratch_make(NULL)) return 1;
  snprintf(db, sizeof db, "%s", scratch_path("rows.db"));
  int failed = tests_run("rewritten", NULL, NULL);
  scratch_remove(NULL);
  return failed;
}
