/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run`: sim/options_run.h.
 */
#include "sim/options_run.h"

#include "sim/options_cells.h"
#include <limits.h>
#include <string.h>

#define AT(member) .offset = offsetof(kv_run_options, member)

static const kv_option options[] = {
    {KV_SLOT_LIST, "methods", 'm', "SPEC,...", AT(method_text),
     .group = "What to run",
     .help = "methods, as name:key=value:...; `all` is every method once; "
             "`kvreplay methods` lists them"},
    {KV_SLOT_LIST, "budget", 'b', "LIST", AT(budget_text),
     .help = "budgets for every method that has one: 512 or entries:512; 20% "
             "or prompt:20%; end:20%, mean:20%, peak:20%, read:20% of the "
             "bytes of dense"},
    {KV_SLOT_COUNT, "prompt-len", 'p', "N", .min = 1, .max = INT_MAX,
     AT(prompt_len),
     .help = "decode from token N on, instead of the trace's own prompt"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|json|jsonl|csv",
     AT(format), .group = "What to print",
     .help = "rows on standard output as table (the default), json, jsonl or "
             "csv"},
    {KV_SLOT_TEXT, "db", 'd', "FILE", AT(db),
     .help = "keep rows in an SQLite database; cells that it has are not run "
             "again"},
    {KV_SLOT_TEXT, "selections", 0, "FILE", AT(selections),
     .help = "JSON lines of what each lane keeps (one cell only)"},
    {KV_SLOT_TEXT, "views", 0, "FILE", AT(views),
     .help = "JSON lines of what each query head attends (one cell only)"},
    {KV_SLOT_TEXT, "stored", 0, "FILE", AT(stored),
     .help = "safetensors of K and V after the last step (one cell only)"},
    {KV_SLOT_TEXT, "outputs", 0, "FILE", AT(outputs),
     .help = "safetensors of the attention output (one cell only)"},
    {KV_SLOT_TEXT, "decisions", 0, "DIR", AT(decisions),
     .help = "a file for each cell of what it keeps or attends, for "
             "replay:file=FILE and for tools of your own"},
    {KV_SLOT_FLAG, "quiet", 'q', AT(quiet), .help = "no progress"},
    {KV_SLOT_COUNT, "jobs", 'j', "N", .min = 1, .max = 4096, AT(jobs),
     .group = "How to run",
     .help = "threads (default: one a processor); never changes a number"},
    {KV_SLOT_FLAG, "twice", 't', AT(twice),
     .help = "run again with portable kernels on one thread and compare every "
             "digest"},
    {KV_SLOT_CHOICE, "walk", 'w', "ORDER", .choices = "layers|steps", AT(walk),
     .help = "layers (the default: one layer of the trace in memory at a "
             "time) or steps; never changes a number"},
    {KV_SLOT_CHOICE, "backend", 0, "NAME", .choices = "ref", AT(backend),
     .help = "ref, the deterministic reference on the CPU"},
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
    {"kvreplay run chat.safetensors -m h2o -b 64 --selections kept.jsonl",
     "what one cell keeps, line by line"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Replays recorded attention (queries, keys and values of every layer) "
    "through KV-cache compression methods and measures, per method and "
    "budget, what the attention lost and what the cache held. Traces, "
    "methods and budgets multiply: one cell each.",
    "Open loop: recorded queries do not feel the approximation.",
    "A cell that cannot run as asked is refused alone, with its reason in "
    "its row. The exit code is 3 where a cell failed, 2 where no cell could "
    "run.",
    NULL};

const kv_command kv_command_run = {
    .program = "kvreplay",
    .verb = "run",
    .summary = "replay traces through methods and measure",
    .operands = "TRACE...",
    .least = 1,
    .most = INT_MAX,
    .offset = offsetof(kv_run_options, traces),
    .options = options,
    .examples = examples,
    .notes = notes};

void kv_run_options_free(kv_run_options *o) {
  if (o == NULL) return;
  kv_list_free(&o->traces);
  kv_list_free(&o->method_text);
  kv_list_free(&o->budget_text);
  kv_specs_free(&o->specs);
  kv_budgets_free(&o->budgets);
}

/* Files that describe one cell demand that there is one. */
static kv_rc check_files(const kv_run_options *o, kv_err *e) {
  const struct {
    const char *name, *path;
  } file[] = {{"selections", o->selections},
              {"views", o->views},
              {"stored", o->stored},
              {"outputs", o->outputs}};
  bool one = o->traces.n == 1 && o->specs.n == 1 && o->budgets.n <= 1;
  for (int i = 0; i < 4 && !one; i++) {
    if (file[i].path == NULL) continue;
    return kv_fail(e, KV_USAGE,
                   "--%s describes one cell: give one trace, one method and "
                   "one budget",
                   file[i].name);
  }
  return KV_OK;
}

kv_rc kv_run_options_parse(kv_registry *registry, int argc, char **argv,
                           kv_run_options *out, kv_err *e) {
  memset(out, 0, sizeof *out);
  kv_rc rc = kv_options_parse(&kv_command_run, argc, argv, out, &out->asked, e);
  if (rc || out->asked != KV_ASKED_WORK) return rc;
  rc = kv_options_cells(registry, &out->method_text, &out->budget_text,
                        &out->specs, &out->budgets, e);
  if (rc == KV_OK) rc = check_files(out, e);
  return rc;
}
