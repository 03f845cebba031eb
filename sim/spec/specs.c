/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of specifications: sim/spec/spec.h.
 */
#include "sim/spec/spec.h"

#include "traces/text/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kv_specs_free(kv_specs *s) {
  if (s == NULL) return;
  for (int i = 0; i < s->n; i++) kv_spec_free(&s->spec[i]);
  free(s->spec);
  memset(s, 0, sizeof *s);
}

/* Appends *one. Owns it from then on, also after a failure. */
static kv_rc put(kv_spec *one, kv_specs *out, kv_err *e) {
  size_t bytes = (size_t)(out->n + 1) * sizeof *out->spec;
  const kv_method *m = one->method;
  kv_rc rc;
  for (int i = 0; i < out->n; i++) {
    if (kv_spec_same(&out->spec[i], one)) {
      rc = kv_fail(e, KV_USAGE,
                   "%s is listed twice with the same parameters; once is "
                   "enough",
                   m->name);
      goto fail;
    }
  }
  kv_spec *grown = realloc(out->spec, bytes);
  if (grown == NULL) {
    rc = kv_no_memory(e, "the list of methods", bytes);
    goto fail;
  }
  out->spec = grown;
  out->spec[out->n++] = *one;
  return KV_OK;
fail:
  kv_spec_free(one);
  return rc;
}

/* with: what follows each name, "" or ":windowed=.." and the like. */
static kv_rc put_all(kv_registry *registry, const char *with, kv_specs *out,
                     kv_err *e) {
  kv_spec one;
  kv_rc rc = KV_OK;
  for (int i = 0; registry(i) && rc == KV_OK; i++) {
    size_t n = strlen(registry(i)->name) + strlen(with) + 1;
    char *text = malloc(n);
    if (!text) return kv_no_memory(e, "a specification", n);
    snprintf(text, n, "%s%s", registry(i)->name, with);
    rc = kv_spec_parse(registry, text, &one, e);
    free(text);
    one.of_all = rc == KV_OK;
    if (rc == KV_OK) rc = put(&one, out, e);
  }
  return rc;
}

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static kv_rc put_text(kv_registry *registry, const char *text, kv_specs *out,
                      kv_err *e) {
  kv_spec one;
  if (strcmp(text, "all") == 0 || begins(text, "all:" KV_WINDOWED "=") ||
      begins(text, "all:" KV_PREFILL "="))
    return put_all(registry, text + strlen("all"), out, e);
  kv_rc rc = kv_spec_parse(registry, text, &one, e);
  return rc ? rc : put(&one, out, e);
}

static kv_rc add(kv_registry *registry, const char *list, kv_specs *out,
                 kv_err *e) {
  kv_rc rc = KV_OK;
  for (int place = 1; rc == KV_OK; place++) {
    size_t n = kv_specs_span(list);
    if (n == 0) {
      return kv_fail(e, KV_USAGE,
                     "the list of methods is empty at place %d; write "
                     "name:key=value,name",
                     place);
    }
    char *text = kv_text_copy(n, list);
    if (text == NULL) return kv_no_memory(e, "a specification", n);
    rc = put_text(registry, text, out, e);
    free(text);
    if (list[n] == 0) break;
    list += n + 1;
  }
  return rc;
}

kv_rc kv_specs_add(kv_registry *registry, const char *list, kv_specs *out,
                   kv_err *e) {
  int before = out->n;
  kv_rc rc = add(registry, list, out, e);
  if (rc == KV_OK) return KV_OK;
  while (out->n > before) kv_spec_free(&out->spec[--out->n]);
  return rc;
}
