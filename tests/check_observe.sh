#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# --observe, as the programs show it: what it replays is what --prompt-len
# replays; rows that were asked for in other ways are others in a database, in
# merge, verify and every table; keys of rows as recorded are as ever; a trace
# without segments is refused by one sentence, and the next goes on.
. "$(dirname "$0")/shards.sh"
trace=$src/traces/tiny/retrieval_8_small.safetensors
without=$src/traces/tiny/text_400.safetensors
methods=dense,h2o,snapkv,zsmerge,quest:page=8:skip=0
run=("$kvreplay" run "$trace" -q -m "$methods" -b 20%)

# digests FILE: what was decided and computed, of the rows in it.
digests() {
  grep -oE '"(journal|state|output)": "[0-9a-f]{64}"' "$1"
}
# rows DB: how many there are.
rows() { "$ask" "$1" 'SELECT count(*) FROM run' | tail -n 1; }

for pair in recorded:137 context:137 question:151; do
  "${run[@]}" --observe ${pair%:*} -f jsonl >"$tmp/a" 2>"$tmp/err" ||
    fail "--observe ${pair%:*}"
  "${run[@]}" -p ${pair#*:} -f jsonl >"$tmp/b" 2>"$tmp/err" || fail "$pair"
  [ "$(digests "$tmp/a" | wc -l)" = 15 ] &&
    cmp -s <(digests "$tmp/a") <(digests "$tmp/b") ||
    fail "--observe ${pair%:*} is not -p ${pair#*:}"
  [ "$(grep -c "\"observe\": \"${pair%:*}\"" "$tmp/a")" = 5 ] ||
    fail "rows do not say that they observe ${pair%:*}"
done

# A database, at once and in parts that are merged.
for what in recorded context question; do
  "${run[@]}" --observe $what --db "$tmp/all.db" >/dev/null 2>"$tmp/err" &&
    "${run[@]}" --observe $what --db "$tmp/$what.db" >/dev/null || fail $what
done
[ "$(rows "$tmp/all.db")" = 15 ] || fail "rows are not told apart"
"${run[@]}" --observe question --db "$tmp/all.db" >/dev/null 2>"$tmp/err"
[ "$(rows "$tmp/all.db")" = 15 ] &&
  [ "$("$ask" "$tmp/all.db" 'SELECT count(*) FROM confirmation')" = 15 ] ||
  fail "a repeated command computes again"
"$kvreport" merge "$tmp/m.db" "$tmp"/{recorded,context,question}.db \
  2>"$tmp/err" || fail merge
[ "$(rows "$tmp/m.db")" = 15 ] || fail "merge loses what was observed"
cmp -s <("$kvreport" export "$tmp/m.db" -o - 2>&1 | cut -d, -f 1-8) \
  <("$kvreport" export "$tmp/all.db" -o - 2>&1 | cut -d, -f 1-8) ||
  fail "merged rows are others"
"$kvreplay" verify -q "$tmp/all.db" >"$tmp/out" 2>"$tmp/err" ||
  fail "verify: $(cat "$tmp/out")"
grep -q '^15 rows the same, 0 different' "$tmp/out" || fail 'verify'

# The key, as anyone computes it: a row as recorded has no line more.
for what in recorded question; do
  line=
  [ $what = recorded ] || line=$'\n'"observe $what"
  "$ask" "$tmp/all.db" "SELECT printf('trace %s
prompt_len %d$line
method %s
params %s
code %s
arithmetic %d', identity, prompt_len, method, params, code, arithmetic)
    FROM run WHERE observe = '$what' AND method = 'h2o'" >"$tmp/text"
  key=$(sha256sum <"$tmp/text" | cut -d ' ' -f 1)
  [ "$("$ask" "$tmp/all.db" "SELECT key FROM run WHERE method = 'h2o' AND
    observe = '$what'")" = "$key" ] || fail "the key of a row, $what"
done

# Tables and the page: each under its own name, beside its own dense.
"$kvreport" table "$tmp/all.db" >"$tmp/out" 2>"$tmp/err" || fail table
[ "$(grep -c 'retrieval_8_small, question' "$tmp/out")" = 5 ] &&
  [ "$(grep -c 'retrieval_8_small, context' "$tmp/out")" = 5 ] ||
  fail 'the table does not tell rows apart'
[ "$("$kvreport" table "$tmp/all.db" -w observe=question -f csv |
  wc -l)" = 6 ] ||
  fail '--where observe=question'
"$kvreport" html "$tmp/all.db" -o "$tmp/page" 2>"$tmp/err" || fail html
grep -q 'retrieval_8_small, prompt 151, observed question' "$tmp/page" ||
  fail 'the page does not say what was observed'
grep -q 'run .*--observe question -m random,oracle-topk' "$tmp/page" ||
  fail 'the page runs other cells than those that lack'

# Without segments, and against --prompt-len.
"$kvreplay" run "$without" -q -m dense,h2o -b 20%,end:30% --observe context \
  >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && [ "$(grep -c 'has no segments that say' "$tmp/out")" = 3 ] ||
  fail 'a trace without segments is not refused'
"$kvreplay" run "$without" "$trace" -q -m dense --observe question \
  >"$tmp/out" 2>"$tmp/err" && grep -q 'dense refused' "$tmp/out" ||
  fail 'the next trace does not go on'
"$kvreplay" run "$trace" -q -m dense --observe question -p 9 2>"$tmp/err"
[ $? = 2 ] && grep -q 'name one' "$tmp/err" || fail '-p and --observe'
"$kvreplay" run "$trace" -q -m dense --observe answer 2>"$tmp/err"
[ $? = 2 ] && grep -q 'recorded|context|question' "$tmp/err" ||
  fail '--observe answer'

"$kvreplay" check "$trace" -q -m h2o -b 20% --observe question -B ref,ref \
  -f json >"$tmp/out" 2>"$tmp/err" && grep -q '"prompt_len": 151' "$tmp/out" ||
  fail 'check --observe question'

# Later questions as prompts: kept, found again, verified, told apart; on the
# executor to the bit.
turns=("${run[@]}" --observe context --turns)
for once in 1 2; do
  "${turns[@]}" --db "$tmp/all.db" -f jsonl >"$tmp/out" 2>"$tmp/err" ||
    fail --turns
  [ "$(grep -c '"observe": "context+turns"' "$tmp/out")" = 5 ] &&
    [ "$(rows "$tmp/all.db")" = 20 ] || fail 'rows of --turns'
done
[ "$("$ask" "$tmp/all.db" "SELECT count(*) FROM confirmation JOIN run
  USING (run_id) WHERE observe = 'context+turns'")" = 5 ] ||
  fail 'a repeated command with --turns computes again'
"$kvreplay" verify -q "$tmp/all.db" >"$tmp/out" 2>"$tmp/err" &&
  grep -q '^20 rows the same, 0 different' "$tmp/out" || fail 'verify of turns'
"$kvreport" table "$tmp/all.db" -w observe=context+turns >"$tmp/out" &&
  [ "$(grep -c 'retrieval_8_small, context+turns' "$tmp/out")" = 5 ] ||
  fail 'the table of turns'
"$kvreplay" run "$trace" -q -m all -b 20% --turns -w steps -f jsonl >"$tmp/a" &&
  "$kvreplay" run "$trace" -q -m all -b 20% --turns -f jsonl >"$tmp/b" &&
  cmp -s <(digests "$tmp/a") <(digests "$tmp/b") || fail 'step by step'
"$kvreplay" run "$without" -q -m dense --turns >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q -- '--turns: .* has no segments' "$tmp/out" ||
  fail '--turns without segments'
for wrong in '-b mean:20%' '--layout slots' '--outputs x' '--decisions x'; do
  "$kvreplay" run "$trace" -q -m h2o -b 20% --turns $wrong 2>"$tmp/err"
  [ $? = 2 ] && grep -q -- '--turns' "$tmp/err" || fail "--turns $wrong"
done
"$kvreplay" check "$trace" -q -m dense -B emu >/dev/null 2>&1
if [ $? != 4 ]; then
  "$kvreplay" check "$trace" -q -m h2o,snapkv -b 24 -p 270 --turns -B ref,emu \
    >"$tmp/out" 2>"$tmp/err" && grep -q '^2 equal' "$tmp/out" ||
    fail 'the executor parts'
fi

[ $bad = 0 ] && echo 'check_observe: all holds'
[ $bad = 0 ]
