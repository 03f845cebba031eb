/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats by layer: ref/parts/by_layer.h.
 */
#include "ref/parts/by_layer.h"

#include <stdio.h>
#include <string.h>

#include "ref/ground/text.h"

const kv_asset_kind kv_by_layer_kind = {NULL, NULL};

/* Layers first .. last. */
typedef struct span {
  int first, last;
} span;

static bool read_number(const char **at, int *out) {
  const char *from = *at;
  int n = 0;
  for (; **at >= '0' && **at <= '9' && n < 1 << 20; ++*at)
    n = 10 * n + (**at - '0');
  *out = n;
  return *at != from;
}

/* Reads "5" or "5-8", up to any other character. */
static bool read_span(const char **at, span *out) {
  if (!read_number(at, &out->first)) return false;
  out->last = out->first;
  if (**at != '-') return true;
  ++*at;
  return read_number(at, &out->last) && out->last >= out->first;
}

/* Reads an item of the list; first and last count layers from either end. */
static bool read_item(const char **at, int n_layers, span *out) {
  bool first = strncmp(*at, "first", 5) == 0;
  int n;
  if (!first && strncmp(*at, "last", 4) != 0) return read_span(at, out);
  *at += first ? 5 : 4;
  if (!read_number(at, &n) || n == 0) return false;
  *out = first ? (span){0, n - 1} : (span){n_layers - n, n_layers - 1};
  return true;
}

/* Does the model have these layers, and can they differ from others? */
static bool are_there(const span *s, int n_layers) {
  return s->first >= 0 && s->last < n_layers && s->last < KV_BY_LAYER;
}

static int most_of(int n_layers) {
  return (n_layers < KV_BY_LAYER ? n_layers : KV_BY_LAYER) - 1;
}

static void put(const span *s, int keys, int values, kv_by_layer *by) {
  size_t n = (size_t)(s->last - s->first + 1);
  memset(by->name[0] + s->first, keys, n);
  memset(by->name[1] + s->first, values, n);
}

static kv_rc no_format(const char *where, const char *name, kv_err *e) {
  char show[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s: '%s' is no format; choose one of %s", where,
                 kv_show(name, show), KV_NAMED_CHOICES);
}

/* Reads "LAYERS KEYS VALUES"; set: which layers earlier lines have set. */
static kv_rc read_line(const char *where, const char *line, int n_layers,
                       bool *set, kv_by_layer *by, kv_err *e) {
  char name[2][KV_SHOW], rest[2], show[KV_SHOW];
  const char *at = line;
  int format[2];
  span s;
  if (!read_span(&at, &s) || !strchr(" \t", *at) ||
      sscanf(at, "%79s %79s %1s", name[0], name[1], rest) != 2)
    return kv_fail(e, KV_INPUT,
                   "%s: '%s' is not a layer or range of layers, a format of "
                   "keys and one of values; write for example 0-3 raw int8",
                   where, kv_show(line, show));
  if (!are_there(&s, n_layers))
    return kv_fail(e, KV_REFUSED,
                   "%s: it names layer %d; name layers from 0 to %d", where,
                   s.last, most_of(n_layers));
  for (int i = 0; i < 2; i++) {
    format[i] = kv_named_format_find(name[i]);
    if (format[i] < 0) return no_format(where, name[i], e);
  }
  for (int l = s.first; l <= s.last; l++) {
    if (set[l])
      return kv_fail(e, KV_INPUT,
                     "%s: layer %d has a line above; name each layer once",
                     where, l);
    set[l] = true;
  }
  put(&s, format[0], format[1], by);
  return KV_OK;
}

static kv_rc read_file(const kv_asset *file, int n_layers, kv_by_layer *by,
                       kv_err *e) {
  bool set[KV_BY_LAYER] = {false};
  char where[KV_SHOW + 32];
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < file->texts; i++) {
    snprintf(where, sizeof where, "%s, line %s", file->path, file->text[i].key);
    rc = read_line(where, file->text[i].value, n_layers, set, by, e);
  }
  if (!rc && file->texts == 0)
    rc = kv_fail(e, KV_INPUT, "%s has no line; write for example 0-3 raw int8",
                 file->path);
  return rc;
}

static kv_rc read_list(const char *method, const char *parameter,
                       const char *text, int n_layers, kv_by_layer *by,
                       kv_err *e) {
  span s;
  for (const char *at = text; *text; at++) {
    if (!read_item(&at, n_layers, &s) || (*at && *at != '/'))
      return kv_fail(e, KV_USAGE,
                     "%s: %s=%s is not a list of layers; write for example "
                     "first2/last2 or 0/4-7",
                     method, parameter, text);
    if (!are_there(&s, n_layers))
      return kv_fail(e, KV_REFUSED,
                     "%s: %s=%s names layer %d; name layers from 0 to %d",
                     method, parameter, text, s.first < 0 ? s.first : s.last,
                     most_of(n_layers));
    put(&s, 0, 0, by);
    if (!*at) break;
  }
  return KV_OK;
}

kv_rc kv_by_layer_open(const char *method, const char *parameter,
                       const kv_shape *shape, const kv_asset *file,
                       const char *raw, int keys, int values, kv_by_layer *by,
                       kv_err *e) {
  kv_rc rc = KV_OK;
  put(&(span){0, KV_BY_LAYER}, keys, values, by);
  if (file) rc = read_file(file, shape->n_layers, by, e);
  if (!rc) rc = read_list(method, parameter, raw, shape->n_layers, by, e);
  return rc;
}
