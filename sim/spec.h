/* SPDX-License-Identifier: Apache-2.0
 *
 * Specifications: what stands behind -m.
 *
 *   list  = spec { "," spec }
 *   spec  = "all" | name { ":" key "=" value }
 *
 * A name with a slash or that ends in .so is the path of a plugin
 * (sim/door.h). In a value and in a path `\:`, `\,` and `\\` stand for the
 * character after the backslash; any other backslash is an error. "all" is
 * every method of the registry once, with its defaults. Everything wrong is
 * KV_USAGE with one sentence that names what is nearest. The registry is a
 * parameter, so that the grammar is tested without methods.
 */
#ifndef KV_SIM_SPEC_H
#define KV_SIM_SPEC_H

#include "ref/method.h"

/* The registry: the index-th method, NULL past the end (kv_method_at). */
typedef const kv_method *kv_registry(int index);

typedef struct kv_spec {
  const kv_method *method;
  void *params; /* the method's struct, before open */
  bool *given;  /* by parameter of its table: was typed */
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

/* One specification, no list and not "all". */
kv_rc kv_spec_parse(kv_registry *registry, const char *text, kv_spec *out,
                    kv_err *e);
kv_rc kv_spec_copy(const kv_spec *from, kv_spec *out, kv_err *e);
void kv_spec_free(kv_spec *s);

/* By name in the registry, then outside of it; else KV_USAGE naming the
 * nearest. */
kv_rc kv_registry_find(kv_registry *registry, const char *name,
                       const kv_method **out, kv_err *e);

/* The parameter that -b sets, NULL where the method has none. */
const kv_param *kv_spec_budget(const kv_method *m);
/* Does it have that parameter, and no value for it? */
bool kv_spec_wants_budget(const kv_spec *s);

/* The path of the decisions that it follows, room for KV_TEXT_MAX; NULL where
 * its method follows none. */
char *kv_spec_decisions(const kv_spec *s);

/* Writes params as JSON object and as specification; freed with free(), NULL
 * without memory. The JSON names of decisions only the file, without its
 * folder: wherever they lie they are the same row, told from others by their
 * bytes. */
char *kv_spec_json(const kv_spec *s);
char *kv_spec_text(const kv_spec *s);

#endif
