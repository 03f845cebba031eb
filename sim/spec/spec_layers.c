/* SPDX-License-Identifier: Apache-2.0
 *
 * A specification with a budget for each layer, h2o:budget=64/32: contract in
 * sim/spec/spec.h. The parameter itself stays unset; the code that opens the
 * method sets it for the layer being opened.
 */
#include "sim/spec/spec.h"

#include "sim/spec/param.h"
#include "traces/text/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool kv_spec_lists(const kv_spec *s, const kv_param *p, const char *value) {
  return p == kv_spec_budget(s->method) && strchr(value, '/');
}

static kv_rc push(kv_spec *s, int entries, kv_err *e) {
  size_t bytes = (size_t)(s->n_layers + 1) * sizeof entries;
  int *grown = realloc(s->layers, bytes);
  if (!grown) return kv_no_memory(e, "budgets of layers", bytes);
  s->layers = grown;
  grown[s->n_layers++] = entries;
  return KV_OK;
}

/* Each value is parsed through the parameter, which is unset again afterwards.
 */
kv_rc kv_spec_parse_list(kv_spec *s, const char *value, kv_err *e) {
  const kv_param *p = kv_spec_budget(s->method);
  kv_err why = {0};
  kv_rc rc = KV_OK;
  for (bool more = true; more && !rc;) {
    size_t n = strcspn(value, "/");
    int entries;
    char *text = kv_text_copy(n, value);
    if (!text) return kv_no_memory(e, "a budget", n);
    rc = kv_param_set(p, text, s->params, &why);
    free(text);
    if (rc) rc = kv_fail(e, rc, "layer %d: %s", s->n_layers, why.text);
    memcpy(&entries, (char *)s->params + p->offset, sizeof entries);
    if (!rc) rc = push(s, entries, e);
    more = value[n] == '/';
    value += n + more;
  }
  kv_param_put(p, KV_UNSET, s->params);
  return rc;
}

kv_rc kv_spec_set_list(kv_spec *s, int n, const int *entries, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < n; i++) rc = push(s, entries[i], e);
  return rc;
}

bool kv_spec_same(const kv_spec *a, const kv_spec *b) {
  return a->method == b->method && a->windowed == b->windowed &&
         a->chunk == b->chunk && a->n_layers == b->n_layers &&
         memcmp(a->params, b->params, a->method->params_size) == 0 &&
         (!a->layers || memcmp(a->layers, b->layers,
                               (size_t)a->n_layers * sizeof *a->layers) == 0);
}

/* name:budget=LIST:..., with the list right after the method's name. */
char *kv_spec_list_text(const kv_spec *s, const kv_method *m,
                        const void *values) {
  const char *budget = kv_spec_budget(m)->name;
  size_t size = strlen(m->name) + strlen(budget) + 12 * (size_t)s->n_layers + 2;
  char *head = malloc(size);
  if (!head) return NULL;
  int at = snprintf(head, size, "%s:%s", m->name, budget);
  for (int i = 0; i < s->n_layers; i++)
    at += snprintf(head + at, size - (size_t)at, "%c%d", i ? '/' : '=',
                   s->layers[i]);
  char *text = kv_params_spec(head, m->params, values);
  free(head);
  return text;
}

char *kv_spec_list_json(const kv_spec *s) {
  const kv_method *m = s->method;
  size_t size = m->params_size;
  char *each = kv_zalloc((size_t)s->n_layers, size);
  if (!each) return NULL;
  for (int i = 0; i < s->n_layers; i++) {
    memcpy(each + (size_t)i * size, s->params, size);
    kv_param_put(kv_spec_budget(m), s->layers[i], each + (size_t)i * size);
  }
  char *json = kv_params_json_each(m->params, s->n_layers, size, each);
  free(each);
  return json;
}
