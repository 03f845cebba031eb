/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading one value of a row. A file may contain anything: if a column holds a
 * value that kv_db_put never writes, its name is remembered and reported when
 * the row is done, and a harmless value is returned instead.
 */
#include "sim/store/db_private.h"
#include "traces/text/json.h"

#include <stdio.h>
#include <string.h>

static void note(kv_db *db, sqlite3_stmt *s, int at) {
  const char *column = sqlite3_column_name(s, at);
  if (sqlite3_errcode(db->sql) == SQLITE_NOMEM)
    return;        /* reported by kv_db_done */
  if (!*db->wrong) /* only the first is reported */
    snprintf(db->wrong, sizeof db->wrong, "%s", column ? column : "?");
}

int64_t kv_db_whole(kv_db *db, sqlite3_stmt *s, int at, int64_t lo,
                    int64_t hi) {
  int64_t x = sqlite3_column_int64(s, at);
  if (sqlite3_column_type(s, at) == SQLITE_INTEGER && x >= lo && x <= hi)
    return x;
  note(db, s, at);
  return lo;
}

int kv_db_int(kv_db *db, sqlite3_stmt *s, int at, int lo) {
  return (int)kv_db_whole(db, s, at, lo, INT32_MAX);
}

double kv_db_double(kv_db *db, sqlite3_stmt *s, int at) {
  return kv_db_real(kv_db_whole(db, s, at, INT64_MIN, INT64_MAX));
}

double kv_db_number(kv_db *db, sqlite3_stmt *s, int at) {
  if (sqlite3_column_type(s, at) == SQLITE_FLOAT)
    return sqlite3_column_double(s, at);
  note(db, s, at);
  return 0;
}

const char *kv_db_text(kv_db *db, sqlite3_stmt *s, int at) {
  const char *text = (const char *)sqlite3_column_text(s, at);
  if (text && sqlite3_column_type(s, at) == SQLITE_TEXT) return text;
  note(db, s, at);
  return "";
}

const char *kv_db_object(kv_db *db, sqlite3_stmt *s, int at) {
  const char *text = kv_db_text(db, s, at);
  bool no_memory;
  json_error_t why;
  json_t *object =
      kv_json_load(strlen(text), (const unsigned char *)text, &no_memory, &why);
  bool is = json_is_object(object);
  json_decref(object);
  if (is || no_memory) return text;
  note(db, s, at);
  return "{}";
}

int kv_db_name(kv_db *db, sqlite3_stmt *s, int at, int n,
               const char *const *names) {
  const char *text = kv_db_text(db, s, at);
  for (int i = 0; i < n; i++)
    if (!strcmp(text, names[i])) return i;
  note(db, s, at);
  return 0;
}

void kv_db_take(kv_db *db, sqlite3_stmt *s, kv_db_id table, void *out) {
  int at = 0;
  for (const kv_db_column *c = kv_db_table_list[table]->column; c->name;
       c++, at++) {
    char *to = (char *)out + c->offset;
    int64_t whole = -1;
    if (c->type == 'n') {
      int n = kv_db_int(db, s, at, (int)c->least);
      memcpy(to, &n, sizeof n);
    }
    if (c->type == 'd')
      whole = kv_db_whole(db, s, ++at, INT64_MIN, INT64_MAX);
    else if (c->type == 'i' ||
             (c->type == 'o' && sqlite3_column_type(s, at) != SQLITE_NULL))
      whole = kv_db_whole(db, s, at, c->least, INT64_MAX);
    if (c->type && c->type != 'n') memcpy(to, &whole, sizeof whole);
  }
}

void kv_db_bytes(int n, const int32_t *x, unsigned char *out) {
  for (int i = 0; i < 4 * n; i++)
    out[i] = (unsigned char)((uint32_t)x[i / 4] >> i % 4 * 8);
}

static int nibble(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool kv_digest_read(const char *hex, kv_digest *d) {
  memset(d, 0, sizeof *d);
  if (!hex || strlen(hex) != 64) return false;
  for (int i = 0; i < 32; i++) {
    int high = nibble(hex[2 * i]), low = nibble(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    d->byte[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

void kv_db_digest(kv_db *db, sqlite3_stmt *s, int at, kv_digest *d) {
  const char *hex = (const char *)sqlite3_column_text(s, at);
  if (!kv_digest_read(hex, d)) note(db, s, at);
}

kv_rc kv_db_sound(kv_db *db, const char *table, int64_t run, kv_err *e) {
  char column[sizeof db->wrong];
  if (!*db->wrong) return KV_OK;
  memcpy(column, db->wrong, sizeof column);
  *db->wrong = 0;
  return kv_fail(e, KV_INPUT,
                 "%s is damaged: column %s of table %s has an invalid value in "
                 "a row of run_id %lld; restore it from a copy, or run the "
                 "cells again into a new file",
                 db->path, column, table, (long long)run);
}
