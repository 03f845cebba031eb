#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Bytes by class of a method that has classes, zsmerge: together they are what
# entries hold, on every backend that is here; a row that a database gives back
# has them, pages and exports show them; a method without classes has none.
. "$(dirname "$0")/replays.sh"
report=$kvreport
trace=$src/traces/tiny/retrieval_8_small.safetensors
run() { "$kvreplay" run "$trace" -q -f jsonl -b 24 "$@" | end_of; }
end_of() { grep -oE '"end": \{[^}]*\}'; }
# value KEY: of the bytes at the end, on stdin.
value() { grep -oE "\"$1\": [^,}]*" | cut -d' ' -f2; }

of=zsmerge:residual=5
backends=ref
replay_emu && backends='ref emu'
for backend in $backends; do
  row=$(run -m "$of" -B "$backend")
  sum=0
  for kind in payload metadata columns; do
    sum=$((sum + $(value "$kind" <<<"$row")))
  done
  old=$(value tier_0 <<<"$row") new=$(value tier_1 <<<"$row")
  [ "$((old + new))" = "$sum" ] && [ "$new" -gt 0 ] ||
    fail "$backend: $old and $new are not $sum"
  [ "$(value tier_2 <<<"$row")" = 0 ] || fail "$backend: a class too many"
done
# What lies in the host's memory is fetched: 5 tokens a step, by both layers
# that follow the first, of 2 KV heads, K and V.
trace=$tmp/three.safetensors
"$kvtrace" synth -o "$trace" --layers 3 --heads 4 --kv-heads 2 --dim 8 \
  --dtype F32 -t 40 -p 30 -s 3 >"$tmp/said" 2>&1 || cat "$tmp/said"
for backend in $backends; do
  for of_them in 5=12800 30=76800; do
    fetched=$("$kvreplay" run "$trace" -q -f jsonl -B "$backend" \
      -m "omnikv:layers=0:k=${of_them%=*}" | value fetched)
    [ "$fetched" = "${of_them#*=}" ] ||
      fail "$backend: $fetched bytes fetched, not ${of_them#*=}"
  done
done
"$kvreplay" run "$trace" -m omnikv:layers=0:k=5 -q >"$tmp/table"
grep -q "fetches 1.2[58]K bytes a step from host memory" "$tmp/table" ||
  fail "the table: $(tail -n 1 "$tmp/table")"
trace=$src/traces/tiny/retrieval_8_small.safetensors
run -m h2o | value tier_0 | grep -qx null || fail 'h2o has classes'

db=(-m "$of,h2o" --db "$tmp/r.db")
first=$(run "${db[@]}")
again=$(run "${db[@]}")
[ "$first" = "$again" ] || fail "a database gives back $again, not $first"
"$report" export "$tmp/r.db" -f csv -o "$tmp" >"$tmp/said" 2>&1
grep -q ",tier_1,1,$new," "$tmp/classes.csv" ||
  fail "the export: $(cat "$tmp/said" "$tmp/classes.csv")"
[ "$(wc -l <"$tmp/classes.csv")" = 3 ] || fail 'the export has other rows'
"$report" html "$tmp/r.db" -o "$tmp/r.html" >"$tmp/said" 2>&1
grep -q 'Bytes by class' "$tmp/r.html" || fail 'the page has no classes'

[ "$bad" = 0 ] && echo "check_classes: on $backends" || exit 1
