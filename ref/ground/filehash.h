/* SPDX-License-Identifier: Apache-2.0
 *
 * The SHA-256 of a file: of the program, of plugins and of methods' files, so
 * that a result records which bytes it came from.
 */
#ifndef KV_REF_FILEHASH_H
#define KV_REF_FILEHASH_H

#include "ref/ground/err.h"
#include "ref/ground/sha256.h"

/* Reads the whole file, 16 KiB at a time, and writes its SHA-256 to *out.
 * KV_INPUT: it cannot be opened or read; *out is then undefined. */
kv_rc kv_file_digest(const char *path, kv_digest *out, kv_err *e);

#endif
