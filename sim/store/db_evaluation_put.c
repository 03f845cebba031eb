/* SPDX-License-Identifier: Apache-2.0
 *
 * Storing evaluations: contract in sim/store/evaluation.h. A put is one
 * transaction, as for a run (db_write.c).
 */
#include "sim/store/evaluation_part.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- what is stored --------------------------------------------------------
 */

static kv_rc put_value(kv_db *db, int64_t id, const kv_evaluated *x,
                       kv_err *e) {
  const char *unit, *combine;
  if (isnan(x->value)) return KV_OK;
  kv_evaluated_is(x->name, &unit, &combine);
  kv_rc rc =
      kv_db_insert(db, e, KV_DB_quantity, NULL, "sss", x->name, unit, combine);
  if (rc) return rc;
  return kv_db_insert(db, e, KV_DB_evaluated, NULL, "isr", id, x->name,
                      x->value);
}

static kv_rc put_values(kv_db *db, int64_t id, const kv_evaluation *r,
                        kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_values && !rc; i++)
    rc = put_value(db, id, r->value + i, e);
  return rc;
}

static kv_rc put_asked(kv_db *db, const kv_evaluation_name *n,
                       const kv_evaluation *r, kv_err *e) {
  kv_rc rc = kv_db_insert(db, e, KV_DB_model, NULL, "ss", n->model, r->model);
  if (!rc)
    rc = kv_db_insert(db, e, KV_DB_question, NULL, "ssssnsnnsss", n->question,
                      n->model, r->task, r->item, r->question,
                      r->request_digest, r->prompt_len, r->tokens,
                      kv_evaluation_text(r->context), r->asked, r->reference);
  if (rc) return rc;
  return kv_db_insert(db, e, KV_DB_platform, NULL, "ssssns", n->platform,
                      r->torch, r->transformers, r->processor, r->threads,
                      r->dtype);
}

/* Null if there was no answer. */
static const char *answer(const kv_evaluation *r) {
  return *kv_evaluation_text(r->answer_digest) ? r->answer_digest : NULL;
}

/* Collects the row and all that belongs to it in "now". */
static kv_rc gather(kv_evaluations *s, const kv_evaluation_name *n,
                    const kv_evaluation *r, kv_err *e) {
  kv_db *db = s->db;
  int64_t env = 0, id;
  const kv_db_blob said = {4 * (size_t)r->n_said, r->said_tokens};
  kv_rc rc = kv_db_gather(db, e);
  if (!rc) rc = kv_db_environment_row(db, &s->where, &env, e);
  if (!rc) rc = put_asked(db, n, r, e);
  if (!rc)
    rc = kv_db_insert(
        db, e, KV_DB_evaluation, NULL, "ssssnsnssssssssb", n->key, n->question,
        n->platform, r->method, n->revision, n->code, n->arithmetic,
        kv_evaluation_text(r->basis), kv_evaluation_text(r->target),
        kv_evaluation_text(r->spec), kv_evaluation_text(r->budget), r->status,
        kv_evaluation_text(r->reason), answer(r), r->said, &said);
  if (rc) return rc;
  id = sqlite3_last_insert_rowid(db->sql);
  rc = put_values(db, id, r, e);
  return rc ? rc : kv_db_insert(db, e, KV_DB_evaluator, NULL, "ii", id, env);
}

/* Stores what contradicts the row. */
static kv_rc keep(kv_evaluations *s, const char *key, const kv_evaluation *r,
                  const char *what, kv_err *e) {
  int64_t env = 0, id = 0;
  kv_rc rc = kv_db_environment_row(s->db, &s->where, &env, e);
  if (!rc) rc = kv_evaluation_id(s->db, key, &id, e);
  return rc ? rc
            : kv_db_insert(s->db, e, KV_DB_evaluation_diff, NULL, "iisss", id,
                           env, what, r->status, answer(r));
}

/* --- putting ---------------------------------------------------------------
 */

static kv_rc check_value(const kv_evaluation *r, int i, kv_err *e) {
  const kv_evaluated *x = r->value + i;
  const char *unit, *combine, *name = kv_evaluation_text(x->name);
  if (!kv_evaluated_is(name, &unit, &combine))
    return kv_fail(e, KV_USAGE,
                   "an evaluation has no number called %.60s; "
                   "kv_evaluation_number lists them",
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
    return kv_fail(
        e, KV_USAGE,
        "the evaluation's status must be ok, refused or failed, not '%.40s'",
        status);
  if (answer(r) && !kv_digest_read(answer(r), &d))
    return kv_fail(
        e, KV_USAGE,
        "answer_digest must be 64 hex digits, or \"\" for none, not %.70s",
        answer(r));
  if (r->n_said < 0 || (r->n_said && !r->said_tokens))
    return kv_fail(e, KV_USAGE, "the answer has %d tokens but a NULL array",
                   r->n_said);
  if (r->n_values < 0 || (r->n_values && !r->value))
    return kv_fail(e, KV_USAGE, "the evaluation has %d values but a NULL array",
                   r->n_values);
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_values && !rc; i++) rc = check_value(r, i, e);
  return rc;
}

kv_rc kv_evaluations_put(kv_evaluations *s, const kv_evaluation *r, kv_err *e) {
  kv_evaluation_name name;
  kv_db_difference d;
  bool found = false;
  if (!s) return kv_evaluations_none(e);
  kv_rc rc = kv_evaluation_name_of(r, &name, e);
  if (!rc) rc = check_answer(r, e);
  if (!rc) rc = kv_db_begin(s->db, e);
  if (rc) return rc;
  rc = gather(s, &name, r, e);
  if (!rc) rc = kv_db_settle(s->db, &found, &d, e);
  if (!rc && found) rc = keep(s, name.key, r, d.what, e);
  rc = kv_db_end(s->db, rc, e);
  if (rc || !found) return rc;
  return kv_fail(e, KV_DIFFERENT,
                 "%.80s %s%.40s on question %d of %.60s contradicts %.60s on "
                 "the same platform: %s",
                 r->method, *kv_evaluation_text(r->target) ? "at " : "",
                 kv_evaluation_text(r->target), r->question, r->item,
                 s->db->path, d.what);
}
