/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/commands/inspect.h"

#include "sim/commands/signal.h"
#include "traces/text/text.h"
#include <stdio.h>
#include <stdlib.h>

/* All layers of one trace, or *stopped. */
static kv_rc take_layers(kv_inspect_task *s, const kv_inspection *of,
                         const kv_trace *t, char *found, int *layer,
                         bool *stopped, kv_err *e) {
  kv_rc rc = KV_OK;
  kv_progress_start(&s->progress, stderr, of->name, "layers", t->n_layers,
                    s->cells.quiet);
  for (int i = 0; i < t->n_layers && !rc && !*stopped; i++) {
    layer[i] = t->layer[i].data.layer;
    rc = of->layer(s, t, i, found + (size_t)i * of->size(t), e);
    kv_trace_release_layer(t, i);
    kv_progress_add(&s->progress, 1);
    *stopped = kv_interrupted();
  }
  kv_progress_end(&s->progress);
  return rc;
}

static kv_rc measure(kv_inspect_task *s, const kv_inspection *of,
                     const kv_trace *t, const kv_digest *identity,
                     bool *stopped, kv_err *e) {
  size_t n = (size_t)t->n_layers, size = of->size(t);
  char *found = kv_zalloc(n, size);
  int *layer = kv_zalloc(n, sizeof *layer);
  kv_rc rc = found && layer ? take_layers(s, of, t, found, layer, stopped, e)
                            : kv_no_memory(e, of->name, n * size);
  if (!rc && !*stopped) rc = of->put(s->db, identity, t, layer, found, e);
  if (!rc && !*stopped) of->print(t, found);
  free(found);
  free(layer);
  return rc;
}

static kv_rc do_trace(kv_inspect_task *s, const kv_inspection *of,
                      const char *path, bool *stopped, kv_err *e) {
  kv_trace *t = NULL;
  kv_db_trace row = {.path = path};
  bool has = false;
  char a[KV_SHOW];
  kv_rc rc = kv_trace_open(path, &t, e);
  if (!rc) rc = kv_trace_expect_plain(t, of->name, e);
  if (!rc && of->open) rc = of->open(s, t, e);
  if (!rc) rc = kv_trace_identity(t, &row.identity, e);
  if (!rc) rc = kv_trace_request(t, &row.request, e);
  if (!rc) {
    row.name = t->name;
    row.shape = &t->shape;
    rc = kv_db_put_trace(s->db, &row, e);
  }
  if (!rc) rc = of->has(s, &row.identity, t, &has, e);
  if (!rc && has)
    printf("%s: there already\n", kv_show(t->name, a));
  else if (!rc)
    rc = measure(s, of, t, &row.identity, stopped, e);
  if (of->close) of->close(s);
  kv_trace_close(t);
  return rc;
}

kv_rc kv_inspect(kv_inspect_task *s, const kv_inspection *of, bool *stopped,
                 kv_err *e) {
  kv_rc rc = kv_choose_kernels(&s->kernels, e);
  if (!rc) rc = kv_db_open(s->cells.db, &s->db, e);
  if (rc) return rc;
  s->threads = kv_choose_threads(s->cells.jobs);
  for (int i = 0; i < s->cells.traces.n && !rc && !*stopped; i++)
    rc = do_trace(s, of, s->cells.traces.item[i], stopped, e);
  return rc;
}

void kv_inspect_interrupted(void *self) {
  (void)self;
  kv_note("interrupted: traces that were finished are in the database");
}

void kv_inspect_clean(void *self) {
  kv_db_close(((kv_inspect_task *)self)->db);
}
