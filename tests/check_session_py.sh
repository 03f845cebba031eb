#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The session from Python (kvreplay.session): each bundled trace fed through it
# has the digests that `kvreplay run` prints, the example of a kernel's test
# runs, and what is refused is the library's sentence. The database of
# evaluations from Python keeps its laws. Where PYTHON has torch and
# transformers kvreplay.hf runs real models, and kvreplay.kvpress real presses
# if it has kvpress, else made-up ones; the last line says which. And symbols
# of the library carry its version.
#
# Environment: PYTHON; KV_TYPES, KV_PRESSES: how many. 77 without python3 or
# numpy.
. "$(dirname "$0")/sh.sh"
python=
for p in ${PYTHON:-python3 /usr/bin/python3}; do # the first that has numpy
  if [ -z "$python" ] && "$p" -c 'import numpy' 2>/dev/null; then python=$p; fi
done
examples=$src/traces/examples

export KVREPLAY_LIBRARY=$top/sim/.libs/libkvreplay.so.0
[ -e "$KVREPLAY_LIBRARY" ] || {
  echo 'session_py: there is no shared library in this build'
  exit 77
}
if nm -D "$KVREPLAY_LIBRARY" 2>/dev/null | grep -qE '__[at]san_init'; then
  echo 'session_py: python cannot load a library with a sanitizer'
  exit 77
fi
[ -n "$python" ] || {
  echo 'session_py: needs python3 and numpy (apt-get install python3-numpy)'
  exit 77
}

# ---- symbols ---------------------------------------------------------------
if nm -D --with-symbol-versions "$KVREPLAY_LIBRARY" >"$tmp/symbols" 2>&1; then
  grep -q ' kv_session_open' "$tmp/symbols" || fail 'kv_session_open is missing'
  awk '$2 == "T" && $3 !~ /^kv_/ { print $3; rc = 1 } END { exit rc }' \
    "$tmp/symbols" || fail 'exports what is not kv_'
  if grep -q version-script "$top/sim/Makefile"; then
    grep -q ' kv_session_open@@KVREPLAY_0$' "$tmp/symbols" ||
      fail 'kv_session_open has no version'
  fi
fi

# ---- the bundled traces ----------------------------------------------------
# fed TRACE SPEC...: digests are those of kvreplay run.
fed() {
  local trace=$1
  shift
  "$python" "$src/tests/python/session_feed.py" "$trace" "$@" >"$tmp/session" ||
    fail "$trace: the session from Python failed"
  "$top/sim/kvreplay" run "$trace" -b 20% -q -f jsonl \
    -m "$(IFS=,; echo "$*")" >"$tmp/rows"
  awk 'function value(key,   at, text) {
      at = index($0, "\"" key "\": ")
      text = substr($0, at + length(key) + 5)
      return substr(text, 1, index(text, "\"") - 1) }
    { print value("spec"), value("journal"), value("state"),
        value("output") }' "$tmp/rows" >"$tmp/run"
  [ "$(wc -l <"$tmp/run")" = $# ] || fail "$trace: kvreplay run gave no rows"
  diff "$tmp/run" "$tmp/session" >"$tmp/said" || {
    head -n 4 "$tmp/said"
    fail "$trace: other digests than those of kvreplay run"
  }
}

specs=(dense h2o quest:page=8:skip=0 streamingllm zsmerge:variant=paper
  snapkv:group=query_head kivi)
traces=0 # but the long ones: one lacks query rows, which a session wants
for trace in "$src"/traces/tiny/*.safetensors; do
  case $trace in *_long.* | */generated_*) continue ;; esac
  if [ "$trace" = "$small" ]; then
    fed "$trace" "${specs[@]}"
  else
    fed "$trace" h2o quest:page=8:skip=0
  fi
  traces=$((traces + 1))
done
[ $traces = 6 ] || fail "$traces bundled traces, not 6"

# ---- the examples ----------------------------------------------------------
"$python" "$examples/test_my_kernel.py" >"$tmp/said" 2>&1 || {
  tail -n 3 "$tmp/said"
  fail 'test_my_kernel.py failed'
}
sed 's/p @ v\[tokens\]/p[1:] @ v[tokens[1:]]/' "$examples/test_my_kernel.py" \
  >"$tmp/test_wrong.py"
if "$python" "$tmp/test_wrong.py" >"$tmp/said" 2>&1; then
  fail 'test_my_kernel.py does not see a kernel that misses a token'
fi

# Every module that has a command line starts where `make install` puts it: of
# the package there is what the Makefile names. 4: it says what it needs.
installed=$tmp/share/kvreplay/python
(cd "$top/sim/python" && make -s pythondir="$installed" \
  install-nobase_dist_pythonDATA) >"$tmp/said" 2>&1 ||
  fail "installing the package: $(tail -n 1 "$tmp/said")"
programs=0
for module in hf.session kvpress; do
  (cd / && PYTHONPATH=$installed "$python" -m "kvreplay.$module" --help) \
    >"$tmp/said" 2>&1
  case $?:$(tail -n 1 "$tmp/said") in
  0:* | 4:*': needs '*': pip install '*) programs=$((programs + 1)) ;;
  *) fail "kvreplay.$module as installed: $(tail -n 1 "$tmp/said")" ;;
  esac
done
[ $programs = "$(grep -rl ' = arguments(' "$installed" | wc -l)" ] ||
  fail 'a module with a command line that this does not start'

# ---- kvreplay record -------------------------------------------------------
# Prompts, spans, files and codes with Python alone; where PYTHON has torch and
# transformers the bundled model and small ones, and KV_TYPES (18) causal types,
# chosen by what the recorder's files are, against sim/python/TYPES.md.
mkdir "$tmp/text" "$tmp/real"
"$python" "$src/tests/python/record_text.py" "$tmp/text" >"$tmp/said" 2>&1 || {
  tail -n 3 "$tmp/said"
  fail 'record_text.py failed'
}
if "$python" -c 'import torch, transformers' 2>/dev/null; then
  for name in record_hf record_second record_repeat plan_hf train_hf \
    evaluate_hf evaluate_press session_hf; do
    "$python" "$src/tests/python/$name.py" "$top/traces/kvtrace" \
      "$top/sim/kvreplay" "$tmp/real" "$src/traces/tiny" >"$tmp/said" 2>&1 || {
      tail -n 3 "$tmp/said"
      fail "$name.py failed"
    }
  done
  "$python" "$src/tests/python/types_hf.py" "$top/traces/kvtrace" --part \
    "${KV_TYPES:-18}" "$src/sim/python/TYPES.md" >"$tmp/said" 2>/dev/null || {
    tail -n 3 "$tmp/said"
    fail 'types_hf.py: another result than the table'
  }
fi

"$python" "$src/tests/python/session_store.py" >"$tmp/said" 2>&1 || {
  tail -n 3 "$tmp/said"
  fail 'kvreplay.evaluate.store failed'
}
"$python" "$src/tests/python/trace_hf.py" "$top/traces/kvtrace" \
  "$top/sim/kvreplay" "$tmp" "$src/traces/tiny" >"$tmp/said" 2>&1 || {
  tail -n 3 "$tmp/said"
  fail 'kvreplay.hf.capture failed'
}
on=$(tail -n 1 "$tmp/said")
presses='no torch'
if [ "$on" != 'no torch' ]; then
  "$python" "$src/tests/python/press_hf.py" "$top/sim/kvreplay" "$tmp" \
    "$src/traces/tiny" >"$tmp/said" 2>&1 || {
    tail -n 3 "$tmp/said"
    fail 'kvreplay.kvpress failed'
  }
  presses=$(tail -n 1 "$tmp/said")
fi
# KV_PRESSES (8) rows of KVPRESS.md, chosen by what the package's files are.
"$python" "$src/tests/python/presses_hf.py" "$top/sim/kvreplay" \
  "$src/traces/tiny" --part "${KV_PRESSES:-8}" "$examples/KVPRESS.md" \
  >"$tmp/said" 2>/dev/null
case $? in
0) presses="$presses, $(tail -n 1 "$tmp/said")" ;;
77) presses="$presses, KVPRESS.md not checked: $(tail -n 1 "$tmp/said")" ;;
*)
  grep '^presses' "$tmp/said"
  fail 'presses_hf.py: another result than the table'
  ;;
esac
[ $bad = 0 ] &&
  echo "session_py: $traces traces, ${#specs[@]} methods, the examples" \
    "($on; presses: $presses)"
[ $bad = 0 ]
