/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeping layers: sim/run/sweep/keeper.h.
 */
#include "sim/run/sweep/keeper.h"

#include "commit.h"
#include "config.h"
#include "ref/ground/filehash.h"
#include "sim/replay/engine/cell.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digest of the program's own file. "": it cannot be read; nothing is kept. */
static const char *build_of(kv_keeper *k) {
  kv_digest d;
  char hex[65];
  if (k->build[0] || kv_file_digest("/proc/self/exe", &d, NULL))
    return k->build;
  kv_digest_hex(&d, hex);
  snprintf(k->build, sizeof k->build, "%.24s %.32s %s", VERSION, KV_COMMIT,
           hex);
  return k->build;
}

static bool same_build(kv_keeper *k, const kv_db_partial *p) {
  const char *mine = build_of(k);
  return *mine && !strcmp(p->build, mine);
}

typedef struct reading {
  kv_keeper *keeper;
  kv_cell *cell;
  bool *there; /* [layers] */
} reading;

static bool take(void *self, const kv_db_partial *p) {
  reading *r = self;
  if (p->layer < 0 || p->layer >= r->keeper->layers) return false;
  if (!same_build(r->keeper, p)) return false;
  if (!kv_partial_read(r->cell, p->layer, p->size, p->data)) return false;
  return r->there[p->layer] = true;
}

static kv_rc read_all(kv_keeper *k, bool *there, kv_err *e) {
  kv_rc rc = kv_db_forget_old(k->db, e);
  for (int c = 0; !rc && c < k->cells; c++) {
    reading r = {k, k->cell[c], there + (size_t)c * (size_t)k->layers};
    rc = kv_db_kept(k->db, &k->whose[c], &(kv_db_taker){&r, take}, &k->dropped,
                    e);
  }
  return rc;
}

static void tell_read(kv_keeper *k, const bool *there) {
  char text[320];
  int n = 0, all = k->cells * k->layers;
  const char *trace = k->cells ? k->cell[0]->result.trace : "";
  for (int i = 0; i < all; i++) n += there[i];
  if (k->dropped) {
    snprintf(text, sizeof text,
             "%.80s: %d kept layers of cells are damaged, or of another build "
             "of kvreplay, and are replayed again",
             trace, k->dropped);
    k->note(k->self, text);
  }
  if (!n) return;
  snprintf(text, sizeof text,
           "%.80s: %d of %d layers of cells are kept from an earlier run",
           trace, n, all);
  k->note(k->self, text);
}

static kv_rc take_room(kv_keeper *k, kv_err *e) {
  size_t n = (size_t)k->cells, room = 1;
  for (int c = 0; c < k->cells; c++)
    if (kv_partial_size(k->cell[c]) > room) room = kv_partial_size(k->cell[c]);
  k->whose = kv_zalloc(n + 1, sizeof *k->whose);
  k->pending = kv_zalloc(n * (size_t)k->layers + 1, sizeof *k->pending);
  k->part = kv_zalloc(1, room);
  if (!k->whose || !k->pending || !k->part)
    return kv_no_memory(e, "a layer of a cell", room);
  for (int c = 0; c < k->cells; c++) {
    const kv_result *r = &k->cell[c]->result;
    k->whose[c] = (kv_db_whose){.backend = r->backend, .isa = r->isa};
    kv_db_key(r, k->whose[c].key);
  }
  return KV_OK;
}

static kv_rc begin(void *self, int n, kv_cell *const *cell, bool *there,
                   kv_err *e) {
  kv_keeper *k = self;
  k->cell = cell;
  k->cells = n;
  k->layers = n ? cell[0]->trace->n_layers : 0;
  kv_rc rc = take_room(k, e);
  if (rc) return rc;
#pragma omp critical(kv_database)
  {
    rc = read_all(k, there, e);
    if (!rc) tell_read(k, there);
  }
  k->wrote = omp_get_wtime();
  return rc;
}

static kv_rc write_part(kv_keeper *k, int cell, int layer, kv_err *e) {
  const kv_cell *c = k->cell[cell];
  if (!*build_of(k))
    return kv_fail(e, KV_RESOURCE, "cannot read the program's own file");
  kv_partial_write(c, layer, k->part);
  kv_db_partial p = {layer, build_of(k), kv_partial_size(c), k->part};
  return kv_db_keep(k->db, &k->whose[cell], &p, e);
}

static void tell_full(kv_keeper *k, const kv_err *why) {
  char text[640];
  if (k->said_full) return;
  k->said_full = true;
  snprintf(text, sizeof text,
           "finished layers could not be kept, but the run goes on: %s",
           why->text);
  k->note(k->self, text);
}

/* Writes everything pending in one transaction. */
static void write_pending(kv_keeper *k) {
  int all = k->cells * k->layers;
  kv_err e = {0};
  kv_rc rc = kv_db_keep_begin(k->db, &e);
  if (!rc) {
    for (int i = 0; !rc && i < all; i++)
      if (k->pending[i]) rc = write_part(k, i / k->layers, i % k->layers, &e);
    rc = kv_db_keep_end(k->db, rc, &e);
  }
  if (rc)
    tell_full(k, &e);
  else
    memset(k->pending, 0, (size_t)all * sizeof *k->pending);
  k->wrote = omp_get_wtime();
}

/* Writes a layer that took long at once, because the next one may take as long.
 */
static void ended(void *self, int n, const int *at, int layer, double seconds) {
  kv_keeper *k = self;
#pragma omp critical(kv_database)
  {
    for (int i = 0; i < n; i++) k->pending[at[i] * k->layers + layer] = true;
    if (seconds >= k->every || omp_get_wtime() - k->wrote >= k->every)
      write_pending(k);
  }
}

/* Writes what is pending if rows will not be finished, or may still take long.
 */
static void end(void *self, bool cut) {
  kv_keeper *k = self;
#pragma omp critical(kv_database)
  {
    bool some = memchr(k->pending, 1, (size_t)(k->cells * k->layers)) != NULL;
    if (some && (cut || omp_get_wtime() - k->wrote >= k->every))
      write_pending(k);
  }
}

static void slow(void *self, const kv_cell *first, int n, double seconds) {
  kv_keeper *k = self;
  char text[512];
  char more[32] = "";
  if (n > 1) snprintf(more, sizeof more, " and %d other cells", n - 1);
  snprintf(text, sizeof text,
           "%.80s: a kill may lose %.0f seconds of work, the time of one layer "
           "of %.120s%s",
           first->result.trace, seconds, first->result.spec, more);
#pragma omp critical(kv_database)
  {
    if (!k->said_slow) k->note(k->self, text);
    k->said_slow = true;
  }
}

void kv_keeper_open(kv_db *db, double every,
                    void (*note)(void *self, const char *text), void *self,
                    kv_keeper *k) {
  *k = (kv_keeper){.db = db, .every = every, .note = note, .self = self};
  k->hooks = (kv_replay_keeper){.self = k,
                                .most = KV_KEEP_MOST,
                                .begin = begin,
                                .ended = ended,
                                .slow = slow,
                                .end = end};
}

void kv_keeper_close(kv_keeper *k) {
  free(k->whose);
  free(k->pending);
  free(k->part);
  *k = (kv_keeper){0};
}
