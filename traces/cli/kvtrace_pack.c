/* SPDX-License-Identifier: Apache-2.0
 *
 * kvtrace pack: makes one trace of the chunks that the ranks of an inference
 * engine appended to a folder. An interrupt ends it between two pieces and
 * leaves no file.
 */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/cli/kvtrace.h"
#include "traces/text/progress.h"
#include "traces/trace/pack.h"

typedef struct task {
  kv_list folder; /* one item */
  const char *out;
  char *made; /* the default of out, owned; NULL: it was given */
  int tokens;
  bool quiet;
} task;

static void tick(void *self, int64_t bytes) { kv_progress_add(self, bytes); }

/* Whether the path of n bytes ends in a name, and not in "/", "." or "..". */
static bool is_named(size_t n, const char *path) {
  size_t at = n;
  while (at > 0 && path[at - 1] != '/') at--;
  return n > at && strspn(path + at, ".") < n - at;
}

/* The default: FOLDER.safetensors, next to the folder. */
static kv_rc choose_out(task *s, kv_err *e) {
  const char *folder = s->folder.item[0];
  size_t n = strlen(folder);
  char a[KV_SHOW];
  while (n > 1 && folder[n - 1] == '/') n--;
  if (s->out) return KV_OK;
  if (!is_named(n, folder))
    return kv_fail(
        e, KV_USAGE,
        "%s: cannot derive the trace's name from this folder; give --out",
        kv_show(folder, a));
  if (asprintf(&s->made, "%.*s.safetensors", (int)n, folder) < 0) {
    s->made = NULL;
    return kv_no_memory(e, "a file name", n);
  }
  s->out = s->made;
  return KV_OK;
}

/* KV_USAGE if the result would replace a packed file or another trace. */
static kv_rc check_out(const task *s, const kv_pack *p, kv_err *e) {
  const kv_pack_facts *x = kv_pack_found(p);
  const kv_place out = {.what = "--out", .path = s->out};
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i <= x->files; i++) {
    const kv_place in = {.what = "which is packed", .path = x->inputs[i]};
    rc = kv_places_apart(1, &in, 1, &out, e);
  }
  return rc;
}

static void tell(const task *s, const kv_pack *p) {
  const kv_pack_facts *x = kv_pack_found(p);
  char a[KV_SHOW], note[KV_SHOW + 160];
  int n = snprintf(note, sizeof note, "wrote %s: %d layer%s, %d tokens",
                   kv_show(s->out, a), x->layers, x->layers == 1 ? "" : "s",
                   x->tokens);
  if (x->copies)
    snprintf(note + n, sizeof note - (size_t)n,
             x->copies == 1 ? "; %d copy of a KV head was equal and left out"
                            : "; %d copies of KV heads were equal and left out",
             x->copies);
  kv_note(note);
}

static kv_rc write_it(const task *s, const kv_pack *p, kv_err *e) {
  kv_progress progress;
  const kv_pack_how how = {
      .stop = &kv_stop_asked, .tick = tick, .self = &progress};
  kv_progress_start(&progress, stderr, "pack", "bytes", kv_pack_found(p)->bytes,
                    s->quiet);
  kv_rc rc = kv_pack_write(p, &how, s->out, e);
  kv_progress_end(&progress);
  if (!rc) tell(s, p);
  return rc;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  kv_pack *p = NULL;
  kv_stop_on_signals();
  kv_rc rc = choose_out(s, e);
  if (!rc) rc = kv_pack_open(s->folder.item[0], s->tokens, &p, e);
  if (!rc) rc = check_out(s, p, e);
  if (!rc) rc = write_it(s, p, e);
  kv_pack_close(p);
  return kv_stop_heard(rc, stopped, e);
}

static void clean(void *self) { free(((task *)self)->made); }

#define AT(member) .offset = offsetof(task, member)

static const kv_option options[] = {
    {KV_SLOT_TEXT, "out", 'o', "FILE", AT(out), .use = KV_USE_CREATED,
     .group = "Result",
     .help = "where to write it (default: FOLDER.safetensors)"},
    {KV_SLOT_COUNT, "tokens", 't', "N", .min = 1, .max = 1 << 30, AT(tokens),
     .help = "only the first N tokens, for example if a process was killed "
             "(default: as many as trace.json lists, otherwise all)"},
    {KV_SLOT_FLAG, "quiet", 'q', AT(quiet), .help = "no progress bar"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvtrace pack dump -o chat.safetensors",
     "what vLLM wrote to the folder dump with dump_vllm.py"},
    {NULL, NULL}};

static const char *const notes[] = {
    "FOLDER contains trace.json, with metadata and token ids, and a file "
    "NAME.chunks for each rank and layer. Such a file has a line of JSON, then "
    "rows of q, k, v and optionally o in order of arrival: the prompt in "
    "pieces, then decode steps one by one (traces/PACK.md). A KV head that "
    "several ranks have is compared and stored once.",
    NULL};

static const kv_task task_pack = {
    .size = sizeof(task), .work = work, .free = clean};

const kv_command kv_command_pack = {
    KV_COMMAND(pack,
               "make a trace from the files that an inference engine wrote"),
    KV_TAKES("FOLDER", 1, 1, task, folder, KV_USE_NONE)};
