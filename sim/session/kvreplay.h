/* SPDX-License-Identifier: Apache-2.0
 *
 * Includes the library's public session API: `#include <kvreplay.h>` with the
 * flags of `pkg-config --cflags kvreplay`. Programs and language bindings need
 * only the session; methods and tools include what else they need from ref/,
 * traces/ and sim/.
 */
#ifndef KV_SIM_KVREPLAY_H
#define KV_SIM_KVREPLAY_H

#include "sim/session/session.h"

#endif
