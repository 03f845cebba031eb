/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a command line names, by its table:
 * traces/option/option.h.
 */
#include "traces/option/option.h"

#include <stdlib.h>
#include <string.h>

enum { NAME = 32 };

typedef struct files {
  int ins, outs;
  kv_place *in, *out;
  char (*name)[NAME]; /* names of options for messages, one an option */
  int names;
} files;

static void add(files *f, kv_use use, const char *what, const char *path) {
  kv_place p = {.what = what,
                .path = path,
                .database = use == KV_USE_KEPT,
                .folder = use == KV_USE_FOLDER,
                .synthetic = use == KV_USE_SYNTHETIC,
                .instead = use == KV_USE_INSTEAD};
  bool made = use >= KV_USE_CREATED;
  if (use == KV_USE_NONE || !path) return;
  if (p.instead && !strcmp(path, "-")) return;
  if (made)
    f->out[f->outs++] = p;
  else
    f->in[f->ins++] = p;
}

static void add_list(files *f, kv_use use, const char *what, const kv_list *l) {
  for (int i = 0; i < l->n; i++) add(f, use, what, l->item[i]);
}

static void add_option(files *f, const kv_option *o, const void *values) {
  const void *slot = (const char *)values + o->offset;
  char *name = f->name[f->names++];
  strncat(strcpy(name, "--"), o->name, NAME - 3);
  if (o->slot == KV_SLOT_TEXT) add(f, o->use, name, *(char *const *)slot);
  if (o->slot == KV_SLOT_LIST) add_list(f, o->use, name, slot);
}

static void add_all(files *f, const kv_command *c, const void *values) {
  if (c->use)
    add_list(f, c->use, c->use == KV_USE_KEPT ? "the database" : "the trace",
             (const kv_list *)((const char *)values + c->offset));
  for (const kv_option *o = c->options; o && o->slot != KV_SLOT_END; o++)
    if (o->use) add_option(f, o, values);
}

/* The most places that options and operands may name. */
static size_t room_for(const kv_command *c, const void *values, int *options) {
  size_t n = 0;
  if (c->use)
    n += (size_t)((const kv_list *)((const char *)values + c->offset))->n;
  for (const kv_option *o = c->options; o && o->slot != KV_SLOT_END; o++) {
    const void *slot = (const char *)values + o->offset;
    if (!o->use) continue;
    n += o->slot == KV_SLOT_LIST ? (size_t)((const kv_list *)slot)->n : 1;
    ++*options;
  }
  return n;
}

kv_rc kv_options_apart(const kv_command *c, const void *values, int more,
                       const kv_place *in, kv_err *e) {
  int options = 0;
  size_t room = room_for(c, values, &options) + (size_t)more;
  files f = {.in = calloc(room + 1, sizeof *f.in),
             .out = calloc(room + 1, sizeof *f.out),
             .name = calloc((size_t)options + 1, NAME)};
  kv_rc rc = KV_OK;
  if (!f.in || !f.out || !f.name) {
    rc = kv_no_memory(e, "the command line", room * sizeof *f.in);
  } else {
    add_all(&f, c, values);
    for (int i = 0; i < more; i++) f.in[f.ins++] = in[i];
    rc = kv_places_apart(f.ins, f.in, f.outs, f.out, e);
  }
  free(f.in);
  free(f.out);
  free(f.name);
  return rc;
}
