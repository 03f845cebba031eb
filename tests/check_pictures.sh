#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The pictures of the page, on made-up rows and on a small trace: the numbers in
# the squares of a map, and those of its file of data, are the ones that
# figures/pictures.txt and tokens.txt work out. A picture without data is not
# drawn.
. "$(dirname "$0")/sh.sh"
. "$(dirname "$0")/support/figures.sh"
report=$kvreport build=$top dir=$tmp

db=$dir/a.db
"$fill" "$db" 1 3 0 || { echo "FAIL: fill_db"; exit 1; }
"$report" html "$db" -o "$dir/one.html" || fail "html"

# On the first trace quest with pages of 32, too, which recall otherwise.
wide="(SELECT run_id FROM run WHERE method = 'quest' AND identity LIKE 'a1%')"
copies() { # copies TABLE CHANGE: rows of those runs again, for their twins
  "$sql" "$db" "CREATE TABLE x AS SELECT * FROM $1 WHERE run_id IN $wide;" &&
    "$sql" "$db" "UPDATE x SET run_id = run_id + 1000${2:+, $2};" &&
    "$sql" "$db" "INSERT INTO $1 SELECT * FROM x;" &&
    "$sql" "$db" 'DROP TABLE x;' || fail "copies of $1"
}
for table in ask part journal_digest step_cost; do copies "$table" ''; done
copies metric 'mean = mean / 2'
copies run "key = substr(key, 33) || substr(key, 1, 32),
  params = replace(params, '\"page\": 16', '\"page\": 32')"
# Names that say where needles are.
"$sql" "$db" "UPDATE trace SET name = iif(identity LIKE 'a1%',
  'needle_0_of_1024', 'needle_100_of_512_7');" || fail sql_db
figures pictures "$db"
grep -q 'The same in all .* h2o 6,.* snapkv 46,' "$dir/pictures.html" ||
  fail 'heads that are alike have no number'
[ "$(grep -c '^[^#]*,kivi bits=4,' "$dir/csv_pictures/heads.csv")" = 16 ] ||
  fail 'a method without a budget is not in once for each head'
sed -n '/<h2 id="pages">/,/<\/figure>/p' "$dir/one.html" |
  grep -q '>16</text>' || fail 'one page size is not drawn'
"$sql" "$db" "DELETE FROM metric WHERE measure = 'recall_budget';"
"$report" html "$db" -o "$dir/none.html" || fail "html without recall"
grep -q 'id="pages"' "$dir/none.html" && fail 'a picture without data'
grep -q 'id="needles"' "$dir/one.html" && fail 'a map without places'
"$sql" "$db" "UPDATE trace SET name = 'needle_0_of_512x' WHERE name LIKE
  '%_7';"
"$report" html "$db" -o "$dir/none.html" || fail "html with one place"
grep -q 'id="needles"' "$dir/none.html" && fail 'a map of one place'

# --- which tokens survive, and who keeps the same ---
# Both kernel sets, then another backend for one, and a merge, agree to the bit.
trace=$dir/small.safetensors
"$kvtrace" synth -q -o "$trace" -s 1 --layers 2 --heads 4 --kv-heads 2 \
  --dim 16 -t 48 -p 24 || fail synth
run() { "$kvreplay" run "$trace" -q -b 8 "$@" >/dev/null; }
run -m window --db "$dir/t.db" || fail 'run without --tokens'
"$report" html "$dir/t.db" -o "$dir/none.html" || fail 'html without tokens'
grep -q 'id="tokens"\|id="overlap"' "$dir/none.html" &&
  fail 'tokens that nobody recorded'
run -m window,streamingllm:sink=4 --db "$dir/t.db" --tokens --twice ||
  fail 'run --tokens --twice'
run -m window --db "$dir/e.db" --tokens -B emu || fail 'run --tokens -B emu'
"$report" merge "$dir/m.db" "$dir/t.db" "$dir/e.db" || fail 'merge of tokens'
figures tokens "$dir/m.db"
run -m h2o --tokens 2>"$dir/err"
[ $? = 2 ] || fail '--tokens without --db'
# One token of another fate is told, by merge and by verify.
cp "$dir/e.db" "$dir/odd.db"
"$sql" "$dir/odd.db" "UPDATE survival SET gone = CAST(x'07000000' ||
  substr(gone, 5) AS BLOB) WHERE layer = 1 AND lane = 1;"
"$report" merge "$dir/no.db" "$dir/t.db" "$dir/odd.db" 2>"$dir/err"
[ $? = 1 ] && grep -q 'gone of layer 1, lane 1 is ' "$dir/err" ||
  fail "merge of other tokens: $(cat "$dir/err")"
"$kvreplay" verify "$dir/odd.db" -q >"$dir/out" 2>"$dir/err"
grep -q 'gone of layer 1, lane 1 is ' "$dir/out" "$dir/err" ||
  fail "verify of other tokens: $(cat "$dir/err")"

# The script that makes such traces: they are good, and the model knows.
for python in python3 /usr/bin/python3; do
  "$python" -c 'import numpy' 2>/dev/null || continue
  "$python" "$src/traces/examples/needles.py" "$dir/needles" --lengths 128 \
    --depths 0,50 >"$dir/out" || fail needles.py
  [ "$(grep -c 'answer is right' "$dir/out")" = 2 ] || fail "$(cat "$dir/out")"
  "$build/traces/kvtrace" check "$dir/needles/needle_50_of_128.safetensors" \
    >/dev/null || fail 'check of a needle'
  "$python" "$src/traces/examples/needles.py" x --depths 101 2>/dev/null
  [ $? = 2 ] || fail 'a depth of 101'
  break
done

# Nothing from outside, and no number that is none.
grep -Eq '(src|href)="?(https?:)?//' "$dir/pictures.html" &&
  fail "the page loads"
grep -q 'nan\|inf"' "$dir/pictures.html" && fail "a number that is none"
[ "$bad" = 0 ]
