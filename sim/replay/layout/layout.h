/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory layouts: where the rows that a method keeps would lie in a real store,
 * and which memory becomes free when it drops some. A layout decides nothing
 * and changes no digest: it only reads the records of what was decided
 * (ref/lane/records.h), so one replay can feed any number of layouts.
 *
 * A layout is one const table. It opens one state for each layer in flight of a
 * cell (sim/replay/layout/layouts.h calls it), and that state is passed every
 * row written and left (a row: one side, K or V, of an entry in one format)
 * and, if it asks, every change of an entry's class (kv_retier). A row that is
 * recoded or merged is left, and the new one written in its format.
 * sim/replay/layout/README.md describes each layout with an example by hand.
 *
 * open may fail; nothing after it allocates. A state is called by one thread at
 * a time; states of other layers may be called by others meanwhile. A block: a
 * piece of the prompt, or a decode step. A place: of an entry, by the order of
 * append, from 0. A format: KV_RAW, KV_MERGED or KV_CODED + i (ref/lane).
 */
#ifndef KV_SIM_LAYOUT_H
#define KV_SIM_LAYOUT_H

#include "ref/backend/backend.h"
#include "ref/lane/records.h"
#include "sim/replay/layout/regular.h"

typedef struct kv_layout kv_layout;

/* What shares a table of pages. */
typedef enum kv_layout_scope {
  KV_SCOPE_LANE,  /* each lane has its own */
  KV_SCOPE_LAYER, /* the lanes of a layer share one */
  KV_SCOPE_MODEL  /* all layers share one */
} kv_layout_scope;

enum {
  KV_MOST_PAGE = 65536, /* tokens of a page */
  KV_MOST_RANKS = 1024, /* of tensor parallelism */
  KV_LAYOUT_NAME = 32,  /* bytes of a layout's name, with its end */
  KV_MAP_ENTRY = 4 /* bytes of an entry of a table: a page's or slot's id */
};

/* A layout with its settings. */
typedef struct kv_layout_asked {
  const kv_layout *layout;
  int page;              /* tokens of one side that a page holds */
  kv_layout_scope scope; /* of pages */
  int variant;           /* of unified: a kv_pages_variant */
  /* Of regular indices: */
  bool sparse;   /* masked, not rewritten */
  bool one_mask; /* sparse: a mask for all lanes of a layer, whose
                    bits are what any of them holds */
  bool stays;    /* rewritten; but what no view holds stays as a clear bit until
                    it is dropped */
  int ranks;     /* KV heads are dealt to so many; 0: they are not */
  bool record;   /* also what is held, block by block, for
                    sim/run/look/together.h */
  char name[KV_LAYOUT_NAME]; /* its name in rows: "pages:16:layer" */
} kv_layout_asked;

/* What a state is opened for. */
typedef struct kv_layout_room {
  const kv_shape *shape;
  const kv_needs *needs;
  int lanes, layers; /* lanes of a layer; recorded layers */
  int points;        /* blocks of the prompt and decode steps */
} kv_layout_room;

/* A pair of formats, of K and of V, in which tokens lie in unified pages. */
typedef struct kv_layout_tier {
  int format[KV_SIDES];
  int64_t rows;    /* bytes of a token's rows of K and V */
  int64_t payload; /* of all that a token has in a page */
  int32_t tokens;  /* of a page; 0: there is no such tier */
} kv_layout_tier;

/* What every state begins with: callers set `block` and read the rest. */
typedef struct kv_layout_state {
  int block;            /* the block that enters or compresses now */
  int64_t pages, bytes; /* held now by this layer */
  int64_t taken, given; /* pages since begin */
  /* Of layouts with the hook `compressed`: */
  int64_t most_pages, most_bytes; /* while the last block was compressed */
  int64_t unused;                 /* bytes of pages in which nothing lies */
  int64_t moved;      /* entries that changed their tier since begin */
  int64_t operations; /* ids read from and written into the free list since */
  int64_t entries;    /* of page tables, complete after end */
  /* Of unified: */
  const kv_layout_tier *tier;         /* [KV_TIERS] that entries ever were in */
  const struct kv_pages_count *count; /* [lanes] entries by tier now */
  /* Of layouts with a task: */
  const kv_regular_layer *regular; /* [ranks] */
  const char *fault; /* why nothing more can be counted, or NULL */
  int64_t *freed;    /* [points] bytes of rows in pages that became free at that
                        block and stayed free; complete after end */
  /* If layers share pages, else NULL: which pages are held, how many rows each
   * was ever written, and the block since which it is free. Of base: which
   * tokens any lane holds, and zeros. */
  const uint64_t *held;
  const int32_t *wrote, *left;
} kv_layout_state;

/* Pages that all layers share have the same numbers in each of them. A page is
 * held while any layer holds it, and its bytes count once. base shares tokens
 * so, by their places, and sets pages and per_pool alone. */
typedef struct kv_layout_shared {
  int pages;                   /* 0: none are shared */
  int per_pool;                /* pages of one side in one format */
  int raw[KV_SIDES];           /* the pool of raw rows, by side */
  int64_t bytes[2 * KV_SLABS]; /* bytes of a page, by pool */
  int64_t row[2 * KV_SLABS];   /* bytes of a row, by pool */
} kv_layout_shared;

/* entered, compressed and end may be NULL, too. */
struct kv_layout {
  const char *name, *usage,
      *help;  /* for --layout: "pages", "pages:N", a line */
  bool paged; /* a backend that can keeps coded rows so: kv_plan.paged */
  kv_regular_task task; /* of regular indices; else none */
  /* Parses the settings, the text after "name:" (NULL if there is none), into
   * *out, of which only `layout` is set before. KV_USAGE: they are wrong. */
  kv_rc (*parse)(const char *settings, kv_layout_asked *out, kv_err *e);
  /* Describes the pages that layers share; NULL: there are none. */
  void (*shared)(const kv_layout_asked *asked, const kv_layout_room *room,
                 kv_layout_shared *out);
  /* KV_REFUSED: what such entries are held in has no place in this layout.
   * NULL: it has one for all. */
  kv_rc (*suits)(const kv_layout_asked *asked, const kv_shape *shape,
                 const kv_needs *needs, kv_err *e);
  /* Bytes of the tables that say where rows lie, of all lanes and layers, when
   * `step` tokens are seen and so many pages held; NULL: they are counted
   * otherwise, or a mask says it. */
  int64_t (*map)(const kv_layout_asked *asked, const kv_layout_room *room,
                 int step, int64_t held);
  kv_rc (*open)(const kv_layout_asked *asked, const kv_layout_room *room,
                kv_layout_state **out, kv_err *e); /* KV_RESOURCE: memory */
  void (*begin)(kv_layout_state *s); /* a new layer begins: empty the state */
  /* A row of the lane is written at a place, or left. */
  void (*write)(kv_layout_state *s, int lane, int side, int format,
                int32_t place);
  void (*leave)(kv_layout_state *s, int lane, int side, int format,
                int32_t place);
  /* The entry at a place becomes of class `to`; NULL: classes are all alike. */
  void (*retier)(kv_layout_state *s, int lane, int32_t place, int to);
  /* All lanes have the tokens up to `step`, and none is compressed yet. */
  void (*entered)(kv_layout_state *s, int step);
  /* All lanes, up to `step` tokens, are compressed; lane: a replica of each. A
   * layout with this hook and no task has page tables, and their numbers in its
   * rows. */
  void (*compressed)(kv_layout_state *s, int step, const kv_replica *lane);
  void (*end)(kv_layout_state *s);   /* the layer's last step is over */
  bool (*sound)(kv_layout_state *s); /* its own counts agree: asked after end,
                                        false is a bug of kvreplay */
  void (*close)(kv_layout_state *s); /* accepts NULL */
};

/* Ranks to which a layout deals a layer's lanes, the first to rank 0: 1 where
 * it does not. */
static inline int kv_layout_ranks(const kv_layout_asked *asked) {
  return asked->ranks ? asked->ranks : 1;
}

/* How a backend that can store rows by regular indices is to store them where
 * this layout is asked for (kv_plan.indices): by masks or rewritten; base as
 * what all lanes of a layer share, which is its set where all layers hold the
 * same (the second pass of README.md). For other layouts there are only the
 * numbers, and KV_INDICES_NONE is returned. */
kv_indices kv_layout_indices(const kv_layout_asked *asked);

/* The hooks parse and suits of regular indices. */
kv_rc kv_regular_parse(const char *settings, kv_layout_asked *out, kv_err *e);
kv_rc kv_regular_suits(const kv_layout_asked *asked, const kv_shape *shape,
                       const kv_needs *needs, kv_err *e);
/* The hook parse of a layout without settings. */
kv_rc kv_layout_parse_plain(const char *settings, kv_layout_asked *out,
                            kv_err *e);

/* --- what --layout says -------------------------------------------------- */

typedef struct kv_layout_list {
  int n;
  kv_layout_asked *item; /* [n] */
} kv_layout_list;

/* Adds the layouts of a list, "slots,pages:16:layer", to out, which is zeroed
 * before the first call. KV_USAGE: one is unknown, or stands there twice;
 * KV_RESOURCE. After a failure out has what it had and those before the wrong
 * one. */
kv_rc kv_layouts_parse(const char *text, kv_layout_list *out, kv_err *e);
void kv_layout_list_free(kv_layout_list *l); /* accepts zeroed */
/* The layouts as an option has them: its choices, with bars between, and what
 * help says of it. */
extern const char kv_layout_choices[], kv_layout_help[];

/* --- the tables, a file each; those of regular indices share one --------- */

extern const kv_layout kv_layout_slots, kv_layout_pages, kv_layout_unified;
extern const kv_layout kv_layout_base, kv_layout_ls, kv_layout_la, kv_layout_hs,
    kv_layout_ha;

#endif
