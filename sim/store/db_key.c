/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes of contents: a row's key, its subject (the key without code and
 * arithmetic), and the digest of its measured values. Keys hash a few lines of
 * text, "trace HEX", "prompt_len N", ..., so that anyone can compute them
 * again. There is a line "observe WHAT" only if it is not recorded.
 */
#include "sim/store/db_private.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *kv_db_code(const kv_result *r, char out[80]) {
  if (r->code)
    snprintf(out, 80, "%s", r->code);
  else
    snprintf(out, 80, "revision %d", r->revision);
  return out;
}

void kv_db_line(kv_sha256 *h, const char *name, const char *value) {
  kv_sha256_add(h, name, strlen(name));
  kv_sha256_add(h, " ", 1);
  kv_sha256_add(h, value, strlen(value));
  kv_sha256_add(h, "\n", 1);
}

void kv_db_line_int(kv_sha256 *h, const char *name, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  kv_db_line(h, name, text);
}

static void begin(kv_sha256 *h, const kv_result *r) {
  char hex[65];
  assert(r->has_identity && "a database row names its trace's bytes");
  kv_digest_hex(&r->identity, hex);
  kv_sha256_init(h);
  kv_db_line(h, "trace", hex);
  kv_db_line_int(h, "prompt_len", r->prompt_len);
  if (r->observe) kv_db_line(h, "observe", kv_observe_names[r->observe]);
  kv_db_line(h, "method", r->method);
  kv_db_line(h, "params", r->params);
}

static void end(kv_sha256 *h, char out[65]) {
  kv_digest d = kv_sha256_end(h);
  kv_digest_hex(&d, out);
}

static void add_asked(kv_sha256 *h, const kv_result *r) {
  kv_db_line(h, "basis", kv_basis_names[r->basis]);
  kv_db_line(h, "target", r->target);
}

void kv_db_key(const kv_result *r, char out[65]) {
  kv_sha256 h;
  char code[80];
  begin(&h, r);
  kv_db_line(&h, "code", kv_db_code(r, code));
  kv_db_line_int(&h, "arithmetic", r->arithmetic);
  if (r->status == KV_CELL_REFUSED) add_asked(&h, r);
  end(&h, out);
}

void kv_db_subject(const kv_result *r, char out[65]) {
  kv_sha256 h;
  begin(&h, r);
  if (r->status == KV_CELL_REFUSED) add_asked(&h, r);
  end(&h, out);
}

static void int64s(kv_sha256 *h, int n, const int64_t *v) {
  for (int i = 0; i < n; i++) {
    unsigned char b[8];
    for (int k = 0; k < 8; k++) b[k] = (unsigned char)((uint64_t)v[i] >> 8 * k);
    kv_sha256_add(h, b, sizeof b);
  }
}

static void stat(kv_sha256 *h, const kv_stat *s) {
  int64_t v[] = {s->count,           kv_db_bits(s->mean), kv_db_bits(s->p50),
                 kv_db_bits(s->p95), kv_db_bits(s->p99),  kv_db_bits(s->max)};
  int64s(h, s->count ? 6 : 1, v);
}

/* Later measures follow the first ones, by name, if the row has them: rows
 * without them keep their digest. */
static void stats(kv_sha256 *h, const kv_stat *s) {
  for (int m = 0; m < KV_DB_FIRST_MEASURES; m++) stat(h, &s[m]);
  for (int m = KV_DB_FIRST_MEASURES; m < KV_MEASURES; m++) {
    const char *name = kv_measure_table[m].name;
    if (!s[m].count) continue;
    kv_sha256_add(h, name, strlen(name) + 1);
    stat(h, &s[m]);
  }
}

/* Later kinds of bytes follow the rest, by name, if the row has them: rows
 * without them keep their digest. */

static void later_kinds(kv_sha256 *h, const kv_bytes *b) {
  for (int i = KV_DB_FIRST_KINDS; i < KV_N_BYTE_KINDS; i++) {
    const char *name = kv_byte_kind_at(i)->name;
    int64_t bytes = kv_bytes_get(b, i);
    if (!bytes) continue;
    kv_sha256_add(h, name, strlen(name) + 1);
    int64s(h, 1, &bytes);
  }
}

int kv_db_measures(void) { return KV_DB_FIRST_MEASURES + kv_n_scalars; }

static void totals(kv_sha256 *h, const kv_totals *t) {
  for (int i = 0; i < KV_DB_FIRST_KINDS; i++) {
    int64_t bytes = kv_bytes_get(&t->end, i);
    int64s(h, 1, &bytes);
  }
  for (int i = 0; i < kv_n_scalars; i++) {
    int64_t bits = kv_scalar_bits(t, &kv_scalars[i]);
    int64s(h, 1, &bits);
  }
}

void kv_db_value(const kv_result *r, char out[65]) {
  kv_sha256 h;
  kv_sha256_init(&h);
  totals(&h, &r->totals);
  stats(&h, r->stat);
  for (int i = 0; i < r->n_parts; i++) {
    const kv_part *p = r->part + i;
    int64_t v[] = {p->layer,      p->head,      p->bin,
                   p->first_step, p->last_step, kv_db_bits(p->kept)};
    int64s(&h, 6, v);
    stats(&h, p->stat);
  }
  for (int i = 0; i < r->n_steps; i++) {
    int64_t v[] = {r->step[i].step, r->step[i].bytes, r->step[i].codes,
                   r->step[i].read};
    int64s(&h, 4, v);
  }
  later_kinds(&h, &r->totals.end);
  end(&h, out);
}
