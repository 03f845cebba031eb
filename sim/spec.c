/* SPDX-License-Identifier: Apache-2.0
 *
 * Specifications: sim/spec.h. A text is cut at unescaped separators into
 * pieces; only values lose their escapes.
 */
#include "sim/spec.h"

#include "sim/door.h"
#include "sim/param.h"
#include "traces/text.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 256 };

/* Bytes before the first unescaped `stop`, or all. */
static size_t span(const char *text, char stop) {
  size_t n = 0;
  while (text[n] && text[n] != stop)
    n += text[n] == '\\' && text[n + 1] ? 2 : 1;
  return n;
}

/* What follows the piece of n bytes; NULL after the last piece. */
static const char *after(const char *piece, size_t n) {
  return piece[n] ? piece + n + 1 : NULL;
}

static kv_rc no_method(kv_registry *registry, const char *name, kv_err *e) {
  const char *names[MAX_NAMES];
  char show[KV_SHOW];
  int n = 0;
  while (n < MAX_NAMES && registry(n)) {
    names[n] = registry(n)->name;
    n++;
  }
  const char *near = kv_text_nearest(name, n, names);
  if (near) {
    return kv_fail(e, KV_USAGE, "no method is called %s; did you mean %s?",
                   kv_show(name, show), near);
  }
  return kv_fail(e, KV_USAGE,
                 "no method is called %s; `kvreplay methods` lists them",
                 kv_show(name, show));
}

kv_rc kv_registry_find(kv_registry *registry, const char *name,
                       const kv_method **out, kv_err *e) {
  for (int i = 0; registry(i); i++) {
    if (strcmp(registry(i)->name, name) == 0) {
      *out = registry(i);
      return KV_OK;
    }
  }
  kv_rc rc = kv_door_find(name, out, e);
  return rc || *out ? rc : no_method(registry, name, e);
}

const kv_param *kv_spec_budget(const kv_method *m) {
  int i = kv_params_find(m->params, "budget");
  return i < 0 ? NULL : &m->params[i];
}

bool kv_spec_wants_budget(const kv_spec *s) {
  const kv_param *p = kv_spec_budget(s->method);
  return p && !kv_param_is_set(p, s->params);
}

char *kv_spec_decisions(const kv_spec *s) {
  const kv_param *table = s->method->params;
  if (!s->method->decisions) return NULL;
  return (char *)s->params + table[kv_params_find(table, "file")].offset;
}

char *kv_spec_text(const kv_spec *s) {
  return kv_params_spec(s->method->name, s->method->params, s->params);
}

void kv_spec_free(kv_spec *s) {
  if (s == NULL) return;
  free(s->params);
  free(s->given);
  memset(s, 0, sizeof *s);
}

static size_t flags(const kv_method *m) {
  return (size_t)kv_params_count(m->params) + 1;
}

/* Memory and defaults. */
static kv_rc start(const kv_method *m, kv_spec *s, kv_err *e) {
  s->method = m;
  s->params = kv_zalloc(1, m->params_size + 1);
  s->given = kv_zalloc(flags(m), sizeof(bool));
  if (s->params == NULL || s->given == NULL) {
    return kv_no_memory(e, "the parameters of a method", m->params_size);
  }
  return kv_params_default(m->params, s->params, e);
}

kv_rc kv_spec_copy(const kv_spec *from, kv_spec *out, kv_err *e) {
  memset(out, 0, sizeof *out);
  kv_rc rc = start(from->method, out, e);
  if (rc) {
    kv_spec_free(out);
    return rc;
  }
  memcpy(out->params, from->params, from->method->params_size);
  memcpy(out->given, from->given, flags(from->method) * sizeof(bool));
  return KV_OK;
}

char *kv_spec_json(const kv_spec *s) {
  kv_spec bare;
  if (kv_spec_copy(s, &bare, NULL)) return NULL;
  char *path = kv_spec_decisions(&bare), *slash = path ? strrchr(path, '/') : 0;
  if (slash) memmove(path, slash + 1, strlen(slash));
  char *json = kv_params_json(bare.method->params, bare.params);
  kv_spec_free(&bare);
  return json;
}

/* In place; false at a backslash that escapes nothing. */
static bool unescape(char *text) {
  char *to = text;
  for (; *text; text++) {
    if (*text == '\\') {
      text++;
      if (!*text || !strchr(":,\\", *text)) return false;
    }
    *to++ = *text;
  }
  *to = 0;
  return true;
}

static kv_rc no_param(const kv_method *m, const char *key, kv_err *e) {
  const char *names[MAX_NAMES];
  char show[KV_SHOW], list[256] = "";
  int n = kv_params_count(m->params);
  if (n == 0) {
    return kv_fail(e, KV_USAGE, "%s has no parameters, so no %s", m->name,
                   kv_show(key, show));
  }
  for (int i = 0; i < n && i < MAX_NAMES; i++) {
    names[i] = m->params[i].name;
    size_t used = strlen(list);
    if (used + strlen(names[i]) + 3 > sizeof list) continue;
    if (i) strcat(list, ", ");
    strcat(list, names[i]);
  }
  const char *near = kv_text_nearest(key, n, names);
  return kv_fail(e, KV_USAGE, "%s has no parameter %s%s%s%s: it has %s",
                 m->name, kv_show(key, show), near ? "; did you mean " : "",
                 near ? near : "", near ? "?" : "", list);
}

/* key=value, a copy that may be written to. */
static kv_rc assign(char *pair, kv_spec *s, kv_err *e) {
  const kv_method *m = s->method;
  char show[KV_SHOW], *value = strchr(pair, '=');
  kv_err why = {0};
  if (value) *value++ = 0;
  if (*pair == 0) {
    return kv_fail(e, KV_USAGE, "%s: a parameter is missing after a colon",
                   m->name);
  }
  int i = kv_params_find(m->params, pair);
  if (i < 0) return no_param(m, pair, e);
  if (value == NULL) {
    return kv_fail(e, KV_USAGE, "%s: %s has no value; write %s=...", m->name,
                   pair, pair);
  }
  if (s->given[i]) {
    return kv_fail(e, KV_USAGE, "%s: %s is given twice", m->name, pair);
  }
  if (!unescape(value)) {
    return kv_fail(e, KV_USAGE,
                   "%s: a backslash in %s=%s escapes nothing; write \\\\ for "
                   "the character itself",
                   m->name, pair, kv_show(value, show));
  }
  kv_rc rc = kv_param_set(&m->params[i], value, s->params, &why);
  if (rc) return kv_fail(e, rc, "%s: %s", m->name, why.text);
  s->given[i] = true;
  return KV_OK;
}

static kv_rc assign_all(const char *at, kv_spec *s, kv_err *e) {
  kv_rc rc = KV_OK;
  while (at && rc == KV_OK) {
    size_t n = span(at, ':');
    char *pair = kv_text_copy(n, at);
    if (pair == NULL) return kv_no_memory(e, "a parameter", n);
    rc = assign(pair, s, e);
    free(pair);
    at = after(at, n);
  }
  return rc;
}

kv_rc kv_spec_parse(kv_registry *registry, const char *text, kv_spec *out,
                    kv_err *e) {
  const kv_method *m = NULL;
  size_t n = span(text, ':');
  memset(out, 0, sizeof *out);
  if (n == 0) return kv_fail(e, KV_USAGE, "a method has no name");
  char *name = kv_text_copy(n, text);
  if (name == NULL) return kv_no_memory(e, "a method's name", n);
  if (kv_door_is_path(text)) unescape(name);
  kv_rc rc = kv_registry_find(registry, name, &m, e);
  free(name);
  if (rc == KV_OK) rc = start(m, out, e);
  if (rc == KV_OK) rc = assign_all(after(text, n), out, e);
  if (rc) kv_spec_free(out);
  return rc;
}
