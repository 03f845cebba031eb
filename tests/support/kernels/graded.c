/* SPDX-License-Identifier: Apache-2.0
 *
 * Grading kernels in this process: tests/support/kernels/graded.h.
 */
#include "tests/support/kernels/graded.h"

#include "sim/cli/commands.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>

char file[600], decisions[600], outputs[512], db[512];
kv_trace *trace;

int grade(const char *line, ...) {
  const char *const words[] = {"grade",    "-q",      file,
                               "--theirs", decisions, NULL};
  va_list more;
  va_start(more, line);
  int code = command_line(kv_commands_call, words, line, more);
  va_end(more);
  return code;
}

int64_t integer(const json_t *o, const char *key) {
  assert_true(json_is_integer(json_object_get(o, key)));
  return json_integer_value(json_object_get(o, key));
}

json_t *parsed(void) {
  json_error_t e;
  json_t *o = json_loads(heard, 0, &e);
  if (!o) fail_msg("%s: %s%s", e.text, heard, said);
  return o;
}

int64_t counted(const char *key) {
  json_t *o = parsed();
  int64_t n = integer(o, key);
  json_decref(o);
  return n;
}

theirs kernel(void) {
  return (theirs){
      .trace = trace, .budget = 64, .page = 16, .output = KV_F32, .layer = -1};
}

int graded_open(void) {
  const char *top = getenv("top_srcdir");
  kv_err e = {0};
  if (scratch_make(NULL)) return 1;
  snprintf(file, sizeof file, "%s/traces/tiny/retrieval_8_small.safetensors",
           top ? top : "..");
  snprintf(decisions, sizeof decisions, "%s", scratch_path("mine.safetensors"));
  snprintf(outputs, sizeof outputs, "%s", scratch_path("out.safetensors"));
  snprintf(db, sizeof db, "%s", scratch_path("rows.db"));
  if (kv_trace_open(file, &trace, &e) == KV_OK) return 0;
  fprintf(stderr, "%s\n", e.text);
  return 1;
}

void graded_close(void) {
  kv_trace_close(trace);
  scratch_remove(NULL);
}
