/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/database/say.h"

#include "traces/option/program.h"

#include <stdarg.h>
#include <stdio.h>

static int said;

int kv_said(void) { return said; }

void kv_said_forget(void) { said = KV_EXIT_OK; }

int kv_tell_short(void) {
  return kv_tell(KV_EXIT_RESOURCE, "not enough memory; select fewer rows with "
                                   "--where, or use a larger machine");
}

int kv_tell(int code, const char *format, ...) {
  char line[1024];
  va_list v;
  if (said) return code;
  said = code;
  va_start(v, format);
  vsnprintf(line, sizeof line, format, v);
  va_end(v);
  kv_note(line);
  return code;
}
