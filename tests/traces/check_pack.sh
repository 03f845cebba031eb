#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `kvtrace pack`: python/check_pack.py, what it makes of folders good and bad,
# and python/check_dump.py, the example that lets vLLM write one, on a stub of
# vLLM's interface. A limit on files leaves nothing behind (failing memory and
# disks: ../check_faults.sh). Needs a Python, without numpy; PYTHON names
# another. 77 without one.
. "$(dirname "$0")/../sh.sh"
python=${PYTHON:-python3}
shows=("$tmp/out" "$tmp/err")
"$python" -c '' 2>/dev/null || {
  echo 'check_pack: needs python3'
  exit 77
}
cut() { "$python" "$src/tests/python/check_pack.py" --cut "$@"; }

ran 0 "$python" "$src/tests/python/check_pack.py" "$kvtrace" "$tmp" "$tiny"
ran 0 "$python" "$src/tests/python/check_dump.py" "$kvtrace" "$tmp" \
  "$src/traces/examples"
dumped=$(cat "$tmp/out")

mkdir "$tmp/to"
cut "$small" "$tmp/dump" 2 || fail 'cutting a trace'
(ulimit -f 64 && refused 4 'nothing was written' "$kvtrace" pack -q \
  "$tmp/dump" -o "$tmp/to/full.safetensors" && exit "$bad") || bad=$((bad + 1))
[ -z "$(ls -A "$tmp/to")" ] || fail 'something was left'
checks=$((checks + 1))
if mkfifo "$tmp/dump/layer9.chunks" 2>/dev/null; then # nobody writes to it
  refused 3 'layer9.chunks' timeout 20 "$kvtrace" pack -q "$tmp/dump" \
    -o "$tmp/to/fifo.safetensors"
fi
echo "check_pack: vLLM's hook on $dumped"
concluded
