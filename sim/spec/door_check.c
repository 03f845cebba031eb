/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the method table of a plugin before it is used: can the engine run it?
 * Built-in tables are checked by the tests.
 */
#include "sim/spec/door.h"

#include "ref/lane/lane.h"
#include "sim/spec/param.h"
#include "sim/spec/spec.h"
#include "traces/text/text.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMS = 64, MOST_TENSORS = 256 };

/* True for a word that a specification can name: a-z, 0-9 and `marks`, a letter
 * first. */
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

static bool are_few(const char *choices) {
  int n = 1;
  for (const char *c = choices; *c; c++) n += *c == '|';
  return n <= KV_MOST_CHOICES && strlen(choices) < KV_CHOICES_BYTES;
}

/* What is wrong with a file parameter and the tensors that it asks for; NULL:
 * nothing. */
static const char *wrong_file(const kv_method *m, const kv_param *p) {
  if (kv_method_file(m, KV_MOST_FILES))
    return "is one of too many files that the method reads";
  if (p->offset % _Alignof(kv_file)) return "is not aligned as a kv_file";
  if (p->fallback && strcmp(p->fallback, KV_FILE_OPTIONAL) &&
      strcmp(p->fallback, KV_FILE_BESIDE))
    return "has a default that is not KV_FILE_BESIDE or KV_FILE_OPTIONAL";
  int n = 0;
  const kv_tensor_ask *all = p->reads ? p->reads->tensors : NULL;
  for (const kv_tensor_ask *t = all; t && t->name; t++) {
    const char *star = strchr(t->name, '*');
    if (++n > MOST_TENSORS)
      return "asks for too many tensors, or its table does not end with name "
             "NULL";
    if (!*t->name || strlen(t->name) > 63 || (star && strchr(star + 1, '*')))
      return "asks for a tensor whose name is empty, long or has two *";
    if ((int)t->type < KV_T_F32 || t->type > KV_T_I64)
      return "asks for a tensor of an unknown type";
    if (t->rank < 0 || t->rank > KV_TENSOR_RANK)
      return "asks for a tensor of more dimensions than KV_TENSOR_RANK";
    for (int i = 0; i < t->rank; i++)
      if (t->dim[i] < KV_DIM_D_V)
        return "asks for a tensor with an unknown dimension";
  }
  return n ? NULL : "asks for no tensor";
}

/* A budget that -b does not set would be a trap. */
static const char *wrong_knob(const kv_method *m, const kv_param *p) {
  if (!strcmp(p->name, "budget") && !kv_knob_counts(p->knob))
    return "must have .knob = KV_KNOB_ENTRIES, so that -b can set it";
  if (p->knob == KV_NO_KNOB) return NULL;
  if ((int)p->knob < 0 || p->knob > KV_KNOB_RESOLVED)
    return "has a .knob that is none of KV_KNOB_*";
  if (kv_spec_knob(m) != p) return "is a second budget parameter; -b sets one";
  if (p->kind > KV_SHARE) return "is a budget parameter and no number";
  if (p->min < 0) return "is a budget parameter with values below 0";
  if (kv_knob_counts(p->knob))
    return p->kind != KV_INT ? "counts entries and is no KV_INT"
           : p->fallback     ? "counts entries and has a default"
           : p->grid != 0    ? "counts entries, whose grid is 0"
                             : NULL;
  if (!p->fallback) return "is a budget parameter without a default";
  if (p->kind != KV_INT && !(p->grid > 0))
    return "is a budget parameter without a grid";
  if (p->kind == KV_INT && p->grid != (double)(int)p->grid)
    return "is a whole number with a grid that is none";
  if (!((p->max - p->min) / (p->grid > 0 ? p->grid : 1) < 1e9))
    return "is a budget parameter with too many values";
  return NULL;
}

static const char *wrong_param(const kv_method *m, const kv_param *p) {
  if (!is_word(p->name, "_"))
    return "has a name that is no word of a-z, 0-9, _";
  if (kv_params_find(m->params, p->name) != (int)(p - m->params))
    return "is there twice";
  if ((int)p->kind < KV_INT || p->kind > KV_FILE) return "has an unknown kind";
  if (!p->help) return "has no help";
  if (p->offset > m->params_size ||
      m->params_size - p->offset < kv_param_size(p->kind))
    return "lies outside params_size";
  if (p->kind == KV_CHOICE && (!p->choices || !*p->choices))
    return "has no choices";
  if (p->kind == KV_CHOICE && !are_few(p->choices))
    return "has too many choices, or too long ones";
  if (p->kind == KV_CHOICE && !p->fallback) return "has no default";
  if (p->kind <= KV_SHARE && !(p->min <= p->max))
    return "has no values: min is above max";
  if (p->kind == KV_INT && (p->min <= KV_UNSET || p->max > INT32_MAX))
    return "has values that are no int";
  if (p->label && p->kind != KV_TEXT) return "is a label and no KV_TEXT";
  if (p->kind == KV_FILE && wrong_file(m, p)) return wrong_file(m, p);
  return wrong_knob(m, p);
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
  if (wrong) return kv_fail(e, KV_INPUT, "%s: %s", file, wrong);
  return check_params(m, file, e);
}
