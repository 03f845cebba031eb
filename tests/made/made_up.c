/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of tests/made/made_up.h.
 */
#include "tests/made/made_up.h"

#include "tests/made/mad.h"
#include "tests/made/rest.h"
#include "tests/made/sieve.h"

#include <stddef.h>

const kv_method *made_up_at(int i) {
  static const kv_method *const more[] = {&mad_method, &rest_method,
                                          &sieve_method, NULL};
  int listed = 0;
  while (kv_method_at(listed)) listed++;
  return i < listed ? kv_method_at(i) : more[i - listed];
}
