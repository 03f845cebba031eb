/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command reads it does not write over. Files are told apart by device
 * and inode, whatever they are called: links, and other spellings of a path,
 * are the file that they lead to. What is not there yet is told apart by its
 * folder and name. Programs ask before they begin: costs a few stats, and the
 * head of what an output would replace.
 */
#ifndef KV_TRACES_APART_H
#define KV_TRACES_APART_H

#include <stdbool.h>

#include "ref/ground/err.h"

typedef struct kv_place {
  const char *what; /* for the sentence: "--views", "the trace" */
  const char *path; /* NULL: there is none */
  bool database;    /* with what SQLite keeps beside it */
  bool folder;      /* files are made in it */
  bool instead;     /* of the standard output, which it may lead to */
  bool synthetic;   /* may replace a trace that `kvtrace synth` made */
} kv_place;

/* KV_USAGE with a sentence that names both, where an output (the standard
 * output too, if it is a regular file) is an input, or a shard of one, or
 * another output; and where it would replace a trace or an SQLite database.
 * KV_RESOURCE: no memory. */
kv_rc kv_places_apart(int inputs, const kv_place *in, int outputs,
                      const kv_place *out, kv_err *e);

/* Does it begin as an SQLite database does? */
bool kv_is_sqlite(const char *path);

#endif
