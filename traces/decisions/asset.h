/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading an asset (ref/lane/asset.h) from a safetensors file: one file, not a
 * sharded set, as the SHA-256 of its bytes is part of what a row is called.
 * The tensors that are asked for are copied, so the file may go afterwards;
 * whatever else the file holds is left alone.
 *
 * A file whose metadata has `trace` (an identity, as `kvtrace info` prints) is
 * for that trace alone, decoded from token `prompt_len` of the metadata on
 * (absent: the trace's own).
 */
#ifndef KV_TRACES_ASSET_H
#define KV_TRACES_ASSET_H

#include "ref/ground/err.h"
#include "ref/lane/asset.h"
#include "traces/trace/trace.h"

/* Opens the file at `path` for a replay of trace t that decodes from token
 * prompt_len on. kind: what the method's files hold; it outlives the asset.
 * KV_INPUT: the file cannot be read, is an index of several or of another
 * format, or a tensor is of another type or shape, or not finite; KV_REFUSED:
 * it is for another trace or prompt, or a tensor is missing; KV_RESOURCE:
 * memory. One sentence each, and *out is NULL. Hashes the trace only where the
 * file names one. Cost: linear in the file. */
kv_rc kv_asset_open(const char *path, const kv_asset_kind *kind,
                    const kv_trace *t, int prompt_len, kv_asset **out,
                    kv_err *e);
void kv_asset_close(kv_asset *a); /* accepts NULL */

/* Finds the file that a method reads for the model of a trace, where no
 * specification names one, and writes its path, at most `room` bytes with the
 * end. FOLDER is the trace's; of these the first that is there:
 *
 *   1. FOLDER/assets/METHOD.*.safetensors whose metadata `model_digest` lists
 *      the trace's (digests, with blanks between them): names do not matter
 *   2. the same in the folders of the variable KVREPLAY_ASSETS, colons between
 *   3. FOLDER/assets/METHOD.MODEL.safetensors, MODEL being the trace's metadata
 *      `model`, or else its model_digest, in which every byte but A-Z a-z 0-9
 *      - . and _ is a _ ("meta-llama/Llama-3.1-8B" is meta-llama_Llama-3.1-8B)
 *   4. FOLDER/assets/METHOD.*.safetensors whose metadata `model` is the trace's
 *
 * In 3 and 4 a file that lists digests, none of them the trace's, is another
 * model's, unless the trace has no digest. Where there is no file at all it is
 * KV_OK, and *path is that of 3: who opens it says that nothing is there.
 * KV_REFUSED: the trace names no model, or is a session's; all that is there is
 * another model's; two files are equally good; the path has no room. Reads the
 * headers of files alone. */
kv_rc kv_asset_beside(const kv_trace *t, const char *method, size_t room,
                      char *path, kv_err *e);

#endif
