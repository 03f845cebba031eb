/* SPDX-License-Identifier: Apache-2.0
 *
 * Specifications: the value of the option -m.
 *
 *   list  = spec { "," spec }
 *   spec  = "all" | part [ "+" part ]
 *   part  = name { ":" key "=" value }
 *
 * Every method has two more keys, unless it has a parameter of that name:
 * `windowed`, what a cell does on layers with a sliding window; and `prefill`,
 * whole or the tokens of a chunk in which the prompt is read (kv_shape.chunk).
 *
 * The value of a budget may be a list, 64/32: one number for each layer.
 *
 * A name with a slash, or one that ends in .so, is the path of a plugin
 * (sim/ask/door.h). In a value or path `\:`, `\,`, `\+` and `\\` stand for the
 * character after the backslash; any other backslash is an error. A `+` joins
 * two methods on one lane, such as a selection and a format for what it keeps
 * (ref/lane/compose.h); before a digit it belongs to a number (1e+06). "all" is
 * every method of the registry once, with its defaults; `:windowed=..` after it
 * applies to each.
 *
 * A typing error is KV_USAGE, with one sentence that names the nearest name if
 * there is one. A plugin that cannot be loaded is KV_INPUT; lack of memory is
 * KV_RESOURCE. The registry is a parameter, so that the grammar can be tested
 * without methods.
 *
 * Commands parse their lists with kv_specs_add. A cell
 * (sim/replay/engine/cell.h) copies one specification, lets the method's open
 * resolve its parameters, and writes it out again.
 */
#ifndef KV_SIM_SPEC_H
#define KV_SIM_SPEC_H

#include "ref/lane/compose.h"
#include "ref/lane/method.h"
#include "sim/ask/budget.h"

/* Characters that must be escaped with a backslash. */
#define KV_SPEC_ESCAPED ":,+\\"

/* A list of methods: returns method `index`; NULL past the end (kv_method_at).
 */
typedef const kv_method *kv_registry(int index);

/* What a cell does with layers that have a sliding window. */
typedef enum kv_windowed {
  KV_WINDOWED_LEAVE,   /* they keep their window; the method does not run */
  KV_WINDOWED_COMPRESS /* the method runs on them, within their window */
} kv_windowed;

typedef struct kv_spec {
  const kv_method *method; /* the composition, if there are two on one lane */
  void *params;            /* the method's struct, before open */
  bool *given;             /* [rows of method->params] was it typed? */
  bool of_all;             /* from the word `all`: the method was not named */
  kv_windowed windowed;
  bool windowed_given; /* was it typed? */
  int chunk;           /* tokens of a chunk of the prompt; 0: read whole */
  bool chunk_given;    /* was it typed? */
  int n_layers;        /* budgets in `layers`, one for each layer; 0: no list */
  int *layers;         /* [n_layers] entries for each layer, else NULL */
} kv_spec;

typedef struct kv_specs { /* the values of -m, in the order typed */
  int n;
  kv_spec *spec; /* [n] */
} kv_specs;

/* Adds a list's specifications to out, which is zeroed before the first call. A
 * repeated specification is an error. After a failure out is unchanged. */
kv_rc kv_specs_add(kv_registry *registry, const char *list, kv_specs *out,
                   kv_err *e);
void kv_specs_free(kv_specs *s); /* its specifications, not s; accepts NULL */
/* Length in bytes of the first specification of a list, up to its comma. */
size_t kv_specs_span(const char *list);

/* Parses one specification, no list and not "all". Free *out, which is empty
 * after a failure, with kv_spec_free. */
kv_rc kv_spec_parse(kv_registry *registry, const char *text, kv_spec *out,
                    kv_err *e);
/* Bytes of the first part of a specification, up to its `+` or end. */
size_t kv_spec_part(const char *text);
/* Does `row` have the method of `asked`, and the same value for every parameter
 * that `asked` sets, by default or as typed? */
bool kv_spec_has(const kv_spec *row, const kv_spec *asked);
/* Copies everything except of_all. */
kv_rc kv_spec_copy(const kv_spec *from, kv_spec *out, kv_err *e);
void kv_spec_free(kv_spec *s); /* its memory, not s; accepts NULL */

/* Finds a method by name in the registry, then among plugins, which may load
 * one. KV_USAGE, with the nearest name, if there is none; otherwise fails as
 * kv_door_find (sim/ask/door.h). */
kv_rc kv_registry_find(kv_registry *registry, const char *name,
                       const kv_method **out, kv_err *e);

/* The parameter that -b sets, or NULL; _budget: only if it counts entries. */
const kv_param *kv_spec_knob(const kv_method *m);
const kv_param *kv_spec_budget(const kv_method *m);
/* Does the method's knob count entries, and has neither a value nor a list? */
bool kv_spec_wants_budget(const kv_spec *s);
/* The same, and open cannot resolve it? Such a cell needs -b. */
bool kv_spec_needs_budget(const kv_spec *s);

/* Most files of a specification. */
enum { KV_SPEC_FILES = KV_MOST_PARTS * KV_MOST_FILES };
/* The value in s->params of the method's i-th file parameter (kv_method_file),
 * or NULL; its path is "" while the file is unknown. */
kv_file *kv_spec_file(const kv_spec *s, int i);
/* The method that reads that file: s->method, or one of two methods on a lane.
 * A file in the trace's folder is named after it. NULL: none. */
const kv_method *kv_spec_reader(const kv_spec *s, int i);

/* The parameters as a JSON object, and as a specification (sim/ask/param.h).
 * Free them with free(); NULL without memory. */
char *kv_spec_json(const kv_spec *s);
char *kv_spec_text(const kv_spec *s);
/* Are method, values, list, `windowed` and `prefill`, so the cells, equal? */
bool kv_spec_same(const kv_spec *a, const kv_spec *b);

/* --- keys.c: the keys that every method has ------------------------------ */

/* The keys, and the values of the first, by kv_windowed, NULL at the end. */
#define KV_WINDOWED "windowed"
#define KV_PREFILL "prefill"
extern const char *const kv_windowed_names[];
/* Set either key from its typed value. KV_USAGE: no such value. */
kv_rc kv_windowed_parse(const char *value, kv_spec *s, kv_err *e);
kv_rc kv_prefill_parse(const char *value, kv_spec *s, kv_err *e);
/* Appends these keys, unless they are `leave` and `whole`, to a specification's
 * text or JSON object. Frees the argument. NULL stays NULL; NULL: no memory. */
char *kv_keys_text(const kv_spec *s, char *text);
char *kv_keys_json(const kv_spec *s, char *json);

/* --- a budget for each layer --------------------------------------------- */

/* Is `value`, typed for parameter p, a list of budgets: "64/32"? */
bool kv_spec_lists(const kv_spec *s, const kv_param *p, const char *value);
/* Give s a budget for each layer, as typed or as entries[n]. s must have
 * neither budget nor list before. After a failure s can only be freed. */
kv_rc kv_spec_parse_list(kv_spec *s, const char *value, kv_err *e);
kv_rc kv_spec_set_list(kv_spec *s, int n, const int *entries, kv_err *e);
/* Parts of kv_spec_text and kv_spec_json, for a specification with a list: the
 * text of method m with the values `values`, and the whole object. */
char *kv_spec_list_text(const kv_spec *s, const kv_method *m,
                        const void *values);
char *kv_spec_list_json(const kv_spec *s);

/* --- knob.c: the parameter that -b sets ---------------------------------- */

/* Below, p is the knob's row, as kv_spec_knob returns it. A search uses places
 * 1, 2, .. instead of values, ordered by the bytes that they take, fewest
 * first. Each place has one value of the knob's grid. For a knob that counts
 * entries, the place is the number of entries if the range begins at 1. Nothing
 * here fails; kv_param_put writes a value into the parameters. */

/* Does the budget (NULL: none) set the knob of this specification? Any budget
 * sets a knob that counts entries; only a budget in bytes sets another knob. A
 * typed value is never changed. */
bool kv_knob_takes(const kv_spec *s, const kv_budget *b);

/* Number of places, at least 1. Numbers of entries above n_tokens, the trace's
 * tokens, have no place. */
int kv_knob_places(const kv_param *p, int n_tokens);
/* The value of a place, 1 .. kv_knob_places, as the parameters store it: an
 * int, a share, or the bits of a float; at least 0. */
int32_t kv_knob_value(const kv_param *p, int n_tokens, int place);
/* Writes such a value for people: "budget 12", "p=0.25". */
void kv_knob_text(const kv_param *p, int32_t value, char out[KV_TEXT_MAX]);

/* --- short.c: formats by name -------------------------------------------- */

/* int4 is quant:k=int4:v=int4, k8v4 is quant:k=int8:v=int4 (16, 8, 4, 2 or 1
 * bits; 16: uncompressed), e4m3-int4 is quant:k=e4m3:v=int4, with any two
 * names. Further parameters follow as usual: snapkv+k8v4:residual=64. Rows and
 * databases have the long form, labels of tables the short one.
 * ref/formats/named.h lists the names. */
enum { KV_SHORT = 32 }; /* bytes of a name, NUL included */

/* Replaces one part of a specification that begins with such a name by its long
 * form; leaves other text alone. *part is the caller's, from malloc, and may
 * move. KV_USAGE if the name has bits or a format that do not exist.
 * KV_RESOURCE: memory. */
kv_rc kv_short_expand(char **part, kv_err *e);

/* For labels: writes the short name of the method with these values (its
 * struct). False, and out unchanged, if it has none. */
bool kv_short_name(const kv_method *m, const void *values, char out[KV_SHORT]);
/* Does that name contain the value of this parameter? */
bool kv_short_has(const kv_param *p);

/* The i-th name of a single format, from 0; NULL past the end. */
const char *kv_short_at(int i);

#endif
