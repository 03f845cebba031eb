#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Means over traces, as a table, in Python and on the page: means and standard
# errors are what our own sums give, of all traces or marked and with a reason.
# Traces are distinguished by identity, and those of one request count as one.
# The page's large figures: python/check_page.py.
. "$(dirname "$0")/sh.sh"
export LC_ALL=C.UTF-8
report=$kvreport build=$top dir=$tmp

# tampered SQL...: $dir/t.db is a copy of $good to which this was done.
tampered() {
  cp "$good" "$dir/t.db"
  "$sql" "$dir/t.db" "$@" >"$dir/out" || fail "sql_db $*"
}

good=$dir/good.db
"$fill" "$good" 0 2 0 && "$fill" "$dir/many.db" 0 12 0 ||
  { echo "FAIL: fill_db"; exit 1; }

# --- the table ---
# Of h2o at 10 %: mean and standard error by our own sums over the traces.
"$report" table "$dir/many.db" --mean >"$dir/out" || fail "table --mean"
"$report" table "$dir/many.db" --mean -f csv >"$dir/mean.csv" ||
  fail "--mean -f csv"
[ "$(wc -l <"$dir/mean.csv")" = 49 ] || fail "--mean has not 48 lines"
for measure in output_error lse_error mass kr; do
  "$report" table "$dir/many.db" -w method=h2o,asked=10% -f jsonl |
    sed "s/.*\"$measure\":\([^,]*\),.*/\1/" | awk '
    { x[NR] = $1; s += $1 }
    END {
      for (m = s / NR; NR > i; i++) q += (x[i + 1] - m) ^ 2
      e = sqrt(q / (NR - 1) / NR)
      printf "%.9g %.9g\n", m, (e > 1e-15 ? e : 0)
    }' >"$dir/a"
  awk -F , -v of=$measure '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
    $1 == "h2o" && $3 == "10%" {
      printf "%.9g %.9g\n", $at[of], $at[of "_se"] + 0
    }' "$dir/mean.csv" >"$dir/b"
  cmp -s "$dir/a" "$dir/b" ||
    fail "mean $measure is $(cat "$dir/b"), not $(cat "$dir/a")"
  [ $measure = kr ] && continue
  read -r mean error <"$dir/a"
  said=$(awk -v m="$mean" -v e="$error" \
    'BEGIN { printf "%.4g \302\261%.2g", m, 2 * e }')
  grep -q "^h2o  *10%  *12  .*  $said  " "$dir/out" || fail "no $said"
done
"$report" table "$good" --mean >"$dir/out" || fail "table --mean"
[ "$(grep -c '±' "$dir/out")" = 1 ] &&
  grep -q '±: .* for 5 traces or more' "$dir/out" ||
  fail "two traces have an error: $(grep '±' "$dir/out" | head -n 2)"
# The best by the worst error first, and the measures in their order.
head -n 1 "$dir/out" |
  grep -q ' scan  *worst  *needle  *lse  *kl  *error  *error p95  *mass' ||
  fail "another order of measures: $(head -n 1 "$dir/out")"
worst=$(sed -n '2,/^$/s/.*% [^ ]*  *\([0-9.]*\)  .*/\1/p' "$dir/out")
[ "$(wc -l <<<"$worst")" = 47 ] && sort -cg <<<"$worst" 2>/dev/null ||
  fail "--mean is not sorted by the worst error: $worst"
tr '\n' ' ' <"$dir/out" | grep -q "output_abs, max did so best\..*Kendall's" ||
  fail "--mean does not say what ranks answers"
"$report" table "$good" --mean -w trace=made_up_1 -f csv |
  grep -q '^h2o,prompt,10%,1,1,' || fail "--mean --where"
# Those that have an answer, marked, below the others, and why.
tampered "DELETE FROM ask WHERE run_id IN (SELECT run_id FROM run JOIN trace
  USING (identity) WHERE name = 'made_up_1' AND method IN ('h2o',
  'oracle-topk'))"
one=$("$report" table "$dir/t.db" -w method=h2o,asked=10% -f jsonl |
  sed 's/.*"output_error":\([^,]*\),.*/\1/' | awk '{ printf "%.4g", $1 }')
"$report" table "$dir/t.db" --mean >"$dir/out" || fail "--mean of some"
grep -q "^h2o  *10%  *1 of 2 \*  .* $one  " "$dir/out" ||
  fail "no marked mean of those that have an answer"
sed -n '/ of 2 \*  /,/^$/p' "$dir/out" | grep . | grep -qv ' of 2 ' &&
  fail "means of some traces stand among those of all"
grep -q '^h2o, oracle-topk at 10%, 1 of 2 traces: no result on 1$' "$dir/out" ||
  fail "no word on why h2o has no mean of both"
grep -q '^pyramidkv at 5%, 0 of 2 traces: made_up_1: window 32 is larger.*(and'\
' 1 more)$' "$dir/out" || fail "no reason of pyramidkv at 5%"
if command -v python3 >/dev/null; then
  for db in "$good" "$dir/t.db"; do
    "$report" table "$db" --mean -f json >"$dir/mean.json"
    python3 "$src/tests/python/check_summary.py" "$db" "$dir/mean.json" \
      2>"$dir/err" || fail "kvreplay.results.summary: $(tail -n 1 "$dir/err")"
  done
fi

# --- the page ---
# page DB: what python/check_page.py finds beyond an axis in how many figures.
page() {
  "$report" html "$1" -o "$dir/page.html" || fail "html of $1"
  "$report" table "$1" --mean -f csv >"$dir/mean.csv" || fail "--mean of $1"
  python3 "$src/tests/python/check_page.py" "$dir/page.html" \
    "$dir/mean.csv" 2>"$dir/err" || fail "the page: $(tail -n 1 "$dir/err")"
}
if command -v python3 >/dev/null; then
  [ "$(page "$good")" = 0 ] || fail "a page without outliers: $(page "$good")"
  page "$dir/t.db" >/dev/null # in which h2o and oracle-topk lost a trace
  grep -q '<li>h2o, oracle-topk at 10%, 1 of 2 traces: no result on 1</li>' \
    "$dir/page.html" || fail "the page hides why h2o has no mean of both"
  # One method a hundred times worse than the rest does not take the axes.
  tampered "UPDATE metric SET mean = mean * 100 WHERE measure = 'output_error'
    AND run_id IN (SELECT run_id FROM run WHERE method = 'tova')"
  [ "$(page "$dir/t.db")" = 2 ] || fail "tova is not beyond two axes"
  grep -q 'Beyond the axis[^.]*: tova (' "$dir/page.html" ||
    fail "the page does not say what is beyond its axis"
  # Where no trace has answers LSE error comes first.
  tampered "DELETE FROM metric WHERE measure LIKE 'needle%'"
  page "$dir/t.db" >/dev/null
  # All methods, of which some are refused: each has a look of its own.
  "$kvreplay" run "$tiny/retrieval_8_small.safetensors" -q -m all -b 20% \
    --db "$dir/all.db" >"$dir/out" 2>&1 || fail "run -m all: $(cat "$dir/out")"
  page "$dir/all.db" >/dev/null
fi

# --- names and requests ---
# told DB: what commands that take traces together say of it.
told() {
  "$report" table "$1" --mean -f csv && "$report" table "$1" --gap -f csv &&
    "$report" compare "$1" -m h2o -a 10% -M kl &&
    "$report" export "$1" -o "$dir/told" && cat "$dir/told/pareto.csv" ||
    fail "$1 is not told"
}
# many FOLDER: $dir/t.db has the twelve traces as FOLDER/p.safetensors, which is
# SQL of their names.
many() {
  cp "$dir/many.db" "$dir/t.db"
  "$sql" "$dir/t.db" "INSERT INTO artefact SELECT identity, 'trace',
    '/x/' || $1 || '/p.safetensors' FROM trace" "UPDATE trace SET name = 'p'" \
    >/dev/null || fail "sql_db $1"
}
told "$dir/many.db" >"$dir/a"
many name
told "$dir/t.db" | sed 's,/p\>,,g' >"$dir/b"
cmp -s "$dir/a" "$dir/b" ||
  fail "names move: $(diff "$dir/a" "$dir/b" | head -4)"
grep -q ' on [0-9]* of 12 traces, ' "$dir/a" || fail "no pairs: $(cat "$dir/a")"
many "'y'"
"$report" table "$dir/t.db" | grep -q '^y/p (a3a3a3a3)  *h2o ' ||
  fail "traces of one name and folder are not told apart"
[ "$(told "$dir/t.db" | wc -l)" = "$(wc -l <"$dir/a")" ] || fail "rows are lost"
tampered "UPDATE trace SET name = 'p'" # beside the same by other names
"$report" html "$good" "$dir/t.db" -o "$dir/page.html" || fail "html of two"
grep -q 'beside.csv" href="[^"]*%0Ah2o,10%25,2,' "$dir/page.html" ||
  fail "traces of two databases are not told by identity"
# A request that was recorded twice.
cp "$dir/many.db" "$dir/t.db"
"$sql" "$dir/t.db" "UPDATE trace SET request = '$(printf 'b%.0s' {1..64})'
  WHERE name IN ('made_up_2', 'made_up_3', 'made_up_7')" >/dev/null
"$report" compare "$dir/t.db" -m h2o -a 10% -M kl >"$dir/out"
grep -q ' on [0-9]* of 10 traces, ' "$dir/out" &&
  tr '\n' ' ' <"$dir/out" | grep -q 'hold the same request count as one:'\
' made_up_2 and made_up_3 and made_up_7\.' ||
  fail "a request is several traces: $(cat "$dir/out")"
"$report" table "$dir/t.db" --mean -f csv | awk -F , '
  NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
  $1 == "h2o" && $3 == "10%" { print $at["traces"], $at["kl"] }' >"$dir/a"
"$report" table "$dir/t.db" -w method=h2o,asked=10% -f jsonl |
  sed 's/.*"trace":"\([^"]*\)".*"kl":\([^,]*\),.*/\1 \2/' | awk '
  { s += /made_up_[237] / ? $2 / 3 : $2 }
  END { printf "10 %.9g\n", s / 10 }' >"$dir/b"
awk '{ printf "%d %.9g\n", $1, $2 }' "$dir/a" | cmp -s - "$dir/b" ||
  fail "the mean is $(cat "$dir/a"), not $(cat "$dir/b")"
"$report" table "$dir/t.db" --mean -w trace=made_up_2 >"$dir/out"
grep -q 'same request' "$dir/out" && fail "one trace is said to be several"
# Recorded in two types.
"$kvreplay" run "$tiny"/retrieval_8_small{,.f32}.safetensors -q -m dense,h2o \
  -b mean:20% --db "$dir/two.db" >"$dir/out" || fail "run in two types"
"$report" answer "$dir/two.db" >"$dir/out" || fail answer
tr '\n' ' ' <"$dir/out" | grep -q 'means of 1 trace; .* as one:'\
' retrieval_8_small and retrieval_8_small.f32\.' ||
  fail "two types are two traces: $(cat "$dir/out")"
for db in "$dir/t.db" "$dir/two.db"; do
  command -v python3 >/dev/null || break
  page "$db" >/dev/null
  "$report" table "$db" --mean -f json >"$dir/mean.json"
  python3 "$src/tests/python/check_summary.py" "$db" "$dir/mean.json" \
    2>"$dir/err" || fail "summary of requests: $(tail -n 1 "$dir/err")"
done

# A reason is of a request without an answer, not of one of its recordings.
of="(SELECT run_id FROM run JOIN trace USING (identity) WHERE method = 'h2o' AND
  name IN ('made_up_2', 'made_up_9'))"
"$sql" "$dir/t.db" "UPDATE run SET status = 'refused', reason = 'no', journal =
  NULL WHERE run_id IN $of" "DELETE FROM metric WHERE run_id IN $of" \
  "UPDATE ask SET status = 'refused' WHERE run_id IN $of" >/dev/null ||
  fail "sql_db of a refused recording"
"$report" table "$dir/t.db" --mean >"$dir/out"
grep -q '^h2o at 10%, 9 of 10 traces: made_up_9: no$' "$dir/out" ||
  fail "a reason of what has an answer: $(grep '^h2o at' "$dir/out")"

# So they are in maps: means are those of two traces, and counts are halves.
# The second has other numbers, and both have a needle's name.
lean=leankv:window=8 delta=deltakv:recent=8:full=0:compressor=none
"$kvreplay" run "$tiny"/retrieval_8_small{,.f32}.safetensors -q -b 20% \
  -m dense,h2o,adakv,quest,dense+k8v4,dense+k4v8,dense+int8,h2o+int8 \
  -m $lean,$lean:sparsity=layer --layout unified,base --tokens \
  --db "$dir/one.db" >"$dir/out" 2>&1 || fail "run of maps: $(cat "$dir/out")"
"$kvreplay" run "$tiny"/retrieval_8_small{,.f32}.safetensors -q \
  -m $delta:stride=4,$delta:stride=8 --db "$dir/one.db" >"$dir/out" 2>&1 ||
  fail "run of deltakv: $(cat "$dir/out")"
second="run_id IN (SELECT run_id FROM run JOIN trace USING (identity)
  WHERE name LIKE '%.f32')"
"$sql" "$dir/one.db" "UPDATE metric SET mean = mean / 2 WHERE $second" \
  "UPDATE part SET kept = kept / 2 WHERE $second" \
  "UPDATE survival SET gone = zeroblob(length(gone)) WHERE $second" \
  "UPDATE layout SET kept_steps = kept_steps / 2 WHERE $second" \
  "UPDATE trace SET name = 'needle_0_of_512'" >/dev/null || fail "sql_db: maps"
cp "$dir/one.db" "$dir/both.db"
"$sql" "$dir/both.db" "UPDATE trace SET request = NULL" >/dev/null
for db in one both; do
  "$report" export "$dir/$db.db" -o "$dir/$db" || fail "export of $db"
done
for view in heads pages needles tokens overlap mirrors pruning sparsity \
  charged utilised dials; do
  paste -d , "$dir"/{one,both}/$view.csv | sed 's/"{[^}]*}"//g' | awk -F , '
    NR == 1 { for (i = n = NF / 2; i > 0; i--) name[i] = $i; next }
    NF != 2 * n { bad = 1 }
    {
      for (i = 1; i <= n; i++) {
        x = $(n + i)
        if (name[i] ~ /^(traces|lanes)$/) x /= 2
        if ($i != x && ($i - x) ^ 2 > 1e-24 * x ^ 2) bad = 1
      }
    }
    END { exit bad || NR < 2 }' || fail "$view of one request: $(
    head -n 2 "$dir"/{one,both}/$view.csv)"
done

# --- kvreport compare ---
if command -v python3 >/dev/null; then
  python3 "$src/tests/python/check_paired.py" "$kvtrace" "$kvreplay" \
    "$report" "$dir" || fail "check_paired.py"
fi

[ "$bad" = 0 ]
