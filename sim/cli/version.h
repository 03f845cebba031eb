/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints --version: version, commit, compiler, flags, kernel set in use, CUDA;
 * one fact a line.
 */
#ifndef KV_SIM_VERSION_H
#define KV_SIM_VERSION_H

#include <stdio.h>

/* isa: the kernel set in use. */
void kv_version_print(FILE *out, const char *program, const char *isa);

#endif
