/* SPDX-License-Identifier: Apache-2.0
 *
 * How alike the tokens of traces are (kvreplay residuals), after figure 2 of
 * DeltaKV's paper, and what coding them like CacheGen needs at least. Nothing
 * where no trace was looked at; no spectra where there was no LAPACK.
 */
#include "analysis/page.h"
#include "analysis/panels.h"

typedef struct figure {
  const char *id, *title, *ask, *caption;
  kv_panels panels;
} figure;

#define LAYERS "At a quarter, half and three quarters of the recorded layers. "

static const figure figures[] = {
    {"nearest",
     "How far back the nearest token is",
     "SELECT * FROM nearest",
     "Of every token from the 17th on, the nearest of all earlier ones: by "
     "squared distance of the keys before their rotation and the values of all "
     "KV heads, as DeltaKV searches, and by the cosine of the keys alone, as "
     "the figure of its authors has it. Far: more than 16 tokens back; beside "
     "it how many of all earlier tokens are that far, which is what a nearest "
     "token drawn by lot would give. Means over traces.",
     {.panel = "shape",
      .series = "series",
      .x = "layer",
      .y = "share",
      .across = {"layer", 0, 0, false, false},
      .up = {"tokens", 0, 0, false, true},
      .apart = true,
      .title = "Nearest tokens by layer"}},
    {"distances",
     "Distances to the nearest token",
     "SELECT * FROM distances WHERE drawn",
     LAYERS "Tokens by how far back their nearest earlier token is, an octave "
            "a point, from its first distance on.",
     {.panel = "panel",
      .series = "series",
      .x = "distance",
      .y = "share",
      .across = {"tokens back", 0, 0, true, false},
      .up = {"tokens", 0, 0, false, true},
      .title = "Distances"}},
    {"cosines",
     "Cosines with the nearest token",
     "SELECT * FROM cosines WHERE drawn",
     LAYERS "Tokens by the cosine with their nearest earlier token, in "
            "twentieths.",
     {.panel = "panel",
      .series = "series",
      .x = "cosine",
      .y = "share",
      .across = {"cosine", 0, 0, false, false},
      .up = {"tokens", 0, 0, false, true},
      .title = "Cosines"}},
    {"residuals",
     "What is left of a token",
     "SELECT * FROM residuals",
     "Squares of what is left of tokens once another one is taken away, as "
     "a share of their own: the nearest earlier one, one drawn by lot from the "
     "earlier ones, and the mean of the 4 nearest of the references that every "
     "tenth "
     "token is. Above 100 % the other token adds more than it explains.",
     {.panel = "panel",
      .series = "series",
      .x = "layer",
      .y = "share",
      .across = {"layer", 0, 0, false, false},
      .up = {"squares left", 0, 0, false, true},
      .apart = true,
      .title = "What is left by layer"}},
    {"spectra",
     "Spectra of tokens and residuals",
     "SELECT * FROM spectra WHERE drawn",
     LAYERS "Squares that the first directions hold together, of all: squared "
            "singular values of the matrix of tokens, not centred. The flatter "
            "a curve begins, the less is shared.",
     {.panel = "panel",
      .series = "series",
      .x = "direction",
      .y = "total",
      .across = {"directions", 0, 0, true, false},
      .up = {"squares", 0, 0, false, true},
      .title = "Spectra"}},
    {"norms",
     "Norms of tokens and residuals",
     "SELECT * FROM norms WHERE drawn",
     LAYERS "Tokens by their norm, a quarter of an octave a point.",
     {.panel = "panel",
      .series = "series",
      .x = "octave",
      .y = "share",
      .across = {"norm, as a power of two", 0, 0, false, false},
      .up = {"tokens", 0, 0, false, true},
      .apart = true,
      .title = "Norms"}},
    {"elements",
     "Elements of tokens and residuals",
     "SELECT * FROM elements WHERE drawn",
     LAYERS "Elements of tokens and of what is left of them, in eighths of the "
            "root mean square of raw elements; what is beyond five of these is "
            "counted in the last points.",
     {.panel = "panel",
      .series = "series",
      .x = "element",
      .y = "share",
      .across = {"element, in root mean squares of raw ones", 0, 0, false,
                 false},
      .up = {"elements", 0, 0, false, true},
      .bare = true,
      .title = "Elements"}},
    {"strides",
     "References: how many, how dense",
     "SELECT * FROM strides WHERE drawn",
     LAYERS "Squares that the mean of the k nearest references misses, of all: "
            "DeltaKV without its compressor. Every s-th token is a reference, "
            "and the first 8; of the tokens that are a reference of no stride.",
     {.panel = "panel",
      .series = "series",
      .x = "k",
      .y = "share",
      .across = {"references, k", 0, 0, true, false},
      .up = {"squares missed", 0, 0, false, true},
      .apart = true,
      .title = "What references miss"}},
    {"positions",
     "References by position",
     "SELECT * FROM positions",
     "The same for 4 references of stride 10, by the token's position, an "
     "octave a point: the further on, the more references there are to choose "
     "from.",
     {.panel = "panel",
      .series = "series",
      .x = "position",
      .y = "share",
      .across = {"position", 0, 0, true, false},
      .up = {"squares missed", 0, 0, false, true},
      .title = "What references miss by position"}},
    {"entropies",
     "Entropy of coded keys and values",
     "SELECT * FROM entropies",
     "Bits an element that no coder like CacheGen's is below: the empirical "
     "entropy of the codes, a table a channel of a layer over the whole trace. "
     "With deltas to the first of ten tokens, as its paper has it, and "
     "without, as its released code does; 32 bins in early layers, 16 in "
     "others. A bound, not a method: scales and tables come on top and are in "
     "the data, with the squares that the codes miss.",
     {.panel = "panel",
      .series = "series",
      .x = "layer",
      .y = "bits",
      .across = {"layer", 0, 0, false, false},
      .up = {"bits an element", 0, 0, false, false},
      .apart = true,
      .title = "Entropy by layer"}}};

static int draw(const kv_page *p, const figure *f) {
  kv_grid g;
  int rc = kv_grid_ask(p->db, f->ask, 0, NULL, &g);
  if (rc) return rc;
  if (g.rows) {
    fprintf(p->f, "<h2 id=\"%s\">%s</h2>\n<figure>\n", f->id, f->title);
    kv_panels_draw(p, &g, &f->panels);
    kv_page_caption(p, f->caption, f->id, &g);
    fputs("</figure>\n", p->f);
  }
  kv_grid_free(&g);
  return rc;
}

int kv_page_residuals(const kv_page *p) {
  int rc = 0;
  for (size_t i = 0; i < sizeof figures / sizeof *figures && !rc; i++)
    rc = draw(p, &figures[i]);
  return rc;
}
