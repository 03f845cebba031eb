/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file is, by its bytes.
 */
#ifndef KV_TRACES_FILEHASH_H
#define KV_TRACES_FILEHASH_H

#include "ref/ground/err.h"
#include "ref/ground/sha256.h"

/* SHA-256 of a whole file; KV_INPUT where it cannot be read. */
kv_rc kv_file_digest(const char *path, kv_digest *out, kv_err *e);

#endif
