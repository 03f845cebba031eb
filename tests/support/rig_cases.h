/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the cases of a method's file, tests/methods/NAME.txt, on the rig.
 * tests/methods/README.md defines the lines of such a file. A line that fails
 * is printed with its file and number, after the rig's own message.
 */
#ifndef KV_TESTS_RIG_CASES_H
#define KV_TESTS_RIG_CASES_H

/* Each `case` of the file is a test of cmocka's. Returns how many failed; a
 * file that is missing or has no case counts as one. Files are found below the
 * folder that the variable top_srcdir names. */
int rig_cases(const char *name);

#endif
