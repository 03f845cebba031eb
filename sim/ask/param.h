/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of a method's parameters, in the struct that its kv_param table
 * describes: parsed from text and written back as text that reads back to the
 * same bits. Defaults go through the same parser as what a user types. A table
 * ends with name NULL; a NULL table is empty. A value is unset (KV_UNSET for
 * integers, NaN for KV_REAL, "" for KV_TEXT and KV_FILE) until it is given or
 * the method's open works it out. Nothing depends on the locale. Below,
 * `values` is the method's struct (kv_method.params_size bytes), the caller's,
 * and p a row of its table.
 */
#ifndef KV_SIM_PARAM_H
#define KV_SIM_PARAM_H

#include "ref/lane/method.h"

/* The most choices of a parameter, and bytes for the text that lists them, with
 * its end. */
enum { KV_MOST_CHOICES = 64, KV_CHOICES_BYTES = 512 };

/* True of a knob that counts entries, which any budget sets. */
static inline bool kv_knob_counts(kv_knob knob) {
  return knob == KV_KNOB_ENTRIES || knob == KV_KNOB_RESOLVED;
}

int kv_params_count(const kv_param *table); /* rows */
/* Bytes of a value in the struct: 4 for numbers and choices. */
size_t kv_param_size(kv_kind kind);
/* Index in the table, -1 if there is none. */
int kv_params_find(const kv_param *table, const char *name);

/* Sets every value to its default, of a struct that the caller has zeroed; what
 * has none, and a file, is unset. KV_INTERNAL if a default is not legal. */
kv_rc kv_params_default(const kv_param *table, void *values, kv_err *e);

/* Parses one value, as typed but without escapes. KV_USAGE names the range or
 * the choices, and the nearest legal value if there is one. On failure values
 * is unchanged. */
kv_rc kv_param_set(const kv_param *p, const char *text, void *values,
                   kv_err *e);
bool kv_param_is_set(const kv_param *p, const void *values);
/* Sets a value of 4 bytes (asserted: no text or file) from a program, without a
 * range check: an int, a share, or the bits of a float. */
void kv_param_put(const kv_param *p, int32_t value, void *values);
void kv_param_unset(const kv_param *p, void *values);

/* Writes the value as a user would type it, without escapes; "" if unset. */
void kv_param_text(const kv_param *p, const void *values,
                   char out[KV_TEXT_MAX]);
/* Writes the range or the choices, for people: "1 to 64", "mean|max|sum". */
void kv_param_range(const kv_param *p, char out[KV_TEXT_MAX]);

/* All values as text, freed with free(); NULL if memory ends; those that came
 * later (kv_param.later) are left out while they have their defaults. As a JSON
 * object: {"budget": 512, "group": "mean"}, unset values as null, a file's name
 * without its folder: a row stays the same wherever the file lies, and kv_code
 * tells its bytes apart. */
char *kv_params_json(const kv_param *table, const void *values);
/* The same for n layers whose values lie `size` bytes apart: a parameter that
 * differs between layers becomes a list, and, of several layers, the budget
 * always does. */
char *kv_params_json_each(const kv_param *table, int n, size_t size,
                          const void *values);
/* As a specification: name:budget=512:group=mean, escaped, without unset values
 * and files that nobody named. */
char *kv_params_spec(const char *name, const kv_param *table,
                     const void *values);

#endif
