/* SPDX-License-Identifier: Apache-2.0
 *
 * How alike the tokens of traces are (kvreplay residuals), after figure 2 of
 * DeltaKV's paper, and what coding them like CacheGen needs at least. Nothing
 * where no trace was looked at; no spectra where there was no LAPACK. And runs
 * of deltakv: a parameter turned, its ablations, and its ratios. Nothing where
 * no such rows are.
 */
#include "analysis/figures/figures.h"

#include <math.h>

enum { MAPS = 6 }; /* of latent vectors that are drawn; the data have all */

#define RUNS "Mean over layers, heads, decode steps and traces."
#define DIAL(name, across)                                                     \
  KV_PANELS("turn", "output_error", KV_LINEAR(across),                         \
            KV_LINEAR("output error"), name, .apart = true)

#define LAYERS "At a quarter, half and three quarters of the recorded layers. "

/* Of compressors. */
#define MISSED                                                                 \
  "Squares that a rebuilt token misses, of its own: with the mean of its 4 "   \
  "references of stride 10 (DeltaKV), of the token by itself (without "        \
  "references, by weights that learned so: kvreplay train "                    \
  "deltakv:references=none), and of that mean alone (without compressor). "    \
  "Weights that learned with references and are robbed of them miss far more " \
  "than the ablation does (without references, learned with): that is no "     \
  "measure of what references give. Latents as computed, before they are "     \
  "stored. Mean over layers and traces. "
#define WIDTH(across, name)                                                    \
  KV_PANELS("turn", "share", KV_LINEAR(across), KV_SHARE("squares missed"),    \
            name, .apart = true)

/* A map a layer, of two traces. */
static void draw_sizes(const kv_page *p, const kv_grid *g) {
  static const kv_maps how = {.row = "token",
                              .column = "part",
                              .value = "share",
                              .row_title = "token",
                              .column_title = "part of z",
                              .wide = 6,
                              .high = 8,
                              .least_wide = 150,
                              .most_wide = HUGE_VAL,
                              .most_high = 260};
  for (int r = 0, n = 0, end; r < g->rows && n < MAPS; r = end, n++) {
    char title[320];
    const char *trace = kv_grid_text(g, r, "trace");
    end = kv_grid_end(g, r, "trace layer");
    snprintf(title, sizeof title, "%.*s, layer %.20s, up to %.2f",
             kv_text_cut(trace, 200), trace, kv_grid_text(g, r, "layer"),
             kv_grid_number(g, r, "most"));
    kv_map_show(g, &how, r, end, title, p->f);
  }
}

const kv_figure kv_figures_residuals[] = {
    {"nearest", "How far back the nearest token is", "SELECT * FROM nearest",
     "Of every token from the 17th on, the nearest of all earlier ones: by "
     "squared distance of the keys before their rotation and the values of all "
     "KV heads, as DeltaKV searches, and by the cosine of the keys alone, as "
     "the figure of its authors has it. Far: more than 16 tokens back; beside "
     "it how many of all earlier tokens are that far, which is what a nearest "
     "token drawn by lot would give. Means over traces.",
     .panels =
         KV_PANELS("layer", "share", KV_LINEAR("layer"), KV_SHARE("tokens"),
                   "Nearest tokens by layer", .panel = "shape", .apart = true)},
    {"distances", "Distances to the nearest token",
     "SELECT * FROM distances WHERE drawn",
     LAYERS "Tokens by how far back their nearest earlier token is, an octave "
            "a point, from its first distance on.",
     .panels = KV_PANELS("distance", "share", KV_LOG("tokens back"),
                         KV_SHARE("tokens"), "Distances")},
    {"cosines", "Cosines with the nearest token",
     "SELECT * FROM cosines WHERE drawn",
     LAYERS "Tokens by the cosine with their nearest earlier token, in "
            "twentieths.",
     .panels = KV_PANELS("cosine", "share", KV_LINEAR("cosine"),
                         KV_SHARE("tokens"), "Cosines")},
    {"residuals", "What is left of a token", "SELECT * FROM residuals",
     "Squares of what is left of tokens once another one is taken away, as "
     "a share of their own: the nearest earlier one, one drawn by lot from the "
     "earlier ones, and the mean of the 4 nearest of the references that every "
     "tenth "
     "token is. Above 100 % the other token adds more than it explains.",
     .panels = KV_PANELS("layer", "share", KV_LINEAR("layer"),
                         KV_SHARE("squares left"), "What is left by layer",
                         .apart = true)},
    {"spectra", "Spectra of tokens and residuals",
     "SELECT * FROM spectra WHERE drawn",
     LAYERS "Squares that the first directions hold together, of all: squared "
            "singular values of the matrix of tokens, not centred. The flatter "
            "a curve begins, the less is shared.",
     .panels = KV_PANELS("direction", "total", KV_LOG("directions"),
                         KV_SHARE("squares"), "Spectra")},
    {"norms", "Norms of tokens and residuals",
     "SELECT * FROM norms WHERE drawn",
     LAYERS "Tokens by their norm, a quarter of an octave a point.",
     .panels =
         KV_PANELS("octave", "share", KV_LINEAR("norm, as a power of two"),
                   KV_SHARE("tokens"), "Norms", .apart = true)},
    {"elements", "Elements of tokens and residuals",
     "SELECT * FROM elements WHERE drawn",
     LAYERS
     "Elements of tokens and of what is left of them, in eighths of the "
     "root mean square of raw elements; what is beyond five of these is "
     "counted in the last points. Latent z: what DeltaKV stores in place "
     "of a token, by the weights beside the trace, in eighths of its own "
     "root mean square.",
     .panels = KV_PANELS("element", "share",
                         KV_LINEAR("element, in root mean squares of raw ones"),
                         KV_SHARE("elements"), "Elements", .bare = true)},
    {"sizes", "Latent vectors by token and element", "SELECT * FROM sizes",
     LAYERS "The mean of |z| over some tokens, down, and elements, across, as "
            "percent of the largest such mean of the layer, which the title "
            "says in root mean squares of all z. The evener a map is, the less "
            "is lost by one scale for a whole vector.",
     .draw = draw_sizes, .group = "small two"},
    {"strides", "References: how many, how dense",
     "SELECT * FROM strides WHERE drawn",
     LAYERS "Squares that the mean of the k nearest references misses, of all: "
            "DeltaKV without its compressor. Every s-th token is a reference, "
            "and the first 8; of the tokens that are a reference of no stride.",
     .panels = KV_PANELS("k", "share", KV_LOG("references, k"),
                         KV_SHARE("squares missed"), "What references miss",
                         .apart = true)},
    {"positions", "References by position", "SELECT * FROM positions",
     "The same for 4 references of stride 10, by the token's position, an "
     "octave a point: the further on, the more references there are to choose "
     "from.",
     .panels = KV_PANELS("position", "share", KV_LOG("position"),
                         KV_SHARE("squares missed"),
                         "What references miss by position")},
    {"latent", "Compressors: how wide latents are",
     "SELECT * FROM compressors WHERE dial = 'latent'",
     MISSED "By the width of the latent vector, of files alike in all else; "
            "pieces: of so many tokens, at most, it learned at once.",
     .panels = WIDTH("elements of a latent vector, dc",
                     "Compressors by latent width")},
    {"hidden", "Compressors: how many hidden units",
     "SELECT * FROM compressors WHERE dial = 'hidden'",
     MISSED "By the hidden units of f_c, of files alike in all else: the loss "
            "that a compressor is trained on, as a share of the squares.",
     .panels = WIDTH("hidden units, d_h", "Compressors by hidden units")},
    {"rebuilt", "Rebuilt tokens by position", "SELECT * FROM rebuilt_at",
     MISSED
     "By the token's position, an octave a point. A compressor learned "
     "from pieces of traces, of as many tokens as its panel says, at most, "
     "where its file does: further right it meets more references to "
     "choose from than it learned with.",
     .panels = KV_PANELS(
         "position", "share", KV_LOG("position"), KV_SHARE("squares missed"),
         "What rebuilt tokens miss by position", .apart = true)},
    {"entropies", "Entropy of coded keys and values", "SELECT * FROM entropies",
     "Bits an element that no coder like CacheGen's is below: the empirical "
     "entropy of the codes, a table a channel of a layer over the whole trace. "
     "With deltas to the first of ten tokens, as its paper has it, and "
     "without, as its released code does; 32 bins in early layers, 16 in "
     "others. A bound, not a method: scales and tables come on top and are in "
     "the data, with the squares that the codes miss.",
     .panels = KV_PANELS("layer", "bits", KV_LINEAR("layer"),
                         KV_LINEAR("bits an element"), "Entropy by layer",
                         .apart = true)},
    {.id = NULL}};

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
