/* SPDX-License-Identifier: Apache-2.0
 *
 * Storing evaluations: contract in sim/db/evaluation.h. A put is one
 * transaction; where the row is there, the two are compared, as those of runs
 * are (db_write.c).
 */
#include "sim/db/evaluation_part.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- what is stored of it --------------------------------------------------
 */

static kv_rc put_value(kv_db *db, int64_t id, const kv_evaluated *x,
                       kv_err *e) {
  const char *unit, *combine;
  if (isnan(x->value)) return KV_OK;
  kv_evaluated_is(x->name, &unit, &combine);
  kv_rc rc = kv_db_do(db, e, "INSERT OR IGNORE INTO quantity VALUES (?,?,?)",
                      "sss", x->name, unit, combine);
  if (rc) return rc;
  return kv_db_do(db, e, "INSERT OR IGNORE INTO evaluated VALUES (?,?,?)",
                  "isr", id, x->name, x->value);
}

static kv_rc put_values(kv_db *db, int64_t id, const kv_evaluation *r,
                        kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_values && !rc; i++)
    rc = put_value(db, id, r->value + i, e);
  return rc;
}

/* The model's name is not part of any digest: the lesser of two stays. */
static kv_rc put_asked(kv_db *db, const kv_evaluation_name *n,
                       const kv_evaluation *r, kv_err *e) {
  kv_rc rc = kv_db_do(db, e,
                      "INSERT INTO model VALUES (?,?) ON CONFLICT"
                      " (model_digest) DO UPDATE SET"
                      " model = min(model, excluded.model)",
                      "ss", n->model, r->model);
  if (!rc)
    rc = kv_db_do(db, e,
                  "INSERT OR IGNORE INTO question VALUES (?,?,?,?,?,?,?,?)",
                  "ssssnsnn", n->question, n->model, r->task, r->item,
                  r->question, r->request_digest, r->prompt_len, r->tokens);
  if (rc) return rc;
  return kv_db_do(db, e, "INSERT OR IGNORE INTO platform VALUES (?,?,?,?,?,?)",
                  "ssssns", n->platform, r->torch, r->transformers,
                  r->processor, r->threads, r->dtype);
}

/* Null where nothing was answered. */
static const char *answer(const kv_evaluation *r) {
  return *kv_evaluation_text(r->answer_digest) ? r->answer_digest : NULL;
}

static kv_rc put_new(kv_db *db, const kv_evaluation_name *n,
                     const kv_evaluation *r, int64_t *id, kv_err *e) {
  kv_rc rc = put_asked(db, n, r, e);
  if (!rc)
    rc = kv_db_do(db, e,
                  "INSERT INTO evaluation VALUES"
                  " (NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                  "ssssnsnsssssss", n->key, n->question, n->platform, r->method,
                  n->revision, n->code, n->arithmetic,
                  kv_evaluation_text(r->basis), kv_evaluation_text(r->target),
                  kv_evaluation_text(r->spec), kv_evaluation_text(r->budget),
                  r->status, kv_evaluation_text(r->reason), answer(r));
  if (rc) return rc;
  *id = sqlite3_last_insert_rowid(db->sql);
  return put_values(db, *id, r, e);
}

/* --- comparing -------------------------------------------------------------
 */

static bool compare_texts(const kv_evaluation *a, const kv_evaluation *b,
                          char where[KV_DB_WHERE]) {
  const char *const text[][3] = {
      {"its status", a->status, b->status},
      {"its specification", a->spec, b->spec},
      {"its budget", a->budget, b->budget},
      {"the digest of its answer", a->answer_digest, b->answer_digest}};
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    const char *now = kv_evaluation_text(text[i][2]);
    if (!strcmp(text[i][1], now)) continue;
    snprintf(where, KV_DB_WHERE, "%s is %.90s before and %.90s now", text[i][0],
             *text[i][1] ? text[i][1] : "none", *now ? now : "none");
    return true;
  }
  return false;
}

/* By name; what only one of them has is no difference. */
static void compare(const kv_evaluation *a, const kv_evaluation *b,
                    char where[KV_DB_WHERE]) {
  *where = 0;
  if (compare_texts(a, b, where)) return;
  for (int i = 0; i < a->n_values; i++)
    for (int j = 0; j < b->n_values; j++) {
      const kv_evaluated *x = a->value + i, *y = b->value + j;
      if (strcmp(x->name, y->name) || isnan(y->value) ||
          kv_db_bits(x->value) == kv_db_bits(y->value))
        continue;
      snprintf(where, KV_DB_WHERE, "%.80s is %.17g before and %.17g now",
               x->name, x->value, y->value);
      return;
    }
}

static void tell(const kv_db *db, const kv_evaluation *r, const char *where,
                 kv_err *conflict) {
  kv_fail(conflict, KV_DIFFERENT,
          "%.80s %s%.40s on question %d of %.60s contradicts %.60s on the same "
          "platform: %s",
          r->method, *kv_evaluation_text(r->target) ? "at " : "",
          kv_evaluation_text(r->target), r->question, r->item, db->path, where);
}

/* The row is there: confirms it, or stores and tells a conflict. */
static kv_rc check(kv_evaluations *s, int64_t id, int64_t env,
                   const kv_evaluation *r, kv_err *conflict, kv_err *e) {
  kv_evaluation before = *r;
  kv_evaluation_read read = {0};
  char where[KV_DB_WHERE];
  kv_rc rc = kv_evaluation_load(s->db, id, &before, &read, e);
  if (rc) goto out;
  compare(&before, r, where);
  if (!*where) {
    rc = put_values(s->db, id, r, e);
  } else {
    tell(s->db, r, where, conflict);
    rc = kv_db_do(s->db, e,
                  "INSERT OR IGNORE INTO evaluation_diff VALUES (?,?,?,?,?)",
                  "iisss", id, env, where, r->status, answer(r));
  }
out:
  kv_evaluation_forget(&read);
  return rc;
}

/* --- putting ---------------------------------------------------------------
 */

static kv_rc check_value(const kv_evaluation *r, int i, kv_err *e) {
  const kv_evaluated *x = r->value + i;
  const char *unit, *combine, *name = kv_evaluation_text(x->name);
  if (!kv_evaluated_is(name, &unit, &combine))
    return kv_fail(e, KV_USAGE,
                   "an evaluation has no number of the name %.60s: "
                   "kv_evaluation_number lists those it may have",
                   name);
  for (int j = 0; j < i; j++)
    if (!strcmp(name, r->value[j].name))
      return kv_fail(e, KV_USAGE, "the evaluation has %.60s twice", name);
  if (isinf(x->value))
    return kv_fail(e, KV_USAGE, "%.60s of the evaluation is infinite", name);
  return KV_OK;
}

static kv_rc check_answer(const kv_evaluation *r, kv_err *e) {
  const char *status = kv_evaluation_text(r->status);
  kv_digest d;
  if (strcmp(status, "ok") && strcmp(status, "refused") &&
      strcmp(status, "failed"))
    return kv_fail(e, KV_USAGE,
                   "the evaluation's status is '%.40s' and none of ok, refused "
                   "and failed",
                   status);
  if (answer(r) && !kv_digest_read(answer(r), &d))
    return kv_fail(e, KV_USAGE,
                   "answer_digest is %.70s and not 64 hex digits, or \"\" for "
                   "none",
                   answer(r));
  if (r->n_values < 0 || (r->n_values && !r->value))
    return kv_fail(e, KV_USAGE, "the evaluation has %d values and no array",
                   r->n_values);
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_values && !rc; i++) rc = check_value(r, i, e);
  return rc;
}

kv_rc kv_evaluations_put(kv_evaluations *s, const kv_evaluation *r, kv_err *e) {
  kv_evaluation_name name;
  kv_err conflict = {0};
  int64_t id, env;
  if (!s) return kv_evaluations_none(e);
  kv_rc rc = kv_evaluation_name_of(r, &name, e);
  if (!rc) rc = check_answer(r, e);
  if (!rc) rc = kv_db_begin(s->db, e);
  if (rc) return rc;
  rc = kv_db_environment_row(s->db, &s->where, &env, e);
  if (!rc) rc = kv_evaluation_id(s->db, name.key, &id, e);
  if (!rc)
    rc = id ? check(s, id, env, r, &conflict, e)
            : put_new(s->db, &name, r, &id, e);
  if (!rc && !conflict.rc)
    rc = kv_db_do(s->db, e, "INSERT OR IGNORE INTO evaluator VALUES (?,?)",
                  "ii", id, env);
  rc = kv_db_end(s->db, rc, e);
  if (!rc && conflict.rc) return kv_fail(e, conflict.rc, "%s", conflict.text);
  return rc;
}
