/* SPDX-License-Identifier: Apache-2.0
 *
 * Refuses a command line whose output would overwrite one of its inputs,
 * another output, a trace or an SQLite database. The parser of command lines
 * (traces/option/option.h) calls this before a command begins to work.
 *
 * Files are compared by device and inode, so links and other spellings of a
 * path count as the file that they lead to. A file that does not exist yet is
 * compared by the inode of its folder and its name. Cost: a few calls of stat
 * for each pair, reading an input's index, and reading the header of what would
 * be replaced.
 */
#ifndef KV_TRACES_APART_H
#define KV_TRACES_APART_H

#include <stdbool.h>

#include "ref/ground/err.h"

/* A file that a command reads or writes. The texts belong to the caller. */
typedef struct kv_place {
  const char *what; /* begins the sentence of an error: "--views", "the trace"
                     */
  const char *path; /* NULL: not given; the place is skipped */
  bool database;    /* input: an SQLite database, to which the files PATH-wal,
                       PATH-shm and PATH-journal belong */
  bool folder;      /* output: a folder in which files are created; no output
                       file may be directly in it */
  bool instead;     /* output: written instead of standard output, so both may
                       be one file */
  bool synthetic;   /* output: may replace a trace that `kvtrace synth` wrote */
} kv_place;

/* Checks in[inputs] and out[outputs], which may be NULL if the count is 0;
 * standard output counts as an output, too. The shards of an input
 * NAME.safetensors.index.json count as inputs. Two inputs may be one file;
 * devices and pipes may be named twice. KV_USAGE: an output is an input or
 * another output, is in an output folder, or would replace a trace or a
 * database; or an input is a file that belongs to a database. The sentence
 * names both. KV_RESOURCE: no memory. */
kv_rc kv_places_apart(int inputs, const kv_place *in, int outputs,
                      const kv_place *out, kv_err *e);

/* Does path name a regular file that begins as an SQLite database does? False
 * if it cannot be read. */
bool kv_is_sqlite(const char *path);

#endif
