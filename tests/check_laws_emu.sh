#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The table of laws on the executor, with the threads of a warp forwards and
# backwards, both at the same time: every law, method, choice and geometry of
# check_laws. Two minutes on two cores, so no part of `make check`:
#
#   make -C tests check TESTS=check_laws_emu.sh
set -u
here=$(cd "$(dirname "$0")" && pwd)
src=${top_srcdir:-$(dirname "$here")}
top=${top_builddir:-$src}
export LC_ALL=C KV_TEST_BACKEND=emu OMP_WAIT_POLICY=passive
orders=(forward reverse) pids=() bad=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

"$top/sim/kvreplay" check "$src/traces/tiny/retrieval_8_small.safetensors" \
  -m window -b 20% -q -B ref,emu --prompt-len 304 >/dev/null 2>"$tmp/err"
if [ $? = 4 ]; then
  echo "skipped: $(cat "$tmp/err")"
  exit 77
fi

for order in "${orders[@]}"; do
  KVREPLAY_EMU_ORDER=$order "$top/tests/check_laws" >"$tmp/$order" 2>&1 &
  pids+=($!)
done
for i in "${!orders[@]}"; do
  wait "${pids[i]}" || bad=$((bad + 1))
  echo "threads ${orders[i]}:"
  cat "$tmp/${orders[i]}"
  # A law that cannot be asked on emu is a law that is not kept there.
  grep -q '^\[  SKIPPED \]' "$tmp/${orders[i]}" && bad=$((bad + 1))
done
[ "$bad" = 0 ]
