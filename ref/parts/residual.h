/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens of a layer are references, and coding the others by these
 * (ref/parts/latents.h): what a method that stores residual latents puts into
 * its params and its table. Both twins read the options.
 */
#ifndef KV_REF_PARTS_RESIDUAL_H
#define KV_REF_PARTS_RESIDUAL_H

#include "ref/parts/latents.h"

enum { KV_PHASE_TEXT, KV_PHASE_BLOCK };
enum { KV_REFS_RAW, KV_REFS_RECON };
enum { KV_REFERENCES_NEAREST, KV_REFERENCES_NONE };
enum { KV_CODED_LATENT, KV_CODED_REFERENCE, KV_RESIDUAL_CODINGS };

typedef struct kv_residual {
  kv_file file;
  int sink, stride, nearest, latent, group;
  int phase, self, refs, references;
  kv_compressor by;
  kv_delta how[KV_RESIDUAL_CODINGS]; /* of the codings */
  int most;                          /* references of a layer */
} kv_residual;

/* Rows of a parameter table; `member` is the struct's name in the params. The
 * file's own row says .offset = offsetof(type, member.file). */
#define KV_SINK_PARAM(type, member)                                            \
  {                                                                            \
    .name = "sink", .kind = KV_INT, .offset = offsetof(type, member.sink),     \
    .fallback = "8", .min = 0, .max = 1 << 30, .unit = "tokens",               \
    .help = "first tokens, kept and always references; 8 as in the authors' "  \
            "evaluation"                                                       \
  }
#define KV_STRIDE_PARAM(type, member)                                          \
  {                                                                            \
    .name = "stride", .kind = KV_INT, .knob = KV_KNOB_LESS,                    \
    .offset = offsetof(type, member.stride), .fallback = "10", .min = 1,       \
    .max = 4096, .unit = "tokens",                                             \
    .help = "from reference to reference; 10 as in the paper"                  \
  }
#define KV_NEAREST_PARAM(type, member)                                         \
  {                                                                            \
    .name = "nearest", .kind = KV_INT,                                         \
    .offset = offsetof(type, member.nearest), .fallback = "4", .min = 1,       \
    .max = KV_MOST_NEAREST, .unit = "references",                              \
    .help = "whose mean a token differs from; 4 as in the paper"               \
  }
#define KV_LATENT_PARAM(type, member)                                          \
  {                                                                            \
    .name = "latent", .kind = KV_CHOICE,                                       \
    .offset = offsetof(type, member.latent), .fallback = "fp16",               \
    .choices = "fp16|bf16|fp32|int4",                                          \
    .help = "how a latent vector is stored; 16 bits as in the engine"          \
  }
#define KV_LATENT_GROUP_PARAM(type, member)                                    \
  {                                                                            \
    .name = "group", .kind = KV_INT, .offset = offsetof(type, member.group),   \
    .fallback = "0", .min = 0, .max = 1 << 20, .unit = "elements",             \
    .help = "of latent=int4 that share scale and minimum; 0: the vector, as "  \
            "in the paper's code, 32 in later code"                            \
  }
#define KV_PHASE_PARAM(type, member)                                           \
  {                                                                            \
    .name = "phase", .kind = KV_CHOICE,                                        \
    .offset = offsetof(type, member.phase), .fallback = "absolute",            \
    .choices = "absolute|block",                                               \
    .help = "where the stride counts from: the text as in the paper, or each " \
            "compressed block as in the code"                                  \
  }
#define KV_SELF_PARAM(type, member)                                            \
  {                                                                            \
    .name = "self", .kind = KV_CHOICE, .offset = offsetof(type, member.self),  \
    .fallback = "no", .choices = "no|yes",                                     \
    .help = "yes: references are coded too and may take themselves, as in "    \
            "the Hugging Face path; no as in the engine"                       \
  }
#define KV_REFS_PARAM(type, member)                                            \
  {                                                                            \
    .name = "refs", .kind = KV_CHOICE, .offset = offsetof(type, member.refs),  \
    .fallback = "raw", .choices = "raw|recon",                                 \
    .help = "references as they came, or as they are decoded (the paper's "    \
            "Algorithm 1)"                                                     \
  }
#define KV_REFERENCES_PARAM(type, member)                                      \
  {                                                                            \
    .name = "references", .kind = KV_CHOICE,                                   \
    .offset = offsetof(type, member.references), .fallback = "nearest",        \
    .choices = "nearest|none",                                                 \
    .help = "none: an ablation, z = f_c(kv), by weights that learned so "      \
            "(kvreplay train deltakv:references=none)"                         \
  }

/* Is the token a reference by its place, where tokens from `from` on are coded
 * together? */
KV_FN bool kv_is_reference(const kv_residual *o, int token, int from) {
  if (o->references == KV_REFERENCES_NONE) return false;
  return token < o->sink ||
         (token - (o->phase == KV_PHASE_BLOCK ? from : 0)) % o->stride == 0;
}

/* Resolves the options of a method, checks them and the file's tensors of all
 * layers but those that skip is true of, and fills in codings, rope, and the
 * workspace of a compression. compressions: how many a lane has at most. */
kv_rc kv_open_residual(const kv_shape *shape, const char *method,
                       kv_residual *o, int compressions,
                       bool (*skip)(const void *ctx, int layer),
                       const void *ctx, kv_needs *needs, kv_err *e);

/* Codes the tokens from..end-1 of the layer's lanes, those before from having
 * been. host: the class of what is coded, or -1. */
void kv_residual_compress(const kv_at *at, kv_lane *const *lane, int lanes,
                          const kv_residual *o, int from, int end, int host);

/* What n <= KV_LATENT_TILE coded entries, ascending, stand for, made again into
 * out[n][w] from their blocks and the references that these name, of refs=raw:
 * for laws, kv_vector_stored to the bit. */
void kv_residual_again(const kv_at *at, kv_lane *const *lane, int lanes,
                       const kv_residual *o, int n, const int32_t *entry,
                       float *out);

#endif
