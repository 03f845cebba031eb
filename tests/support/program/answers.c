/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/program/answers.h"

#include "ref/ground/sha256.h"
#include <stdio.h>
#include <string.h>

static const char *const tasks[KV_ANSWERS_TASKS] = {"needle", "words", "prose"};
static const struct {
  const char *name, *spec, *budget;
  double share; /* of dense's bytes */
} methods[KV_ANSWERS_METHODS] = {
    {"dense", "dense", "", 1},
    {"h2o", "h2o:budget=96:recent=48", "96", .25},
    {"quest", "quest:budget=64:page=16", "64", 1.125},
    {"window", "window:budget=100", "100", .25}};

/* Of the text. */
static void digest(const char *text, char out[65]) {
  kv_sha256 h;
  kv_sha256_init(&h);
  kv_sha256_add(&h, text, strlen(text));
  kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, out);
}

static void add(kv_answers_row *r, const char *name, double value) {
  r->value[r->row.n_values++] = (kv_evaluated){name, value};
}

/* Dense answers all needles and every fifth of the words; of the others h2o
 * every fourth needle, quest all and window none. */
static int is_right(int task, int item, int question, int method) {
  static const int every[KV_ANSWERS_METHODS] = {1, 4, 1, 0};
  int n = 2 * item + question, e = task ? 5 : every[method];
  return e && n % e == 0;
}

static void measure(int task, int item, int question, int method,
                    kv_answers_row *r) {
  double dense = 1000 + 10 * item;
  r->row.value = r->value;
  r->row.n_values = 0;
  add(r, "bytes.mean", dense * methods[method].share);
  add(r, "bytes.end", dense * methods[method].share + 1);
  if (method) add(r, "kl", .5 * method + .25 * question);
  if (method) add(r, "open.lse_error.mean", -.125 * method - .01 * item);
  if (task == 2) {
    add(r, "ppl.all", .25 * method + .01 * item);
    add(r, "ppl.0", .5 * method);
    add(r, "ppl.16", .125 * method);
    return;
  }
  add(r, "exact", is_right(task, item, question, method));
  add(r, task ? "loglik" : "loglik_token", -.5 - method - .125 * item);
  add(r, "agree", 16 - 4 * method);
}

void kv_answers_make(int task, int item, int question, int method,
                     kv_answers_row *out) {
  char text[80];
  snprintf(out->item, sizeof out->item, "%s_%d", tasks[task], item);
  snprintf(text, sizeof text, "%s %d", out->item, question);
  digest(text, out->request);
  snprintf(text + strlen(text), 20, " %d", method);
  digest(text, out->answer);
  out->row = (kv_evaluation){.abi = KV_EVALUATION_ABI,
                             .question = question,
                             .prompt_len = 400,
                             .tokens = 432,
                             .threads = 2,
                             .model = "made-up",
                             .task = tasks[task],
                             .item = out->item,
                             .request_digest = out->request,
                             .method = methods[method].name,
                             .basis = method ? "mean" : "",
                             .target = method ? "25%" : "",
                             .torch = "2.15.0",
                             .transformers = "5.2.0",
                             .processor = "made-up processor",
                             .dtype = "bfloat16",
                             .spec = methods[method].spec,
                             .budget = methods[method].budget,
                             .status = "ok",
                             .answer_digest = out->answer};
  measure(task, item, question, method, out);
}

static kv_rc put_item(kv_evaluations *s, int task, int item, int flip,
                      kv_err *e) {
  kv_answers_row r;
  kv_rc rc = KV_OK, worst = KV_OK;
  for (int q = 0; q < 2; q++)
    for (int m = 0; m < KV_ANSWERS_METHODS && rc <= KV_DIFFERENT; m++) {
      kv_answers_make(task, item, q, m, &r);
      if (flip && !task && q && m == 1)
        r.answer[0] = r.answer[0] == 'a' ? 'b' : 'a';
      rc = kv_evaluations_put(s, &r.row, e);
      if (rc) worst = rc;
    }
  return worst;
}

kv_rc kv_answers_put(const char *path, int first, int last, int flip,
                     kv_err *e) {
  kv_evaluations *s;
  kv_rc rc = kv_evaluations_open(path, "fill_db", &s, e), worst = rc;
  for (int i = first; i < last && rc <= KV_DIFFERENT; i++)
    for (int t = 0; t < KV_ANSWERS_TASKS && rc <= KV_DIFFERENT; t++) {
      rc = put_item(s, t, i, flip, e);
      if (rc) worst = rc;
    }
  kv_evaluations_close(s);
  return worst;
}
