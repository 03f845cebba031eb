/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of trainers, and how one is asked for: sim/train/trainer.h.
 */
#include "sim/train/trainer.h"

#include "sim/spec/param.h"
#include "traces/option/option.h"
#include "traces/text/text.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const kv_trainer *const trainers[] = {
    &kv_trainer_deltakv, &kv_trainer_duoattention, &kv_trainer_headkv,
    &kv_trainer_less, &kv_trainer_palu};
enum { TRAINERS = sizeof trainers / sizeof *trainers };

const char *kv_trainer_name(int index) {
  return index < TRAINERS ? trainers[index]->name : NULL;
}

int kv_train_declare(kv_training *t, const char *name, int rank,
                     const int64_t *dim) {
  assert(t->arrays < KV_TRAIN_ARRAYS && rank <= KV_TRAIN_RANK &&
         "a trainer declares few arrays");
  kv_train_array *a = &t->array[t->arrays];
  *a = (kv_train_array){.name = name, .rank = rank, .offset = t->floats};
  a->count = 1;
  for (int i = 0; i < rank; i++) {
    a->dim[i] = dim[i];
    a->count *= (size_t)dim[i];
  }
  t->floats += a->count;
  return t->arrays++;
}

/* --- NAME:key=value ------------------------------------------------------- */

static kv_rc find(const char *name, const kv_trainer **out, kv_err *e) {
  const char *names[TRAINERS];
  for (int i = 0; i < TRAINERS; i++) {
    names[i] = trainers[i]->name;
    *out = trainers[i];
    if (!strcmp(names[i], name)) return KV_OK;
  }
  return kv_no_such("method that is trained", name, TRAINERS, names,
                    "kvreplay train --help has all", e);
}

static kv_rc set(const kv_trainer *of, char *pair, void *params, kv_err *e) {
  char *value = strchr(pair, '='), show[KV_SHOW];
  if (!value)
    return kv_fail(e, KV_USAGE, "%s: %s is not key=value", of->name,
                   kv_show(pair, show));
  *value++ = 0;
  int at = kv_params_find(of->params, pair);
  if (at < 0)
    return kv_fail(e, KV_USAGE,
                   "training %s has no parameter %s; kvreplay train --help has "
                   "all",
                   of->name, kv_show(pair, show));
  return kv_param_set(&of->params[at], value, params, e);
}

kv_rc kv_trainer_parse(const char *text, const kv_trainer **out, void **params,
                       kv_err *e) {
  char *copy = kv_text_copy(strlen(text), text);
  *params = NULL;
  if (!copy) return kv_no_memory(e, "a specification", strlen(text));
  char *rest = strchr(copy, ':'), *pair;
  if (rest) *rest++ = 0;
  kv_rc rc = find(copy, out, e);
  if (!rc) *params = kv_zalloc(1, (*out)->params_size + 1);
  if (!rc && !*params) rc = kv_no_memory(e, "parameters", (*out)->params_size);
  if (!rc) rc = kv_params_default((*out)->params, *params, e);
  for (pair = rest; pair && !rc; pair = rest) {
    rest = strchr(pair, ':');
    if (rest) *rest++ = 0;
    rc = set(*out, pair, *params, e);
  }
  free(copy);
  return rc;
}
