/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening the database for evaluations, and finding them: contract in
 * sim/store/evaluation.h.
 */
#include "sim/store/evaluation_part.h"

#include "ref/kernels/kernels.h"
#include <stdlib.h>
#include <string.h>

int kv_evaluation_abi(void) { return KV_EVALUATION_ABI; }

kv_rc kv_evaluations_open(const char *path, const char *command,
                          kv_evaluations **out, kv_err *e) {
  if (!out) return kv_fail(e, KV_USAGE, "the pointer for the handle is NULL");
  *out = NULL;
  if (!path) return kv_fail(e, KV_USAGE, "evaluations need a database's path");
  kv_evaluations *s = kv_zalloc(1, sizeof *s);
  if (!s) return kv_no_memory(e, "a database of evaluations", sizeof *s);
  char *words[] = {(char *)kv_evaluation_text(command), NULL};
  kv_environment_look(kv_kernels_best()->name, 1, words, &s->where);
  kv_rc rc = kv_db_open(path, &s->db, e);
  if (rc)
    free(s);
  else
    *out = s;
  return rc;
}

void kv_evaluation_forget(kv_evaluation_read *read) {
  for (int i = 0; i < read->texts; i++) free(read->text[i]);
  free(read->text);
  free(read->token);
  free(read->value);
  *read = (kv_evaluation_read){0};
}

void kv_evaluations_close(kv_evaluations *s) {
  if (!s) return;
  kv_evaluation_forget(&s->last);
  kv_db_close(s->db);
  free(s);
}

kv_rc kv_evaluations_none(kv_err *e) {
  return kv_fail(e, KV_USAGE,
                 "there is no database; kv_evaluations_open opens one");
}

/* A copy of a text of the current row; NULL: no memory. */
static const char *keep(kv_evaluation_read *to, const char *text) {
  char **list = realloc(to->text, (size_t)(to->texts + 1) * sizeof *list);
  if (!list) return NULL;
  to->text = list;
  list[to->texts] = strdup(text);
  return list[to->texts] ? list[to->texts++] : NULL;
}

/* Copies the tokens in that column; false: no memory. */
static bool keep_tokens(sqlite3_stmt *s, int at, kv_evaluation *r,
                        kv_evaluation_read *to) {
  size_t n = (size_t)sqlite3_column_bytes(s, at);
  r->n_said = 0;
  r->said_tokens = NULL;
  if (sqlite3_column_type(s, at) == SQLITE_NULL) return true;
  to->token = malloc(n + 1);
  if (!to->token) return false;
  memcpy(to->token, sqlite3_column_blob(s, at), n);
  r->n_said = (int32_t)(n / sizeof *to->token);
  r->said_tokens = to->token;
  return true;
}

static kv_rc load_row(kv_db *db, int64_t id, kv_evaluation *r,
                      kv_evaluation_read *to, kv_err *e) {
  enum { TEXTS = 10 };
  const char **text[TEXTS] = {
      &r->model,         &r->spec, &r->budget,  &r->status, &r->reason,
      &r->answer_digest, &r->said, &r->context, &r->asked,  &r->reference};
  sqlite3_stmt *s;
  bool whole = true;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT m.model, spec, budget, status, reason,"
                        " coalesce(answer, ''), said, q.context, q.asked,"
                        " q.reference, said_tokens FROM evaluation"
                        " JOIN question q USING (question)"
                        " JOIN model m USING (model_digest)"
                        " WHERE evaluation_id = ?",
                        "i", id);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  for (int i = 0; i < TEXTS; i++) {
    bool none = sqlite3_column_type(s, i) == SQLITE_NULL;
    *text[i] = none ? NULL : keep(to, kv_db_text(db, s, i));
    whole = whole && (none || *text[i]);
  }
  whole = keep_tokens(s, TEXTS, r, to) && whole;
  rc = kv_db_done(db, s, kv_db_sound(db, "evaluation", id, e), e);
  return rc || whole ? rc : kv_no_memory(e, "an evaluation", sizeof *r);
}

static kv_rc load_values(kv_db *db, int64_t id, kv_evaluation *r,
                         kv_evaluation_read *to, kv_err *e) {
  sqlite3_stmt *s;
  int64_t n = 0;
  kv_rc rc = kv_db_one(db, &n, e,
                       "SELECT count(*) FROM evaluated WHERE evaluation_id = ?",
                       "i", id);
  if (!rc)
    rc = kv_db_bind(db, &s, e,
                    "SELECT name, value FROM evaluated WHERE evaluation_id = ?"
                    " ORDER BY name",
                    "i", id);
  if (rc) return rc;
  r->n_values = 0;
  r->value = to->value = kv_zalloc((size_t)n + 1, sizeof *to->value);
  bool whole = to->value != NULL;
  while (whole && r->n_values < n && kv_db_row(db, s, &rc, e)) {
    kv_evaluated *x = to->value + r->n_values++;
    x->name = keep(to, kv_db_text(db, s, 0));
    x->value = kv_db_number(db, s, 1);
    whole = x->name != NULL;
  }
  if (!rc) rc = kv_db_sound(db, "evaluated", id, e);
  rc = kv_db_done(db, s, rc, e);
  return rc || whole ? rc : kv_no_memory(e, "an evaluation", sizeof *r);
}

kv_rc kv_evaluation_load(kv_db *db, int64_t id, kv_evaluation *r,
                         kv_evaluation_read *to, kv_err *e) {
  kv_rc rc = load_row(db, id, r, to, e);
  return rc ? rc : load_values(db, id, r, to, e);
}

kv_rc kv_db_evaluations(kv_db *db, int64_t *n, kv_err *e) {
  *n = 0;
  return kv_db_one(db, n, e, "SELECT count(*) FROM evaluation", "");
}

kv_rc kv_evaluation_id(kv_db *db, const char *key, int64_t *id, kv_err *e) {
  *id = 0;
  return kv_db_one(db, id, e,
                   "SELECT evaluation_id FROM evaluation WHERE key = ?", "s",
                   key);
}

kv_rc kv_evaluations_find(kv_evaluations *s, kv_evaluation *r, int *found,
                          kv_err *e) {
  kv_evaluation_name name;
  int64_t id = 0;
  if (!s) return kv_evaluations_none(e);
  *found = 0;
  kv_rc rc = kv_evaluation_name_of(r, &name, e);
  kv_evaluation_forget(&s->last);
  if (!rc) rc = kv_evaluation_id(s->db, name.key, &id, e);
  if (rc || !id) return rc;
  kv_evaluation row = *r;
  rc = kv_evaluation_load(s->db, id, &row, &s->last, e);
  if (rc) return rc;
  *r = row;
  *found = 1;
  return KV_OK;
}
