/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run`: sim/options_run.h.
 */
#include "sim/options_run.h"

#include <limits.h>
#include <string.h>

#define AT(member) .offset = offsetof(kv_run_options, member)

static const kv_option options[] = {
    KV_OPTIONS_CELLS("What to run"),
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|json|jsonl|csv",
     AT(format), .group = "What to print",
     .help = "rows on standard output as table (the default), json, jsonl or "
             "csv"},
    KV_OPTION_DB("keep rows in an SQLite database; cells that this backend "
                 "has there are not run again"),
    {KV_SLOT_TEXT, "selections", 0, "FILE", AT(selections),
     .help = "JSON lines of what each lane keeps (one cell only)"},
    {KV_SLOT_TEXT, "views", 0, "FILE", AT(views),
     .help = "JSON lines of what each query head attends (one cell only)"},
    {KV_SLOT_TEXT, "stored", 0, "FILE", AT(stored),
     .help = "safetensors of K and V after the last step (one cell only)"},
    {KV_SLOT_TEXT, "outputs", 0, "FILE", AT(outputs),
     .help = "safetensors of the attention output (one cell only)"},
    {KV_SLOT_TEXT, "decisions", 0, "DIR", AT(decisions),
     .help = "a file for each cell of what it keeps and attends, for "
             "replay:file=FILE and for tools of your own"},
    KV_OPTION_QUIET,
    KV_OPTION_THREADS,
    {KV_SLOT_TEXT, "backend", 'B', "NAME", .choices = KV_BACKEND_CHOICES,
     AT(backend_text),
     .help = "ref, the deterministic reference on the CPU (the default); emu, "
             "the CUDA kernels run on the CPU; cuda, the same on a device"},
    {KV_SLOT_FLAG, "twice", 't', AT(twice),
     .help = "run again with the reference, portable kernels on one thread, "
             "and compare every digest"},
    {KV_SLOT_CHOICE, "walk", 'w', "ORDER", .choices = "layers|steps", AT(walk),
     .help = "layers (the default: one layer of the trace in memory at a "
             "time) or steps; never changes a number"},
    {KV_SLOT_FLAG, "dry-run", 'n', AT(dry_run),
     .help = "open every cell, print what would run, run nothing"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay run chat.safetensors -m all -b 20%",
     "every method, at a fifth of the prompt"},
    {"kvreplay run *.safetensors -m h2o,snapkv -b 10%,20%,512 --db r.db",
     "a sweep, kept in a database; repeat it to resume"},
    {"kvreplay run chat.safetensors -m quest:page=8,kivi -b mean:25% --twice",
     "a quarter of dense's bytes, every digest confirmed"},
    {"kvreplay run chat.safetensors -m all -b 10% --backend cuda --db r.db",
     "on a GPU: what the database has by another backend is confirmed"},
    {"kvreplay run chat.safetensors -m h2o -b 64 --selections kept.jsonl",
     "what one cell keeps, line by line"},
    {"kvreplay run chat.safetensors -m h2o -b 10% --decisions kept",
     "what it decides, as a file that replay:file=... follows"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Replays recorded attention (queries, keys and values of every layer) "
    "through KV-cache compression methods and measures, per method and "
    "budget, what the attention lost and what the cache held. Traces, "
    "methods and budgets multiply: one cell each.",
    "Open loop: recorded queries do not feel the approximation.",
    "A cell that cannot run as asked is refused alone, with its reason in "
    "its row. The exit code is 1 where digests or a row of the database "
    "differ, 3 where a cell failed, 4 where a backend cannot be had, 2 where "
    "no cell could run.",
    NULL};

const kv_command kv_command_run = {
    .program = "kvreplay",
    .verb = "run",
    .summary = "replay traces through methods and measure",
    .operands = "TRACE...",
    .least = 1,
    .most = INT_MAX,
    .offset = offsetof(kv_cells_options, traces),
    .options = options,
    .examples = examples,
    .notes = notes};

void kv_run_options_free(kv_run_options *o) {
  if (o) kv_cells_options_free(&o->cells);
}

/* Files that describe one cell demand that there is one. */
static kv_rc check_files(const kv_run_options *o, kv_err *e) {
  const struct {
    const char *name, *path;
  } file[] = {{"selections", o->selections},
              {"views", o->views},
              {"stored", o->stored},
              {"outputs", o->outputs}};
  bool one = o->cells.traces.n == 1 && o->cells.specs.n == 1 &&
             o->cells.budgets.n <= 1;
  for (int i = 0; i < 4 && !one; i++) {
    if (file[i].path == NULL) continue;
    return kv_fail(e, KV_USAGE,
                   "--%s describes one cell: give one trace, one method and "
                   "one budget",
                   file[i].name);
  }
  return KV_OK;
}

bool kv_run_options_files(const kv_run_options *o) {
  return o->selections || o->views || o->stored || o->outputs || o->decisions;
}

kv_rc kv_run_options_parse(kv_registry *registry, int argc, char **argv,
                           kv_run_options *out, kv_err *e) {
  *out = (kv_run_options){.backend_text = kv_backend_ref.name};
  kv_rc rc = kv_options_parse(&kv_command_run, argc, argv, out, &out->asked, e);
  if (rc || out->asked != KV_ASKED_WORK) return rc;
  rc = kv_cells_options_read(registry, &out->cells, e);
  if (!rc) rc = check_files(out, e);
  if (rc) return rc;
  const char *name = out->backend_text;
  return kv_cells_options_backend(strlen(name), name, &out->backend, e);
}
