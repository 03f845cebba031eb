/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of a method's parameters, in the struct that its kv_param table
 * describes: set from text, written back as text. Defaults go through the
 * same parser as what a user types. What is written reads back to the same
 * bits. `table` ends with name NULL; NULL is an empty table. A value is
 * unset (KV_UNSET; for KV_REAL a NaN, for KV_TEXT "") until open resolves
 * it. Nothing depends on the locale.
 */
#ifndef KV_SIM_PARAM_H
#define KV_SIM_PARAM_H

#include "ref/method.h"

int kv_params_count(const kv_param *table);
/* Index in the table, -1 if there is none. */
int kv_params_find(const kv_param *table, const char *name);

/* Sets every value; values is zeroed before, size of the struct. A default
 * that its own range refuses is KV_INTERNAL. */
kv_rc kv_params_default(const kv_param *table, void *values, kv_err *e);

/* One value from what was typed: KV_USAGE names range or choices and the
 * nearest legal value. On failure values is unchanged. */
kv_rc kv_param_set(const kv_param *p, const char *text, void *values,
                   kv_err *e);
bool kv_param_is_set(const kv_param *p, const void *values);
/* The value of a KV_INT, set by a program; no range is looked at. */
void kv_param_put_int(const kv_param *p, int value, void *values);

/* The value as it would be typed, without escapes; "" when unset. */
void kv_param_text(const kv_param *p, const void *values,
                   char out[KV_TEXT_MAX]);
/* The range or the choices, for people: "1 to 64", "mean|max|sum". */
void kv_param_range(const kv_param *p, char out[KV_TEXT_MAX]);

/* All values: {"budget":512,"group":"mean"}, unset as null; and
 * name:budget=512:group=mean, escaped, unset left out. Freed with free();
 * NULL without memory. */
char *kv_params_json(const kv_param *table, const void *values);
char *kv_params_spec(const char *name, const kv_param *table,
                     const void *values);

#endif
