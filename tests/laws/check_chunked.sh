#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A prompt that is read in chunks (prefill=N, sim/ask/README.md). Laws: where
# everything is selected every row of the prompt is exact, and decoding as after
# the whole prompt; one chunk is the whole prompt, to the bit (deltakv's rows
# read what is coded, so theirs are exact where all are references); both
# backends, threads and walks agree; rows are stored, and found again. In
# binary64, where a Python has numpy, what rows attend, and their error and
# mass. What queries that are kept for later chunks take. And what is refused.
. "$(dirname "$0")/../replays.sh"
shows=("$tmp/err")
run() { "$kvreplay" run -q -f jsonl "$@" >"$tmp/out" 2>"$tmp/err"; }
hold() { # WHAT CONDITION..: the condition is true
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" >"$tmp/held" 2>&1 || fail "$what: $(tail -n 1 "$tmp/held")"
}
refused() { # RC WORDS COMMAND...
  local rc=$1 words=$2 got=0
  shift 2
  "$@" >"$tmp/out" 2>"$tmp/err" || got=$?
  checks=$((checks + 1))
  [ "$got" = "$rc" ] && grep -q -- "$words" "$tmp/err" ||
    fail "rc $got, not $rc with '$words': $*"
}
field() { sed -n 's/.*"'"$1"'": \([^,}]*\)[,}].*/\1/p' "$tmp/out"; }
max() { # MEASURE: its largest value
  sed -n 's/.*"'"$1"'": {[^}]*"max": \([^,}]*\),.*/\1/p' "$tmp/out"
}
p50() { sed -n 's/.*"'"$1"'": {[^}]*"p50": \([^,}]*\),.*/\1/p' "$tmp/out"; }
distinct() { field "$1" | sort -u | wc -l; }

trace=$tmp/four.safetensors
"$kvtrace" synth -q --layers 4 --heads 4 --kv-heads 2 --dim 32 --dtype F32 \
  -t 190 -p 170 -s 11 -o "$trace" 2>"$tmp/err" || fail "synth"
all=k=170:layers=1

# Everything is selected: no row is off, and decoding measures what it does
# after the whole prompt.
delta=deltakv:compressor=none:full=0/2:recent=16
run "$trace" -m "dense:prefill=32,omnikv:$all:prefill=32,omnikv:$all:prefill=7,\
$delta:stride=1:r=1:prefill=32" || fail "everything"
hold "no row is off" test "$(max prompt_error | sort -u)" = 0.0
hold "all is attended" test "$(max prompt_attended | sort -u)" = 1.0
hold "outputs of a chunk of 32" test "$(field output | sed 3d | sort -u |
  wc -l)" = 1
for m in "omnikv:$all" "$delta:r=1" "$delta:top=9"; do
  run "$trace" -m "$m,$m:prefill=7" || fail "whole"
  hold "decoding is as after the whole prompt" test "$(sed \
    's/.*"kr": \(.*\), "prompt_error".*/\1/' "$tmp/out" | sort -u | wc -l)" = 1
done

evict=h2o,h2o:variant=prefill,snapkv,pyramidkv,adakv,headkv,criticalkv,chunkkv
evict+=,keydiff,lagkv,expected
reads=quest:page=8:skip=0,quest:page=8:skip=0+twilight:skip=0
with() { # LIST TEXT: a list whose specifications end in TEXT
  echo "$1" | sed "s/,/$2,/g; s/\$/$2/"
}
# One chunk is the whole prompt, to the bit, be it as long or longer.
one=omnikv:k=20:layers=1,$delta,dense,int8,quest:page=8:skip=0+twilight:skip=0
one+=,${reads%%,*},${evict/keydiff/keydiff:block=0},snapkv+int4
each=
for m in ${one//,/ }; do
  each+=,$m,$m:prefill=170,$m:prefill=171,$m:prefill=9999
done
same_fours() { # of the lines of a field each four are equal
  field "$1" | awk 'NR % 4 == 1 { x = $0 } $0 != x { exit 1 }'
}
one_chunk() { # HOW..
  run "$trace" -b 24 -m "${each#,}" "$@" || fail "one chunk $*"
  for d in journal state output; do
    hold "one chunk is the whole prompt: $d $*" same_fours $d
  done
}
one_chunk
hold "a prompt read whole has no rows" grep -q '"prompt_error": null' "$tmp/out"
one_chunk --walk=steps

# With the budget of every token no row is off. Of fewer, those that drop tokens
# lose of the prompt, too.
run "$trace" -b 190 -m "$(with "$evict,${reads%%,*}" :prefill=48)" ||
  fail "every token"
hold "no row is off, of every token" test "$(max prompt_error | sort -u)" = 0.0
run "$trace" -b 24 -m "$(with "$evict,${reads%%,*}" :prefill=48)" ||
  fail "24 tokens"
hold "each loses of the prompt" test "$(max prompt_error |
  grep -cvx '0\.0')" = 12
hold "attend less" test "$(max prompt_attended | grep -cx '1\.0')" = 0
cp "$tmp/out" "$tmp/evicted"

# Where each chunk, the last too, has a window of tokens, its own rows vote: as
# it was before windows went across chunks.
run "$trace" -b 24 -m snapkv:prefill=48,adakv:prefill=48 || fail "long chunks"
hold "chunks of a window or more" test "$(field state | cut -c 2-17 |
  xargs)" = "a2b0178f6646c5c8 abbce136fa8f43db"
# A chunk of 24 meets the 24 entries of each lane, 264 bytes each; the lanes of
# one layer hold both. Beside them 12 queries a head are kept.
run "$trace" -b 24 -m snapkv:prefill=24 --prompt-len 189 ||
  fail "the peak"
hold "queries that are kept are in the peak" test "$(sed -n \
  '1s/.*"peak": \([0-9]*\), "mti".*/\1/p' "$tmp/out")" = \
  $(((8 + 2) * 24 * 264 + 4 * 4 * 12 * 32 * 4))

# Some are selected: something is lost, and by few more than by many.
some=omnikv:layers=1:k=20:prefill=32
spec=$some,omnikv:layers=1:k=5:sink=2:recent=9:score=dot:prefill=50
spec+=,omnikv:layers=0/2:wait=0:k=9:selector=exp:window=5:prefill=19
delta_some=$delta:prefill=32,$delta:self=yes:phase=block:score=prob:prefill=20
delta_some+=,$delta:tier=host:refs=recon:prompt_top=4:prefill=50
spec+=,$delta_some
run "$trace" -m "$spec" || fail "some"
cp "$tmp/out" "$tmp/first"
hold "rows of layers that follow are off" \
  test "$(max prompt_error | grep -cvx '0\.0')" = 6
for how in --jobs=1 --jobs=3 --walk=steps; do
  run "$trace" -m "$spec" "$how" || fail "$how"
  for d in journal state output prompt_mass; do
    hold "$how: $d" test "$(field $d)" = \
      "$(sed -n 's/.*"'$d'": \([^,}]*\)[,}].*/\1/p' "$tmp/first")"
  done
done
: >"$tmp/alone"
for m in ${spec//,/ }; do
  run "$trace" -m "$m" || fail "$m"
  cat "$tmp/out" >>"$tmp/alone"
done
sed -i 's/"seconds": [^,}]*//' "$tmp/first" "$tmp/alone"
hold "cells of the same chunks share exact rows, and are as alone" \
  cmp "$tmp/first" "$tmp/alone"
if replay_emu; then
  hold "both backends" "$kvreplay" check -q "$trace" \
    -m "$spec,dense:prefill=32,omnikv:$all:prefill=7,dense:prefill=171"
  short=snapkv+int4,snapkv:group=max,${evict/keydiff,/}
  hold "both backends, of a budget" "$kvreplay" check -q "$trace" -b 24 \
    -m "$(with "$evict,$reads" :prefill=48),$(with "$short" :prefill=13)"
  hold "both backends, of one chunk" "$kvreplay" check -q "$trace" -b 24 \
    -m snapkv:prefill=9999
fi

# Rows are stored with their measures, and found again.
"$kvreplay" run -q "$trace" -m "$some" -d "$tmp/one.db" >"$tmp/out" 2>&1 ||
  fail "a database"
hold "columns of the table" grep -q '^omnikv.* 0\.2[0-9]*  *0\.[0-9]*$' \
  "$tmp/out"
hold "measures of the prompt's rows" test "$("$sql" "$tmp/one.db" "SELECT
  count(*) FROM run_metric WHERE measure LIKE 'prompt_%'")" = 3
"$kvreplay" run -q -f jsonl "$trace" -m "$some" -d "$tmp/one.db" \
  >"$tmp/out" 2>&1 || fail "again"
hold "the row from the database" test "$(p50 prompt_error)" = "$(sed -n 1p \
  "$tmp/first" | sed 's/.*"prompt_error": {[^}]*"p50": \([^,}]*\),.*/\1/')"
hold "one row" test "$("$sql" "$tmp/one.db" 'SELECT count(*) FROM run')" = 1

# The definition, in binary64.
for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import numpy' 2>/dev/null || continue
  for m in "$some" h2o:budget=24:prefill=40 \
    omnikv:layers=1:k=5:sink=2:recent=9:score=dot:prefill=50 \
    "$delta:prefill=32" \
    "$delta:stride=5:sink=3:nearest=2:score=prob:prompt_top=7:prefill=40" \
    h2o:budget=50:variant=prefill:prefill=33 snapkv:budget=24:prefill=24 \
    snapkv:budget=24:prefill=7 snapkv:budget=50:window=25:kernel=5:prefill=48 \
    snapkv:budget=60:window=40:prefill=31; do
    run "$trace" -m "$m" || fail "$m"
    hold "binary64 of $m" "$python" "$src/tests/python/chunked.py" \
      "$src/sim/python" "$trace" "$tmp/out"
  done
  break
done

# What is refused.
refused 2 'neither whole nor' "$kvreplay" run "$trace" -m dense:prefill=0
refused 2 'neither whole nor' "$kvreplay" run "$trace" -m dense:prefill=half
refused 2 'given twice' "$kvreplay" run "$trace" \
  -m dense:prefill=5:prefill=whole
# Of rows of the first chunk those that are shown at its end are asked for.
for rows in 130 142; do
  "$kvtrace" slim -q "$trace" --rows last=$rows,decode \
    -o "$tmp/last_$rows.safetensors" 2>"$tmp/err" || fail "slim"
done
refused 2 'does not record' "$kvreplay" run "$tmp/last_130.safetensors" \
  -m snapkv:prefill=40,h2o:prefill=40 -b 24
run "$tmp/last_142.safetensors" "$trace" -m snapkv:prefill=40 -b 24 ||
  fail "the rows that are shown"
hold "rows that nobody is shown may lack" test "$(distinct state)" = 1
refused 2 'in chunks yet' "$kvreplay" run "$trace" -m zsmerge:prefill=5 -b 20
"$kvtrace" synth -q --layers 2 --heads 4 --kv-heads 2 --dim 32 --dtype F32 \
  -t 190 -p 170 -s 11 --window 48 -o "$tmp/win.safetensors" 2>"$tmp/err" ||
  fail "synth"
refused 2 'sliding window' "$kvreplay" run "$tmp/win.safetensors" \
  -m dense:prefill=32
concluded
