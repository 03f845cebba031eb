/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses a layer's reference tokens and codes the others with them
 * (ref/parts/latents.h): for the params and the table of a method that stores
 * residual latents. Both twins read the options.
 */
#ifndef KV_REF_PARTS_RESIDUAL_H
#define KV_REF_PARTS_RESIDUAL_H

#include "ref/formats/minmax.h"
#include "ref/parts/latents.h"

/* Values of the parameters phase, refs and references, see the rows below. */
enum { KV_PHASE_TEXT, KV_PHASE_BLOCK };
enum { KV_REFS_RAW, KV_REFS_RECON };
enum { KV_REFERENCES_NEAREST, KV_REFERENCES_NONE };
enum { KV_KEPT_RAW, KV_KEPT_INT4 }; /* of the parameter kept */
/* Codings, by their number for kv_coded: of a token that is no reference, of a
 * reference, or, in 4 bits, of everything that is kept. */
enum {
  KV_CODED_LATENT,
  KV_CODED_REFERENCE,
  KV_CODED_KEPT = KV_CODED_REFERENCE, /* never together with the other */
  KV_RESIDUAL_CODINGS
};

/* In a method's params. */
typedef struct kv_residual {
  kv_file file;                             /* the compressor, or none */
  int sink, stride, nearest, latent, group; /* parameters, as in the rows */
  int phase, self, refs, references, kept;
  /* Set by kv_open_residual: */
  kv_compressor by;
  kv_delta how[KV_RESIDUAL_CODINGS]; /* settings of the codings */
  kv_minmax four;                    /* settings of KV_CODED_KEPT */
  int most;                          /* most references of a layer */
} kv_residual;

/* Rows of a parameter table. `member` is the kv_residual in the params struct
 * `type`. The file's own row is a KV_FILE_PARAM of member.file. */
#define KV_SINK_PARAM(type, member)                                            \
  KV_INT_PARAM("sink", type, member.sink, "8", 0, 1 << 30, "tokens",           \
               "first tokens, kept and always references; 8 as in the "        \
               "authors' evaluation")
#define KV_LATENT_PARAMS(type, member)                                         \
  KV_INT_PARAM("stride", type, member.stride, "10", 1, 4096, "tokens",         \
               "distance of references; 10 as in the paper",                   \
               .knob = KV_KNOB_LESS),                                          \
      KV_INT_PARAM("nearest", type, member.nearest, "4", 1, KV_MOST_NEAREST,   \
                   "references",                                               \
                   "a token is stored as its difference from their mean; 4 "   \
                   "as in the paper"),                                         \
      KV_CHOICE_PARAM(                                                         \
          "latent", type, member.latent, "fp16", "fp16|bf16|fp32|int4",        \
          "how a latent vector is stored; 16 bits as in the engine"),          \
      KV_INT_PARAM("group", type, member.group, "0", 0, 1 << 20, "elements",   \
                   "with latent=int4: how many share scale and minimum; 0: "   \
                   "the vector, as in the paper's code, 32 in later code")
#define KV_REFERENCE_PARAMS(type, member)                                      \
  KV_CHOICE_PARAM("phase", type, member.phase, "absolute", "absolute|block",   \
                  "the stride counts from the start of the text, as in the "   \
                  "paper, or of each coded block, as in the code"),            \
      KV_CHOICE_PARAM("self", type, member.self, "no", "no|yes",               \
                      "yes: references are coded too and may use themselves, " \
                      "as in the Hugging Face path; no as in the engine"),     \
      KV_CHOICE_PARAM(                                                         \
          "refs", type, member.refs, "raw", "raw|recon",                       \
          "references uncoded, or as decoded (the paper's Algorithm 1)"),      \
      KV_CHOICE_PARAM("references", type, member.references, "nearest",        \
                      "nearest|none",                                          \
                      "none: an ablation, z = f_c(kv), with weights trained "  \
                      "that way (kvreplay train deltakv:references=none)")
#define KV_KEPT_PARAM(type, member)                                            \
  KV_CHOICE_PARAM("kept", type, member.kept, "raw", "raw|int4",                \
                  "how tokens without a latent vector are stored, except the " \
                  "newest: uncoded, or in 4 bits",                             \
                  .later = true)

/* Is the token a reference by its place? Tokens from `from` on are coded
 * together. */
KV_FN bool kv_is_reference(const kv_residual *o, int token, int from) {
  if (o->references == KV_REFERENCES_NONE) return false;
  return token < o->sink ||
         (token - (o->phase == KV_PHASE_BLOCK ? from : 0)) % o->stride == 0;
}

/* In open: checks the options and the file's tensors of all recorded layers
 * except those with skip(ctx, layer), and fills in the rest of *o, and in needs
 * the codings, rope and the workspace. compressions: most compressions of a
 * lane. KV_REFUSED, with a sentence, if options contradict each other or the
 * file does not fit. o is in the method's params: codings point to it. */
kv_rc kv_open_residual(const kv_shape *shape, const char *method,
                       kv_residual *o, int compressions,
                       bool (*skip)(const void *ctx, int layer),
                       const void *ctx, kv_needs *needs, kv_err *e);

/* In compress_layer, before tokens from..end-1 are coded. With kept=int4, codes
 * in 4 bits those of them that stay K and V (all if `whole`, else references),
 * and, the first time (from is the first token after the sinks), the sinks. */
void kv_residual_keep(const kv_at *at, kv_lane *const *lane, int lanes,
                      const kv_residual *o, int from, int end, bool whole);

/* In compress_layer, for lanes in which entry i is token i: codes the tokens
 * from..end-1 of all lanes, except references that stay raw, with references
 * among these and earlier ones. host: coded entries get this class (kv_retier);
 * -1: they keep theirs. What cannot be coded is a fault of the first lane. */
void kv_residual_compress(const kv_at *at, kv_lane *const *lane, int lanes,
                          const kv_residual *o, int from, int end, int host);

#endif
