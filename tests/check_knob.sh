#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The knob that -b sets, of every kind: a share (oracle-topp), whole numbers on
# a grid (kivi), a real number of which less is more (plugins/drops.c), and the
# second's behind a first that has none. What a search finds fits, and the next
# value of the grid does not; entries leave such a knob alone; the database
# answers the same again; and tables of plugins that cannot be are refused.
. "$(dirname "$0")/plugins.sh"
built drops "$src/tests/plugins/drops.c"

# row SPEC ARGUMENT...: the row, in $tmp/row; a refused one, too.
row() {
  local spec=$1
  shift
  "$kvreplay" run "$trace" -q -f jsonl -m "$spec" "$@" >"$tmp/row" \
    2>"$tmp/err" || grep -q 'no cell could run' "$tmp/err" ||
    fail "$spec: $(cat "$tmp/err")"
}
# value KEY: of the row's first such key.
value() { grep -oE "\"$1\": [^,}]*" "$tmp/row" | head -1 | cut -d' ' -f2; }

# fits SPEC KNOB BUDGET PERCENT FOUND NEXT: -b finds FOUND of the knob, which
# takes at most PERCENT of dense; the next of the grid takes more.
fits() {
  local spec=$1 knob=$2 budget=$3 percent=$4 bytes=${3%%:*} got at first more
  checks=$((checks + 1))
  row "$spec" -b "$budget"
  got=$(value "$knob") at=$(value achieved) first=$(value "$bytes")
  [ "$got" = "$5" ] && [ "$(value status)" = '"ok"' ] &&
    [ "$(value basis)" = "\"$bytes\"" ] ||
    fail "$spec -b $budget: $knob=$got, not $5: $(cat "$tmp/row")"
  row "$spec:${knob##*.}=$6"
  more=$(value "$bytes")
  awk -v at="$at" -v most="$percent" -v a="$first" -v b="$more" \
    'BEGIN { exit !(at <= most && b > a && at * b / a > most) }' ||
    fail "$spec -b $budget: $got takes $at %, $6 takes $more after $first"
}

# --- what is found fits, the next does not -----------------------------------
fits oracle-topp p read:30% 30 0.906 0.907
fits kivi:group=8:residual=8 bits mean:50% 50 2 4
fits dense+kivi kivi.bits peak:50% 50 2 4
fits "$tmp/drops.so" drop mean:30% 30 0.75 0.7

# --- what is no question of such a knob leaves it alone -----------------------
for spec in oracle-topp kivi dense+kivi "$tmp/drops.so"; do
  checks=$((checks + 1))
  row "$spec"
  cp "$tmp/row" "$tmp/alone"
  row "$spec" -b 20%,64
  cmp -s "$tmp/row" "$tmp/alone" || fail "$spec: entries change it"
  [ "$(value status)" = '"fixed"' ] || fail "$spec: $(value status)"
done
row oracle-topp:p=0.5 -b read:30%
[ "$(value status)$(value p)" = '"fixed"0.5' ] || fail 'what is typed is lost'
row quest:page=8+kivi:group=8:residual=8 -b mean:60%
[ "$(value kivi.bits)" = 2 ] && [ "$(value budget)" != null ] ||
  fail '-b does not set the knob of the selection'
row oracle-topp -b end:20%
grep -q 'the smallest p=0 takes' "$tmp/row" || fail 'p=0 is not named'
row oracle-topp -b 20%,read:30%,mean:100%,64
[ "$(grep -c . "$tmp/row")" = 3 ] || fail 'not one row a question'

# --- twice, in a database, and verified ---------------------------------------
db=(run "$trace" -q --db "$tmp/r.db" -m "oracle-topp,kivi" -b read:30% -f jsonl)
# No bits of kivi read so little: its cell is refused, which is exit 3.
"$kvreplay" "${db[@]}" --twice >"$tmp/a" 2>"$tmp/err"
[ $? = 3 ] || fail "$(cat "$tmp/err")"
"$kvreplay" "${db[@]}" >"$tmp/b" 2>"$tmp/err"
[ $? = 3 ] || fail "$(cat "$tmp/err")"
same='s/"\(seconds\|run_seconds\)": [^,}]*//g'
checks=$((checks + 1))
cmp -s <(sed "$same" "$tmp/a") <(sed "$same" "$tmp/b") ||
  fail 'the database answers otherwise'
"$kvreplay" verify "$tmp/r.db" -q >"$tmp/out" 2>&1 ||
  fail "verify: $(cat "$tmp/out")"

# --- tables that cannot be ----------------------------------------------------
# wrong SCRIPT TEXT: drops, changed by sed, is refused with those words.
wrong() {
  sed "$1" "$src/tests/plugins/drops.c" >"$tmp/wrong.c"
  built wrong "$tmp/wrong.c"
  refused 3 "$2" run "$trace" -q -m "$tmp/wrong.so"
}
wrong 's/\.grid = 0.05/.grid = 0/' 'needs a grid'
wrong 's/drop, "0.5"/drop, NULL/' 'needs a default'
wrong 's/"0.5", 0,/"0.5", -1,/' 'must be 0 or more'
wrong 's/KV_KNOB_LESS/KV_KNOB_ENTRIES/' 'must be KV_INT'
wrong 's/KV_KNOB_LESS/(kv_knob)9/' 'needs one of KV_KNOB'
wrong 's/0\.05/1e-12/' 'too many values'
wrong 's/"drop"/"budget"/' 'KV_KNOB_ENTRIES'

count_checks
