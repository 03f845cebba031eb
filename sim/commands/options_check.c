/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay check`: sim/commands/options_check.h.
 */
#include "sim/commands/options_check.h"

#include "gpu/host/backends.h"
#include "sim/commands/commands.h"
#include "sim/commands/refusals.h"
#include "traces/text/text.h"
#include <string.h>

#define AT(member) .offset = offsetof(kv_check_options, member)

static const kv_option options[] = {
    KV_OPTIONS_CELLS("What to check"),
    {KV_SLOT_TEXT, "backends", 'B', "NAME,...", .choices = KV_BACKEND_CHOICES,
     AT(backend_text),
     .help =
         "what to compare, each with the first: ref, the reference; emu, "
         "the CUDA kernels run on the CPU; cuda, the same on a device "
         "(default: those that can be had here); one that is named twice "
         "is compared with itself, which shows what chance or time decides"},
    {KV_SLOT_FLAG, "pages", 0, AT(paged),
     .help = "coded rows lie in unified pages, as LeanKV has them, on a device "
             "and on emu, where the formats allow it; results are the same"},
    {KV_SLOT_CHOICE, "indices", 0, "HOW",
     .choices = "none|sparse|max|joined|shared", AT(indices),
     .help =
         "rows lie by regular indices, as Hard-KV has them, on a device and "
         "on emu, where they are kept as they came: sparse, masked; max, "
         "lane by lane rewritten when entries have gone; joined, rewritten to "
         "what any lane of a layer holds; shared, masked by one mask a layer; "
         "results are the same"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = KV_VERDICT_FORMATS,
     AT(format), .group = "What to print",
     .help = "verdicts on standard output as table (the default), json, jsonl "
             "or junit"},
    KV_OPTION_DB("keep the rows of the reference in an SQLite database, and "
                 "every other backend as a confirmation or a conflict"),
    KV_OPTION_QUIET,
    KV_OPTION_THREADS,
    KV_OPTION_STRICT,
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay check chat.safetensors -m all -b 20%",
     "every method, on every backend that is here"},
    {"kvreplay check *.safetensors -m h2o,kivi -b 20% --backends ref,cuda",
     "the GPU against the reference"},
    {"kvreplay check chat.safetensors -m all -b 64 --db r.db -f junit",
     "confirmations kept, verdicts for a CI system"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Replays every cell - trace, method, budget - with the first backend and "
    "with each other one, and compares the digests of journal, state and "
    "output, of the scores that selections were shown, and the ledger's bytes "
    "at every step. A cell that differs is "
    "walked again with both side by side, and "
    "the first difference is named: step, layer, lane or query head, the "
    "verb, the score, the element or the kind of bytes, and both values as "
    "hex. A cell "
    "that fails on one backend is run on the others, too.",
    "The exit code is 0 if all are equal, 1 if one differs, 3 if a cell failed "
    "on the first backend, or a method that is named, not by `all`, was "
    "refused on every trace at every budget, or with --strict any cell was, 4 "
    "if a backend cannot be used or has no memory for a trace, 2 if no cell "
    "could run. The last line on standard error says what was refused, and "
    "why.",
    NULL};

const kv_command kv_command_check =
    KV_COMMAND_OF_TRACES("check", "compare backends bit by bit",
                         kv_cells_options, traces, &kv_task_check);

static kv_rc add_backend(size_t n, const char *text, kv_check_options *o,
                         kv_err *e) {
  char show[KV_SHOW];
  if (o->backends == KV_MOST_BACKENDS)
    return kv_fail(e, KV_USAGE, "--backends names more than %d",
                   KV_MOST_BACKENDS);
  if (n == 0)
    return kv_fail(e, KV_USAGE, "--backends %s has an empty name",
                   kv_show(o->backend_text, show));
  return kv_cells_options_backend(n, text, &o->backend[o->backends++], e);
}

static kv_rc name_backends(kv_check_options *o, kv_err *e) {
  kv_rc rc = KV_OK;
  for (const char *at = o->backend_text; !rc && at;) {
    size_t n = strcspn(at, ",");
    rc = add_backend(n, at, o, e);
    at = at[n] ? at + n + 1 : NULL;
  }
  if (!rc && o->backends < 2)
    rc = kv_fail(e, KV_USAGE,
                 "--backends names one: give another to compare it with, as "
                 "in --backends ref,emu");
  return rc;
}

static kv_rc find_backends(kv_check_options *o, kv_err *e) {
  if (o->backend_text) return name_backends(o, e);
  o->backends = kv_backends_default(o->backend, KV_MOST_BACKENDS);
  if (o->backends >= 2) return KV_OK;
  return kv_fail(e, KV_RESOURCE,
                 "only backend %s can be had here, and there is nothing to "
                 "compare it with: --backends ref,emu says what is missing",
                 kv_backend_ref.name);
}

/* A database needs measures, which come from the reference: it must be the
 * first backend. */
static kv_rc check_db(const kv_check_options *o, kv_err *e) {
  if (!o->cells.db || !strcmp(o->backend[0]->name, kv_backend_ref.name))
    return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "--db keeps rows of the reference: name ref first in "
                 "--backends");
}

kv_rc kv_check_options_check(kv_registry *registry, kv_check_options *o,
                             kv_err *e) {
  kv_rc rc = kv_cells_options_read(registry, &o->cells, e);
  if (!rc) rc = find_backends(o, e);
  if (!rc) rc = check_db(o, e);
  return rc ? rc : kv_cells_options_apart(&kv_command_check, &o->cells, e);
}
