/* SPDX-License-Identifier: Apache-2.0
 *
 * Specifications: the value of the option -m.
 *
 *   list  = spec { "," spec }
 *   spec  = "all" | part [ "+" part ]
 *   part  = name { ":" key "=" value }
 *
 * The key `windowed` is every method's, unless it has a parameter of that name:
 * what a cell does where layers have a sliding window.
 *
 * So is the key `prefill`: whole, or the tokens of a chunk in which the prompt
 * is read (kv_shape.chunk).
 *
 * The value of a budget may be a list, 64/32: a number for each layer of the
 * model.
 *
 * A name with a slash or that ends in .so is the path of a plugin
 * (sim/ask/door.h). In a value and in a path `\:`, `\,`, `\+` and `\\` stand
 * for the character after the backslash; any other backslash is an error. A `+`
 * joins two methods on one lane, a selection and a format for what it keeps
 * (ref/lane/compose.h); before a digit it is a number's (1e+06). "all" is every
 * method of the registry once, with its defaults, and may be followed by
 * `:windowed=..`, which is then said to each. What is typed wrong is
 * KV_USAGE, with one sentence that names what is nearest if there is such; a
 * plugin that cannot be loaded is KV_INPUT; without memory calls return
 * KV_RESOURCE. The registry is a parameter, so that the grammar is tested
 * without methods.
 *
 * Commands parse their lists with kv_specs_add; a cell
 * (sim/replay/engine/cell.h) copies one specification, has its parameters
 * resolved by the method's open, and writes it out again.
 */
#ifndef KV_SIM_SPEC_H
#define KV_SIM_SPEC_H

#include "ref/lane/compose.h"
#include "ref/lane/method.h"
#include "sim/ask/budget.h"

/* Characters that must be escaped with a backslash. */
#define KV_SPEC_ESCAPED ":,+\\"

/* A list of methods: the index-th one, NULL past the end (kv_method_at). */
typedef const kv_method *kv_registry(int index);

/* What a cell does with layers that have a sliding window. */
typedef enum kv_windowed {
  KV_WINDOWED_LEAVE,   /* they keep their window, whatever the method does */
  KV_WINDOWED_COMPRESS /* the method runs on them, within their window */
} kv_windowed;

typedef struct kv_spec {
  const kv_method *method; /* of two on one lane, the joined one */
  void *params;            /* the method's struct, before open */
  bool *given;             /* [rows of method->params] true if it was typed */
  bool of_all;             /* of the word `all`: nobody named it */
  kv_windowed windowed;
  bool windowed_given; /* it was typed */
  int chunk;           /* tokens of a chunk in which the prompt is read; 0: it
                          is read whole */
  bool chunk_given;    /* it was typed */
  int n_layers; /* budgets in `layers`: layers of the model; 0: no list */
  int *layers;  /* [n_layers] entries for each layer, else NULL */
} kv_spec;

typedef struct kv_specs { /* those of -m, in the order typed */
  int n;
  kv_spec *spec; /* [n] */
} kv_specs;

/* Adds the specifications of a list to out, which is zeroed before the first
 * call. The same specification twice is an error, in one list or in two. On
 * failure out keeps what it had. */
kv_rc kv_specs_add(kv_registry *registry, const char *list, kv_specs *out,
                   kv_err *e);
void kv_specs_free(kv_specs *s); /* its specifications, not s; accepts NULL */
/* Length in bytes of the first specification of a list, up to its comma. */
size_t kv_specs_span(const char *list);

/* One specification, no list and not "all", into *out, which is freed with
 * kv_spec_free, and empty after a failure. */
kv_rc kv_spec_parse(kv_registry *registry, const char *text, kv_spec *out,
                    kv_err *e);
/* Length in bytes of the first part of a specification, up to its `+` or its
 * end. */
size_t kv_spec_part(const char *text);
/* True if both are of one method and every parameter that `asked` sets, by
 * default or as typed, has the value that `row` has. */
bool kv_spec_has(const kv_spec *row, const kv_spec *asked);
/* A copy of its own memory; of_all is not copied. */
kv_rc kv_spec_copy(const kv_spec *from, kv_spec *out, kv_err *e);
void kv_spec_free(kv_spec *s); /* its memory, not s; accepts NULL */

/* Finds a method by name in the registry, then among plugins, which may load
 * one. KV_USAGE, naming the nearest name, if there is none; else as
 * kv_door_find fails (sim/ask/door.h). */
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

/* Files that a specification names at most. */
enum { KV_SPEC_FILES = KV_MOST_PARTS * KV_MOST_FILES };
/* The value of the method's i-th file parameter (kv_method_file) in s->params,
 * with path "" while the file is not known; NULL if there is no such. */
kv_file *kv_spec_file(const kv_spec *s, int i);
/* The method that reads that file, which is one of two where these share a
 * lane; the file beside a trace is named by it. NULL: none does. */
const kv_method *kv_spec_reader(const kv_spec *s, int i);

/* The parameters as a JSON object, and as a specification (sim/ask/param.h).
 * Freed with free(); NULL if memory ends. */
char *kv_spec_json(const kv_spec *s);
char *kv_spec_text(const kv_spec *s);
/* True if method, values, list, `windowed` and `prefill` are equal: such cells
 * are the same. */
bool kv_spec_same(const kv_spec *a, const kv_spec *b);

/* --- keys.c: the keys of every method ------------------------------------ */

/* The keys, as typed, and the values of the first by kv_windowed; ends with
 * NULL. */
#define KV_WINDOWED "windowed"
#define KV_PREFILL "prefill"
extern const char *const kv_windowed_names[];
/* Sets what was typed for either. KV_USAGE: it is no such value. */
kv_rc kv_windowed_parse(const char *value, kv_spec *s, kv_err *e);
kv_rc kv_prefill_parse(const char *value, kv_spec *s, kv_err *e);
/* A specification's text, or its JSON object, with the keys behind that are not
 * `leave` and `whole`, which no row names. Frees the argument; NULL: it was, or
 * memory ends. */
char *kv_keys_text(const kv_spec *s, char *text);
char *kv_keys_json(const kv_spec *s, char *json);

/* --- a budget a layer ---------------------------------------------------- */

/* True if `value`, typed for parameter p, is a list of budgets: "64/32". */
bool kv_spec_lists(const kv_spec *s, const kv_param *p, const char *value);
/* Each gives s a budget for each layer, as typed or entries[n]; s has neither
 * budget nor list before. After a failure s can only be freed. */
kv_rc kv_spec_parse_list(kv_spec *s, const char *value, kv_err *e);
kv_rc kv_spec_set_list(kv_spec *s, int n, const int *entries, kv_err *e);
/* For kv_spec_text: its part of method m, whose values are `values`, with the
 * list; and for kv_spec_json the whole. Both as kv_spec_text returns. */
char *kv_spec_list_text(const kv_spec *s, const kv_method *m,
                        const void *values);
char *kv_spec_list_json(const kv_spec *s);

/* --- knob.c: the parameter that -b sets ---------------------------------- */

/* Below, p is its row, as kv_spec_knob returns it. A search sees its values as
 * places 1, 2, .., ordered by the bytes that they take, least first; each place
 * has one value of the knob's grid. For a knob that counts entries the place is
 * the number of entries, if the range begins at 1. Nothing here fails;
 * kv_param_put writes a value into the parameters. */

/* True if the budget (NULL: none was given) sets the knob of this
 * specification. A knob that counts entries is set by any budget, another knob
 * only by a budget in bytes; neither is if its value was typed. */
bool kv_knob_takes(const kv_spec *s, const kv_budget *b);

/* Number of places, at least 1; numbers of entries above n_tokens, the trace's,
 * are left out. */
int kv_knob_places(const kv_param *p, int n_tokens);
/* The value of a place, 1 .. kv_knob_places, as the parameters store it: an
 * int, a share, or the bits of a float; 0 or more. */
int32_t kv_knob_value(const kv_param *p, int n_tokens, int place);
/* Writes such a value for people: "budget 12", "p=0.25". */
void kv_knob_text(const kv_param *p, int32_t value, char out[KV_TEXT_MAX]);

/* --- short.c: formats by name -------------------------------------------- */

/* int4 is quant:k=int4:v=int4, k8v4 is quant:k=int8:v=int4 (16, 8, 4, 2 or 1
 * bits; 16: as it came), e4m3-int4 is quant:k=e4m3:v=int4, of any two names.
 * Further parameters follow as ever: snapkv+k8v4:residual=64. Rows and
 * databases hold the long form; labels of tables the short one. The list of
 * names is ref/formats/named.h. */
enum { KV_SHORT = 32 }; /* bytes of a name, with its end */

/* Makes one part of a specification that begins with such a name the long form
 * of itself; another text stays. *part is the caller's, of malloc, and may
 * move. KV_USAGE where the name asks for bits or a format that there is not;
 * KV_RESOURCE: memory. */
kv_rc kv_short_expand(char **part, kv_err *e);

/* For labels: writes the short name of the method with these values (its
 * struct); false, and out unchanged, where it has none. */
bool kv_short_name(const kv_method *m, const void *values, char out[KV_SHORT]);
/* True if that name says the value of this parameter of the method. */
bool kv_short_has(const kv_param *p);

/* The i-th name of a single format, from 0; NULL past the end. */
const char *kv_short_at(int i);

#endif
