/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of deltakv, as in its paper: a varied parameter, its ablations, and its
 * ratios. Empty without such runs.
 */
#include "analysis/figures/figures.h"

#define RUNS "Averaged over layers, heads, decode steps and traces."
#define DIAL(name, across)                                                     \
  KV_PANELS("turn", "output_error", KV_LINEAR(across),                         \
            KV_LINEAR("output error"), name, .apart = true)

const kv_figure kv_figures_deltakv[] = {
    {"stride", "DeltaKV: how dense references are",
     "SELECT * FROM dials WHERE dial = 'stride'",
     "Output error of deltakv by its stride, all other parameters equal. " RUNS,
     .panels = DIAL("stride", "tokens from reference to reference, s")},
    {"references", "DeltaKV: how many references",
     "SELECT * FROM dials WHERE dial = 'nearest'",
     "Output error of deltakv by the number of references in the mean that a "
     "token is coded against. " RUNS,
     .panels = DIAL("references", "references, k")},
    {"chosen", "DeltaKV: how many tokens are read",
     "SELECT * FROM dials WHERE dial = 'r'",
     "Output error of deltakv by the share of compressed tokens read at a "
     "step. " RUNS,
     .panels = DIAL("chosen", "share of tokens, r")},
    {"latents", "DeltaKV: how wide latents are",
     "SELECT * FROM dials WHERE dial = 'compressor'",
     "Output error of deltakv with several compressor files, by the bytes "
     "stored, which the width of a latent decides. " RUNS,
     .panels = DIAL("latents", "bytes stored, share of dense")},
    {"run_latent", "DeltaKV: latent width",
     "SELECT * FROM dials WHERE dial = 'dc'",
     "The same by the elements of a latent vector, for compressors equal in "
     "everything else, which kvreplay residuals -w examined. " RUNS,
     .panels = DIAL("latent width", "elements of a latent vector, dc")},
    {"run_hidden", "DeltaKV: hidden units",
     "SELECT * FROM dials WHERE dial = 'd_h'",
     "The same by the hidden units of f_c. " RUNS,
     .panels = DIAL("hidden units", "hidden units, d_h")},
    {"ablations", "DeltaKV without a part of it", "SELECT * FROM ablations",
     "Output error against bytes stored for three variants: whole, each token "
     "as the mean of its references (without compressor), and coded by itself "
     "(without references). The weights are those that learned this way, "
     "according to kvreplay residuals -w. Other weights, or weights it did not "
     "examine, are shown beside them and are no ablation. " RUNS,
     .panels = KV_PANELS(
         "kr", "output_error", KV_SHARE("bytes stored, share of dense"),
         KV_LINEAR("output error"), "Ablations", .apart = true)},
    {"ratios", "DeltaKV: bytes and tokens, by equation and counted",
     "SELECT * FROM ratios",
     "What is kept (KR) and read (CR), as shares of dense: by the paper's "
     "equations, as printed in its tables, and as counted in runs, averaged "
     "over steps and traces. With r as table 8 names it, CR is different; "
     "appendix B.4 divides latents by four twice. The count includes sinks and "
     "the newest tokens, positions and the numbers of references, which the "
     "equations leave out and which matter in short traces; `latents` of a run "
     "is the value that equation 5 would need to give the counted bytes.",
     .mark = KV_TABLE,
     .columns = "what=of:long; layers; full; per_stride=references:percent; "
                "z=latents:percent; r; equation_kr=KR by equation 5:tenth; "
                "paper_kr=in the paper:tenth; kr=counted:tenth; "
                "equation_cr=CR by equation 6:tenth; "
                "paper_cr=in the paper:tenth; cr=counted:tenth"},
    {.id = NULL}};
