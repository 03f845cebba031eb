/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluations in the database of results: what a language model answered to one
 * question while a method managed its cache (closed loop), and the bytes that
 * the cache took. `kvreplay evaluate` of the Python package stores them; other
 * programs may, too.
 *
 *   kv_evaluations_open
 *   for each question, method and budget: kv_evaluations_find; if there is
 *     none, compute it and kv_evaluations_put
 *   kv_evaluations_close
 *
 * An evaluation's key is its inputs: the model's weights, task, item,
 * question and tokens, the method with its code, basis and target, and the
 * platform (torch, transformers, processor, threads, dtype). Another platform
 * makes another row, which contradicts nothing. The first answer under a key is
 * never overwritten. An equal answer confirms it and adds numbers that the row
 * and texts that the row lacks; a different one is stored as a conflict. Once
 * kv_evaluations_put has returned KV_OK, the answer is on the disk, however the
 * program ends. It costs one transaction: milliseconds.
 *
 * Several processes may use one file; a writer waits up to a minute for
 * another. A handle may be used by one thread at a time. Texts passed in are
 * UTF-8, only read, and remain the caller's; NULL counts as "". Every failure
 * is one sentence in e, which may be NULL. KV_INPUT: the file is damaged or not
 * ours. KV_RESOURCE: no disk, memory or lock. KV_EVALUATION_ABI rises when a
 * struct or a meaning changes.
 */
#ifndef KV_SIM_EVALUATION_H
#define KV_SIM_EVALUATION_H

#include "ref/ground/err.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KV_EVALUATION_ABI = 2 };
int kv_evaluation_abi(void); /* the library's */

typedef struct kv_evaluations kv_evaluations; /* a database, open for them */

/* Opens the database at path, or creates it; it may also hold runs. command:
 * the command line, stored as the origin of its rows. KV_USAGE: path is NULL or
 * cannot be a database. Close *out, which is NULL after a failure. */
kv_rc kv_evaluations_open(const char *path, const char *command,
                          kv_evaluations **out, kv_err *e);
void kv_evaluations_close(kv_evaluations *s); /* accepts NULL */

/* A measured number; NaN: there is none, and nothing is stored. */
typedef struct kv_evaluated {
  const char *name; /* one of kv_evaluation_number */
  double value;     /* finite, or NaN */
} kv_evaluated;

/* One answer. Counts are 0 or more; digests are 64 lower-case hex digits. */
typedef struct kv_evaluation {
  int32_t abi; /* KV_EVALUATION_ABI */
  /* The key of the row: inputs and platform. Only `model` is not part of it. */
  int32_t question;   /* number among the item's questions, from 0 */
  int32_t prompt_len; /* tokens that are compressed */
  int32_t tokens;     /* in all: prompt, question and the longest answer */
  int32_t threads;    /* that compute the model's own layers */
  const char *model;  /* its name, for people */
  const char *model_digest;   /* of its weights; "": its name is the key */
  const char *task, *item;    /* names, not empty */
  const char *request_digest; /* of the tokens of prompt, question and
                                 reference */
  const char *method;         /* as after -m: "h2o", "quest:page=16" */
  /* Identifies the code of a method outside this library, at most 79 bytes. "":
   * the library finds it, as for rows of runs. "file " and a digest: the same,
   * for a method with a file that its text does not name. */
  const char *code;
  const char *basis;  /* of the budget: entries, prompt, ratio, end, mean, peak
                         or read; "": the method has no budget */
  const char *target; /* the budget as typed: "25%" */
  const char *torch, *transformers, *processor, *dtype; /* versions; names */
  /* What people read, and statistics need. Not part of the key. */
  const char *context; /* names what the question is about: questions with one
                          context depend on each other. At most 64 bytes. "":
                          it is the item's own */
  const char *asked;   /* the question's text; NULL: not stored */
  const char
      *reference; /* the right answer's text; NULL: none, or not stored */
  /* The result. */
  const char *spec;   /* the method with every parameter written out */
  const char *budget; /* of the session, as after -b: what meets the target */
  const char *status; /* ok, refused or failed */
  const char *reason; /* a sentence if it is not ok */
  const char *answer_digest;  /* of the tokens of the answer; "": none */
  const char *said;           /* the answer's text; NULL: not stored */
  int32_t n_said;             /* tokens of the answer */
  const int32_t *said_tokens; /* [n_said]; NULL: not stored */
  int32_t n_values;           /* numbers in value */
  const kv_evaluated *value;  /* [n_values] each name once; in any order */
} kv_evaluation;

/* Looks for the row with r's key; the rest of r is not read. If there is one,
 * *found is 1, and model, the texts, n_said, said_tokens, spec, budget,
 * status, reason, answer_digest, n_values and value (by ascending name) become
 * the row's. Else *found is 0 and r
 * unchanged. Texts and values are valid until the next call on s. KV_USAGE: r
 * has another ABI, a wrong count, digest or basis, an empty name, or a method
 * that does not exist. */
kv_rc kv_evaluations_find(kv_evaluations *s, kv_evaluation *r, int *found,
                          kv_err *e);
/* Stores r, or confirms the row with its key. KV_USAGE: as above, or the status
 * or a number's name is unknown, a name occurs twice, or a number is infinite.
 * KV_DIFFERENT: the row has another status, answer, specification, budget or
 * number (compared to the bit). The sentence names the first difference, and
 * the conflict is stored. */
kv_rc kv_evaluations_put(kv_evaluations *s, const kv_evaluation *r, kv_err *e);

/* The i-th number that an evaluation may have, from 0; false past the end. A
 * name that ends in a dot stands for all names that begin with it ("open.":
 * what a replay measured, "open.kl"). unit: for people. combine: "mean", over
 * an item's questions, then over items; "of dense": the same, as a share of the
 * value of dense for the same question. Outputs may be NULL. */
int kv_evaluation_number(int i, const char **name, const char **unit,
                         const char **combine);

#ifdef __cplusplus
}
#endif

#endif
