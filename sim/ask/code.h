/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of a row's key that tells results of different code apart, for the same
 * method name: the bytes of a plugin, and of the files that a method reads.
 */
#ifndef KV_SIM_CODE_H
#define KV_SIM_CODE_H

#include "ref/lane/method.h"

/* Writes 64 hex digits and an end, or "" for a built-in method that reads no
 * file: there the revision is enough. Cannot fail. Called when a cell is
 * opened, for kv_result.code. file: [n] digests of the files that the method
 * has read, at most KV_SPEC_FILES, in the order of its parameters. With only
 * one thing to name (a plugin without a file, or a built-in method at revision
 * 1 with one) the text is that thing's digest; otherwise it is the SHA-256 of
 * lines, "plugin HEX" or "revision N", then "file HEX" of each. */
void kv_code(const kv_method *m, int n, const kv_digest *file, char out[65]);

#endif
