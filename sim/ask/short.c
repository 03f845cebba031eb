/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats by name: sim/ask/spec.h.
 */
#include "sim/ask/spec.h"

#include "ref/formats/named.h"
#include "ref/ground/text.h"
#include "sim/ask/param.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char method[] = "quant";

/* The format for each number of bits; a side of 16 bits stays uncompressed. */
static const struct {
  const char *digits, *name;
} bits[] = {
    {"16", "raw"}, {"8", "int8"}, {"4", "int4"}, {"2", "int2"}, {"1", "int1"}};
enum { BITS = sizeof bits / sizeof *bits };

static const char *name_of(size_t n, const char *digits) {
  for (int i = 0; i < BITS; i++)
    if (strlen(bits[i].digits) == n && memcmp(bits[i].digits, digits, n) == 0)
      return bits[i].name;
  return NULL;
}

static const char *digits_of(const char *name) {
  for (int i = 0; i < BITS; i++)
    if (strcmp(bits[i].name, name) == 0) return bits[i].digits;
  return NULL;
}

/* Is the text of n bytes kNvM? *k, *v: how many digits N and M have. */
static bool is_pair(size_t n, const char *text, size_t *k, size_t *v) {
  static const char all[] = "0123456789";
  if (n < 4 || text[0] != 'k') return false;
  *k = strspn(text + 1, all);
  if (*k == 0 || text[1 + *k] != 'v') return false;
  *v = strspn(text + 2 + *k, all);
  return *v > 0 && *k + *v + 2 == n;
}

/* Cuts FORMAT-FORMAT, for keys and values, at the dash. */
static kv_rc cut_two(char *name, const char **k, const char **v, kv_err *e) {
  char *dash = strchr(name, '-'), show[KV_SHOW];
  if (!dash) return KV_OK;
  *dash = 0;
  int keys = kv_named_format_find(name), at = keys;
  if (keys >= 0) at = kv_named_format_find(dash + 1);
  if (at < 0 && keys >= 0)
    return kv_fail(
        e, KV_USAGE,
        "no format is called %s, as %s- needs for values; choose one of %s",
        kv_show(dash + 1, show), name, KV_NAMED_CHOICES);
  if (keys < 0) return KV_OK;
  *k = name;
  *v = dash + 1;
  return KV_OK;
}

/* The formats that the first n bytes of the text name. */
static kv_rc look_up(size_t n, const char *text, char name[KV_SHORT],
                     const char **k, const char **v, kv_err *e) {
  size_t a, b;
  *k = *v = NULL;
  if (n >= KV_SHORT) return KV_OK;
  memcpy(name, text, n);
  name[n] = 0;
  if (kv_named_format_find(name) > 0) *k = *v = name;
  if (!is_pair(n, name, &a, &b)) return cut_two(name, k, v, e);
  *k = name_of(a, name + 1);
  *v = name_of(b, name + 2 + a);
  if (*k && *v) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "no format has the bits of %s; keys and values can have 16 "
                 "(uncoded), 8, 4, 2 or 1",
                 name);
}

kv_rc kv_short_expand(char **part, kv_err *e) {
  size_t n = strcspn(*part, ":"), rest = strlen(*part + n);
  char name[KV_SHORT];
  const char *k, *v;
  kv_rc rc = look_up(n, *part, name, &k, &v, e);
  if (rc || !k) return rc;
  size_t room = sizeof method + strlen(k) + strlen(v) + rest + 8;
  char *text = malloc(room);
  if (!text) return kv_no_memory(e, "a specification", room);
  snprintf(text, room, "%s:k=%s:v=%s%s", method, k, v, *part + n);
  free(*part);
  *part = text;
  return KV_OK;
}

/* The value of a parameter by name. */
static bool value_of(const kv_method *m, const void *values, const char *name,
                     char out[KV_TEXT_MAX]) {
  int i = kv_params_find(m->params, name);
  if (i < 0) return false;
  kv_param_text(&m->params[i], values, out);
  return true;
}

bool kv_short_name(const kv_method *m, const void *values, char out[KV_SHORT]) {
  char k[KV_TEXT_MAX], v[KV_TEXT_MAX];
  if (strcmp(m->name, method) != 0 || !value_of(m, values, "k", k) ||
      !value_of(m, values, "v", v))
    return false;
  bool alike = strcmp(k, v) == 0, named = kv_named_format_find(k) > 0;
  const char *a = digits_of(k), *b = digits_of(v);
  if (alike && named)
    snprintf(out, KV_SHORT, "%.*s", KV_SHORT - 1, k);
  else if (a && b)
    snprintf(out, KV_SHORT, "k%sv%s", a, b);
  else
    snprintf(out, KV_SHORT, "%.*s-%.*s", KV_SHORT / 2 - 1, k, KV_SHORT / 2 - 1,
             v);
  return true;
}

bool kv_short_has(const kv_param *p) {
  return strcmp(p->name, "k") == 0 || strcmp(p->name, "v") == 0;
}

const char *kv_short_at(int i) {
  const kv_named_format *f = kv_named_format_at(i + 1); /* the first is raw */
  return f ? f->name : NULL;
}
