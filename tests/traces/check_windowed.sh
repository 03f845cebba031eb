#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Methods within sliding windows: `windowed=compress` (traces/README.md). Laws:
# a budget of the window is dense to the bit; a window wider than the trace
# changes no digest; nothing is kept that the next token does not see, and no
# more than the budget; both backends are equal. In binary64, where a Python has
# numpy, what h2o and knorm keep and every output. Budgets in percent, rows and
# keys, what is refused; dense's peak; layers that choose for others.
. "$(dirname "$0")/../replays.sh"
w=48 shows=("$tmp/out" "$tmp/err")
alike=window,random,h2o,h2o:variant=prefill:group=max,tova,snapkv,adakv
alike+=,pyramidkv,pyramidkv:grow=no:every=40,headkv,knorm:skip=0,rkv
alike+=,keydiff,lagkv,expected,chunkkv,criticalkv,oracle-topk
others=duoattention,kivi,int4,leankv
both=knorm:skip=0,knorm:skip=0:windowed=compress

run() { "$kvreplay" run -q -f jsonl "$@" >"$tmp/out" 2>"$tmp/err"; }
within() {
  echo "$1" | sed 's/,/:windowed=compress,/g; s/$/:windowed=compress/'
}
refused() { # RC WORDS COMMAND...: whether or not a table says so, too
  local rc=$1 words=$2 got=0
  shift 2
  "$@" >"$tmp/out" 2>"$tmp/err" || got=$?
  checks=$((checks + 1))
  [ "$got" = "$rc" ] && grep -q -- "$words" "$tmp/err" ||
    fail "rc $got, not $rc with '$words': $*"
}
hold() { # WHAT CONDITION..: the condition is true
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" >"$tmp/held" 2>&1 || fail "$what: $(tail -n 1 "$tmp/held")"
}
same() { # METHOD BUDGET FIELD TRACE.. : the last run's rows have one FIELD each
  hold "$1" test "$(sed 's/.*"'"$2"'": "\([0-9a-f]*\)".*/\1/' "$tmp/out" |
    sort -u | wc -l)" = "$3"
}
field() { sed -n 's/.*"'"$1"'": \([^,}]*\)[,}].*/\1/p' "$tmp/out"; }

# A budget of the window is dense to the bit, and so is the whole row where all
# layers have a window.
windows=$(replay_windows)
all=$tmp/all.safetensors wide=$tmp/wide.safetensors plain=$tmp/plain.safetensors
common="-q --layers 2 --heads 4 --kv-heads 2 --dim 32 --dtype F32 -t 200 -s 9"
# shellcheck disable=SC2086
"$kvtrace" synth $common -p 160 --window $w -o "$all" 2>"$tmp/err" &&
  "$kvtrace" synth $common -p 160 --window 201 -o "$wide" 2>"$tmp/err" &&
  "$kvtrace" synth $common -p 160 -o "$plain" 2>"$tmp/err" || fail "synth"
run "$all" -b $w -m "dense,$(within "$alike")" ||
  fail "a budget of the window"
same "outputs of dense" output 1
run "$windows" -b 200 -m "dense,$(within "$alike")" || fail "a full budget"
same "outputs of dense, one layer without a window" output 1

# Of a window that hides nothing methods decide as without one.
for t in "$plain" "$wide"; do
  run "$t" -b 20% -m "$(within "$alike,$others")" || fail "a wide window"
  sed 's/.*"journal": "\([0-9a-f]*\)".*"output": "\([0-9a-f]*\)".*/\1 \2/' \
    "$tmp/out" >"$tmp/$(basename "$t").digests"
done
hold "as many rows" test "$(wc -l <"$tmp/wide.safetensors.digests")" = 22
hold "a window that hides nothing" \
  cmp "$tmp/wide.safetensors.digests" "$tmp/plain.safetensors.digests"
run "$plain" -m $both -b 20% -d "$tmp/one.db" ||
  fail "a trace without windows"
hold "without windows there is one row" \
  test "$("$sql" "$tmp/one.db" 'SELECT count(*) FROM run')" = 1

# Both backends, the prompt at once, in blocks, and later prompts.
if replay_emu; then
  "$kvreplay" check -q "$windows" -b 20% \
    -m "$(within "$alike,$others,snapkv+kivi:group=8:residual=16")" \
    >"$tmp/out" 2>"$tmp/err" || fail "a backend differs"
  hold "both were compared" grep -q "^23 equal, 0 different" "$tmp/out"
fi

# What stays: at most the budget, and all of it seen by the next token.
"$kvreplay" run -q "$all" -m h2o:budget=9:windowed=compress --selections \
  "$tmp/kept.jsonl" >"$tmp/out" 2>"$tmp/err" || fail "selections"
hold "kept is in the window" awk -v w=$w -F '"' '{
    match($0, /"step": [0-9]+/)
    step = substr($0, RSTART + 8, RLENGTH - 8)
    match($0, /"positions": \[[^]]*/)
    n = split(substr($0, RSTART + 14, RLENGTH - 14), p, ", ")
    if (n > 9) { print "too many at", step; exit 1 }
    for (i = 1; i <= n; i++)
      if (p[i] < step - w + 1) { print p[i], "at", step; exit 1 }
    lines++
  } END { if (!lines) exit 1 }' "$tmp/kept.jsonl"

# Budgets spread over two windowed layers, by hand: what lanes hold after the
# prompt. pyramidkv, W = 24, n = 23, C = 19, w = 8, base = 11: max = 22 is cut
# to n - w = 15, min = 7, so layers keep 15 and 7 past w. headkv, W = 48,
# C = 20, base = 12: of the pool of 64 heads have 4 and 12, by scores of 1 and
# 3 of 16, and each 4.
lanes() { # METHOD BUDGET TRACE WHAT WANT: layers, and what their lanes hold
  "$kvreplay" run -q "$3" -m "$1" -b "$2" --selections "$tmp/kept.jsonl" \
    >"$tmp/out" 2>"$tmp/err" || fail "$4"
  same_text "$4" "$(awk -F '"' '/"step": 160[,}]/ {
      match($0, /"layer": [0-9]+/); l = substr($0, RSTART + 9, RLENGTH - 9)
      match($0, /"positions": \[[^]]*/)
      print l, split(substr($0, RSTART + 14, RLENGTH - 14), p, ", ")
    }' "$tmp/kept.jsonl" | sort -u | tr '\n' ' ')" "$5"
}
same_text() { hold "$1: $2 and not $3" test "$2" = "$3"; }
# shellcheck disable=SC2086
"$kvtrace" synth $common -p 160 --window 24 -o "$tmp/narrow.safetensors" \
  2>"$tmp/err" || fail "synth of narrow windows"
for grow in yes no:every=39; do
  lanes "pyramidkv:window=8:grow=$grow:windowed=compress" 19 \
    "$tmp/narrow.safetensors" "a pyramid, grow=$grow" "0 23 1 15 "
done
for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import numpy' 2>/dev/null || continue
  "$python" - "$src/sim/python" "$tmp/heads.safetensors" <<'END' ||
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from kvreplay.container import save, tensor
scores = np.repeat(np.float32([[1], [3]]), 4, 1)
save(sys.argv[2], {"format": "heads"}, {"scores": tensor("F32", scores)})
END
    fail "a table of heads"
  heads=headkv:window=8:table=$tmp/heads.safetensors:windowed=compress
  lanes "$heads" 20 "$all" "shares of heads" "0 16 1 24 "
  run "$all" -b $w -m "dense,$heads" || fail "a table, a budget of the window"
  same "outputs of dense, of heads with shares" output 1
  break
done

# In binary64, by numpy.
for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import numpy' 2>/dev/null || continue
  for rule in sums:h2o norms:knorm:skip=0; do
    "$kvreplay" run -q "$windows" -m "${rule#*:}:budget=12:windowed=compress" \
      --selections "$tmp/kept.jsonl" --outputs "$tmp/out.safetensors" \
      >"$tmp/out" 2>"$tmp/err" || fail "$rule"
    hold "numpy's ${rule%%:*}" "$python" "$src/tests/python/windowed.py" \
      "$src/sim/python" "$windows" "${rule%%:*}" 12 "$tmp/kept.jsonl" \
      "$tmp/out.safetensors"
    rm -f "$tmp/out.safetensors"
  done
  "$python" - "$src/sim/python" "$windows" "$tmp" <<'END' || fail "scores"
import sys
sys.path.insert(0, sys.argv[1])
from kvreplay.scores import write_scores
from kvreplay.trace import read_trace
t = read_trace(sys.argv[2])
scores = {l: -(t.k(l)[:, :t.prompt_len] ** 2).sum(2) for l in t.layers}
write_scores(sys.argv[3] + "/full.safetensors", t, "keys", scores)
full = {l: scores[l] for l in t.layers if not t.windows[l]}
write_scores(sys.argv[3] + "/some.safetensors", t, "keys", full)
END
  run "$windows" -b 20% -m "topk:scores=$tmp/some.safetensors" ||
    fail "scores of a layer with a window may be missing"
  run "$windows" -b 20% \
    -m "topk:windowed=compress:scores=$tmp/full.safetensors" ||
    fail "scores within a window"
  "$kvreplay" run -q "$windows" -b 20% \
    -m "topk:threshold=-2:scores=$tmp/some.safetensors" >"$tmp/out" 2>"$tmp/err"
  hold "a threshold is named" grep -q 'topk:.*:threshold=-2' "$tmp/out"
  refused 2 'layer 0 is missing' "$kvreplay" run -q "$windows" -b 20% \
    -m "topk:windowed=compress:scores=$tmp/some.safetensors"
  break
done

# A share is of what a row of the layer sees: 20 % of 160 tokens, and of 48.
run "$windows" -b 20% -m $both -d "$tmp/two.db" ||
  fail "rows"
hold "each has its row" \
  test "$("$sql" "$tmp/two.db" 'SELECT count(*) FROM run')" = 2
hold "a budget a layer" \
  grep -q '"budget": \[9, 32\],.*"windowed": "compress"' "$tmp/out"
hold "and its specification" \
  grep -q '"spec": "knorm:budget=9/32:.*:windowed=compress"' "$tmp/out"
run "$windows" -b 20 -m knorm:skip=0:windowed=compress || fail "entries"
hold "a number is of every layer" grep -q '"budget": 20,' "$tmp/out"
refused 2 'listed twice' \
  "$kvreplay" run -q "$windows" -b 20% -m knorm,knorm:windowed=leave
run "$all" -b ratio:0.75 -m knorm:skip=0:variant=drop:windowed=compress
hold "achieved of the window" test "$(field achieved)" = 0.75
run "$windows" -b 20%,mean:30%,peak:50% -m h2o:windowed=compress ||
  fail "budgets in bytes"
hold "three rows" test "$(wc -l <"$tmp/out")" = 3

# Dense is all of its bytes, at the peak too.
for m in dense dense:windowed=compress; do
  run "$windows" -m "$m"
  bytes=$((200 * 2 * 2 * 32 * 4 + (w - 1) * 2 * 2 * 32 * 4))
  hold "$m: peak is what dense holds" grep -q "\"peak\": $bytes," "$tmp/out"
  hold "$m: no error" grep -q '"output_error": {"mean": 0.0,' "$tmp/out"
done

# Layers that choose for others have no window: of 8 layers 3 and 7 have none.
# shellcheck disable=SC2086
"$kvtrace" synth -q --layers 8 --heads 2 --kv-heads 2 --dim 16 -t 90 -p 80 \
  --window 16 --full-every 4 -o "$tmp/eight.safetensors" 2>"$tmp/err" ||
  fail "synth of eight layers"
run "$tmp/eight.safetensors" -m omnikv:k=5
hold "a layer without a window chooses" \
  grep -q '"layers": "7"' "$tmp/out"

# Refused, in a sentence.
no() { refused 2 "$2" "$kvreplay" run -q "$windows" -b 20% -m "$1"; }
no streamingllm:windowed=compress 'new positions'
no zsmerge:windowed=compress 'merges entries'
no quest:windowed=compress 'by their places'
no omnikv:k=5:windowed=compress 'read what others choose'
no hardkv:variant=paper:adapter=score:score=keydiff:windowed=compress places
no h2o:variant=masked:windowed=compress 'take windowed=leave'
no knorm:windowed=both 'neither leave nor compress'
no knorm:windowed=leave:windowed=leave 'given twice'
refused 0 'decisions cannot say' "$kvreplay" run -q "$windows" -b 20% \
  -m knorm:skip=0:windowed=compress --decisions "$tmp/d.safetensors"
"$kvreplay" run -q "$all" -b 20% -m all:windowed=compress >"$tmp/out" \
  2>"$tmp/err"
hold "all, within their windows" grep -q '^knorm:windowed=compress' "$tmp/out"

concluded
