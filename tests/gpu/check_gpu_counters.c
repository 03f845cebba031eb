/* SPDX-License-Identifier: Apache-2.0
 *
 * What every method asks of a device, by phase of a replay, beside the table
 * tests/gpu/counters.tsv: none may rise unseen. text_400 with the weights of
 * the methods that have some, each method alone. Only counts, no clock: the
 * table is the same for any compiler, machine and order of threads.
 *
 *   check_gpu_counters                   compares
 *   check_gpu_counters --update          writes the table
 *   check_gpu_counters TRACE P METHOD..  prints rows of the table for another
 *                                        trace, of whose tokens the first P are
 *                                        the prompt
 *
 * Exit 77 without the executor.
 */
#include "gpu/host/backends.h"
#include "sim/ask/spec.h"
#include "sim/replay/engine/replay.h"
#include "tests/laws/cells.h"
#include "tests/support/backend/gpumeter.h"
#include "tests/support/bundled.h"
#include "tests/support/little.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A quarter of the prompt is kept, and every method compresses. 48 steps:
 * kivi codes once more. */
enum { PROMPT = 352, SHARE = 4, MOST_ROWS = 256, COUNTERS = 8 };

/* Beside every method's defaults: other ways to code or merge a prompt. */
static const char further[] =
    "leankv:variant=paper,quant:k=q4_0:v=q4_0,"
    "quant:k=int4:v=int2:groups=2,zsmerge:variant=code,"
    "deltakv:refs=recon,snapkv+quant:k=int4:v=int4";

static const char *const counters[COUNTERS] = {
    "launches", "waits",    "copies", "sent",
    "read",     "barriers", "fmas",   "elements"};

typedef struct row {
  char method[96], phase[16];
  int64_t n[COUNTERS];
} row;

typedef struct rows {
  int n;
  row row[MOST_ROWS];
} rows;

/* gpu/order.cc */
void kernels_counted(uint64_t *of);

static const kv_backend *metered(void) {
  return gpumeter_backend(&kv_backend_emu, kv_device_emu(), 0, NULL,
                          kernels_counted);
}

/* --- counting ------------------------------------------------------------- */

static void add_rows(const char *method, const gpumeter_count *c, rows *to) {
  for (int p = 0; p < GPUMETER_PHASES; p++, c++) {
    row *r = &to->row[to->n++];
    assert_true(to->n <= MOST_ROWS);
    snprintf(r->method, sizeof r->method, "%s", method);
    snprintf(r->phase, sizeof r->phase, "%s", gpumeter_phases[p]);
    int64_t n[COUNTERS] = {(int64_t)c->kernels[0],
                           c->waits,
                           c->copies,
                           c->sent,
                           c->read,
                           (int64_t)c->kernels[1],
                           (int64_t)c->kernels[2],
                           (int64_t)c->kernels[3]};
    memcpy(r->n, n, sizeof n);
  }
}

/* Replays one method on the metered executor. */
static void count_method(const kv_trace *t, int prompt, const char *text,
                         rows *to) {
  kv_cell cell, *each = &cell;
  kv_replay_how how = {.backend = metered(), .threads = 1};
  int entries = prompt / SHARE;
  cells_must(kv_method_at, t, prompt, text, entries, &cell);
  cells_replay(t, 1, &each, how);
  if (!kv_result_ran(&cell.result))
    fail_msg("%s: %s", text, cell.result.reason);
  const gpumeter_count *c = gpumeter_of(&cell.plan);
  assert_non_null(c);
  add_rows(text, c, to);
  kv_cell_close(&cell);
}

static void count_list(const kv_trace *t, const char *list, rows *to) {
  kv_specs specs = {0};
  kv_err e = {0};
  char *copy = strdup(list), *rest = copy;
  if (kv_specs_add(kv_method_at, "all", &specs, &e)) fail_msg("%s", e.text);
  for (int i = 0; i < specs.n; i += slow_step(3))
    count_method(t, PROMPT, specs.spec[i].method->name, to);
  for (char *s; (s = strsep(&rest, ","));) count_method(t, PROMPT, s, to);
  kv_specs_free(&specs);
  free(copy);
}

/* --- the table ------------------------------------------------------------ */

static void write_rows(FILE *f, const rows *all) {
  fputs(
      "# What each method needs of a device: gpu/README.md, Counters. Written "
      "by\n# check_gpu_counters --update.\nmethod\tphase",
      f);
  for (int k = 0; k < COUNTERS; k++) fprintf(f, "\t%s", counters[k]);
  fputc('\n', f);
  for (int i = 0; i < all->n; i++) {
    const row *r = &all->row[i];
    fprintf(f, "%s\t%s", r->method, r->phase);
    for (int k = 0; k < COUNTERS; k++) fprintf(f, "\t%" PRId64, r->n[k]);
    fputc('\n', f);
  }
}

static char *table_path(void) {
  const char *top = getenv("top_srcdir");
  char *path = malloc(4096);
  assert_non_null(path);
  snprintf(path, 4096, "%s/tests/gpu/counters.tsv", top ? top : ".");
  return path;
}

static FILE *table_open(const char *how) {
  char *path = table_path();
  FILE *f = fopen(path, how);
  if (!f) fail_msg("cannot open %s", path);
  free(path);
  return f;
}

/* False: the line is no row. */
static bool row_of(char *line, row *r) {
  char *rest = line, *method = strsep(&rest, "\t"),
       *phase = strsep(&rest, "\t");
  if (*line == '#' || !phase || strcmp(phase, "phase") == 0) return false;
  snprintf(r->method, sizeof r->method, "%s", method);
  snprintf(r->phase, sizeof r->phase, "%s", phase);
  for (int k = 0; k < COUNTERS; k++) {
    char *word = strsep(&rest, "\t\n");
    if (!word)
      fail_msg("%s, %s: a row of the table lacks a number", method, phase);
    r->n[k] = strtoll(word, NULL, 10);
  }
  return true;
}

static void read_table(rows *to) {
  char line[512];
  FILE *f = table_open("r");
  while (to->n < MOST_ROWS && fgets(line, sizeof line, f))
    to->n += row_of(line, &to->row[to->n]);
  fclose(f);
}

static const row *find(const rows *in, const row *like) {
  for (int i = 0; i < in->n; i++)
    if (strcmp(in->row[i].method, like->method) == 0 &&
        strcmp(in->row[i].phase, like->phase) == 0)
      return &in->row[i];
  return NULL;
}

/* Returns how many counters differ, after saying each. */
static int compare_row(const row *is, const row *was) {
  int wrong = 0;
  for (int k = 0; k < COUNTERS; k++) {
    int64_t more = is->n[k] - was->n[k];
    if (!more) continue;
    wrong++;
    printf("%s, %s: %s %s from %" PRId64 " to %" PRId64 "\n", is->method,
           is->phase, counters[k], more > 0 ? "rose" : "fell", was->n[k],
           is->n[k]);
  }
  return wrong;
}

/* Returns how many rows of `these` are not in `in`. */
static int missing(const rows *these, const rows *in, const char *where) {
  int wrong = 0;
  for (int i = 0; i < these->n; i++) {
    if (find(in, &these->row[i])) continue;
    wrong++;
    printf("%s, %s: no row %s\n", these->row[i].method, these->row[i].phase,
           where);
  }
  return wrong;
}

/* --- the whole ------------------------------------------------------------ */

static bool update;
static rows is, was;
static const char *other; /* another trace, or NULL */
static int other_prompt, others;
static char **other_method; /* [others] */

/* Fails unless each counter of `is` is the table's. */
static void compare(void) {
  int wrong = 0;
  read_table(&was);
  for (int i = 0; i < is.n; i++) {
    const row *old = find(&was, &is.row[i]);
    if (old) wrong += compare_row(&is.row[i], old);
  }
  wrong += missing(&is, &was, "in the table");
  if (!LITTLE_BUILD) wrong += missing(&was, &is, "of this replay");
  if (wrong)
    fail_msg("%d differences from tests/gpu/counters.tsv; what rose needs a "
             "reason; to write the table: top_srcdir=SOURCES "
             "tests/check_gpu_counters --update",
             wrong);
}

TEST(test_counters) {
  kv_trace *t = bundled_open("text_400.safetensors");
  count_list(t, further, &is);
  kv_trace_close(t);
  if (!update) {
    compare();
    return;
  }
  FILE *f = table_open("w");
  write_rows(f, &is);
  assert_int_equal(fclose(f), 0);
}

static void print_other(void) {
  kv_trace *t = NULL;
  kv_err e = {0};
  if (kv_trace_open(other, &t, &e)) fail_msg("%s", e.text);
  for (int i = 0; i < others; i++)
    count_method(t, other_prompt, other_method[i], &is);
  write_rows(stdout, &is);
  kv_trace_close(t);
}

int main(int argc, char **argv) {
  if (!kv_device_emu()) return 77;
  update = argc == 2 && strcmp(argv[1], "--update") == 0;
  if (argc < 4) return tests_run("gpu_counters", NULL, NULL);
  other = argv[1], other_prompt = atoi(argv[2]);
  other_method = argv + 3, others = argc - 3;
  print_other();
  return 0;
}
