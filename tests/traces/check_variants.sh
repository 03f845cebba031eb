#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Traces of version 2 (traces/README.md): layers with a sliding window, a cap on
# logits, learned sinks, V in K. On synthetic traces, outputs recomputed by
# kvtrace and, where a Python has numpy, in binary64; both backends equal. A
# windowed layer does what `window` with one token less does on the same layer
# without a window, and no method changes that; bytes and entries; RoPE of a
# part of the head; what is refused, in a sentence.
. "$(dirname "$0")/../sh.sh"
w=64 shows=("$tmp/out" "$tmp/err")

run() { "$kvreplay" run -q -f jsonl "$@" >"$tmp/out" 2>"$tmp/err"; }
refused() { # RC WORDS COMMAND...
  local rc=$1 words=$2 got
  shift 2
  "$@" >"$tmp/out" 2>"$tmp/err"
  got=$?
  checks=$((checks + 1))
  [ "$got" = "$rc" ] && grep -q -- "$words" "$tmp/out" "$tmp/err" ||
    fail "rc $got, not $rc with '$words': $*"
}
hold() { # WHAT CONDITION..: the condition is true
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" >"$tmp/held" 2>&1 || fail "$what: $(tail -n 1 "$tmp/held")"
}
layers() { # ARGUMENTS..: of a run, the digests of layers 0 and 2
  rm -f "$tmp/l.db"
  run "$@" -d "$tmp/l.db" || fail "run $*"
  "$sql" "$tmp/l.db" "SELECT layer || ' ' || journal || state || output
    FROM journal_digest
    WHERE layer IN (0, 2) ORDER BY layer"
}

common="--tokens 400 --dtype f32 --prompt-len 340 -q"
plain=$tmp/plain.safetensors v2=$tmp/v2.safetensors
# shellcheck disable=SC2086
"$kvtrace" synth $common -o "$plain" 2>"$tmp/err" &&
  "$kvtrace" synth $common -o "$v2" --window $w --full-every 2 --output \
    2>"$tmp/err" || fail "synth"

# What the trace says, and that its outputs are of it.
"$kvtrace" info "$v2" >"$tmp/out"
hold "info names the windows" grep -q "window *$w tokens in 2 of 4" "$tmp/out"
hold "check accepts its outputs" "$kvtrace" check "$v2"

# Both backends, by methods that drop, select, code, publish, merge and look at
# logits of their own, with the prompt at once and in blocks.
both() { # TRACE METHODS [OPTIONS]
  local trace=$1 methods=$2
  shift 2
  "$kvreplay" check "$trace" -b 20% -m "$methods" "$@" >"$tmp/out" \
    2>"$tmp/err" || fail "a backend differs on $(basename "$trace")"
  hold "both were compared" grep -q "^[1-9].* equal, 0 different" "$tmp/out"
}
both "$v2" dense,snapkv,tova,quest,kivi,omnikv,zsmerge,chunkkv
small="--tokens 260 --dtype f32 --prompt-len 220 --layers 2 -q --output"
cap=$tmp/cap.safetensors all=$tmp/gpt.safetensors
# shellcheck disable=SC2086
{
  "$kvtrace" synth $small -o "$cap" --softcap 5 2>"$tmp/err" &&
    "$kvtrace" synth $small -o "$all" --window 40 --full-every 2 --softcap 9 \
      --sinks 2>"$tmp/err" || fail "synth of a cap and of sinks"
}
for t in "$cap" "$all"; do
  hold "check accepts outputs of $(basename "$t")" "$kvtrace" check "$t"
  both "$t" dense,h2o,snapkv,tova,quest,kivi,omnikv,rkv,twilight,hardkv,leankv
done
both "$all" oracle-topp,zsmerge,snapkv+kivi,quest+quant,adakv
both "$all" h2o:variant=masked
both "$all" hardkv,snapkv --indices max
both "$all" kivi,leankv --pages
# More entries than a chunk stay, so that steps begin ahead of their layer.
deep=$tmp/deep.safetensors
"$kvtrace" synth -q -t 300 --prompt-len 220 --layers 2 --sinks -o "$deep" \
  2>"$tmp/err" || fail "synth of sinks"
both "$deep" h2o:budget=180,h2o:budget=180:variant=masked
"$kvtrace" convert -q "$all" --dtype f16 -o "$tmp/half.safetensors" \
  2>"$tmp/err" || fail "convert"
"$kvtrace" info "$tmp/half.safetensors" >"$tmp/out"
hold "convert carries sinks" grep -q 'sinks *learned, in 2 of 2' "$tmp/out"
"$kvtrace" info "$all" >"$tmp/out"
hold "info names the cap" grep -q 'logits capped at 9' "$tmp/out"
hold "info names the sinks" grep -q 'sinks *learned, in 2 of 2' "$tmp/out"

# A windowed layer is `window` with w - 1 entries, whatever the method, and
# whether rows come from a tile or one by one.
layers "$plain" -m window:budget=$((w - 1)) >"$tmp/window"
hold "two digests" test "$(wc -l <"$tmp/window")" = 2
for m in dense h2o:budget=50 quest:budget=80 tova:budget=90; do
  for walk in layers steps; do
    layers "$v2" -m "$m" --walk $walk >"$tmp/here"
    hold "$m by $walk: windowed layers are those of window" \
      cmp -s "$tmp/window" "$tmp/here"
  done
done

# Dense is dense: no error, all of its bytes, 63 of the 400 tokens in two of
# four layers; what was kept is of the layers without a window.
run "$v2" -m dense
for text in '"kr": 1.0,' '"cr": 1.0,' '"kept": 400.0' '"attended": 370.5'; do
  hold "dense says $text" grep -q -- "$text" "$tmp/out"
done
hold "dense has no error" grep -q '"output_error": {"mean": 0.0,' "$tmp/out"
bytes=$(((2 * 400 + 2 * (w - 1)) * 4 * 64 * 4))
hold "and $bytes bytes" grep -q "\"total\": $bytes," "$tmp/out"
run "$v2" -m streamingllm -b 25%
hold "a budget is of full layers" grep -q '"kept": 85.0' "$tmp/out"

# V in K: dense holds K alone, what is merged too; a coded side is one more.
kv=$tmp/kv.safetensors
# shellcheck disable=SC2086
"$kvtrace" synth $small -o "$kv" --shared 2>"$tmp/err" || fail "synth of V in K"
hold "check accepts V in K" "$kvtrace" check "$kv"
both "$kv" dense,zsmerge,quest,kivi,leankv
run "$kv" -m dense
for text in '"kr": 1.0,' "\"total\": $((2 * 260 * 4 * 32 * 4))," \
  "\"read\": $((2 * 4 * 32 * 4 * 481 / 2)).0"; do
  hold "dense of V in K says $text" grep -q -- "$text" "$tmp/out"
done
run "$kv" -m zsmerge -b 25%
hold "merged rows, too" \
  grep -q "\"payload\": $((2 * 4 * 55 * 32 * 4))," "$tmp/out"

# Other ways through the engine.
run "$v2" -m snapkv,h2o -b 20% --layout slots,pages:16 || fail "layouts"
run "$v2" -m snapkv,tova -b 20% --turns --observe context || fail "turns"
run "$v2" -m h2o -b mean:40% || fail "a budget in bytes"
run "$v2" -m dense,h2o -b 20% --twice -d "$tmp/t.db" || fail "twice"

# In binary64, by numpy.
for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import numpy' 2>/dev/null || continue
  for t in "$v2" "$cap" "$all"; do
    rm -f "$tmp/o.safetensors"
    run "$t" -m dense --outputs "$tmp/o.safetensors" || fail "outputs"
    hold "numpy's attention, $(basename "$t")" "$python" \
      "$src/tests/python/variants.py" "$src/sim/python" "$t" \
      "$tmp/o.safetensors"
  done
  hold "partial RoPE is half" "$python" "$src/tests/python/variants.py" \
    "$src/sim/python" --partial "$kvreplay" "$tmp"
  break
done

# Refused, in a sentence.
"$kvtrace" synth -q -o "$tmp/all.safetensors" -t 200 --window 32 2>/dev/null
refused 2 'no layer is left for the method' \
  "$kvreplay" run -q "$tmp/all.safetensors" -m snapkv -b 20%
run "$tmp/all.safetensors" -m dense || fail "dense where all have windows"
refused 2 'kept for each query head' \
  "$kvreplay" run -q "$v2" -m snapkv:group=query_head -b 20%
refused 3 'has a sliding window of 64 tokens' \
  "$kvreplay" attention "$v2" -d "$tmp/a.db"
refused 2 'give both' "$kvtrace" synth -o "$tmp/x" --full-every 2
say() { # FROM TO: a copy of the trace, another text as long in its head
  LC_ALL=C sed "1s/$1/$2/" "$v2" >"$tmp/said.safetensors"
}
say '"version":"2"' '"version":"3"'
refused 3 'version is 3, neither 1 nor 2' \
  "$kvtrace" info "$tmp/said.safetensors"
say '"version":"2"' '"version":"1"'
refused 3 'attn.sliding_window is set: version 1' \
  "$kvtrace" info "$tmp/said.safetensors"
refused 3 'logits have a cap' "$kvreplay" attention "$cap" -d "$tmp/a.db"
refused 2 'softcap is none' "$kvtrace" synth -o "$tmp/x" --softcap none
LC_ALL=C sed '1s/"attn.softcap":"5"/"attn.softcap":"0"/' "$cap" \
  >"$tmp/said.safetensors"
refused 3 'attn.softcap is not a decimal number' \
  "$kvtrace" info "$tmp/said.safetensors"
refused 2 'layouts keep K and V apart' \
  "$kvreplay" run -q "$kv" -m dense --layout slots
LC_ALL=C sed '1s/"kv.shared":"first"/"kv.shared":"fifth"/' "$kv" \
  >"$tmp/said.safetensors"
refused 3 'kv.shared is neither none nor first' \
  "$kvtrace" info "$tmp/said.safetensors"
"$kvtrace" synth $small -o "$tmp/apart.safetensors" 2>/dev/null
LC_ALL=C sed -e '1s/"version":"1"/"version":"2"/' \
  -e '1s/"source":"synthetic"/"kv.shared":"first" /' \
  "$tmp/apart.safetensors" >"$tmp/said.safetensors"
refused 3 'is not the first 32 numbers of k' \
  "$kvtrace" check "$tmp/said.safetensors"
say 'attn.sliding_window' 'attn.sliding_windov'
refused 3 'attn.sliding_windov is nothing that this program can compute' \
  "$kvtrace" info "$tmp/said.safetensors"
# A number too few, one too many, a window of 1, no number.
for windows in '64,0,64  ' '6,0,6,0,6' '64,0,64,1' '64,0,64,-' ',0,64,0  '; do
  say '"64,0,64,0"' "\"$windows\""
  refused 3 'attn.sliding_window is neither a number' \
    "$kvtrace" info "$tmp/said.safetensors"
done

concluded
