/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of results for people and programs, in one of five formats: open a
 * writer, add each result, close. Only kv_row_walk decides what a row contains,
 * a sequence of named values that a sink formats. JSON nests the names, CSV
 * joins them with points; the table for people has its own columns. Rows of
 * refused and failed cells have null instead of digests, bytes and measures.
 */
#ifndef KV_SIM_ROWS_H
#define KV_SIM_ROWS_H

#include "ref/ground/err.h"
#include "sim/replay/measure/result.h"
#include <stdio.h>

typedef enum kv_row_format {
  KV_ROWS_TABLE, /* six columns, five if no trace has answers */
  KV_ROWS_JSON,  /* one array */
  KV_ROWS_JSONL, /* one object per line */
  KV_ROWS_CSV,
  KV_ROWS_WIDE /* a table of all columns: KV_ROWS_TABLE with --wide */
} kv_row_format;

/* Written into each row as "schema", for programs that parse rows. It rises
 * when a key changes its meaning or is removed, not when one is added. */
enum { KV_ROW_SCHEMA = 1 };

/* What receives a row's values, each with its key; keys and texts are valid
 * during the call. */
typedef struct kv_row_sink {
  void *self; /* the first argument of every call */
  /* Begins an object that ends at close. present false: the whole object is
   * null, and so are the values that follow in it. */
  void (*open)(void *self, const char *key, bool present);
  void (*close)(void *self);
  void (*null)(void *self, const char *key);
  void (*text)(void *self, const char *key, const char *text);
  void (*integer)(void *self, const char *key, int64_t value);
  void (*real)(void *self, const char *key, double value);
  void (*json)(void *self, const char *key, const char *json); /* valid JSON */
} kv_row_sink;

/* Passes all values of r to the sink, always with the same keys in the same
 * order. Only runs with the option have layouts, pools, ranks, pieces and
 * caches. */
void kv_row_walk(const kv_result *r, const kv_row_sink *to);

/* Writes rows to out. JSON, JSON lines and CSV appear row by row; close writes
 * the table, when column widths are known. colour: use terminal attributes. */
typedef struct kv_row_writer kv_row_writer;

/* Opens a writer to out, which outlives it. KV_RESOURCE: memory; *w may be
 * closed all the same. */
kv_rc kv_row_writer_open(kv_row_format format, FILE *out, bool colour,
                         kv_row_writer **w, kv_err *e);
/* Adds one row; r need not outlive the call. KV_RESOURCE: memory, or out cannot
 * be written. */
kv_rc kv_row_writer_add(kv_row_writer *w, const kv_result *r, kv_err *e);
/* Ends the stream, flushes and frees, also on failure. KV_RESOURCE: the output
 * is incomplete. Accepts NULL. */
kv_rc kv_row_writer_close(kv_row_writer *w, kv_err *e);

/* Frees without ending the stream or writing anything: for a failure before the
 * first row. Accepts NULL. */
void kv_row_writer_drop(kv_row_writer *w);

/* Is out a terminal where attributes are wanted? NO_COLOR, TERM=dumb and a
 * missing TERM say no. */
bool kv_colour_wanted(FILE *out);

/* The formats, used by kv_row_writer: begin once, row for each, end, free. A
 * call that fails returns KV_RESOURCE. */
typedef struct kv_row_form {
  size_t size; /* bytes of the format's state, zeroed before begin: self */
  kv_rc (*begin)(void *self, FILE *out, bool colour, kv_err *e);
  kv_rc (*row)(void *self, const kv_result *r, kv_err *e);
  void (*end)(void *self);  /* writes what closes the stream */
  void (*free)(void *self); /* NULL: nothing to free */
} kv_row_form;

extern const kv_row_form kv_row_form_table, kv_row_form_wide, kv_row_form_json,
    kv_row_form_jsonl, kv_row_form_csv;

#endif
