#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Equal bytes: budgets that were found once and lie beside traces as a table, of
# which a row that a search would not find is an error; the remark of `kvreplay
# run` where rows are no comparison; and `kvreport answer`, whose best and whose
# ties are those of its cells and of `kvreport compare`.
# KV_ALL=1 searches for the whole bundled table again (minutes).
. "$(dirname "$0")/sh.sh"
cd "$tmp" || exit 4
name=retrieval_8_small
mkdir traces traces/some
cp "$small" traces/some/
trace=traces/some/$name.safetensors
table=traces/budgets.csv

# --- what is written is what a search finds ----------------------------------
ran 0 "$kvreplay" run "$trace" -q -n -m h2o,oracle-topk,kivi \
  -b mean:40%,traffic:60% --found "$table"
grep -q "^some/$name,h2o,[0-9]*,mean:40%,78,,,[0-9a-f]*$" "$table" ||
  fail "h2o: $(cat "$table")"
grep -q "^some/$name,oracle-topk,[0-9]*,mean:40%,1,[0-9]*,[0-9]*," "$table" ||
  fail "what does not fit: $(cat "$table")"
[ "$(wc -l <"$table")" = 7 ] || fail "$(wc -l <"$table") lines"
ran 0 "$kvreplay" verify "$table"
grep -q '^6 budgets match a search, 0 differ' out || fail "$(cat out)"

# --- the bundled table, a few rows of it -------------------------------------
shipped=$src/traces/budgets.csv
if [ -e "$shipped" ]; then
  { head -n 1 "$shipped"
    grep -E '^tiny/text_400,(h2o|kivi|streamingllm),' "$shipped"; } >few.csv
  [ "$(wc -l <few.csv)" -gt 6 ] || fail 'the bundled table lacks text_400'
  [ "${KV_ALL-}" != 1 ] || cp "$shipped" few.csv
  ran 0 "$kvreplay" verify few.csv -t "$tiny" -t "$src/traces/smollm2"
fi

# --- a faulty row is seen, one of an older revision left ----------------------
# wrong TEXT SED: the table with that change is refused so.
wrong() {
  sed -E "$2" "$table" >traces/wrong.csv
  cmp -s "$table" traces/wrong.csv && fail "$2 changes nothing"
  ran 1 "$kvreplay" verify traces/wrong.csv
  grep -qF -- "$1" err || fail "$2: $(cat err)"
}
wrong 'h2o at mean:40%: 77, but a search finds 78' '/h2o/s/,78,/,77,/'
wrong 'the smallest, which does not fit, but a search finds none, from 1 on' \
  '/oracle-topk.*mean/s/,1,[0-9]+/,1,7/'
wrong 'no search asks for it' '/h2o,.*mean/s/[0-9a-f]{4}$/0000/'
awk -F, -v OFS=, '$2 == "h2o" { $3 = 0; $8 = "0" substr($8, 2, 30) "0" } 1' \
  "$table" >traces/older.csv
ran 0 "$kvreplay" verify traces/older.csv
grep -q '^4 budgets .* 0 differ, 2 are of older revisions' out ||
  fail "$(cat out)"
printf 'x\n' >>traces/older.csv
refused 3 'older.csv, line 8 is not a found budget' "$kvreplay" verify \
  traces/older.csv
refused 2 '--format is for the rows of a database' "$kvreplay" verify "$table" \
  -f json

# --- a run takes what lies beside its trace, and only that --------------------
# found SPEC BUDGET: entries that a run takes.
found() {
  "$kvreplay" run "$trace" -q -f jsonl -m "$1" -b "$2" 2>err |
    grep -oE '"budget": [0-9]+' | head -n 1 | cut -d' ' -f2
}
checks=$((checks + 4))
sed -i '/h2o/s/,78,/,50,/' "$table"
[ "$(found h2o mean:40%)" = 50 ] || fail 'the table is not read'
[ "$(found h2o:recent=8 mean:40%)" != 50 ] || fail 'a row of other parameters'
ran 2 "$kvreplay" run "$trace" -q -m oracle-topk -b mean:40%
grep -q 'the smallest budget 1 takes [0-9]* of the uncompressed' err ||
  fail "what does not fit: $(cat err)"
cp traces/older.csv "$table"
sed -i '$d;/h2o/s/,78,/,50,/' "$table"
[ "$(found h2o mean:40%)" = 78 ] || fail 'a row of an older revision is used'
rm "$table"

# --- run says where rows are no comparison -----------------------------------
# remarks COUNT ARGUMENT...: whether run says so.
remarks() {
  ran 0 "$kvreplay" run "$trace" "${@:2}"
  [ "$(grep -c 'compares methods at equal bytes' err)" = "$1" ] ||
    fail "remarks, ${*:2}: $(cat err)"
}
remarks 1 -m h2o,kivi -b 20%
differ='h2o holds 14.5 % of dense.s, kivi 53.9 %; -b mean:20%'
grep -q "bytes differ at 20%: $differ" \
  err || fail "$(cat err)"
remarks 0 -m h2o,kivi -b 20% -q
remarks 0 -m dense,h2o -b 20%
remarks 0 -m h2o,window -b 20%
remarks 0 -m h2o,quant -b mean:20%

# --- the answer --------------------------------------------------------------
for i in 1 2 3 4 5 6 7 8; do
  "$kvtrace" synth -q -o "t$i.safetensors" -s "$i" -t 160 --layers 1 --heads 2 \
    --kv-heads 2 --dim 16 || fail 'no trace'
done
"$kvreplay" run t?.safetensors -q --db r.db -b mean:30%,traffic:40% \
  -m dense,random,h2o,tova,streamingllm,snapkv:window=4,quant >/dev/null ||
  fail 'no rows'
ran 0 "$kvreport" answer r.db
cp out said
ran 0 "$kvreport" answer r.db -f csv
cp out rows.csv
# column NAME: its values in the rows of mean:30%, behind the method's.
column() {
  awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["asked"] == "mean:30%" { print $at["method"] "," $at[name] }' rows.csv
}
best=$(column baseline | awk -F, '$2 == 0 { print $1; exit }')
tr '\n' ' ' <said |
  grep -q "^Best at equal bytes, by output_abs_max .*stored, $best at 30 %" ||
  fail "$best is best: $(cat said)"
tr '\n' ' ' <said | grep -q ': means of 8 traces' || fail "traces: $(cat said)"
grep -qE "^quant +1(\.00)? \([0-9]+%\)|^quant +0\.[0-9]+ \([0-9]+%\)" said ||
  fail "a method without a budget: $(cat said)"
# Means are those of the cells, but for the order in which they are summed.
twelve() { awk -F, '{ printf "%s,%.12g\n", $1, $2 }' | sort; }
checks=$((checks + 2))
"$kvreport" table --mean r.db -f csv | awk -F, 'NR == 1 {
    for (i = 1; i <= NF; i++) at[$i] = i; next }
  $at["asked"] == "mean:30%" {
    print $at["method"] "," $at["output_abs_max"] }' | twelve >means
column value | grep -Ff <(sed 's/,.*/,/' means) | twelve >values
cmp -s means values || fail "means: $(diff means values)"
# Who is alike is who compare does not tell from the best.
"$kvreport" compare r.db -m "$best" -a mean:30% -f csv -v "$(
  column place | awk -F, -v best="$best" '$2 == "equal" && $1 != best &&
    $1 != "random" { printf "%s%s", n++ ? "," : "", $1 }')" |
  awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { print $at["vs"] "," ($at["holm"] >= .05) }' | sort >compared
column alike | grep -Ff <(sed 's/,.*/,/' compared) | sort >alike
[ -s compared ] && cmp -s compared alike ||
  fail "alike: $(diff compared alike)"
# The page draws them, the best first, each with an interval.
ran 0 "$kvreport" html r.db -o r.html
sed -n '/<table class=dots>/,/<\/table>/p' r.html >plots
grep -q "^<tr [^>]*class=\"best v[0-9]*\"><th scope=row>$best<td " plots ||
  fail "$best is not the best of a plot"
sed -n 's/.*<line class=w.*svg><td>\([0-9.e-]*\)<.*/\1/p
  /<\/table>/q' plots >values
[ "$(wc -l <values)" -gt 5 ] && sort -gc values || fail "a plot: $(cat values)"
# Without budgets in bytes there is none, and it says what to run.
"$kvreplay" run t1.safetensors -q --db e.db -m dense,h2o -b 20% >/dev/null
ran 0 "$kvreport" answer e.db
grep -q 'No answer: no method ran at equal bytes' out ||
  fail "$(cat out)"
concluded
