#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Evaluations as kvreport shows them: means over items, bytes as shares of
# dense's, tasks that dense does not answer; alone in a database or beside runs;
# old code, merging, and what contradicts; what ranks them.
. "$(dirname "$0")/sh.sh"
export LC_ALL=C.UTF-8
report=$kvreport dir=$tmp

pattern=-G # of refused

# tampered SQL...: $dir/t.db is a copy of $good to which this was done.
tampered() {
  cp "$good" "$dir/t.db"
  "$sql" "$dir/t.db" "$@" >"$dir/out" || fail "sql_db $*"
}
a=$(printf 'a%.0s' {1..64}) b=$(printf 'b%.0s' {1..64})
good=$dir/good.db
"$fill" "$good" 0 2 0 || { echo "FAIL: fill_db"; exit 1; }

# answers NAME: the line of a task and method, of the last table printed.
answers() { grep "^$1 " "$dir/out" | tr -s ' '; }
"$report" table "$good" --answers >"$dir/out" || fail "table --answers"
[ "$(answers 'needle *h2o')" = \
  'needle h2o 25% 4 25% 25% 25% -1.562 0.625 12 - -' ] ||
  fail "answers: $(answers 'needle *h2o')"
answers 'words *dense' | grep -q ' 25% -.* not measurable$' ||
  fail "a task that dense does not answer counts"
answers 'words *dense' | grep -qF ' -0.5625 sum ' ||
  fail "an older row's sum is not marked: $(answers 'words *dense')"
grep -q '^words is not measurable: dense answers 25 % of it and not 60 %' \
  "$dir/out" || fail "it is not said why"
answers 'prose *window' | grep -q ' - - 1.625 - 0.755 -$' ||
  fail "prose, where nothing is asked: $(answers 'prose *window')"
tampered "UPDATE evaluated SET name = 'loglik_token' WHERE name = 'loglik' AND
  evaluation_id = (SELECT min(evaluation_id) FROM evaluation JOIN question USING
  (question) WHERE task = 'words' AND method = 'dense')"
"$report" table "$dir/t.db" --answers >"$dir/u"
grep -q '^words *dense .* -0.5 \* ' "$dir/u" ||
  fail "one question's log-likelihood is the task's: $(grep '^words' "$dir/u")"
# Compared, too: without the task that dense does not answer.
"$fill" "$dir/many.db" 0 12 0 || fail "fill_db of many"
# Of twelve items each: with Wilson's interval, and errors of means.
"$report" table "$dir/many.db" --answers >"$dir/out" || fail "--answers of many"
[ "$(answers 'needle *h2o')" = \
  'needle h2o 25% 24 25% 25% 25% [9, 53] -2.188 ±0.26 0.625 ±0 12 ±0 - -' ] &&
  answers 'needle *dense' | grep -q ' 100% \[76, 100\] ' ||
  fail "intervals: $(answers needle)"
"$report" html "$dir/many.db" -o "$dir/t.html" &&
  grep -qF '25% [9, 53]' "$dir/t.html" || fail "the page's right answers"
"$report" compare "$dir/many.db" -m h2o -a 25% -M exact_match >"$dir/out" ||
  fail "compare answers"
grep -q '^  window  better on 6 of 12 items, 0.25 \[' "$dir/out" ||
  fail "compare: $(cat "$dir/out")"
# An item of which one method has answered fewer questions is no pair.
cp "$dir/many.db" "$dir/t.db"
"$sql" "$dir/t.db" "UPDATE evaluation SET status = 'failed', reason = 'no'
  WHERE method = 'h2o' AND question IN (SELECT question FROM question
    WHERE item = 'needle_1' AND number = 1)" >/dev/null || fail sql_db
"$report" compare "$dir/t.db" -m h2o -a 25% -M exact_match -v window |
  grep -q '^  window  better on 6 of 11 items, ' ||
  fail "an item of other questions is a pair"
grep -q "^  quest   not compared: 25 % of dense's bytes and 112 %" "$dir/out" ||
  fail "rows of other bytes are compared"
tampered "UPDATE evaluated SET name = 'loglik' WHERE name = 'loglik_token'"
refused 2 'no row at 25% has loglik: `kvreplay evaluate --again` adds it' \
  "$report" compare "$dir/t.db" -m h2o -a 25% -M loglik
"$report" html "$good" -o "$dir/t.html" || fail html
grep -q '<h3>words (not measurable: dense answers 25 %' "$dir/t.html" &&
  grep -q '<h3>prose at 25%' "$dir/t.html" ||
  fail "the page has a plot of what cannot be measured and does not say so"
tampered "UPDATE question SET task = 'words' WHERE task = 'needle'"
"$report" table "$dir/t.db" --answers | grep -q 'answers 62 %\|not meas' &&
  fail "a task of which dense answers 62 % is not measurable"
tampered "UPDATE evaluation SET status = 'refused', reason = 'too small'
  WHERE method = 'h2o' AND evaluation_id < 5"
"$report" table "$dir/t.db" --answers >"$dir/out"
answers 'needle *h2o' | grep -q ' h2o 25% 3 of 4 \* 25% ' ||
  fail "a mean of some questions is not marked"
# A reason is read whole, once, behind those it holds for.
why="the least legal budget takes more than 25% of dense, so that it is refused"
tampered "UPDATE evaluation SET status = 'refused', reason = '$why'
  WHERE method IN ('h2o', 'window')"
"$report" table "$dir/t.db" --answers >"$dir/out"
grep -q "^h2o at 25%, window at 25%: $why\$" "$dir/out" &&
  [ "$(grep -c 'least legal' "$dir/out")" = 1 ] &&
  answers 'needle *h2o' | grep -q ' 0 of 4 \* .* no answer$' ||
  fail "reasons: $(grep 'h2o' "$dir/out")"
why='no kl: the logits hold NaN' # of rows that have an answer
tampered "UPDATE evaluation SET reason = '$why' WHERE method = 'h2o'"
"$report" table "$dir/t.db" --answers | grep -q "^h2o at 25%: $why\$" ||
  fail "it is not said why an answer lacks a number"
"$report" html "$dir/t.db" -o "$dir/u.html" &&
  grep -q 'no kl:<wbr> the logits' "$dir/u.html" ||
  fail "the page does not say why an answer lacks a number"
tampered "DELETE FROM run" # a database of evaluations alone
"$report" table "$dir/t.db" | grep -q '^needle *h2o ' ||
  fail "table does not show what is there"
"$report" html "$dir/t.db" -o "$dir/u.html" || fail "html without a run"
grep -q 'id="answers"' "$dir/u.html" || fail "the page lacks answers"
tampered "DELETE FROM evaluation"
"$report" html "$dir/t.db" -o "$dir/u.html" || fail "html without answers"
! grep -q 'id="answers"' "$dir/u.html" || fail "answers that nobody gave"
refused 2 'name it alone' "$report" table "$good" --answers --mean
# New code of a method, and no longer the old: b..b above is later than "".
tampered "UPDATE evaluation SET code = '$a' WHERE method = 'h2o' AND
    evaluation_id > 30" "UPDATE evaluation SET code = '$b', revision = 9
    WHERE method = 'h2o' AND evaluation_id <= 30"
"$report" export "$dir/t.db" -o "$dir/views" || fail export
[ "$(cut -d , -f 22 "$dir/views/evaluations.csv" | grep -c "^$a")" = 0 ] &&
  grep -q "$b" "$dir/views/evaluations.csv" || fail "old code answers"
! command -v python3 >/dev/null ||
  python3 "$src/tests/python/answers.py" "$dir/t.db" "$dir/views" ||
  fail "kvreplay.results has other evaluations"
# Two databases that contradict each other.
for change in "answer = '$a'" "budget = '97'" "spec = 'h2o'" \
  "status = 'failed'"; do
  tampered "UPDATE evaluation SET $change WHERE method = 'h2o'"
  refused 1 'h2o at 25% on question [01] of [a-z]*_[01] ([a-z]*): [a-z]* is ' \
    "$report" merge "$dir/no" "$good" "$dir/t.db"
done
tampered "UPDATE evaluated SET value = value + 1e-9 WHERE name = 'kl'"
refused 1 ' kl is [0-9.]* there and [0-9.]* here' "$report" merge "$dir/no" \
  "$good" "$dir/t.db"
tampered "DELETE FROM evaluated WHERE name = 'kl'" \
  "UPDATE model SET model = 'zzz'"
for order in "$dir/t.db $good" "$good $dir/t.db"; do
  rm -f "$dir/m.db"
  # shellcheck disable=SC2086
  "$report" merge "$dir/m.db" $order || fail "a number less contradicts"
  [ "$("$sql" "$dir/m.db" "SELECT count(*) FROM evaluated WHERE name = 'kl'")" \
    = 36 ] || fail "merged $order: lost a number"
  [ "$("$sql" "$dir/m.db" "SELECT model FROM model")" = made-up ] ||
    fail "merged $order: the name of a model depends on the order"
done
# What ranks answers.
for db in "$good few" "$dir/many.db many"; do
  "$report" rank "${db% *}" >"$dir/${db#* }" || fail "rank ${db#* }"
  "$report" html "${db% *}" -o "$dir/t.html" || fail html
  grep -q ' too few prompts<' "$dir/t.html" && echo page >>"$dir/${db#* }"
done
grep -q '^lse_error  *1.00  .*  0.00  ' "$dir/few" && tr '\n' ' ' <"$dir/few" |
  grep -q 'tau-b 1.00, no interval of fewer than 5 prompts on .*page' ||
  fail "an interval of four prompts: $(cat "$dir/few")"
grep -q '^lse_error  1.00 \[1.00, 1.00\] ' "$dir/many" &&
  ! grep -q 'page' "$dir/many" || fail "no interval: $(cat "$dir/many")"
tampered "DELETE FROM evaluated WHERE name GLOB 'open.*'"
refused 2 'nothing to rank' "$report" rank "$dir/t.db"
if command -v python3 >/dev/null; then
  python3 "$src/tests/python/check_ranks.py" "$report" "$good" "$dir" \
    2>"$dir/err" || fail "check_ranks.py: $(tail -n 1 "$dir/err")"
  refused 2 'no open-loop measure nothing' "$report" rank "$dir/ranks.db" \
    -m nothing
  "$report" rank "$dir/ranks.db" -w task=read,asked=mean:25% >"$dir/out" ||
    fail "rank --where"
  tr '\n' ' ' <"$dir/out" | grep -q 'on 1 group of up to 6 methods and 6 pr' &&
    ! grep -q needle "$dir/out" ||
    fail "rank --where has more than it names: $(cat "$dir/out")"
  "$report" html "$dir/ranks.db" -o "$dir/u.html" &&
    grep -q '<h2 id="ranks">' "$dir/u.html" || fail "the page does not rank"
fi
[ "$bad" = 0 ]
