/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of a method's parameters, in the struct that its kv_param table
 * describes: parsed from text, and written as text that reads back to the same
 * bits. Defaults go through the same parser as user input. A table ends with
 * name NULL; a NULL table is empty. A value is unset (KV_UNSET for integers,
 * NaN for KV_REAL, "" for KV_TEXT and KV_FILE) until it is given or the
 * method's open resolves it. Nothing depends on the locale. Below, `values` is
 * the caller's struct (kv_method.params_size bytes) and p a row of its table.
 */
#ifndef KV_SIM_PARAM_H
#define KV_SIM_PARAM_H

#include "ref/lane/method.h"

/* Most choices of a parameter; bytes of the text that lists them, with NUL. */
enum { KV_MOST_CHOICES = 64, KV_CHOICES_BYTES = 512 };

/* Does the knob count entries, so that any budget sets it? */
static inline bool kv_knob_counts(kv_knob knob) {
  return knob == KV_KNOB_ENTRIES || knob == KV_KNOB_RESOLVED;
}

int kv_params_count(const kv_param *table); /* rows */
/* Bytes of a value in the struct: 4 for numbers and choices. */
size_t kv_param_size(kv_kind kind);
/* Index in the table, or -1. */
int kv_params_find(const kv_param *table, const char *name);

/* Sets every value of a zeroed struct to its default. A value without default,
 * or a file, becomes unset. KV_INTERNAL if a default is not legal. */
kv_rc kv_params_default(const kv_param *table, void *values, kv_err *e);

/* Parses one value, as typed but without escapes. On KV_USAGE the sentence
 * names the range or the choices, and the nearest legal value if there is one;
 * values is unchanged. */
kv_rc kv_param_set(const kv_param *p, const char *text, void *values,
                   kv_err *e);
bool kv_param_is_set(const kv_param *p, const void *values);
/* Sets a 4-byte value (asserted) without a range check: an int, a share, or the
 * bits of a float. */
void kv_param_put(const kv_param *p, int32_t value, void *values);
void kv_param_unset(const kv_param *p, void *values);

/* Writes the value as a user would type it, without escapes; "" if unset. */
void kv_param_text(const kv_param *p, const void *values,
                   char out[KV_TEXT_MAX]);
/* Writes the range or the choices, for people: "1 to 64", "mean|max|sum". */
void kv_param_range(const kv_param *p, char out[KV_TEXT_MAX]);

/* All values as a JSON object, {"budget": 512, "group": "mean"}; free() it;
 * NULL: no memory. Unset values are null. Parameters added later
 * (kv_param.later) are left out at their defaults. A file's name has no folder,
 * so that a row does not depend on where it is; kv_code covers its bytes. */
char *kv_params_json(const kv_param *table, const void *values);
/* The same for n layers, whose values are `size` bytes apart. A parameter that
 * differs between layers becomes a list; so does the budget if n > 1. */
char *kv_params_json_each(const kv_param *table, int n, size_t size,
                          const void *values);
/* As a specification, name:budget=512:group=mean, escaped, without unset values
 * and without files found by default. */
char *kv_params_spec(const char *name, const kv_param *table,
                     const void *values);

#endif
