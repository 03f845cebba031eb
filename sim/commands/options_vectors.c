/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay vectors`: sim/commands/options_vectors.h.
 */
#include "sim/commands/options_vectors.h"

#include <string.h>

#define AT(member) .offset = offsetof(kv_vectors_options, member)

static const kv_option options[] = {
    KV_OPTIONS_CELL("Which cell"),
    {KV_SLOT_TEXT, "steps", 's', "LIST", AT(steps), .group = "What of it",
     .help = "first, last, tokens seen, or +N for N steps after the one "
             "before; default first,last"},
    {KV_SLOT_TEXT, "layers", 'l', "LIST", AT(layers),
     .help = "numbers of layers, as 0,2; default all that are recorded"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "safetensors|raw",
     AT(format),
     .help = "safetensors, a file a stage (the default), or raw, a file of "
             "nothing but bytes for each matrix"},
    {KV_SLOT_TEXT, "output", 'o', "DIR", AT(dir), .use = KV_USE_FOLDER,
     .help = "the folder to make"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay vectors chat.safetensors -m quest:page=16 -b 1024 --steps "
     "first,+17,last --layers 2 -o quest",
     "every stage of a page selection, at three steps of layer 2"},
    {"kvreplay vectors chat.safetensors -m kivi:bits=4 --layers 0 -o kivi",
     "codes, scales and what they decode to"},
    {"kvreplay vectors chat.safetensors -m snapkv -b 20% --steps 512 -o snap",
     "a prompt of 512 tokens: its settling, with scores and choice"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Writes what a kernel reads, computes and decides at chosen steps, for "
    "tests of kernels: one safetensors file a stage (q, k, v, page bounds, "
    "scores, order, chosen or evicted, logits, chunk maxima, sums and "
    "accumulators, out, LSE; codes, scales and page tables where the method "
    "quantises), manifest.json with the rule that defines each, and "
    "manifest.tsv with the offset of each matrix. What does not happen at "
    "these steps has no file: no scores where a budget holds everything.",
    "A step is tokens seen, the current one included: first is the prompt's "
    "length + 1; the prompt's length itself has only what the settling after "
    "the prompt did. The same command writes the same bytes; the folder "
    "appears whole or not at all.",
    NULL};

const kv_command kv_command_vectors = {
    .program = "kvreplay",
    .name = "vectors",
    .summary = "write every stage of a method, for tests of kernels",
    .operands = "TRACE",
    .least = 1,
    .most = 1,
    .offset = offsetof(kv_vectors_options, cells.traces),
    .use = KV_USE_READ,
    .options = options,
    .examples = examples,
    .notes = notes};

void kv_vectors_options_free(kv_vectors_options *o) {
  kv_cells_options_free(&o->cells);
}

static kv_rc check(const kv_vectors_options *o, kv_err *e) {
  const kv_budgets *b = &o->cells.budgets;
  if (o->cells.specs.n > 1 || b->n > 1)
    return kv_fail(e, KV_USAGE,
                   "vectors are of one cell: give one method and one budget");
  if (b->n && kv_budget_in_bytes(&b->budget[0]))
    return kv_fail(e, KV_USAGE,
                   "-b %s is an amount of bytes; for vectors give entries, as "
                   "-b 512 or -b 20%%",
                   b->budget[0].target);
  if (o->dir && *o->dir) return KV_OK;
  return kv_fail(e, KV_USAGE, "no folder to write to: give -o DIR");
}

kv_rc kv_vectors_options_parse(kv_registry *registry, int argc, char **argv,
                               kv_vectors_options *out, kv_err *e) {
  memset(out, 0, sizeof *out);
  out->steps = "first,last";
  kv_rc rc =
      kv_options_parse(&kv_command_vectors, argc, argv, out, &out->asked, e);
  if (rc || out->asked != KV_ASKED_WORK) return rc;
  rc = kv_cells_options_read(registry, &out->cells, e);
  return rc ? rc : check(out, e);
}
