/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of a row's key that tells results of different code apart, for the same
 * method name: the bytes of a plugin, and of the file that a method reads.
 */
#ifndef KV_SIM_CODE_H
#define KV_SIM_CODE_H

#include "ref/lane/method.h"

/* Writes 64 hex digits and an end, or "" for a built-in method that reads no
 * file: there the revision is enough. Cannot fail. Called when a cell is
 * opened, for kv_result.code. `file` is the digest of the method's file, NULL
 * if it reads none. With only one thing to name (a plugin without a file, or a
 * built-in method at revision 1 with one) the text is that thing's digest;
 * otherwise it is the SHA-256 of two lines, "plugin HEX" or "revision N", then
 * "file HEX". */
void kv_code(const kv_method *m, const kv_digest *file, char out[65]);

#endif
