/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of deltakv, after its paper: a parameter turned, its ablations, and its
 * ratios. Nothing where no such rows are.
 */
#include "analysis/figures/figures.h"

#define RUNS "Mean over layers, heads, decode steps and traces."
#define DIAL(name, across)                                                     \
  KV_PANELS("turn", "output_error", KV_LINEAR(across),                         \
            KV_LINEAR("output error"), name, .apart = true)

const kv_figure kv_figures_deltakv[] = {
    {"stride", "DeltaKV: how dense references are",
     "SELECT * FROM dials WHERE dial = 'stride'",
     "Output error of deltakv by its stride, the other parameters alike. " RUNS,
     .panels = DIAL("stride", "tokens from reference to reference, s")},
    {"references", "DeltaKV: how many references",
     "SELECT * FROM dials WHERE dial = 'nearest'",
     "Output error of deltakv by the number of references whose mean a token "
     "differs from. " RUNS,
     .panels = DIAL("references", "references, k")},
    {"chosen", "DeltaKV: how many tokens are read",
     "SELECT * FROM dials WHERE dial = 'r'",
     "Output error of deltakv by the share of compressed tokens that are read "
     "at a step. " RUNS,
     .panels = DIAL("chosen", "share of tokens, r")},
    {"latents", "DeltaKV: how wide latents are",
     "SELECT * FROM dials WHERE dial = 'compressor'",
     "Output error of deltakv with compressors of several files, by the bytes "
     "that are stored, which the width of a latent decides. " RUNS,
     .panels = DIAL("latents", "bytes stored, share of dense")},
    {"run_latent", "DeltaKV: latent width",
     "SELECT * FROM dials WHERE dial = 'dc'",
     "The same by the elements of a latent vector, of compressors alike in all "
     "else, which kvreplay residuals -w looked at. " RUNS,
     .panels = DIAL("latent width", "elements of a latent vector, dc")},
    {"run_hidden", "DeltaKV: hidden units",
     "SELECT * FROM dials WHERE dial = 'd_h'",
     "The same by the hidden units of f_c. " RUNS,
     .panels = DIAL("hidden units", "hidden units, d_h")},
    {"ablations", "DeltaKV without a part of it", "SELECT * FROM ablations",
     "Output error over bytes stored: whole, each token as the mean of its "
     "references (without compressor), and coded by itself (without "
     "references), by weights that learned so, as kvreplay residuals -w says "
     "of them. What weights do that learned otherwise, or that were not looked "
     "at, stands beside it and is no ablation. " RUNS,
     .panels = KV_PANELS(
         "kr", "output_error", KV_SHARE("bytes stored, share of dense"),
         KV_LINEAR("output error"), "Ablations", .apart = true)},
    {"ratios", "DeltaKV: bytes and tokens, by equation and counted",
     "SELECT * FROM ratios",
     "What is kept (KR) and read (CR), as shares of dense: by the paper's "
     "equations, as its tables print them, and of runs as their bytes were "
     "counted, mean over steps and traces. With r as table 8 names it CR is "
     "another; appendix B.4 divides latents by four twice. Counted are also "
     "sinks and the newest tokens, positions and the numbers of "
     "references, which the equations leave out and which weigh in short "
     "traces; `latents` of a run is what equation 5 would have to be given "
     "to come to the bytes counted.",
     .mark = KV_TABLE,
     .columns = "what=of:long; layers; full; per_stride=references:percent; "
                "z=latents:percent; r; equation_kr=KR by equation 5:tenth; "
                "paper_kr=in the paper:tenth; kr=counted:tenth; "
                "equation_cr=CR by equation 6:tenth; "
                "paper_cr=in the paper:tenth; cr=counted:tenth"},
    {.id = NULL}};
