/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupts: the first SIGINT or SIGTERM asks for an orderly end (finish or
 * leave the cell, write what is done, exit 130), the second one kills. A
 * limit on the size of files (SIGXFSZ) becomes a failed write.
 */
#ifndef KV_SIM_SIGNAL_H
#define KV_SIM_SIGNAL_H

#include <stdbool.h>

enum { KV_EXIT_INTERRUPTED = 130 };

/* Called once by a program, before threads. */
void kv_signals_catch(void);
/* From any thread; cheap enough for every step. */
bool kv_interrupted(void);

#endif
