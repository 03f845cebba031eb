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

/* kind: of the method, outlives the asset. KV_INPUT: the file cannot be read,
 * is of another format, or a tensor is of another type or shape, or not finite;
 * KV_REFUSED: it is for another trace or prompt, or a tensor is missing;
 * KV_RESOURCE: memory. One sentence each. Hashes the trace only where the file
 * names one. Cost: linear in the file. */
kv_rc kv_asset_open(const char *path, const kv_asset_kind *kind,
                    const kv_trace *t, int prompt_len, kv_asset **out,
                    kv_err *e);
void kv_asset_close(kv_asset *a); /* accepts NULL */

/* Where the file of a method lies that no specification names, for the model of
 * a trace: of the files
 *
 *   FOLDER/assets/METHOD.*.safetensors
 *
 * FOLDER being the trace's, the one whose metadata `model_digest` lists the
 * trace's (digests, with blanks between them): two models that are called alike
 * are not one, and one that is called in two ways is. Where the trace or the
 * file has none, the one that is called METHOD.MODEL.safetensors, MODEL being
 * the trace's metadata `model`, in which every byte but A-Z a-z 0-9 - . and _
 * is a _ ("meta-llama/Llama-3.1-8B" is meta-llama_Llama-3.1-8B), or else the
 * one whose metadata `model` is the trace's. A model_digest that is in none of
 * them is looked for in the folders of KVREPLAY_ASSETS, too.
 *
 * Where there is none *path is that name, as nothing is there. KV_REFUSED with
 * a sentence: the trace names no model, or is a session's; what is there is
 * another model's; two files are for this one; the path has no room. Reads
 * headers. */
kv_rc kv_asset_beside(const kv_trace *t, const char *method, size_t room,
                      char *path, kv_err *e);

#endif
