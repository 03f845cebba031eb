/* SPDX-License-Identifier: Apache-2.0
 *
 * Is the table of a plugin one that the engine can follow? Built-in tables
 * are held by tests; one from outside is looked at before it is used.
 */
#include "sim/door.h"

#include "ref/lane.h"
#include "sim/param.h"
#include "traces/text.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMS = 64 };

static size_t size_of(kv_kind kind) {
  return kind == KV_TEXT ? (size_t)KV_TEXT_MAX : sizeof(int32_t);
}

/* a-z, 0-9 and the marks given, a letter first: a word of a specification. */
static bool is_word(const char *text, const char *marks) {
  size_t n = text ? strlen(text) : 0;
  if (n == 0 || n > 63 || text[0] < 'a' || text[0] > 'z') return false;
  for (size_t i = 0; i < n; i++) {
    bool plain = (text[i] >= 'a' && text[i] <= 'z') ||
                 (text[i] >= '0' && text[i] <= '9');
    if (!plain && !strchr(marks, text[i])) return false;
  }
  return true;
}

static const char *wrong_param(const kv_method *m, const kv_param *p) {
  if (!is_word(p->name, "_"))
    return "has a name that is no word of a-z, 0-9, _";
  if (kv_params_find(m->params, p->name) != (int)(p - m->params))
    return "is there twice";
  if ((int)p->kind < KV_INT || p->kind > KV_TEXT) return "has an unknown kind";
  if (!p->help) return "has no help";
  if (p->offset > m->params_size ||
      m->params_size - p->offset < size_of(p->kind))
    return "lies outside params_size";
  if (p->kind == KV_CHOICE && (!p->choices || !*p->choices))
    return "has no choices";
  if (p->kind == KV_CHOICE && !p->fallback) return "has no default";
  if (p->kind <= KV_SHARE && !(p->min <= p->max))
    return "has no values: min is above max";
  if (p->kind == KV_INT && (p->min <= KV_UNSET || p->max > INT32_MAX))
    return "has values that are no int";
  if (!strcmp(p->name, "budget") && p->kind != KV_INT)
    return "must be a KV_INT, so that -b can set it";
  return NULL;
}

static kv_rc check_params(const kv_method *m, const char *file, kv_err *e) {
  kv_err why = {0};
  char show[KV_SHOW];
  for (int i = 0; m->params && m->params[i].name; i++) {
    const char *wrong = i < MOST_PARAMS ? wrong_param(m, &m->params[i])
                                        : "is one of too many, or the table "
                                          "does not end with name NULL";
    if (wrong)
      return kv_fail(e, KV_INPUT, "%s: the parameter %s %s", file,
                     kv_show(m->params[i].name, show), wrong);
  }
  void *values = kv_zalloc(1, m->params_size + 1);
  if (!values) return kv_no_memory(e, "parameters", m->params_size);
  kv_rc rc = kv_params_default(m->params, values, &why);
  free(values);
  if (!rc) return KV_OK;
  return kv_fail(e, KV_INPUT, "%s: a default is wrong: %s", file, why.text);
}

kv_rc kv_door_check(const kv_method *m, const char *file, kv_err *e) {
  const char *wrong = NULL;
  if (m->abi != KV_METHOD_ABI)
    return kv_fail(e, KV_INPUT,
                   "%s was built against another kvreplay (ABI %d, this one "
                   "has %d): build it again with this one's headers",
                   file, m->abi, KV_METHOD_ABI);
  if (!is_word(m->name, "-_"))
    wrong = "its name is no word of a-z, 0-9, - and _ that begins with a "
            "letter";
  else if (!strcmp(m->name, "all"))
    wrong = "it is called all, which means every built-in method";
  else if (!m->title || !m->paper)
    wrong = "title or paper is missing";
  else if (!m->open)
    wrong = "it has no open, which says what the hooks need";
  else if (m->params_size > (size_t)1 << 20)
    wrong = "its parameters take more than a megabyte";
  else if (m->decisions)
    wrong = "decisions are for the method replay alone";
  if (wrong) return kv_fail(e, KV_INPUT, "%s: %s", file, wrong);
  return check_params(m, file, e);
}
