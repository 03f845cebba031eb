/* SPDX-License-Identifier: Apache-2.0
 *
 * The header for programs that feed tokens to a method: `#include <kvreplay.h>`
 * with the flags of `pkg-config --cflags kvreplay`. It includes the session and
 * the database of evaluations. Methods, and programs that read traces, include
 * other headers by their path from the top (ref/parts/parts.h,
 * traces/trace/trace.h).
 */
#ifndef KV_SIM_KVREPLAY_H
#define KV_SIM_KVREPLAY_H

#include "sim/run/session/session.h"
#include "sim/store/evaluation.h"

#endif
