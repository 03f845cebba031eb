/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory layouts: where a real store would put the rows that a method keeps,
 * and which memory becomes free when the method drops some. A layout decides
 * nothing and changes no digest. It only reads the records of decisions
 * (ref/lane/records.h), so one replay can feed any number of layouts.
 *
 * A layout is one const table. It opens one state for each layer in flight of a
 * cell (called by sim/replay/layout/layouts.h). A row is one side, K or V, of
 * an entry in one format. The state receives every row that is written or left
 * (its memory is free) and, if it wants, every change of an entry's class
 * (kv_retier). A row that is recoded or merged is left, and the new one written
 * in its format. sim/replay/layout/README.md describes each layout and works an
 * example by hand.
 *
 * open may fail; nothing after it allocates. One thread at a time calls a
 * state; other threads may call states of other layers. A block is a piece of
 * the prompt, or a decode step. A place is an entry's number in the order of
 * append, from 0. A format is KV_RAW, KV_MERGED or KV_CODED + i (ref/lane).
 */
#ifndef KV_SIM_LAYOUT_H
#define KV_SIM_LAYOUT_H

#include "ref/backend/backend.h"
#include "ref/lane/records.h"
#include "sim/replay/layout/regular.h"

typedef struct kv_layout kv_layout;

/* Who shares a page table. */
typedef enum kv_layout_scope {
  KV_SCOPE_LANE,  /* each lane has its own */
  KV_SCOPE_LAYER, /* the lanes of a layer share one */
  KV_SCOPE_MODEL  /* all layers share one */
} kv_layout_scope;

enum {
  KV_MOST_PAGE = 65536, /* tokens of a page */
  KV_MOST_RANKS = 1024, /* most ranks of tensor parallelism */
  KV_LAYOUT_NAME = 32,  /* bytes of a layout's name, NUL included */
  KV_MAP_ENTRY = 4      /* bytes of a table entry: the id of a page or slot */
};

/* A layout with its settings. */
typedef struct kv_layout_asked {
  const kv_layout *layout;
  int page;              /* tokens of one side in a page */
  kv_layout_scope scope; /* of pages */
  int variant;           /* unified: a kv_pages_variant */
  /* Regular indices: */
  bool sparse;   /* masked, not rewritten */
  bool one_mask; /* sparse: one mask for all lanes of a layer, with a bit for
                    each entry that any of them holds */
  bool stays;    /* rewritten, but an entry that is in no view stays, as a clear
                    bit, until it is dropped */
  int ranks;     /* KV heads are divided among so many; 0: not divided */
  bool record;   /* also record what is held, block by block, for
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

/* A pair of formats, of K and of V, for tokens in unified pages. */
typedef struct kv_layout_tier {
  int format[KV_SIDES];
  int64_t rows;    /* bytes of a token's rows of K and V */
  int64_t payload; /* bytes of everything that a token has in a page */
  int32_t tokens;  /* tokens of a page; 0: there is no such tier */
} kv_layout_tier;

/* The first member of every state: callers set `block` and read the rest. */
typedef struct kv_layout_state {
  int block;            /* the block that enters or compresses */
  int64_t pages, bytes; /* held now by this layer */
  int64_t taken, given; /* pages since begin */
  /* Layouts with the hook `compressed`: */
  int64_t most_pages, most_bytes; /* during the last block's compression */
  int64_t unused;                 /* bytes of pages that hold no row */
  int64_t moved;                  /* entries that changed tier since begin */
  int64_t operations; /* ids read from and written to the free list */
  int64_t entries;    /* of page tables, complete after end */
  /* unified: */
  const kv_layout_tier *tier;         /* [KV_TIERS] that entries were in */
  const struct kv_pages_count *count; /* [lanes] current entries by tier */
  /* Regular indices: */
  const kv_regular_layer *regular; /* [ranks] */
  const char *fault;               /* why counting stopped, or NULL */
  int64_t *freed; /* [points] bytes of rows in pages that became free at that
                     block and stayed free; complete after end */
  /* If layers share pages, else NULL: which pages are held, how many rows each
   * was ever written, and since which block it has been free. In base: which
   * tokens any lane holds, and zeros. */
  const uint64_t *held;
  const int32_t *wrote, *left;
} kv_layout_state;

/* Pages shared by all layers have the same numbers in each layer. A page is
 * held while any layer holds it, and its bytes count once. base shares tokens
 * in this way, by their places, and sets only pages and per_pool. */
typedef struct kv_layout_shared {
  int pages;                   /* 0: none are shared */
  int per_pool;                /* pages of one side in one format */
  int raw[KV_SIDES];           /* by side: the pool of raw rows */
  int64_t bytes[2 * KV_SLABS]; /* bytes of a page, by pool */
  int64_t row[2 * KV_SLABS];   /* bytes of a row, by pool */
} kv_layout_shared;

/* entered, compressed and end may be NULL. */
struct kv_layout {
  const char *name, *usage,
      *help;            /* for --layout: "pages", "pages:N", a line */
  bool paged;           /* coded rows can be stored this way (kv_plan.paged) */
  kv_regular_task task; /* regular indices; else none */
  /* Parses the settings, the text after "name:" (NULL: none), into *out, whose
   * `layout` is already set. KV_USAGE: they are wrong. */
  kv_rc (*parse)(const char *settings, kv_layout_asked *out, kv_err *e);
  /* Describes the pages that layers share; NULL: none are shared. */
  void (*shared)(const kv_layout_asked *asked, const kv_layout_room *room,
                 kv_layout_shared *out);
  /* KV_REFUSED: the layout cannot hold the method's formats. NULL: it can. */
  kv_rc (*suits)(const kv_layout_asked *asked, const kv_shape *shape,
                 const kv_needs *needs, kv_err *e);
  /* Bytes of the tables that say where rows are, of all lanes and layers, when
   * `step` tokens are seen and `held` pages held. NULL: they are counted
   * otherwise, or a mask replaces them. */
  int64_t (*map)(const kv_layout_asked *asked, const kv_layout_room *room,
                 int step, int64_t held);
  kv_rc (*open)(const kv_layout_asked *asked, const kv_layout_room *room,
                kv_layout_state **out, kv_err *e); /* KV_RESOURCE: memory */
  void (*begin)(kv_layout_state *s); /* a new layer begins: empties the state */
  /* A row of the lane is written at a place, or left (its memory is free). */
  void (*write)(kv_layout_state *s, int lane, int side, int format,
                int32_t place);
  void (*leave)(kv_layout_state *s, int lane, int side, int format,
                int32_t place);
  /* The entry at a place gets the class `to`; NULL: classes do not matter. */
  void (*retier)(kv_layout_state *s, int lane, int32_t place, int to);
  /* All lanes have the tokens up to `step`, and none has compressed yet. */
  void (*entered)(kv_layout_state *s, int step);
  /* All lanes have compressed, up to `step` tokens; lane: a replica of each. A
   * layout with this hook and no task has page tables and reports them. */
  void (*compressed)(kv_layout_state *s, int step, const kv_replica *lane);
  void (*end)(kv_layout_state *s);   /* the layer's last step is over */
  bool (*sound)(kv_layout_state *s); /* do its own counts agree? Called after
                                        end; if not, kvreplay has a bug */
  void (*close)(kv_layout_state *s); /* accepts NULL */
};

/* Ranks among which a layout divides a layer's lanes, the first to rank 0: 1 if
 * it does not divide them. */
static inline int kv_layout_ranks(const kv_layout_asked *asked) {
  return asked->ranks ? asked->ranks : 1;
}

/* How a backend that can store rows by regular indices must store them for this
 * layout (kv_plan.indices): masked or rewritten. For base: as the union of all
 * lanes of a layer, which is base's set if all layers hold the same (the second
 * pass of README.md). KV_INDICES_NONE for other layouts. */
kv_indices kv_layout_indices(const kv_layout_asked *asked);

/* The hooks parse and suits of regular indices. */
kv_rc kv_regular_parse(const char *settings, kv_layout_asked *out, kv_err *e);
kv_rc kv_regular_suits(const kv_layout_asked *asked, const kv_shape *shape,
                       const kv_needs *needs, kv_err *e);
/* The hook parse of a layout without settings. */
kv_rc kv_layout_parse_plain(const char *settings, kv_layout_asked *out,
                            kv_err *e);

/* --- the option --layout ------------------------------------------------- */

typedef struct kv_layout_list {
  int n;
  kv_layout_asked *item; /* [n] */
} kv_layout_list;

/* Adds the layouts of a list, "slots,pages:16:layer", to out, which is zeroed
 * before the first call. KV_USAGE: one is unknown, or occurs twice.
 * KV_RESOURCE: memory. After a failure out has those before the wrong one. */
kv_rc kv_layouts_parse(const char *text, kv_layout_list *out, kv_err *e);
void kv_layout_list_free(kv_layout_list *l); /* accepts zeroed */
/* For the option's table: its choices, separated by bars, and its help. */
extern const char kv_layout_choices[], kv_layout_help[];

/* --- the tables: a file each, but one for all regular indices ------------- */

extern const kv_layout kv_layout_slots, kv_layout_pages, kv_layout_unified;
extern const kv_layout kv_layout_base, kv_layout_ls, kv_layout_la, kv_layout_hs,
    kv_layout_ha;

#endif
