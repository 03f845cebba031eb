/* SPDX-License-Identifier: Apache-2.0
 *
 * How alike the tokens of traces are (kvreplay residuals), after figure 2 of
 * DeltaKV's paper, and what coding them like CacheGen needs at least. Nothing
 * where no trace was looked at; no spectra where there was no LAPACK. And runs
 * of deltakv: a parameter turned, its ablations, and its ratios. Nothing where
 * no such rows are.
 */
#include "analysis/figures/figures.h"
#include "analysis/page/panels.h"

#define RUNS "Mean over layers, heads, decode steps and traces."
#define DIAL(name, across_title)                                               \
  {                                                                            \
    .panel = "panel", .series = "series", .x = "turn", .y = "output_error",    \
    .across = {across_title, 0, 0, false, false},                              \
    .up = {"output error", 0, 0, false, false}, .apart = true, .title = name   \
  }

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
#define WIDTH(across_title, its_title)                                         \
  {                                                                            \
    .panel = "panel", .series = "series", .x = "turn", .y = "share",           \
    .across = {across_title, 0, 0, false, false},                              \
    .up = {"squares missed", 0, 0, false, true}, .apart = true,                \
    .title = its_title                                                         \
  }

static const kv_figure figures[] = {
    {"nearest", "How far back the nearest token is", "SELECT * FROM nearest",
     "Of every token from the 17th on, the nearest of all earlier ones: by "
     "squared distance of the keys before their rotation and the values of all "
     "KV heads, as DeltaKV searches, and by the cosine of the keys alone, as "
     "the figure of its authors has it. Far: more than 16 tokens back; beside "
     "it how many of all earlier tokens are that far, which is what a nearest "
     "token drawn by lot would give. Means over traces.",
     .panels = {.panel = "shape",
                .series = "series",
                .x = "layer",
                .y = "share",
                .across = {"layer", 0, 0, false, false},
                .up = {"tokens", 0, 0, false, true},
                .apart = true,
                .title = "Nearest tokens by layer"}},
    {"distances", "Distances to the nearest token",
     "SELECT * FROM distances WHERE drawn",
     LAYERS "Tokens by how far back their nearest earlier token is, an octave "
            "a point, from its first distance on.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "distance",
                .y = "share",
                .across = {"tokens back", 0, 0, true, false},
                .up = {"tokens", 0, 0, false, true},
                .title = "Distances"}},
    {"cosines", "Cosines with the nearest token",
     "SELECT * FROM cosines WHERE drawn",
     LAYERS "Tokens by the cosine with their nearest earlier token, in "
            "twentieths.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "cosine",
                .y = "share",
                .across = {"cosine", 0, 0, false, false},
                .up = {"tokens", 0, 0, false, true},
                .title = "Cosines"}},
    {"residuals", "What is left of a token", "SELECT * FROM residuals",
     "Squares of what is left of tokens once another one is taken away, as "
     "a share of their own: the nearest earlier one, one drawn by lot from the "
     "earlier ones, and the mean of the 4 nearest of the references that every "
     "tenth "
     "token is. Above 100 % the other token adds more than it explains.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "layer",
                .y = "share",
                .across = {"layer", 0, 0, false, false},
                .up = {"squares left", 0, 0, false, true},
                .apart = true,
                .title = "What is left by layer"}},
    {"spectra", "Spectra of tokens and residuals",
     "SELECT * FROM spectra WHERE drawn",
     LAYERS "Squares that the first directions hold together, of all: squared "
            "singular values of the matrix of tokens, not centred. The flatter "
            "a curve begins, the less is shared.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "direction",
                .y = "total",
                .across = {"directions", 0, 0, true, false},
                .up = {"squares", 0, 0, false, true},
                .title = "Spectra"}},
    {"norms", "Norms of tokens and residuals",
     "SELECT * FROM norms WHERE drawn",
     LAYERS "Tokens by their norm, a quarter of an octave a point.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "octave",
                .y = "share",
                .across = {"norm, as a power of two", 0, 0, false, false},
                .up = {"tokens", 0, 0, false, true},
                .apart = true,
                .title = "Norms"}},
    {"elements", "Elements of tokens and residuals",
     "SELECT * FROM elements WHERE drawn",
     LAYERS
     "Elements of tokens and of what is left of them, in eighths of the "
     "root mean square of raw elements; what is beyond five of these is "
     "counted in the last points. Latent z: what DeltaKV stores in place "
     "of a token, by the weights beside the trace, in eighths of its own "
     "root mean square.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "element",
                .y = "share",
                .across = {"element, in root mean squares of raw ones", 0, 0,
                           false, false},
                .up = {"elements", 0, 0, false, true},
                .bare = true,
                .title = "Elements"}},
    {"strides", "References: how many, how dense",
     "SELECT * FROM strides WHERE drawn",
     LAYERS "Squares that the mean of the k nearest references misses, of all: "
            "DeltaKV without its compressor. Every s-th token is a reference, "
            "and the first 8; of the tokens that are a reference of no stride.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "k",
                .y = "share",
                .across = {"references, k", 0, 0, true, false},
                .up = {"squares missed", 0, 0, false, true},
                .apart = true,
                .title = "What references miss"}},
    {"positions", "References by position", "SELECT * FROM positions",
     "The same for 4 references of stride 10, by the token's position, an "
     "octave a point: the further on, the more references there are to choose "
     "from.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "position",
                .y = "share",
                .across = {"position", 0, 0, true, false},
                .up = {"squares missed", 0, 0, false, true},
                .title = "What references miss by position"}},
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
     .panels = {.panel = "panel",
                .series = "series",
                .x = "position",
                .y = "share",
                .across = {"position", 0, 0, true, false},
                .up = {"squares missed", 0, 0, false, true},
                .apart = true,
                .title = "What rebuilt tokens miss by position"}},
    {"entropies", "Entropy of coded keys and values", "SELECT * FROM entropies",
     "Bits an element that no coder like CacheGen's is below: the empirical "
     "entropy of the codes, a table a channel of a layer over the whole trace. "
     "With deltas to the first of ten tokens, as its paper has it, and "
     "without, as its released code does; 32 bins in early layers, 16 in "
     "others. A bound, not a method: scales and tables come on top and are in "
     "the data, with the squares that the codes miss.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "layer",
                .y = "bits",
                .across = {"layer", 0, 0, false, false},
                .up = {"bits an element", 0, 0, false, false},
                .apart = true,
                .title = "Entropy by layer"}}};

static const kv_figure turned[] = {
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
     .panels = {.panel = "panel",
                .series = "series",
                .x = "kr",
                .y = "output_error",
                .across = {"bytes stored, share of dense", 0, 0, false, true},
                .up = {"output error", 0, 0, false, false},
                .apart = true,
                .title = "Ablations"}}};

int kv_page_residuals(const kv_page *p) {
  return kv_figures_draw(p, sizeof figures / sizeof *figures, figures);
}

static int draw_ratios(const kv_page *p) {
  static const kv_column columns[] = {
      {"what", "of", KV_LONG},
      {"layers", "layers", KV_PLAIN},
      {"full", "full", KV_PLAIN},
      {"per_stride", "references", KV_PERCENT},
      {"z", "latents", KV_PERCENT},
      {"r", "r", KV_PLAIN},
      {"equation_kr", "KR by equation 5", KV_TENTH},
      {"paper_kr", "in the paper", KV_TENTH},
      {"kr", "counted", KV_TENTH},
      {"equation_cr", "CR by equation 6", KV_TENTH},
      {"paper_cr", "in the paper", KV_TENTH},
      {"cr", "counted", KV_TENTH},
      {NULL, NULL, KV_PLAIN}};
  kv_grid g;
  int rc = kv_grid_ask(p->db, "SELECT * FROM ratios", 0, NULL, &g);
  if (rc) return rc;
  if (g.rows) {
    fputs("<h2 id=\"ratios\">DeltaKV: bytes and tokens, by equation and "
          "counted</h2>\n<figure>\n",
          p->f);
    kv_page_table(p, &g, "Shares of bytes and tokens", columns);
    kv_page_caption(
        p,
        "What is kept (KR) and read (CR), as shares of dense: by the paper's "
        "equations, as its tables print them, and of runs as their bytes were "
        "counted, mean over steps and traces. With r as table 8 names it CR is "
        "another; appendix B.4 divides latents by four twice. Counted are also "
        "sinks and the newest tokens, positions and the numbers of "
        "references, which the equations leave out and which weigh in short "
        "traces; `latents` of a run is what equation 5 would have to be given "
        "to come to the bytes counted.",
        "ratios", &g);
    fputs("</figure>\n", p->f);
  }
  kv_grid_free(&g);
  return rc;
}

int kv_page_deltakv(const kv_page *p) {
  int rc = kv_figures_draw(p, sizeof turned / sizeof *turned, turned);
  return rc ? rc : draw_ratios(p);
}
