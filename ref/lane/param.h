/* SPDX-License-Identifier: Apache-2.0
 *
 * A method's parameters: one row each in a const table that ends with name
 * NULL. The parser, the checks, help and database rows are made from the rows;
 * `open` gets the values in the method's own struct. A row is one of the
 * constructors below, or one of a family's (ref/parts), for example
 *
 *   KV_INT_PARAM("skip", params, skip, "2", 0, 1 << 20, "layers",
 *                "first layers that attend everything; 2 as in the paper"),
 *   KV_CHOICE_PARAM("rule", params, rule, "engine", "engine|paper",
 *                   "how many pages", .later = true),
 */
#ifndef KV_REF_PARAM_H
#define KV_REF_PARAM_H

#include "ref/lane/asset.h"
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Value of a KV_INT, KV_SHARE or KV_CHOICE that has no default and was not
 * given. A KV_REAL is then a NaN, a KV_TEXT empty. */
enum { KV_UNSET = INT32_MIN };
/* The kind of a parameter, and the type of its member. */
typedef enum kv_kind {
  KV_INT,    /* int */
  KV_REAL,   /* float: the nearest to the decimal */
  KV_SHARE,  /* int32_t, in units of 2^-20: the nearest */
  KV_CHOICE, /* int: index into choices */
  KV_TEXT,   /* char[KV_TEXT_MAX] */
  KV_FILE    /* kv_file: a file that the method reads */
} kv_kind;
enum {
  KV_TEXT_MAX = 1024, /* bytes, the end included */
  KV_MOST_FILES = 2   /* most KV_FILE parameters of a method */
};

/* The value of a KV_FILE. The engine opens and checks the file before it calls
 * the method's open, and refuses the cell if that fails. The file's SHA-256 is
 * part of the key of the cell's row. */
typedef struct kv_file {
  char path[KV_TEXT_MAX]; /* as named, or as found */
  bool beside;            /* not named by the user: found next to the trace */
  const kv_asset *asset;  /* its contents, owned by the engine; or NULL */
} kv_file;

/* Default of a KV_FILE: this path in the trace's folder
 * (traces/decisions/asset.h has the rule). Without a default, the user must
 * name the file, and no list of all methods contains the method. */
#define KV_FILE_BESIDE "assets/METHOD.MODEL.safetensors"
/* Another default. If no path is given, or this word, the method runs without a
 * file: kv_file.asset is NULL and path empty. */
#define KV_FILE_OPTIONAL "auto"

/* How -b sets a parameter, the method's knob. A table has at most one; its
 * values are at least 0. If two methods share a lane, the knob is the first's,
 * or the second's if the first has none. */
typedef enum kv_knob {
  KV_NO_KNOB,
  KV_KNOB_ENTRIES, /* a KV_INT that counts entries of a lane: any budget sets
                      it; it has no default */
  KV_KNOB_MORE,    /* another parameter; a greater value takes more bytes. It
                      has a default; only budgets in bytes change it */
  KV_KNOB_LESS,    /* the same, but a greater value takes fewer bytes */
  KV_KNOB_RESOLVED /* as KV_KNOB_ENTRIES, but open resolves it if -b is absent
                    */
} kv_knob;

typedef struct kv_param {
  const char *name; /* key in a specification */
  kv_kind kind;
  size_t offset;        /* bytes, of its member in the method's params struct */
  const char *fallback; /* default, as a user would type it; NULL: none, and
                           open resolves it */
  double min, max;      /* inclusive; KV_INT, KV_REAL, KV_SHARE */
  const char *choices;  /* KV_CHOICE: "mean|max|sum", the values 0, 1, 2 */
  const char *unit;     /* for help: "tokens"; NULL: none */
  const char *help;     /* one line, with the source of the default */
  bool later; /* Rows were stored before the method had it. At its default, or
                 unset, a row does not name it, so that keys of stored rows
                 stay. Without a default, open leaves it unset. */
  bool label; /* KV_TEXT: if set, its value names the rows */
  const kv_asset_kind *reads; /* KV_FILE: what the method reads from it */
  bool or_none; /* KV_FILE: the word none means no file (kv_file.asset is NULL)
                 */
  kv_knob knob; /* KV_INT, KV_REAL or KV_SHARE */
  double grid;  /* knob: min, min + grid, .. up to max are searched; 0: a
                   KV_INT's step of 1 */
} kv_param;

/* Constructors of rows. of: the name; type and member: the params struct and
 * its member; unless: the default, as a string, or NULL (open resolves it);
 * least, most: the range; in: the unit; words: the choices; what: the file's
 * kv_asset_kind. The help is last; other fields of kv_param may follow it, as
 * `.unit = "share"`. */
#define KV_PARAM_ROW(kind_, of, type, member, ...)                             \
  { .name = of, .kind = kind_, .offset = offsetof(type, member), __VA_ARGS__ }
#define KV_RANGE_ROW(kind_, of, type, member, unless, least, most, ...)        \
  KV_PARAM_ROW(kind_, of, type, member, .fallback = unless, .min = least,      \
               .max = most, __VA_ARGS__)
#define KV_INT_PARAM(of, type, member, unless, least, most, in, ...)           \
  KV_RANGE_ROW(KV_INT, of, type, member, unless, least, most, .unit = in,      \
               .help = __VA_ARGS__)
#define KV_REAL_PARAM(of, type, member, unless, least, most, ...)              \
  KV_RANGE_ROW(KV_REAL, of, type, member, unless, least, most,                 \
               .help = __VA_ARGS__)
#define KV_SHARE_PARAM(of, type, member, unless, least, most, ...)             \
  KV_RANGE_ROW(KV_SHARE, of, type, member, unless, least, most,                \
               .help = __VA_ARGS__)
#define KV_CHOICE_PARAM(of, type, member, unless, words, ...)                  \
  KV_PARAM_ROW(KV_CHOICE, of, type, member, .fallback = unless,                \
               .choices = words, .help = __VA_ARGS__)
#define KV_TEXT_PARAM(of, type, member, ...)                                   \
  KV_PARAM_ROW(KV_TEXT, of, type, member, .help = __VA_ARGS__)
#define KV_FILE_PARAM(of, type, member, unless, what, ...)                     \
  KV_PARAM_ROW(KV_FILE, of, type, member, .fallback = unless, .reads = what,   \
               .help = __VA_ARGS__)

#endif
