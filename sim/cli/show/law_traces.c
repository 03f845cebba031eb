/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/show/law_traces.h"

#include "traces/trace/trace.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static kv_rc add(kv_law_traces *t, const char *name, kv_lawcheck_stop *stop,
                 kv_err *e) {
  kv_trace *trace = NULL;
  if (t->n == KV_LAW_TRACES)
    return kv_fail(e, KV_USAGE, "more than %d traces; give fewer",
                   KV_LAW_TRACES);
  int i = t->n++;
  t->trace[i].name = name;
  t->trace[i].file = NULL;
  if (strncmp(name, "made:", 5)) {
    kv_rc rc = kv_trace_open(name, &trace, e);
    kv_trace_close(trace);
    return rc;
  }
  size_t room = strlen(t->folder) + strlen(name) + 32;
  char *file = t->trace[i].file = malloc(room);
  if (!file) return kv_no_memory(e, "a file name", room);
  snprintf(file, room, "%s/%d.safetensors", t->folder, t->n);
  return kv_lawcheck_make(name, file, stop, e);
}

kv_rc kv_law_traces_open(const kv_list *only, kv_lawcheck_stop *stop,
                         kv_law_traces *t, kv_err *e) {
  const char *base = getenv("TMPDIR");
  snprintf(t->folder, sizeof t->folder, "%.40s/kvreplay.XXXXXX",
           base && *base && strlen(base) < 40 ? base : "/tmp");
  if (!mkdtemp(t->folder)) {
    kv_rc rc = kv_fail(e, KV_RESOURCE,
                       "cannot make the folder %s for made traces; set TMPDIR",
                       t->folder);
    t->folder[0] = 0;
    return rc;
  }
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < only->n; i++) rc = add(t, only->item[i], stop, e);
  for (int i = 0; !rc && !only->n && kv_lawcheck_synthetic(i); i++)
    rc = add(t, kv_lawcheck_synthetic(i), stop, e);
  return rc;
}

/* Removes the folder and everything in it, even what a killed child left. */
static void remove_folder(const char *folder) {
  DIR *d = opendir(folder);
  for (struct dirent *f; d && (f = readdir(d));)
    unlinkat(dirfd(d), f->d_name, 0);
  if (d) closedir(d);
  rmdir(folder);
}

void kv_law_traces_close(kv_law_traces *t) {
  for (int i = 0; i < t->n; i++) free(t->trace[i].file);
  if (t->folder[0]) remove_folder(t->folder);
  memset(t, 0, sizeof *t);
}
