/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: whatever a database holds, reading it ends with a sentence
 * or with text that is what it says it is: JSON, CSV in UTF-8, a page without
 * a tag of its own making. Read are the page, all forms of the table, the
 * union with another database, and the rows as `kvreplay verify` and `run`
 * read them.
 *
 * The first byte of the input says which of these. The rest changes a good
 * database: values of cells, of any type in any column, and bytes of pages;
 * see edit() for what a byte means.
 */
#define _GNU_SOURCE 1
#include "analysis/commands.h"
#include "analysis/database/say.h"
#include "analysis/tables/grid_write.h"
#include "ref/ground/text.h"
#include "sim/cli/show/rows.h"
#include "sim/store/db_private.h"
#include "tests/support/rows.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROWS = 9, COLUMNS = 40, MOST_EDITS = 24 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static char folder[64] = "/dev/shm/kv_fuzz_XXXXXX", path[80], other[80];
static char made[80];
static unsigned char *good; /* the database, without STRICT */
static sqlite3_int64 good_size;
static int output = -1; /* of what is read, in memory */

static void must(int right) {
  if (!right) abort();
}

/* --- the good database -------------------------------------------------- */

/* Of the made-up row a few parts of each kind and a few steps. */
static kv_result small_row(int i) {
  static const int method[ROWS] = {0, 2, 2, 4, 4, 7, 9, 12, 13};
  static const int part[] = {0, 1, 4, 9, 20, 21};
  kv_result r = kv_rows_make(i % 2 + 1, method[i], i % 4, "avx2", 2);
  for (int k = 0; k < 6; k++) r.part[k] = r.part[part[k]];
  r.n_parts = 6;
  r.n_steps = 3;
  if (i == 7) r.status = KV_CELL_REFUSED;
  return r;
}

/* A pool with one request, which was refused. */
static void put_pool(kv_db *db, kv_result *r) {
  const kv_result *of = r;
  r->together = (kv_together_result){.there = 1, .ends = 9, .refused = 8};
  r->together.pool = (kv_pool_result){.layout = "unified", .bytes = 4096};
  must(kv_db_put_pool(db, 1, &of, 1, &(kv_pool_step){0}, NULL) == KV_OK);
}

static void put_rows(const char *name) {
  kv_environment v = kv_rows_environment(1);
  kv_db *db;
  must(kv_db_open(name, &db, NULL) == KV_OK);
  for (int i = 0; i < ROWS; i++) {
    kv_result r = small_row(i);
    must(kv_db_put(db, &r, &v, NULL) == KV_OK);
    if (i == 3)
      must(kv_db_put_theirs(db, &r, &v, "mine", 1, "view", NULL) == KV_OK);
    if (!i) put_pool(db, &r);
    r.output.byte[0] ^= i == 4;
    must(kv_db_put(db, &r, &v, NULL) == (i == 4 ? KV_DIFFERENT : KV_OK));
    kv_result_free(&r);
  }
  kv_db_close(db);
}

static void run(sqlite3 *db, const char *sql) {
  must(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
}

/* Columns without STRICT take values of every type, and small pages stand for
 * more of what a page can be. */
static void take_image(void) {
  sqlite3 *db;
  must(!sqlite3_open(path, &db));
  run(db,
      "INSERT INTO figure SELECT identity, 'attention.rows', 0, 1, '', '',"
      " 0, 0, 9 FROM trace;"
      "INSERT INTO figure SELECT identity, 'selection.map', 0, -1, 'snapkv',"
      " '', 3, 60, zeroblob(256) FROM trace;"
      "INSERT INTO compressor VALUES (printf('%064d', 7), 'w', 'gelu', 8, 4,"
      " 4, 512, NULL, 'nearest');");
  run(db, "PRAGMA page_size = 512; VACUUM; PRAGMA writable_schema = ON;"
          "UPDATE sqlite_schema SET sql = replace(sql, 'STRICT, WITHOUT',"
          " 'WITHOUT'); UPDATE sqlite_schema SET sql ="
          " replace(sql, ') STRICT', ')')");
  sqlite3_close(db);
  must(!sqlite3_open(path, &db));
  good = sqlite3_serialize(db, "main", &good_size, 0);
  sqlite3_close(db);
  must(good != NULL);
}

static void leave(void) {
  unlink(path);
  unlink(other);
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  if (!mkdtemp(folder)) {
    strcpy(folder, "/tmp/kv_fuzz_XXXXXX");
    must(mkdtemp(folder) != NULL);
  }
  atexit(leave);
  snprintf(path, sizeof path, "%s/r.db", folder);
  snprintf(other, sizeof other, "%s/other.db", folder);
  snprintf(made, sizeof made, "%s/made.db", folder);
  put_rows(path);
  put_rows(other);
  take_image();
  output = memfd_create("output", MFD_CLOEXEC);
  stderr = fopen("/dev/null", "w"); /* libFuzzer has its own */
  must(output >= 0 && stderr);
  return 0;
}

/* --- edits -------------------------------------------------------------- */

typedef struct source {
  const uint8_t *at, *end;
} source;

static int next(source *s) { return s->at < s->end ? *s->at++ : 0; }

static int64_t next64(source *s) {
  uint64_t x = 0;
  for (int i = 0; i < 8; i++) x = x << 8 | (uint64_t)next(s);
  return (int64_t)x;
}

/* A value of any type: whole numbers at the edges first. */
static void bind(source *s, sqlite3_stmt *to) {
  static const int64_t edge[] = {-1,         0,         INT32_MAX, 1L << 31,
                                 1L << 32,   INT64_MAX, INT64_MIN, -2,
                                 4294967297, 4095};
  static const double real[] = {0, -0.0, 1e308, -1e308, 5e-324, 1e30, HUGE_VAL};
  int kind = next(s), length;
  if (kind < 10)
    sqlite3_bind_int64(to, 1, edge[kind]);
  else if (kind < 17)
    sqlite3_bind_double(to, 1, real[kind - 10]);
  else if (kind < 40)
    sqlite3_bind_int64(to, 1, next64(s));
  else if (kind < 60)
    sqlite3_bind_double(to, 1, kv_db_real(next64(s)));
  else if (kind < 70)
    sqlite3_bind_null(to, 1);
  else if (kind < 80)
    sqlite3_bind_text(to, 1, "\"><script>alert(1)</script>\x1b[31m\xff,\n", -1,
                      SQLITE_STATIC);
  else {
    length = next(s);
    if (length > s->end - s->at) length = (int)(s->end - s->at);
    if (kind % 2)
      sqlite3_bind_text(to, 1, (const char *)s->at, length, SQLITE_TRANSIENT);
    else
      sqlite3_bind_blob(to, 1, s->at, length, SQLITE_TRANSIENT);
    s->at += length;
  }
}

/* Name of a column of a table, and of the first of its key; false: none. */
static bool name_column(sqlite3 *db, const char *table, int n, char column[32],
                        char key[32]) {
  sqlite3_stmt *s;
  char name[COLUMNS + 20][32], *sql;
  int columns = 0;
  sql = sqlite3_mprintf("SELECT name FROM pragma_table_info(%Q)", table);
  must(!sqlite3_prepare_v2(db, sql, -1, &s, NULL));
  while (sqlite3_step(s) == SQLITE_ROW && columns < COLUMNS + 20)
    snprintf(name[columns++], 32, "%s", sqlite3_column_text(s, 0));
  sqlite3_finalize(s);
  sqlite3_free(sql);
  if (!columns) return false;
  strcpy(column, name[n % columns]);
  strcpy(key, name[0]);
  return true;
}

static void change_cell(source *s, sqlite3 *db) {
  static const char *const tables[] = {
      "run",         "trace",        "part",           "metric", "ask",
      "step_cost",   "held",         "journal_digest", "budget", "diff",
      "environment", "confirmation", "shard",          "layout", "layout_step",
      "artefact",    "pool",         "request",        "figure", "compressor"};
  const char *table = tables[next(s) % 20];
  char column[32], key[32], *sql;
  sqlite3_stmt *update;
  int which = next(s), row = next(s);
  if (!name_column(db, table, which, column, key)) return;
  sql = sqlite3_mprintf("UPDATE %s SET \"%w\" = ?1 WHERE %s = (SELECT %s FROM"
                        " %s LIMIT 1 OFFSET %d)",
                        table, column, key, key, table, row % 16);
  if (!sqlite3_prepare_v2(db, sql, -1, &update, NULL)) {
    bind(s, update);
    sqlite3_step(update); /* a key that is there stays as it is */
  }
  sqlite3_finalize(update);
  sqlite3_free(sql);
}

/* Some bytes of the file: of its head, or anywhere. */
static void change_page(source *s, unsigned char *image, int64_t size) {
  int64_t at = next(s) << 8 | next(s), where = next(s);
  int length = next(s) % 16 + 1;
  if (where & 1) at = (at << 4) + where;
  for (int i = 0; i < length; i++) image[(at + i) % size] = (uint8_t)next(s);
}

/* Each edit begins with a byte: under 200 a cell, else bytes of pages; these
 * are changed last. */
static void edit(source s) {
  unsigned char *image = sqlite3_malloc64((uint64_t)good_size), *pages;
  source again = s;
  sqlite3_int64 size;
  sqlite3 *db = NULL;
  FILE *f;
  must(image && !sqlite3_open(":memory:", &db));
  memcpy(image, good, (size_t)good_size);
  must(!sqlite3_deserialize(db, "main", image, good_size, good_size,
                            SQLITE_DESERIALIZE_FREEONCLOSE |
                                SQLITE_DESERIALIZE_RESIZEABLE));
  run(db, "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF");
  for (int i = 0; i < MOST_EDITS && s.at < s.end && next(&s) < 200; i++)
    change_cell(&s, db);
  pages = sqlite3_serialize(db, "main", &size, 0);
  must(pages != NULL);
  sqlite3_close(db);
  again.at = s.at;
  for (int i = 0; i < MOST_EDITS && again.at < again.end; i++)
    change_page(&again, pages, size);
  f = fopen(path, "wb");
  must(f && fwrite(pages, 1, (size_t)size, f) == (size_t)size && !fclose(f));
  sqlite3_free(pages);
}

/* --- reading ------------------------------------------------------------ */

/* What was written, with a 0 behind it. */
static char *written(void) {
  off_t n = lseek(output, 0, SEEK_END);
  char *text = malloc((size_t)n + 1);
  must(text && pread(output, text, (size_t)n, 0) == n);
  text[n] = 0;
  must(!ftruncate(output, 0));
  return text;
}

static bool is_clean(const char *text) {
  bool clean = kv_utf8_valid(strlen(text), (const unsigned char *)text);
  for (; *text && clean; text++)
    clean = *text == '\n' || ((unsigned char)*text >= 0x20 && *text != 0x7f);
  return clean;
}

static void look_at(const kv_args *a, bool page) {
  char *text = written();
  must(is_clean(text));
  char *script = page ? strstr(text, "<script>") : NULL; /* its own alone */
  if (page)
    must(script && !strstr(script + 1, "<script") && strstr(script, "</html>"));
  if (a->format == KV_JSON && !page) {
    json_t *rows = json_loads(text, 0, NULL);
    must(json_is_array(rows));
    json_decref(rows);
  }
  free(text);
}

static void report(int (*command)(const kv_args *), kv_args a) {
  char file[32];
  const char *files[] = {path};
  int rc;
  snprintf(file, sizeof file, "/dev/fd/%d", output);
  a.output = file;
  a.files = (kv_list){1, files};
  kv_said_forget();
  rc = command(&a);
  must(rc == KV_EXIT_OK || rc == KV_EXIT_INPUT || rc == KV_EXIT_RESOURCE);
  if (rc == KV_EXIT_OK)
    look_at(&a, command == kv_report_html);
  else
    must(!ftruncate(output, 0));
}

static void merge(void) {
  const char *files[] = {made, other, path};
  kv_args a = {.files = {3, files}};
  kv_said_forget();
  int rc = kv_report_merge(&a);
  must(rc == KV_EXIT_OK || rc == KV_EXIT_DIFFERENT || rc == KV_EXIT_INPUT ||
       rc == KV_EXIT_RESOURCE);
  must(!unlink(made) == (rc == KV_EXIT_OK));
}

static void write_rows(const kv_result *r, FILE *f) {
  for (int form = 0; form < 4; form++) {
    kv_row_writer *w;
    must(kv_row_writer_open((kv_row_format)form, f, false, &w, NULL) == KV_OK);
    must(kv_row_writer_add(w, r, NULL) == KV_OK);
    must(kv_row_writer_close(w, NULL) == KV_OK);
  }
}

static void sentence(kv_rc rc, const kv_err *e) {
  must(rc == KV_OK || rc == KV_INPUT || rc == KV_RESOURCE ||
       rc == KV_DIFFERENT);
  must(rc == KV_OK || (e->text[0] && !strpbrk(e->text, "\n\r\x1b")));
}

/* All rows, as `kvreplay verify` reads them. */
static void list_rows(kv_db *db, FILE *f) {
  char key[65] = "", value[65], file[64];
  bool more = true;
  for (int rows = 0; more; rows++) {
    kv_result r;
    kv_err e = {0};
    kv_rc rc = kv_db_next(db, key, &r, &more, &e);
    must(rows <= ROWS);
    sentence(rc, &e);
    if (rc || !more) return;
    kv_db_value(&r, value);
    write_rows(&r, f);
    kv_db_path(db, &r.identity, 0, sizeof file, file, NULL);
    kv_result_free(&r);
  }
}

/* As `kvreplay run` finds what it would compute, and stores it again. */
static void run_again(kv_db *db) {
  kv_environment v = kv_rows_environment(2);
  for (int i = 0; i < ROWS; i += 3) {
    kv_result r = small_row(i), there = r;
    kv_err e = {0};
    bool found;
    int budget;
    kv_rc rc = kv_db_find(db, &there, &found, &e);
    sentence(rc, &e);
    if (there.part != r.part)
      kv_result_forget(&there); /* what was loaded; names are of r */
    rc = kv_db_find_budget(db, &r, &found, &budget, &e);
    sentence(rc, &e);
    rc = kv_db_put(db, &r, &v, &e);
    sentence(rc, &e);
    kv_result_free(&r);
  }
}

static void replay(void) {
  FILE *f = fopen("/dev/null", "w");
  kv_db *db;
  kv_err e = {0};
  kv_rc rc = kv_db_open(path, &db, &e);
  must(f != NULL);
  sentence(rc, &e);
  if (!rc) list_rows(db, f);
  if (!rc) run_again(db);
  kv_db_close(db);
  fclose(f);
}

static void page(void) { report(kv_report_html, (kv_args){0}); }
static void table(void) { report(kv_report_table, (kv_args){0}); }
static void means(void) { report(kv_report_table, (kv_args){.mean = true}); }
static void history(void) { report(kv_report_history, (kv_args){0}); }
static void csv(void) {
  report(kv_report_table, (kv_args){.format = KV_CSV, .history = true});
}
static void json(void) {
  report(kv_report_table, (kv_args){.format = KV_JSON});
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  static void (*const read[])(void) = {page, page,  table,  means, history, csv,
                                       json, merge, replay, page,  replay};
  source s = {bytes, bytes + n};
  int how = next(&s) % (int)(sizeof read / sizeof *read);
  edit(s);
  read[how]();
  return 0;
}
