#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `kvreplay tune`, from a command line to a command line: its best is that of
# all points tried one by one, what it prints to be pasted gives the best row
# again, threads, a database and an interrupt change nothing, held-out traces
# judge, and what cannot be is one sentence with its exit code.
. "$(dirname "$0")/sh.sh"
other=$tiny/text_400.safetensors

# tune CODE ARGUMENT...: what it printed is in $tmp/out and err.
tune() { ran "$1" "$kvreplay" tune "${@:2}"; }
# wrong CODE TEXT ARGUMENT...: tune is refused so.
wrong() { refused "$1" "$2" "$kvreplay" tune "${@:3}"; }

# says FILE TEXT WHAT
says() {
  grep -qF -- "$2" "$tmp/$1" || fail "$3: no '$2' in: $(cat "$tmp/$1")"
}

# column NAME FILE: of csv rows without commas in quotes before it.
column() {
  "$kvreplay" run "$small" -q -m dense -p 304 -f csv | sed -n 1p |
    tr , '\n' | grep -nx "$1" | cut -d : -f 1
}
spec=$(column spec) error=$(column output_error.mean)
bytes=$(column bytes.mean)

# cells FILE: spec, error and bytes of csv rows, parameters in JSON put aside.
cells() {
  sed '1d; s/"{[^}]*}"/-/' "$1" |
    cut -d , -f "$spec,$error,$bytes"
}

# cheapest FILE MOST: the specification with the fewest bytes whose error is at
# most MOST.
cheapest() {
  cells "$1" | awk -F, -v most="$2" '$3 <= most &&
    (!n++ || $2 < least || ($2 == least && $3 < e)) {
      least = $2; e = $3; spec = $1 } END { print spec }'
}

# --- the best of all -------------------------------------------------------
# Columns come in the order of the row: specification, bytes, error.
kivi=("$small" -q -m kivi:group=8 -p 298 --least mean_bytes)
grid=(-s "bits=2:4,residual=8:64:8" --at-most output_error=0.3)
for bits in 2 4; do
  for residual in 8 16 24 32 40 48 56 64; do
    printf 'kivi:group=8:bits=%d:residual=%d,' $bits $residual
  done
done | sed 's/,$//' >"$tmp/specs"
"$kvreplay" run "$small" -q -p 298 -m "$(cat "$tmp/specs")" -f csv \
  >"$tmp/all" || fail 'run of every point'
want=$(cheapest "$tmp/all" 0.3)
tune 0 "${kivi[@]}" "${grid[@]}" -f csv -j 1
[ -n "$want" ] && [ "$(cells "$tmp/out" | sed -n 's/,.*//; 1p')" = "$want" ] ||
  fail "the best is not $want: $(cells "$tmp/out")"
[ "$(wc -l <"$tmp/err")" = 1 ] || fail "more than a line: $(cat "$tmp/err")"

# What is to be pasted gives the row again.
sed -n 's/^kvreplay: best: kvreplay//p' "$tmp/err" >"$tmp/line"
[ -s "$tmp/line" ] || fail "no line to paste: $(cat "$tmp/err")"
eval "'$kvreplay' $(cat "$tmp/line") -q -f csv" >"$tmp/again" || fail 'pasted'
sed 2q "$tmp/out" | cmp -s - "$tmp/again" || fail 'pasted: another row'
cp "$tmp/out" "$tmp/csv"

# --- threads, database, forms ----------------------------------------------
tune 0 "${kivi[@]}" "${grid[@]}" -f csv -j 2
cmp -s "$tmp/csv" "$tmp/out" || fail 'two threads find something else'
for time in first second; do
  tune 0 "${kivi[@]}" "${grid[@]}" -f csv --db "$tmp/r.db"
  cmp -s "$tmp/csv" "$tmp/out" || fail "with a database, the $time time"
done
set -- "$small" -m kivi:group=8 -p 298 --least mean_bytes
tune 0 "$@" "${grid[@]}" --db "$tmp/r.db"
says err '16 of 16 probes were in the database' 'again'
says out 'front of 16 probes, means over 1 trace' 'the table'
says out 'no neighbour of the best is better' 'the end'
says out "kvreplay run $small -m kivi:group=8:" 'the table'
grep -qE '^  best +[0-9]' "$tmp/out" || fail 'the table marks no best'
! awk 'length > 120' "$tmp/out" | grep -v '^kvreplay' | grep -q . ||
  fail 'the table is wider than 120 columns'
"$kvreplay" verify "$tmp/r.db" -q >"$tmp/out" 2>&1 ||
  fail "verify: $(cat "$tmp/out")"
for form in json jsonl; do
  tune 0 "${kivi[@]}" "${grid[@]}" -f $form --db "$tmp/r.db"
  says out '"spec": "' "$form"
done

# --- finer than the first grid ---------------------------------------------
topp=("$small" -q -m oracle-topp -p 300 --least read_bytes)
seq 0.50 0.01 0.99 | sed 's/^/oracle-topp:p=/' | paste -sd, >"$tmp/specs"
"$kvreplay" run "$small" -q -p 300 -m "$(cat "$tmp/specs")" -f csv \
  >"$tmp/all" || fail 'run of every p'
bytes=$(column bytes.read)
want=$(cheapest "$tmp/all" 0.1)
tune 0 "${topp[@]}" -s p=0.5:0.99:0.01 --at-most output_error=0.1 -f csv
[ -n "$want" ] && [ "$(cells "$tmp/out" | sed -n 's/,.*//; 1p')" = "$want" ] ||
  fail "the best p is not $want: $(cells "$tmp/out")"
[ "$(wc -l <"$tmp/out")" -lt 50 ] || fail 'every p was tried'
tune 0 "${topp[@]}" -s p=0.5:0.99:0.01 --at-least mass=0.9 -n 5
says out 'all 5 probes are spent' '--probes'

# --- an interrupt ----------------------------------------------------------
long=("$small" -m h2o -s budget=20:200,recent=2:10 -n 40 --at-most kr=0.2
  --least output_error -f csv)
tune 0 "${long[@]}" -q
cp "$tmp/out" "$tmp/whole"
env --default-signal=INT "$kvreplay" tune "${long[@]}" -q -j 1 \
  --db "$tmp/i.db" >"$tmp/out" 2>"$tmp/err" &
for ((i = 0; i < 200; i++)); do [ -e "$tmp/i.db" ] || sleep 0.05; done
sleep 0.2
kill -INT $!
wait $!
rc=$? checks=$((checks + 1))
[ $rc = 130 ] || fail "an interrupt: exit $rc, not 130: $(cat "$tmp/err")"
[ ! -s "$tmp/out" ] || fail 'an interrupted search prints a front'
says err 'repeat the command: what is stored is not run again' 'an interrupt'
tune 0 "${long[@]}" --db "$tmp/i.db"
cmp -s "$tmp/whole" "$tmp/out" || fail 'after an interrupt: another front'

# --- several traces, some of them held out ---------------------------------
both=("$small" -q -m kivi:group=8:residual=8 -s bits=2:4 --least kr -p 298)
tune 0 "${both[@]}" --at-most output_error=9 --hold-out "$other"
says out 'held out, means over 1 trace' '--hold-out'
says out text_400 '--hold-out'
says out "run $small -m kivi:group=8:residual=8:bits=2 -p 298" '--hold-out'
mine=$(awk '$1 == "best" { print $3 }' "$tmp/out")
held=$(awk '/^held out/ { held = 1 } held && $1 == "meets" { print $3; exit }' \
  "$tmp/out")
awk -v a="$mine" -v b="$held" 'BEGIN { exit !(a > 0 && a < b) }' ||
  fail "the held-out trace is not the harder one: $mine, $held"
between=$(awk -v a="$mine" -v b="$held" 'BEGIN { print (a + b) / 2 }')
tune 1 "${both[@]}" --at-most "output_error=$between" --hold-out "$other"
says err 'does not meet what was asked on held-out traces: output_error.mean' \
  '--hold-out'
tune 0 "${both[@]}" "$other" --at-most output_error=9
says out 'means over 2 traces' 'two traces'

# --- several methods -------------------------------------------------------
# Each as if it were alone, the fewest bytes first; what has nothing to search
# stands as it is; what cannot reach it is named with what it comes to.
which=("$small" -p 298 --at-least mass=0.97 --least mean_bytes)
many=(-m h2o,quant,window,streamingllm -m knorm:budget=200)
tune 0 "${which[@]}" "${many[@]}" -q --hold-out "$other" --db "$tmp/w.db"
cp "$tmp/out" "$tmp/table"
# method, mark, bytes, mass, share, and both held out
sed -nE 's/^  ([a-z0-9:=]+) +(best|meets|not held) /\1 \2 /p' "$tmp/table" |
  sed 's/not held/not/' >"$tmp/rows"
says out 'the best of each method: least bytes.mean, mass.mean at least 0.97' \
  'several methods'
says out 'do not meet it, the nearest of each:' 'several methods'
says out '  knorm:budget=200: mass.mean 0.' 'several methods'
says out ' of 5 methods meet it, ' 'several methods'
for m in h2o window streamingllm; do
  tune 0 "${which[@]}" -m $m -q -f csv
  one=$(cells "$tmp/out" | sed -n '1s/.*:budget=\([0-9]*\).*/\1/p')
  grep -qE "^  $m:budget=$one +(best|meets|not held) " "$tmp/table" ||
    fail "$m alone is $one: $(cat "$tmp/table")"
done
awk '{ if ($3 + 0 < last) exit 1; last = $3 + 0 } END { exit NR != 4 }' \
  "$tmp/rows" ||
  fail "not by bytes: $(cat "$tmp/table")"
# Held out, each has its own judgement.
awk '$7 < 0.97 != ($2 == "not") { wrong = 1 } { n[$2]++ }
  END { exit wrong || n["best"] != 1 || !n["not"] || !n["meets"] }' \
  "$tmp/rows" ||
  fail "held out is not what the mark says: $(cat "$tmp/table")"
winner=$(awk '$2 == "best" { print $1 }' "$tmp/rows")
says table "kvreplay run $small -m $winner -p 298" 'several methods'
tune 0 "${which[@]}" "${many[@]}" --hold-out "$other" --db "$tmp/w.db" -j 1
cmp -s "$tmp/table" "$tmp/out" || fail 'several methods again: another table'
awk '/probes were in the database/ { exit !($2 == $4 && $2 > 60) }
  END { exit !NR }' "$tmp/err" ||
  fail "a repeated search replays: $(cat "$tmp/err")"
tune 0 "${which[@]}" "${many[@]}" -f csv --hold-out "$other" --db "$tmp/w.db"
says err 'does not meet it: knorm:budget=200: mass.mean 0.' 'several, csv'
says err "best: kvreplay run $small -m $winner -p 298" 'several, csv'
cells "$tmp/out" | cut -d , -f 1 | head -n 4 | paste -d ' ' - "$tmp/rows" |
  awk '{ if (index($1, $2) != 1) exit 1 }' ||
  fail "rows in another order: $(cells "$tmp/out")"
[ "$(wc -l <"$tmp/out")" = 11 ] || fail "not two rows a method and a heading"
# -b stands in for what would be searched; a range for those that have it.
tune 0 "${which[@]}" -q -m h2o,kivi:group=8,kivi:group=8:bits=4 -b 200 \
  -s residual=8:32:8 --at-most kr=1
says out 'kivi:group=8:residual=' 'a range of two of three'
says out 'kivi:group=8:bits=4:residual=' 'a range of two of three'
says out '  h2o: ' '-b for one of three'
tune 1 "${which[@]}" -q -m window,h2o -b 20
says err 'none of 2 methods meets what was asked; the nearest is ' 'none of two'
tune 1 "$small" -q -p 298 -m kivi:group=8:residual=8:bits=2,kivi:group=8 \
  --least kr --at-most output_error="$between" --hold-out "$other"
says err 'that meet what was asked does on held-out traces' 'none held'
# An oracle is a ruler: it stands in the table and is not what to take.
tune 0 "${which[@]}" -q -m oracle-evict,window
grep -qE '^  oracle-evict:budget=[0-9]+ +ruler ' "$tmp/out" &&
  grep -qE '^  window:budget=[0-9]+ +best ' "$tmp/out" ||
  fail "an oracle is the best: $(cat "$tmp/out")"
says out "kvreplay run $small -m window:budget=" 'an oracle beside a method'
tune 2 "$small" -q -p 300 --least kr \
  -m snapkv:budget=24:window=32,snapkv:budget=24:window=40
says err 'no probe could be judged: snapkv:budget=24:window=32 on' 'no number'
says out '  snapkv:budget=24:window=40 on retrieval_8_small: ' 'no number'

# What was killed between two methods goes on.
long=("$small" -q -m h2o,quest,keydiff --least mean_bytes --at-least mass=0.9)
env --default-signal=INT "$kvreplay" tune "${long[@]}" -j 1 --db "$tmp/k.db" \
  >"$tmp/out" 2>"$tmp/err" &
for ((i = 0; i < 200; i++)); do [ -e "$tmp/k.db" ] || sleep 0.05; done
sleep 0.3
kill -INT $!
wait $!
rc=$? checks=$((checks + 1))
[ $rc = 130 ] && says err ' of 3 methods are done, and ' 'an interrupt' ||
  fail "an interrupt of several: exit $rc: $(cat "$tmp/err")"
tune 0 "${long[@]}"
cp "$tmp/out" "$tmp/whole"
tune 0 "${long[@]}" --db "$tmp/k.db"
cmp -s "$tmp/whole" "$tmp/out" || fail 'after an interrupt: another table'

# --- what cannot be met, or run ------------------------------------------
tune 1 "${both[@]}" --at-most output_error=1e-6 --at-most kr=0.9
says err 'none of 2 probes meets what was asked; the nearest is kivi:group=8' \
  'none'
says err '(at most 1e-06)' 'none'
says out 'front of 2 probes' 'none'
! grep -q '^kvreplay run' "$tmp/out" || fail 'a best that meets nothing'
tune 0 "${kivi[@]}" -s residual=8:32:4 --at-most output_error=9
says out '(3 refused, 0 failed)' 'refused'
says out 'not judged:' 'refused'
says out 'retrieval_8_small: ' 'refused'
wrong 2 'no probe could be judged: snapkv:' "$small" -q -m snapkv -b 24 \
  -s window=32:40:4 --least kr -p 300
wrong 2 'has no needle_view.mean' "$other" -q \
  -m window -s budget=16:32:16 --least needle_view -p 399

# --- a wrong command line --------------------------------------------------
ask=("$small" -q -m kivi -s bits=2:4)
wrong 2 'needs TRACE' -m kivi -s bits=2:4 --least kr
wrong 2 'name what to search, --search' "$small" -m dense --least kr
wrong 2 'name what to search, --search' "$small" -m h2o:budget=40 --least kr
wrong 2 'no method: -m' "$small" -s bits=2:4 --least kr
wrong 2 'none of the methods has a parameter bitz' "$small" -m kivi,h2o \
  -s bitz=2:4 --least kr
wrong 2 'listed twice' "$small" -m h2o -m h2o --least kr
wrong 2 'empty at place 2' "$small" -m h2o, --least kr
wrong 2 'snapkv needs a budget' "$small" -m h2o,snapkv -s window=2:4 \
  --least kr
wrong 2 'did you mean snapkv?' "$small" -m snapk -s window=2:4 --least kr
wrong 2 'did you mean bits?' "$small" -m kivi -s bitz=2:4 --least kr
wrong 2 'is a choice' "$small" -m kivi -s variant=0:1 --least kr
wrong 2 'is reversed: write bits=2:4' "$small" -m kivi -s bits=4:2 --least kr
wrong 2 'the nearest is bits=4' "$small" -m kivi -s bits=2:8 --least kr
wrong 2 'snapkv needs a budget' "$small" -m snapkv -s window=2:4 --least kr
wrong 2 '-b sets budget, which --search tries' "$small" -m snapkv -b 20% \
  -s budget=16:64 --least kr
wrong 2 'one budget' "$small" -m snapkv -b 20%,30% -s window=2:4 --least kr
wrong 2 'did you mean output_error?' "${ask[@]}" --least output_eror
wrong 2 'MEASURE=NUMBER' "${ask[@]}" --least kr --at-most output_error
wrong 2 'did you mean mass?' "${ask[@]}" --least kr --at-least mas=0.5
wrong 2 'name one measure' "${ask[@]}"
wrong 2 'name one measure' "${ask[@]}" --least kr --most mass
wrong 2 'tuned on and held out' "${ask[@]}" --least kr --hold-out "$small"
wrong 2 'named twice' "$small" "${ask[@]}" --least kr
wrong 2 'there are ref, emu' "${ask[@]}" --least kr -B emo
wrong 3 "$tmp/none" "$tmp/none" -m kivi -s bits=2:4 --least kr
wrong 3 "$tmp/none" "${ask[@]}" --least kr -p 304 --hold-out "$tmp/none"
wrong 4 "$tmp/no/db" "${ask[@]}" --least kr --db "$tmp/no/db"

concluded
