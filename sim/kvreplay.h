/* SPDX-License-Identifier: Apache-2.0
 *
 * The library in one line: `#include <kvreplay.h>` with the flags of
 * `pkg-config --cflags kvreplay`. What a program or a language binding wants
 * is the session; methods and tools of one's own include what they need from
 * ref/, traces/ and sim/.
 */
#ifndef KV_SIM_KVREPLAY_H
#define KV_SIM_KVREPLAY_H

#include "sim/session.h"

#endif
