/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads an asset, the file of a method (ref/lane/asset.h), from a safetensors
 * file, and finds the file that fits a trace; both before the method is opened.
 * An asset is one file, never a set of shards, because the SHA-256 of its bytes
 * is part of a result's key. Metadata and the tensors that the method needs are
 * copied, so the file may be deleted afterwards; other tensors are ignored.
 *
 * If the file's metadata has `trace` (an identity, as `kvtrace info --identity`
 * prints it), the file is only for that trace, decoded from token `prompt_len`
 * of the metadata on (absent: the trace's own).
 */
#ifndef KV_TRACES_ASSET_H
#define KV_TRACES_ASSET_H

#include "ref/ground/err.h"
#include "ref/lane/assets.h"
#include "traces/trace/trace.h"

/* Reads the file at path for a replay of trace t that decodes from token
 * prompt_len on. kind: the tensors and the format that the method needs; its
 * table of tensors must outlive the asset. Hashes the trace only if the file
 * names one. Cost: linear in the file. *out is NULL after a failure. KV_INPUT:
 * the file cannot be read, is an index or has another format, its `trace` or
 * `prompt_len` is malformed, or a tensor has another type or shape or is not
 * finite. KV_REFUSED: it is for another trace or prompt, or lacks a tensor.
 * KV_RESOURCE: memory. */
kv_rc kv_asset_open(const char *path, const kv_asset_kind *kind,
                    const kv_trace *t, int prompt_len, kv_asset **out,
                    kv_err *e);
/* Finds the file that a method reads for the model of trace t, if a
 * specification names none, and writes its path into path[room], with a NUL.
 * FOLDER is the trace's folder, METHOD is `method`. The first of these that
 * exists:
 *
 *   1. FOLDER/assets/METHOD.*.safetensors whose metadata `model_digest` lists
 *      the trace's (digests separated by blanks), whatever the file's name
 *   2. the same in the folders of the variable KVREPLAY_ASSETS (A:B:C)
 *   3. FOLDER/assets/METHOD.MODEL.safetensors. MODEL is the trace's metadata
 *      `model`, or else its model_digest, with _ for every byte except A-Z a-z
 *      0-9 - . and _ ("meta-llama/Llama-3.1-8B": meta-llama_Llama-3.1-8B)
 *   4. FOLDER/assets/METHOD.*.safetensors whose metadata `model` is the trace's
 *
 * In 3 and 4 a file that lists digests, none of them the trace's, belongs to
 * another model, unless the trace has no digest. If none of the four exists,
 * and no file of another model, the result is KV_OK with the path of 3;
 * kv_asset_open then reports that it is missing. KV_REFUSED: the trace names no
 * model, or is a session's; all files belong to other models; two fit equally;
 * or path is too short. Reads only headers of files. */
kv_rc kv_asset_beside(const kv_trace *t, const char *method, size_t room,
                      char *path, kv_err *e);

/* Both functions, for kv_trace.reads of a trace in memory whose methods may
 * read files. */
extern const kv_trace_reads kv_asset_reads;

#endif
