#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The table of laws on the executor, with the threads of a warp forwards and
# backwards, both at the same time: every law, method, choice and geometry of
# check_laws, methods of random needs, a budget a layer,
# and later prompts. Minutes on two cores, so no part of `make check`:
#
#   make -C tests check TESTS=check_laws_emu.sh
#   KV_ORDERS=reverse   one of the two alone
. "$(dirname "$0")/replays.sh"
export KV_TEST_BACKEND=emu
read -ra orders <<<"${KV_ORDERS:-forward reverse}"
pids=() bad=0

replay_emu || exit 77

for order in "${orders[@]}"; do
  (
    export KVREPLAY_EMU_ORDER=$order
    bad=0
    "$top/tests/check_laws" || bad=1
    KV_WHIMS=${KV_WHIMS:-30} "$top/tests/check_whims" || bad=1
    exit $bad
  ) >"$tmp/$order" 2>&1 &
  pids+=($!)
done
for i in "${!orders[@]}"; do
  wait "${pids[i]}" || bad=$((bad + 1))
  echo "threads ${orders[i]}:"
  cat "$tmp/${orders[i]}"
  # A law that cannot be asked on emu is a law that is not kept there.
  grep -q '^\[  SKIPPED \]' "$tmp/${orders[i]}" && bad=$((bad + 1))
done
"$top/tests/check_layers" || bad=$((bad + 1))
"$top/tests/check_segments" || bad=$((bad + 1))
[ "$bad" = 0 ]
