/* SPDX-License-Identifier: Apache-2.0
 *
 * The header for programs that feed a method themselves: `#include
 * <kvreplay.h>` with the flags of `pkg-config --cflags kvreplay`. It includes
 * the session, and the database of what a model answered with one; methods, and
 * programs that read traces, include what else they need by its path from the
 * top (ref/parts/parts.h, traces/trace/trace.h).
 */
#ifndef KV_SIM_KVREPLAY_H
#define KV_SIM_KVREPLAY_H

#include "sim/run/session/session.h"
#include "sim/store/evaluation.h"

#endif
