/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws of evaluations in the database, part of check_db. Runs the group of
 * tests; returns how many failed.
 */
#ifndef KV_TESTS_EVALUATIONS_H
#define KV_TESTS_EVALUATIONS_H

int evaluations_run(void);

#endif
