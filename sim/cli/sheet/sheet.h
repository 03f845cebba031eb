/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine sheet: what an inference engine must provide to run a method, and
 * what it gains, beyond the table of methods (ref/METHODS_TABLE.md). Nothing in
 * it is written by hand: one part follows from the method's kv_needs at the
 * reference shape, the other from a replay of a synthetic trace (records, the
 * ledger, pages).
 *   kv_sheet_make; optionally kv_sheet_measure; kv_sheet_print; kv_sheet_free
 * Only `kvreplay methods --engine` uses it. Cost: about two seconds of one
 * processor for all methods, and 10 MB in a temporary folder.
 *
 * The reference is Llama-3.1-8B (32 layers, 32 query heads, 8 KV heads of 128
 * elements, bfloat16) with a prompt of 4,096 tokens and budgets of 20 % of it.
 * The replay is smaller: layers 2, 5 and 20, 8 query and 4 KV heads, 512 tokens
 * of prompt and 64 steps. Its results are shares or numbers per entry, so they
 * also hold for the reference. A required file that nobody named is filled with
 * seeded numbers: what a method stores does not depend on its weights.
 */
#ifndef KV_SIM_SHEET_H
#define KV_SIM_SHEET_H

#include "ref/kernels/kernels.h"
#include "sim/ask/spec.h"
#include <stdio.h>

/* What happens to a fused attention kernel, which gives no probabilities. */
typedef enum kv_sheet_flash {
  KV_FLASH_STAYS, /* it is all that is needed */
  KV_FLASH_AGAIN, /* logits of some rows of the prompt are computed again */
  KV_FLASH_LEFT   /* logits or probabilities are needed of every row of the
                     prompt, or at every decode step: it is not used, or
                     everything is computed twice */
} kv_sheet_flash;

/* What lanes cannot do alone, a set. */
enum {
  KV_SHEET_HEADS = 1, /* the lanes of a layer decide together */
  KV_SHEET_CODES = 2, /* rows of a layer's lanes are coded together */
  KV_SHEET_LAYERS = 4 /* layers publish messages for those below */
};

/* One method. Numbers are NaN if there is nothing to compute them from. */
typedef struct kv_sheet {
  char *method;   /* the row's name: the method's; with parameters, the label of
                     other tables, such as nvfp4 or snapkv:window=64 */
  char why[256];  /* why it could not be opened or replayed; "": it was */
  bool made_file; /* its file was filled with seeded numbers */
  /* From its needs at the reference shape: */
  double flops; /* to compute again the logits of the prompt rows that it sees,
                   percent of prefill */
  kv_sheet_flash flash;
  size_t message; /* bytes of a message; 0: none */
  /* From the replay: */
  double scanned;  /* read to choose a view, percent of dense's bytes */
  unsigned across; /* KV_SHEET_HEADS .. */
  bool ranked;     /* rank 0 of two was replayed: */
  bool alike;      /*   its lanes decide as in the whole model */
  double ragged;   /* entries of the longest lane / mean of lanes, at the end */
  double freed;    /* percent of vacated bytes that became free in pages of 16
                    */
  double peak; /* most bytes in prefill of all 32 layers, percent of dense at
                  its end */
  int rows;    /* rows of a database whose means scanned, ragged, freed and
                  peak are; 0: none */
} kv_sheet;

typedef struct kv_sheets {
  int n;
  kv_sheet *of; /* [n] in the order of the specifications */
} kv_sheets;

/* Makes the sheet of each specification. If one cannot be opened or replayed,
 * its `why` says why; that is no failure. stop: polled; *stopped: it returned
 * true, and *out is empty. KV_USAGE: a specification is wrong. KV_RESOURCE:
 * memory, or no temporary folder (TMPDIR). Free *out also after a failure. */
kv_rc kv_sheet_make(const kv_specs *specs, const kv_kernels *kernels,
                    int threads, bool (*stop)(void), kv_sheets *out,
                    bool *stopped, kv_err *e);
void kv_sheet_free(kv_sheets *s); /* accepts zeroed */

/* Replaces results of the synthetic trace by means over the rows of a database:
 * for each method, rows of its newest code with all parameters that its
 * specification sets, whatever their budgets. Replaced are scanned, ragged;
 * peak: the most bytes of the row's layers at any time, percent of dense at the
 * end; freed: if rows have the layout KV_SHEET_PAGES. Without rows, a number
 * stays. Fails as kv_db_open_found and kv_db_next do (sim/store/db.h). */
kv_rc kv_sheet_measure(const char *path, const kv_specs *specs,
                       bool (*stop)(void), kv_sheets *out, kv_err *e);

/* The layout for `freed`. */
#define KV_SHEET_PAGES "pages:16"

/* How to print: for people, for spreadsheets, for programs. */
typedef enum kv_sheet_form {
  KV_SHEET_TABLE,
  KV_SHEET_CSV,
  KV_SHEET_JSON
} kv_sheet_form;
/* Cannot fail: check ferror(out). */
void kv_sheet_print(const kv_sheets *s, kv_sheet_form form, FILE *out);

/* The one list of columns: X(of, name in CSV and JSON, heading in the table,
 * meaning). */
#define KV_SHEET_COLUMNS(X)                                                    \
  X(flops, "prompt_flops", "flops %",                                          \
    "computing again the logits of the prompt rows that the method observes, " \
    "as a share of all FLOPs of prefill; without what the method computes "    \
    "from bare queries")                                                       \
  X(flash, "flash", "flash",                                                   \
    "flash attention returns neither logits nor probabilities. stays: it is "  \
    "enough. again: some prompt rows are computed again. left: it cannot be "  \
    "used, or everything is computed twice, because every row is needed")      \
  X(scanned, "scanned", "scan %",                                              \
    "bytes that a decode step looks at to choose what it reads, as a share "   \
    "of what dense reads")                                                     \
  X(across, "across", "across",                                                \
    "what ranks must exchange, because KV heads are not independent. heads: "  \
    "the heads of a layer decide together (exchange scores). codes: they are " \
    "coded together (exchange K and V). layers: a layer sends a message made " \
    "from all heads' queries to later layers")                                 \
  X(message, "message_bytes", "msg B",                                         \
    "bytes of such a message, at most one per layer and step")                 \
  X(ranks, "tp2", "tp 2",                                                      \
    "the first of two ranks, deciding alone, makes the same decisions as the " \
    "whole model, or other ones; not tested if a file is for all heads")       \
  X(ragged, "ragged", "ragged",                                                \
    "entries of the longest lane over the mean of all lanes, at the end")      \
  X(freed, "freed", "freed %",                                                 \
    "of the bytes of rows dropped, merged or coded, the share that came back " \
    "as whole pages of 16 tokens")                                             \
  X(peak, "prefill_peak", "peak %",                                            \
    "the most bytes held in prefill, if 32 layers compress one after "         \
    "another, as a share of dense's at its end")                               \
  X(cells, "cells", "cells",                                                   \
    "rows of --db that scan, ragged, freed (with --layout pages:16) and peak " \
    "(the most bytes at any time, as a share of dense's at the end) are "      \
    "means of; -: the synthetic trace")

#endif
