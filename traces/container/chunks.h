/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads files of chunks, for `kvtrace pack`: each has what one rank of an
 * inference engine appended for one layer while it served a request. A file is
 * one line of JSON, which gives layer, heads and sizes, followed by chunks
 * without gaps. A chunk is two 64-bit integers, the first token and the number
 * of tokens, and then the rows of q, k, v and perhaps o, each
 * [tokens][heads][d], little-endian. traces/PACK.md has every field. Such a
 * file may end anywhere, because its writer may have been killed;
 * kv_chunks_open finds out how much of it is complete.
 *
 *   open; read its fields, or its fault; read; close
 *
 * The file is open only during open and read, so thousands can be handled at
 * once. One thread at a time for each.
 */
#ifndef KV_TRACES_CHUNKS_H
#define KV_TRACES_CHUNKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "ref/ground/err.h"
#include "traces/container/dtype.h"

/* Why the run of tokens from 0 on ends where it does. */
typedef enum kv_chunks_end {
  KV_CHUNKS_WHOLE,  /* the file ends */
  KV_CHUNKS_CUT,    /* the file ends within the next chunk */
  KV_CHUNKS_HOLE,   /* the next chunk begins at a later token */
  KV_CHUNKS_TWICE,  /* the next chunk begins at a token that was read already */
  KV_CHUNKS_NO_MORE /* what follows is no chunk */
} kv_chunks_end;

typedef struct kv_chunks {
  char *path;                /* owned */
  int layer;                 /* of the model, from 0 */
  int head, heads;           /* first query head in it, and how many */
  int kv_head, kv_heads;     /* the same for KV heads */
  int d, d_v;                /* numbers of a q or k row, and of a v or o row */
  kv_st_dtype dtype;         /* F16, BF16 or F32: of all rows */
  bool o;                    /* rows of o follow those of v */
  float *sinks;              /* [heads] learned sinks, or NULL; owned */
  int tokens;                /* tokens 0 to tokens - 1 are complete */
  kv_chunks_end end;         /* what follows them; if not WHOLE: */
  int64_t next, next_tokens; /* the next chunk's first token and number of
                                tokens; both 0 if its head is cut */
  int64_t data;              /* bytes before the first chunk */
  struct stat seen;          /* at opening */
} kv_chunks;

/* Reads the first line of the file at path and the head of every chunk.
 * KV_INPUT: it cannot be read or its first line is malformed. KV_RESOURCE:
 * memory. *out is then as after close. An incomplete file is no error. */
kv_rc kv_chunks_open(const char *path, kv_chunks *out, kv_err *e);
/* Frees; accepts a zeroed or closed one. */
void kv_chunks_close(kv_chunks *c);

/* Returns KV_INPUT and says how the run of tokens in c ends and, if whole > 0,
 * that --tokens whole takes the complete part. Asserts that it is not WHOLE. */
kv_rc kv_chunks_tell(const kv_chunks *c, int whole, kv_err *e);

/* Bytes of the rows of one token: of one part ('q', 'k', 'v', 'o'; 0 for an o
 * that is missing), and of all parts. */
int64_t kv_chunks_row(const kv_chunks *c, char part);
int64_t kv_chunks_token(const kv_chunks *c);

/* The caller's function: receives `n` tokens from `first` on of a part, rows
 * [n][heads][d], valid during the call. Anything but KV_OK ends the reading. */
typedef kv_rc kv_chunks_take(void *self, char part, int first, int n,
                             const void *rows, kv_err *e);

/* Reads tokens 0 to tokens - 1, at most c->tokens, once and in the order of the
 * file, through 256 KiB of memory (or one token's rows, if larger). KV_INPUT:
 * the file changed since it was opened, or cannot be read. KV_RESOURCE: memory.
 * Or what take returned. */
kv_rc kv_chunks_read(const kv_chunks *c, int tokens, kv_chunks_take *take,
                     void *self, kv_err *e);

#endif
