/* SPDX-License-Identifier: Apache-2.0
 *
 * The program kvreplay: runs the command that its first argument names
 * (traces/option/program.h).
 */
#include "ref/ground/threads.h"
#include "sim/cli/commands.h"
#include "sim/cli/signal.h"

int main(int argc, char **argv) {
  kv_float_ground(); /* before a number is read */
  kv_signals_catch();
  kv_ending_watch(kv_kvreplay.name);
  int code = kv_command_main(&kv_kvreplay, argc, argv);
  kv_ending_is_ours();
  return code;
}
