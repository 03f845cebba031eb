/* SPDX-License-Identifier: Apache-2.0
 *
 * What rows refer to: the trace and its location, and the environment. Both are
 * identified by digests, so writing them again changes nothing.
 */
#include "sim/store/db_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kv_rc kv_db_trace_row(kv_db *db, const char *name, const kv_digest *identity,
                      const kv_digest *request, const char *answer_by,
                      int n_tokens, const kv_shape *s, kv_err *e) {
  static const char *const dtype[] = {"F16", "BF16", "F32"};
  return kv_db_insert(db, e, KV_DB_trace, NULL, "hsnnnnnnshs", identity, name,
                      n_tokens, s ? s->n_layers : -1, s ? s->n_heads : -1,
                      s ? s->n_kv_heads : -1, s ? s->d : -1, s ? s->d_v : -1,
                      s ? dtype[s->dtype] : NULL, request, answer_by);
}

static kv_rc put_files(kv_db *db, const kv_db_trace *t, const char *path,
                       kv_err *e) {
  kv_rc rc = kv_db_insert(db, e, KV_DB_artefact, NULL, "hss", &t->identity,
                          "trace", path);
  for (int i = 0; i < t->n_shards && !rc; i++)
    rc = kv_db_insert(db, e, KV_DB_shard, NULL, "hsis", &t->identity, path,
                      (int64_t)i, t->shard[i]);
  return rc;
}

kv_rc kv_db_put_trace(kv_db *db, const kv_db_trace *t, kv_err *e) {
  char *path = realpath(t->path, NULL);
  bool found;
  kv_rc rc = kv_db_begin(db, e);
  if (rc) goto out;
  rc = kv_db_gather(db, e);
  if (!rc)
    rc = kv_db_trace_row(db, t->name, &t->identity, &t->request, t->answer_by,
                         t->shape ? t->shape->n_tokens : 0, t->shape, e);
  if (!rc) rc = put_files(db, t, path ? path : t->path, e);
  if (!rc) rc = kv_db_settle(db, &found, NULL, e);
  rc = kv_db_end(db, rc, e);
out:
  free(path);
  return rc;
}

static void fingerprint(const kv_environment *v, char out[65]) {
  const char *text[] = {v->version,  v->commit, v->compiler, v->flags,
                        v->cpu,      v->isa,    v->os,       v->locale,
                        v->rounding, v->sqlite, v->jansson,  v->command,
                        v->started};
  char number[64];
  kv_sha256 h;
  kv_digest d;
  kv_sha256_init(&h);
  for (size_t i = 0; i < sizeof text / sizeof *text; i++)
    kv_sha256_add(&h, text[i], strlen(text[i]) + 1);
  snprintf(number, sizeof number, "%d %d %d %d", v->dirty, v->cores, v->ftz,
           v->daz);
  kv_sha256_add(&h, number, strlen(number));
  d = kv_sha256_end(&h);
  kv_digest_hex(&d, out);
}

kv_rc kv_db_environment_row(kv_db *db, const kv_environment *v, int64_t *id,
                            kv_err *e) {
  char digest[65];
  kv_rc rc;
  fingerprint(v, digest);
  rc = kv_db_insert(db, e, KV_DB_environment, NULL,
                    "sssissssissiissss"
                    "s",
                    digest, v->version, v->commit, (int64_t)v->dirty,
                    v->compiler, v->flags, v->cpu, v->isa, (int64_t)v->cores,
                    v->os, v->locale, (int64_t)v->ftz, (int64_t)v->daz,
                    v->rounding, v->sqlite, v->jansson, v->command, v->started);
  if (rc) return rc;
  return kv_db_one(db, id, e,
                   db->gathers ? "SELECT environment_id FROM now.environment"
                                 " WHERE digest = ?"
                               : "SELECT environment_id FROM main.environment"
                                 " WHERE digest = ?",
                   "s", digest);
}
