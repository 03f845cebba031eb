#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The pictures of the page, on made-up rows: what is written into the squares
# of a map is what its file of data says, and both are what the tables of the
# database give by questions of our own. A picture without data is not drawn.
. "$(dirname "$0")/sh.sh"
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
"$sql" "$db" "UPDATE part SET kept = kept / 2 WHERE run_id IN (SELECT run_id
  FROM run WHERE method = 'adakv' AND identity LIKE 'a1%');" || fail sql_db
# Names that say where needles are, and dense attention looks there twice as
# much on the first trace.
"$sql" "$db" "UPDATE trace SET name = iif(identity LIKE 'a1%',
  'needle_0_of_1024', 'needle_100_of_512_7');" \
  "UPDATE metric SET mean = 2 WHERE measure = 'needle_dense' AND run_id IN
  (SELECT run_id FROM run WHERE identity LIKE 'a1%');" || fail sql_db
"$report" export "$db" -o "$dir/csv" || fail "export"
"$report" html "$db" -o "$dir/page.html" || fail "html of two page sizes"

# drawn SECTION TITLE: the numbers in the map of that name, row by row.
drawn() {
  sed -n "/<h2 id=\"$1\">/,/<\/figure>/p" "$dir/page.html" |
    sed -n "/<h3>$2<\/h3>/,/<\/svg>/p" |
    sed -n 's/.*class="v mid"[^>]*>\([^<]*\)<.*/\1/p' | tr '\n' ' '
}
# csv VIEW COLUMN CONDITION...: percents of a column where others have a value.
csv() {
  local view=$1 column=$2
  shift 2
  awk -F, -v column="$column" -v where="$*" '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; n = split(where, w, " ") }
    NR > 1 {
      for (i = 1; i <= n; i++) {
        split(w[i], x, "=")
        if ($at[x[1]] != x[2]) next
      }
      printf "%.0f ", 100 * $at[column]
    }' "$dir/csv/$view.csv"
}
# three WHAT DRAWN CSV SQL: all the same, and not nothing.
three() {
  [ -n "$2" ] || fail "$1 is not drawn"
  [ "$2" = "$3" ] || fail "$1 draws $2, its data say $3"
  [ "$2" = "$4" ] || fail "$1 draws $2, the tables say $4"
}
tables() { "$sql" "$db" "$1;" | tr '\n' ' '; }

# --- kept by layer and head ---
# At 10%: at 5% snapkv was refused, and fewer lines have an answer.
three 'kept by head' "$(drawn heads adakv)" \
  "$(csv heads share method=adakv asked=10%)" \
  "$(tables "SELECT printf('%.0f', sum(p.kept) / 2 / 800 * 100) FROM part p
    JOIN run r USING (run_id) JOIN ask USING (run_id) WHERE r.method = 'adakv'
    AND target = '10%' AND head >= 0 GROUP BY layer, head ORDER BY layer,
    head")"
[ "$(drawn heads h2o)" = '' ] || fail 'a map of heads that are alike'
grep -q 'The same in all .* h2o 6,.* snapkv 46,' "$dir/page.html" ||
  fail 'heads that are alike have no number'
[ "$(grep -c '^[^#]*,kivi bits=4,' "$dir/csv/heads.csv")" = 16 ] ||
  fail 'a method without a budget is not in once for each head'

# --- recall by page size, of the trace that has both ---
three 'recall by page' "$(drawn pages quest)" "$(csv pages recall_budget)" \
  "$(tables "SELECT printf('%.0f', m.mean * 100) FROM metric m JOIN run r
    USING (run_id) WHERE part = 0 AND measure = 'recall_budget' AND method =
    'quest' AND identity LIKE 'a1%' ORDER BY params LIKE '%32}', budget")"
sed -n '/<h2 id="pages">/,/<\/figure>/p' "$dir/one.html" |
  grep -q '>16</text>' ||
  fail 'one page size is not drawn'
"$sql" "$db" "DELETE FROM metric WHERE measure = 'recall_budget';"
"$report" html "$db" -o "$dir/none.html" || fail "html without recall"
grep -q 'id="pages"' "$dir/none.html" && fail 'a picture without data'

# --- needles by depth and length: 0% of 1024, then 100% of 512 ---
three 'needles' "$(drawn needles h2o)" \
  "$(csv needles needle_share method=h2o asked=10%)" \
  "$(tables "SELECT printf('%.0f', max(m.mean * (measure = 'needle_mass')) *
    100 / max(m.mean * (measure = 'needle_dense'))) FROM metric m JOIN run
    r USING (run_id) JOIN ask USING (run_id) WHERE part = 0 AND r.method = 'h2o'
    AND target = '10%' GROUP BY identity ORDER BY identity")"
grep -q 'id="needles"' "$dir/one.html" && fail 'a map without places'
"$sql" "$db" "UPDATE trace SET name = 'needle_0_of_512x' WHERE name LIKE
  '%_7';"
"$report" html "$db" -o "$dir/none.html" || fail "html with one place"
grep -q 'id="needles"' "$dir/none.html" && fail 'a map of one place'

# --- which tokens survive, and who keeps the same ---
# Against what --selections says of each method; both kernel sets, then another
# backend for one, and a merge, agree to the bit.
kvreplay=$build/sim/kvreplay
trace=$src/traces/tiny/retrieval_8_small.safetensors
methods='window h2o snapkv quest'
run() { "$kvreplay" run "$trace" -q -b 10% "$@" >/dev/null; }
run -m window --db "$dir/t.db" || fail 'run without --tokens'
"$report" html "$dir/t.db" -o "$dir/none.html" || fail 'html without tokens'
grep -q 'id="tokens"\|id="overlap"' "$dir/none.html" &&
  fail 'tokens that nobody recorded'
run -m "${methods// /,}" --db "$dir/t.db" --tokens --twice ||
  fail 'run --tokens --twice'
run -m h2o,quest --db "$dir/e.db" --tokens -B emu || fail 'run --tokens -B emu'
"$report" merge "$dir/m.db" "$dir/t.db" "$dir/e.db" || fail 'merge of tokens'
"$report" export "$dir/m.db" -o "$dir/tokens" || fail 'export of tokens'
"$report" html "$dir/m.db" -o "$dir/tokens.html" || fail 'html of tokens'
mkdir "$dir/selections"
for method in $methods; do
  run -m "$method" --selections "$dir/selections/$method" \
    --views "$dir/selections/$method.views" ||
    fail "selections of $method"
done
if command -v python3 >/dev/null; then
  # shellcheck disable=SC2086
  python3 "$src/tests/python/check_pictures.py" "$dir/selections" \
    "$dir/tokens" "$dir/tokens.html" $methods 2>"$dir/err" ||
    fail "tokens: $(tail -n 1 "$dir/err")"
fi
run -m h2o --tokens 2>"$dir/err"
[ $? = 2 ] || fail '--tokens without --db'
# One token of another fate is told, by merge and by verify.
cp "$dir/e.db" "$dir/odd.db"
"$sql" "$dir/odd.db" "UPDATE survival SET gone = CAST(x'07000000' ||
  substr(gone, 5) AS BLOB) WHERE layer = 1 AND lane = 2;"
"$report" merge "$dir/no.db" "$dir/t.db" "$dir/odd.db" 2>"$dir/err"
[ $? = 1 ] && grep -q 'gone of layer 1, lane 2 is ' "$dir/err" ||
  fail "merge of other tokens: $(cat "$dir/err")"
"$kvreplay" verify "$dir/odd.db" -q >"$dir/out" 2>"$dir/err"
grep -q 'gone of layer 1, lane 2 is ' "$dir/out" "$dir/err" ||
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
grep -Eq '(src|href)="?(https?:)?//' "$dir/page.html" &&
  fail "the page loads"
grep -q 'nan\|inf"' "$dir/page.html" && fail "a number that is none"
[ "$bad" = 0 ]
