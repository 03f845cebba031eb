#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run --db, again, and verify, on the smallest bundled trace: a repeated
# command computes nothing anew and prints the same rows; verify with other
# kernels confirms them; a row that was tampered with is found, with both
# values and the layer; a trace that moved is found in --traces or named.
. "$(dirname "$0")/sh.sh"
run=$kvreplay report=$kvreport dir=$tmp


name=retrieval_8_small
trace=$dir/$name.safetensors
cp "$src/traces/tiny/$name.safetensors" "$trace" || exit 1
db=$dir/r.db
cells() {
  KVREPLAY_ISA=portable "$run" run "$trace" -m dense,h2o,kivi -b 10%,20% \
    --db "$db" --format jsonl --quiet "$@"
}
count() { "$report" table "$db" --format jsonl | grep -c "$1"; }

cells >"$dir/first" || fail "run --db"
cp "$db" "$dir/once.db"
cells >"$dir/second" || fail "the same run again"
# How long it took is not part of a row.
cmp -s "$dir/first" "$dir/second" || fail "a repeated command prints otherwise"
[ "$(count '"confirmations":1')" = 4 ] || fail "resume ran cells again"

"$run" verify "$db" --quiet >"$dir/out" || fail "verify gave $?"
grep -q '^4 rows the same, 0 different' "$dir/out" ||
  fail "verify said $(cat "$dir/out")"
[ "$(count '"confirmations":2')" = 4 ] || fail "verify confirmed nothing"

# A budget a layer, typed or from a file, is one row, and set up again.
listed() {
  "$run" run "$trace" -m h2o,pyramidkv -b "$1" --db "$dir/list.db" \
    --format jsonl --quiet 2>"$dir/err"
}
printf '[34, 9,\n20, "60"]\n' >"$dir/budgets.json"
listed 34/9/20/60 >"$dir/first"
listed "layers:$dir/budgets.json" >"$dir/second"
cmp -s "$dir/first" "$dir/second" || fail "a list is another one in a file"
"$report" table "$dir/list.db" --format jsonl >"$dir/table"
[ "$(grep -c '"status":"ok"' "$dir/table")" = 1 ] || fail "two rows of a list"
grep -q '"asked":"layers:[0-9a-f]\{8\}"' "$dir/table" || fail "an unnamed list"
listed 30 >/dev/null || fail "the mean of a list"
"$report" table "$dir/list.db" | grep -q ' h2o  .*layers:' ||
  fail "what follows a list makes a line of its own"
"$run" verify "$dir/list.db" --quiet >"$dir/out" || fail "verify of a list"
grep -q '^3 rows the same, 0 different' "$dir/out" ||
  fail "verify of a list said $(cat "$dir/out")"

mkdir "$dir/moved" && mv "$trace" "$dir/moved/"
"$run" verify "$db" --quiet >"$dir/out" 2>"$dir/err"
[ $? = 3 ] || fail "a missing trace is not exit code 3"
grep -q '^kvreplay: 4 cells are not verified: .*--traces' "$dir/err" ||
  fail "nothing says what to do: $(cat "$dir/err")"
grep -q '^0 rows .*, 4 without their trace, 0 ' "$dir/out" ||
  fail "verify said $(cat "$dir/out")"
"$run" verify "$db" --quiet --traces "$dir/moved" >"$dir/out" ||
  fail "verify --traces"

# Evaluations need their model: it is said who verifies them.
"$fill" "$dir/answers.db" 0 1 0 || fail fill_db
"$run" verify "$dir/answers.db" --quiet >"$dir/out" 2>"$dir/err"
grep -q "; 24 evaluations are verified by 'kvreplay evaluate --again' alone" \
  "$dir/out" || fail "verify of evaluations said $(cat "$dir/out")"
"$sql" "$dir/answers.db" "DELETE FROM run" >/dev/null
"$run" verify "$dir/answers.db" --quiet >"$dir/out" 2>"$dir/err"
[ $? = 3 ] && grep -q "no row of .* has run; evaluations are verified" \
  "$dir/err" || fail "verify of evaluations alone said: $(cat "$dir/err")"

# What a layout held is computed again with its row.
if command -v sqlite3 >/dev/null; then
  laid=$dir/laid.db
  "$run" run "$dir"/moved/*.safetensors -q -m window -b 20% \
    --layout slots,pages:8,unified,ha:max --db "$laid" >/dev/null ||
    fail "run --layout"
  "$run" verify "$laid" --quiet --traces "$dir/moved" >"$dir/out" ||
    fail "verify of layouts"
  sqlite3 "$laid" "UPDATE layout SET bytes_end = bytes_end + 1
    WHERE layout = 'pages:8'"
  "$run" verify "$laid" --quiet --traces "$dir/moved" >"$dir/out" 2>"$dir/err"
  [ $? = 1 ] || fail "a tampered layout is not exit code 1"
  grep -q 'bytes_end of layout pages:8 is [0-9]* before and [0-9]* now' \
    "$dir/err" || fail "verify of layouts said: $(cat "$dir/err")"
  sqlite3 "$laid" "UPDATE layout SET bytes_end = bytes_end - 1
    WHERE layout = 'pages:8'; UPDATE layout SET map_end = map_end + 1
    WHERE layout = 'slots'"
  "$run" verify "$laid" --quiet --traces "$dir/moved" >"$dir/out" 2>"$dir/err"
  [ $? = 1 ] || fail "a tampered map is not exit code 1"
  grep -q 'map_end of layout slots is [0-9]* before and [0-9]* now' \
    "$dir/err" || fail "verify of maps said: $(cat "$dir/err")"
  sqlite3 "$laid" "UPDATE layout SET map_end = map_end - 1
    WHERE layout = 'slots'; UPDATE layout SET list_operations = 1
    WHERE layout = 'unified'"
  "$run" verify "$laid" --quiet --traces "$dir/moved" >"$dir/out" 2>"$dir/err"
  [ $? = 1 ] || fail "tampered operations of a free list are not exit code 1"
  sqlite3 "$laid" "DELETE FROM diff; DELETE FROM layout_step
    WHERE layout != 'ha:max'; DELETE FROM layout WHERE layout != 'ha:max'"
  "$run" verify "$laid" --quiet --traces "$dir/moved" >"$dir/out" ||
    fail "verify of regular indices"
  sqlite3 "$laid" "UPDATE layout SET break_even = break_even + 1"
  "$run" verify "$laid" --quiet --traces "$dir/moved" >"$dir/out" 2>"$dir/err"
  [ $? = 1 ] || fail "a tampered break-even is not exit code 1"
fi

if command -v sqlite3 >/dev/null; then
  sqlite3 "$db" "UPDATE journal_digest SET output = replace(output,
    substr(output, 1, 8), '00000000') WHERE layer = 2 AND run_id =
    (SELECT run_id FROM run WHERE method = 'h2o' ORDER BY key LIMIT 1)"
  "$run" verify "$db" --quiet --traces "$dir/moved" >"$dir/out" 2>"$dir/err"
  [ $? = 1 ] || fail "a tampered row is not exit code 1"
  grep -q 'h2o.*output of layer 2 is 00000000' "$dir/err" ||
    fail "verify said: $(cat "$dir/err")"
  [ "$(wc -l <"$dir/err")" = 1 ] || fail "more than one line"
  "$report" table "$db" | grep -q CONFLICT || fail "the conflict is not kept"
fi
"$run" verify "$dir/none.db" >"$dir/out" 2>"$dir/err"
[ $? = 3 ] || fail "no database is not exit code 3"
[ -e "$dir/none.db" ] && fail "verify made a database"
: >"$dir/empty.db"
"$run" verify "$dir/empty.db" >"$dir/out" 2>"$dir/err"
[ $? = 3 ] || fail "an empty file is not exit code 3"
grep -q 'empty.db is empty: name' "$dir/err" || fail "verify: $(cat "$dir/err")"
[ -s "$dir/empty.db" ] && fail "verify made a database of an empty file"
[ "$bad" = 0 ]
