#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `kvreplay record` (kvreplay.record): prompts, options, spans, files and exit
# codes with Python alone. Where PYTHON has torch and transformers also the
# bundled model and small ones: needles, rows with column sums, layers,
# together, resumed, bad models; and some of the causal types of transformers,
# chosen by what the recorder's files are, against sim/python/TYPES.md.
#
# Environment: PYTHON; KV_TYPES, how many types (12). 77 without python3.
. "$(dirname "$0")/sh.sh"
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || {
  echo 'record: needs python3, 3.9 or newer'
  exit 77
}
export KVREPLAY_LIBRARY=$top/sim/.libs/libkvreplay.so.0

mkdir "$tmp/text" "$tmp/real"
"$python" "$src/tests/python/record_text.py" "$tmp/text" >"$tmp/said" 2>&1 || {
  tail -n 3 "$tmp/said"
  fail 'record_text.py failed'
}
said=$(tail -n 1 "$tmp/said")

real=1
"$python" -c 'import torch, transformers' 2>/dev/null || real=
[ -e "$KVREPLAY_LIBRARY" ] || real=
if nm -D "$KVREPLAY_LIBRARY" 2>/dev/null | grep -qE '__[at]san_init'; then
  real= # python cannot load a library with a sanitizer
fi
if [ "$real" ]; then
  "$python" "$src/tests/python/record_hf.py" "$top/traces/kvtrace" \
    "$top/sim/kvreplay" "$tmp/real" "$src/traces/tiny" >"$tmp/said" 2>&1 || {
    tail -n 3 "$tmp/said"
    fail 'record_hf.py failed'
  }
  said="$said; $(tail -n 1 "$tmp/said")"
  "$python" "$src/tests/python/types_hf.py" "$top/traces/kvtrace" --part \
    "${KV_TYPES:-12}" "$src/sim/python/TYPES.md" >"$tmp/said" 2>/dev/null || {
    tail -n 3 "$tmp/said"
    fail 'types_hf.py: another result than the table'
  }
  said="$said; $(tail -n 1 "$tmp/said")"
fi
[ $bad = 0 ] && echo "$said"
[ $bad = 0 ]
