/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands of kvtrace share: traces/cli/kvtrace.h.
 */
#define _GNU_SOURCE 1
#include "traces/cli/kvtrace.h"

#include <omp.h>
#include <stdlib.h>

#include "ref/ground/text.h"
#include "traces/text/json.h"
#include "traces/trace/geometry.h"

volatile sig_atomic_t kv_stop_asked;

static void on_signal(int number) { kv_stop_asked = number; }

void kv_stop_on_signals(void) {
  struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGINT, &act, NULL);
  sigaction(SIGTERM, &act, NULL);
  signal(SIGXFSZ, SIG_IGN);
}

kv_rc kv_stop_heard(kv_rc rc, bool *stopped, const kv_err *e) {
  *stopped = rc && kv_stop_asked;
  if (*stopped) kv_note(e->text);
  return rc;
}

kv_rc kv_keeping_read(kv_keeping *k, kv_err *e) {
  kv_rc rc = kv_keep_rows(k->rows ? k->rows : "all", &k->keep.last, e);
  return rc || !k->layers ? rc : kv_keep_layers(k->layers, &k->keep, e);
}

const char *kv_model_name(int i) {
  int n;
  const kv_geometry *all = kv_geometries(&n);
  return i < n ? all[i].name : NULL;
}

kv_rc kv_compute_setup(const kv_kernels **out, kv_err *e) {
  kv_rc rc = kv_choose_kernels(out, e);
  if (!rc) kv_choose_threads(omp_get_max_threads());
  return rc;
}

kv_rc kv_print_json(const char *path, char *text, kv_err *e) {
  char a[KV_SHOW];
  kv_rc rc = KV_OK;
  if (!kv_json_end()) {
    rc = kv_no_memory(e, "what is printed", 0);
  } else if (!text) {
    rc = kv_fail(e, KV_INPUT,
                 "%s: the path is not UTF-8, so JSON cannot hold it",
                 kv_show(path, a));
  } else {
    puts(text);
  }
  free(text);
  return rc;
}
