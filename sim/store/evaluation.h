/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluations in the database of results: what a language model answered to one
 * question while a method held its cache (closed loop), with the bytes that it
 * took. `kvreplay evaluate` of the Python package fills them in; what computes
 * them elsewhere may do so, too.
 *
 *   kv_evaluations_open
 *   for each question, method and budget: kv_evaluations_find, and where there
 *     is none, compute it and kv_evaluations_put
 *   kv_evaluations_close
 *
 * An evaluation is named by what was asked: the model's weights, task, item,
 * question and tokens, the method as asked with its code, basis and target, and
 * the platform (torch, transformers, processor, threads, dtype). On another
 * platform the same question is another row and contradicts nobody. The first
 * answer under a name is never overwritten: an equal one confirms it and adds
 * numbers that the row has not yet, a different one is stored beside it as a
 * conflict. What kv_evaluations_put answered with KV_OK is on the disk, however
 * the program ends afterwards; it costs one transaction, milliseconds.
 *
 * Several processes may use one file; a writer waits up to a minute for
 * another. One handle by one thread at a time. Texts passed in are UTF-8, read
 * and stay the caller's; NULL counts as "". Every failure is one sentence in e,
 * which may be NULL; KV_INPUT: the file is damaged or not ours; KV_RESOURCE: no
 * disk, memory or lock. KV_EVALUATION_ABI grows when a struct or a meaning
 * changes.
 */
#ifndef KV_SIM_EVALUATION_H
#define KV_SIM_EVALUATION_H

#include "ref/ground/err.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KV_EVALUATION_ABI = 1 };
int kv_evaluation_abi(void); /* KV_EVALUATION_ABI of the library */

typedef struct kv_evaluations kv_evaluations; /* a database, open for them */

/* Opens the database at path, or creates it; it may hold runs, too. command:
 * the command line, which its rows name as what computed them. KV_USAGE: path
 * is NULL or no file that could be a database. *out is to be closed, and NULL
 * after a failure. */
kv_rc kv_evaluations_open(const char *path, const char *command,
                          kv_evaluations **out, kv_err *e);
void kv_evaluations_close(kv_evaluations *s); /* accepts NULL */

/* A number that was measured; NaN: there is none, and nothing is stored. */
typedef struct kv_evaluated {
  const char *name; /* one of kv_evaluation_number */
  double value;     /* finite, or NaN */
} kv_evaluated;

/* One answer. Counts are 0 or more; digests are 64 lower-case hex digits. */
typedef struct kv_evaluation {
  int32_t abi; /* KV_EVALUATION_ABI */
  /* What was asked, on what: this names the row, but for the model's name. */
  int32_t question;   /* number among those of the item, from 0 */
  int32_t prompt_len; /* tokens that are compressed */
  int32_t tokens;     /* in all: the prompt, the question, and the answer that
                         was asked for, at most */
  int32_t threads;    /* that the model's own layers were computed by */
  const char *model;  /* its name, for people */
  const char *model_digest;   /* of its weights; "": it is known by its name */
  const char *task, *item;    /* names, not empty */
  const char *request_digest; /* of the tokens of prompt, question and reference
                                 answer */
  const char *method;         /* as behind -m: "h2o", "quest:page=16" */
  const char *code;   /* of a method that is not of this library, 79 bytes at
                         most; "": it is found, as rows of runs have it; "file "
                         and a digest: likewise, of a method with a file that
                         its text does not name */
  const char *basis;  /* of the budget: entries, prompt, ratio, end, mean, peak
                         or read; "": the method was asked without one */
  const char *target; /* the budget as typed: "25%" */
  const char *torch, *transformers, *processor, *dtype; /* versions; names */
  /* What came of it. */
  const char *spec;   /* the method with every parameter written out */
  const char *budget; /* of the session, as behind -b: what the target was found
                         to be */
  const char *status; /* ok, refused or failed */
  const char *reason; /* a sentence where it is not ok */
  const char *answer_digest; /* of the tokens that were answered; "": none */
  int32_t n_values;          /* numbers in value */
  const kv_evaluated *value; /* [n_values] each name once; in any order */
} kv_evaluation;

/* Looks for the row of what r asks; the rest of r is not read. *found is 1 and
 * model, spec, budget, status, reason, answer_digest, n_values and value (by
 * ascending name) are those of the row, or it is 0 and r as it was. Texts and
 * values live until the next call on s. KV_USAGE: r is of another ABI, a count,
 * a digest or the basis is none, a name is empty, or there is no such method.
 */
kv_rc kv_evaluations_find(kv_evaluations *s, kv_evaluation *r, int *found,
                          kv_err *e);
/* Stores r, or confirms the row that is there. KV_USAGE: as above, or the
 * status or a number's name is unknown, a name is there twice, or a number is
 * infinite. KV_DIFFERENT: the row has another status, answer, specification,
 * budget or number, to the bit: the sentence says what differs first, and the
 * conflict is stored. */
kv_rc kv_evaluations_put(kv_evaluations *s, const kv_evaluation *r, kv_err *e);

/* The i-th number that an evaluation may have, from 0; false past the end. A
 * name that ends in a dot stands for all that begin so ("open.": what a replay
 * measured, "open.kl"). unit: for people. combine: "mean", over an item's
 * questions, then over items; "of dense": likewise, as a share of what dense
 * has for the same question. Each output may be NULL; texts are constants. */
int kv_evaluation_number(int i, const char **name, const char **unit,
                         const char **combine);

#ifdef __cplusplus
}
#endif

#endif
