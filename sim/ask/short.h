/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats by name in a specification: int4 is quant:k=int4:v=int4, k8v4 is
 * quant:k=int8:v=int4 (16, 8, 4, 2 or 1 bits; 16: as it came), e4m3-int4 is
 * quant:k=e4m3:v=int4, of any two names. Further parameters follow as ever:
 * snapkv+k8v4:residual=64. Rows and databases hold the long form; labels of
 * tables the short one. The list of names is ref/formats/named.h.
 */
#ifndef KV_SIM_SHORT_H
#define KV_SIM_SHORT_H

#include "ref/formats/named.h" /* KV_NAMED_LISTED, for a text of help */
#include "ref/lane/method.h"

enum { KV_SHORT = 32 }; /* bytes of a name, with its end */

/* Makes one part of a specification (sim/ask/spec.h) that begins with such a
 * name the long form of itself; another text stays. *part is the caller's, of
 * malloc, and may move. KV_USAGE where the name asks for bits or a format that
 * there is not; KV_RESOURCE: memory. */
kv_rc kv_short_expand(char **part, kv_err *e);

/* For labels: writes the short name of the method with these values (its
 * struct); false, and out unchanged, where it has none. */
bool kv_short_name(const kv_method *m, const void *values, char out[KV_SHORT]);
/* True if that name says the value of this parameter of the method. */
bool kv_short_has(const kv_param *p);

/* The i-th name of a single format, from 0; NULL past the end. */
const char *kv_short_at(int i);

#endif
