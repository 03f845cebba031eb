/* SPDX-License-Identifier: Apache-2.0
 *
 * Specifications: the value of the option -m.
 *
 *   list  = spec { "," spec }
 *   spec  = "all" | part [ "+" part ]
 *   part  = name { ":" key "=" value }
 *
 * The value of a budget may be a list, 64/32: a number for each layer of the
 * model.
 *
 * A name with a slash or that ends in .so is the path of a plugin
 * (sim/spec/door.h). In a value and in a path `\:`, `\,`, `\+` and `\\` stand
 * for the character after the backslash; any other backslash is an error. A `+`
 * joins two methods on one lane, a selection and a format for what it keeps
 * (ref/lane/compose.h); before a digit it is a number's (1e+06). "all" is every
 * method of the registry once, with its defaults. Everything wrong is KV_USAGE
 * with one sentence that names what is nearest. The registry is a parameter, so
 * that the grammar is tested without methods.
 */
#ifndef KV_SIM_SPEC_H
#define KV_SIM_SPEC_H

#include "ref/lane/method.h"

/* Characters that must be escaped with a backslash. */
#define KV_SPEC_ESCAPED ":,+\\"

/* A list of methods: the index-th one, NULL past the end (kv_method_at). */
typedef const kv_method *kv_registry(int index);

typedef struct kv_spec {
  const kv_method *method;
  void *params; /* the method's struct, before open */
  bool *given;  /* [parameters] true if it was typed */
  bool of_all;  /* of the word `all`: nobody named it */
  int n_layers; /* layers of the model, if it has a list */
  int *layers;  /* [n_layers] a budget for each layer, else NULL */
} kv_spec;

typedef struct kv_specs {
  int n;
  kv_spec *spec;
} kv_specs;

/* Adds the specifications of a list to out, which is zeroed before the first
 * call. The same specification twice is an error, in one list or in two. On
 * failure out keeps what it had. */
kv_rc kv_specs_add(kv_registry *registry, const char *list, kv_specs *out,
                   kv_err *e);
void kv_specs_free(kv_specs *s);
/* Length in bytes of the first specification of a list, up to its comma. */
size_t kv_specs_span(const char *list);

/* One specification, no list and not "all". */
kv_rc kv_spec_parse(kv_registry *registry, const char *text, kv_spec *out,
                    kv_err *e);
/* Length in bytes of the first part of a specification, up to its `+` or its
 * end. */
size_t kv_spec_part(const char *text);
kv_rc kv_spec_copy(const kv_spec *from, kv_spec *out, kv_err *e);
void kv_spec_free(kv_spec *s);

/* Finds a method by name in the registry, then among plugins. KV_USAGE, naming
 * the nearest name, if there is none. */
kv_rc kv_registry_find(kv_registry *registry, const char *name,
                       const kv_method **out, kv_err *e);

/* The parameter that -b sets, NULL where the method has none; and the same
 * where it counts entries. */
const kv_param *kv_spec_knob(const kv_method *m);
const kv_param *kv_spec_budget(const kv_method *m);
/* True if the method has a knob that counts entries and neither a value nor a
 * list was given for it. */
bool kv_spec_wants_budget(const kv_spec *s);
/* True if open has no value for it either: such a cell is asked for with -b. */
bool kv_spec_needs_budget(const kv_spec *s);

/* The file parameter of the method, with path "" while the file is not known;
 * NULL if the method reads no file. */
kv_file *kv_spec_file(const kv_spec *s);
/* The method that reads it, which is one of two where these share a lane; its
 * name is that of the file beside a trace. NULL: none does. */
const kv_method *kv_spec_reader(const kv_spec *s);

/* The parameters as a JSON object, and as a specification (sim/spec/param.h).
 * Freed with free(); NULL if memory ends. */
char *kv_spec_json(const kv_spec *s);
char *kv_spec_text(const kv_spec *s);
bool kv_spec_same(const kv_spec *a, const kv_spec *b);

/* --- spec_layers.c: a budget a layer ------------------------------------ */

/* True if the value of this parameter is a list of budgets. */
bool kv_spec_lists(const kv_spec *s, const kv_param *p, const char *value);
/* Gives s a budget for each layer; s has neither budget nor list before. After
 * a failure s can only be freed. */
kv_rc kv_spec_parse_list(kv_spec *s, const char *value, kv_err *e);
kv_rc kv_spec_set_list(kv_spec *s, int n, const int *entries, kv_err *e);
/* What kv_spec_text and kv_spec_json write for the part of a specification that
 * has a list. */
char *kv_spec_list_text(const kv_spec *s, const kv_method *m,
                        const void *values);
char *kv_spec_list_json(const kv_spec *s);

#endif
