#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `kvreplay run --together`, as programs show it: rows and digests are those of
# a run without it, whoever is refused, for any number of threads; a refusal is
# one sentence; what pools held is stored, compared when it is computed again,
# merged and verified with its rows; those that wait all come, over any layout
# and whenever they arrive, and as python/pool_queue.py has it; and what is
# asked wrongly is one sentence.
. "$(dirname "$0")/shards.sh"
a=$src/traces/tiny/retrieval_8_small.safetensors
b=$src/traces/tiny/text_400.safetensors
cd "$tmp" || exit 1
cells=(-q -m 'snapkv+k8v4,leankv:window=16:alpha_l=0.2' -b 20% -p 250)
nobody='null null null null null null ' # refused
share() { "$kvreplay" run "$a" "$a" "$a" "${cells[@]}" --together "$@" 2>err; }

# rows FILE: what does not follow from the pool, of the rows in it.
rows() {
  sed -e 's/, "layout": {.*}, "verbs"/, "verbs"/' \
    -e 's/, "together": {.*}, "verbs"/, "verbs"/' "$1"
}
# field NAME FILE: its values, in the order of rows.
field() { grep -o "\"$1\": [0-9a-z]*" "$2" | cut -d ' ' -f 2 | tr '\n' ' '; }

# --- enough for all, and for two of three ------------------------------------
"$kvreplay" run "$a" "$a" "$a" "${cells[@]}" -f jsonl >plain 2>err || fail plain
share --pool 64MiB -f jsonl >all || fail 'room for all'
cmp -s <(rows plain) <(rows all) || fail 'rows are others beside a pool'
[ ! -s err ] && [ "$(field refused all)" = "$nobody" ] ||
  fail 'somebody was refused'
page=$(field page all | cut -d ' ' -f 1)
most=$(grep -o '"peak": [0-9]*, "held"' all | grep -o '[0-9]*' | sort -n |
  tail -n 1)
room=$((page * most * 5 / 6))
share --pool $room --db r.db -f jsonl >two || fail 'room for two of three'
cmp -s <(rows plain) <(rows two) || fail 'a refusal changes a row'
[ "$(field refused two)" = 'null null null null 0 0 ' ] &&
  [ "$(grep -c ', request 3: refused at step 0: it holds 0 pages' err)" = 2 ] &&
  [ "$(wc -l <err)" = 2 ] || fail 'not one sentence for each refusal'
share --pool $room --db r.db -j 1 >table || fail 'the table'
grep -q '^  *3  retrieval_8_small  *0  *0  *-  *0  *0  refused at step 0$' \
  table && grep -q 'fragmentation: [0-9.]*% of what was held' table ||
  fail "the table says $(cat table)"
share --pool $room --db s.db --arrive 400 -f jsonl >apart || fail 'arrivals'
[ "$(field refused apart)" = "$nobody" ] ||
  fail 'who comes later finds no page'

# --- in a database -----------------------------------------------------------
[ "$("$ask" r.db 'SELECT count(*) FROM pool')" = 2 ] &&
  [ "$("$ask" r.db 'SELECT count(*) FROM request WHERE refused = 0')" = 2 ] &&
  [ "$("$ask" r.db 'SELECT count(*) FROM run')" = 2 ] || fail 'what is stored'
"$kvreplay" verify -q r.db >out 2>err || fail "verify: $(cat out)"
"$kvreport" merge m.db r.db s.db 2>err || fail merge
"$kvreport" merge n.db s.db r.db 2>err || fail 'merge the other way'
same_rows m.db n.db
[ "$("$ask" m.db 'SELECT count(*) FROM pool')" = 4 ] || fail 'pools merged'
for number in map_peak running_peak waiting_peak; do
  cp s.db was.db
  "$ask" was.db "UPDATE pool SET $number = $number + 1"
  cp s.db x.db
  "$kvreport" merge x.db was.db 2>err
  [ $? = 1 ] &&
    grep -q "the pool [0-9a-f]*: $number is [0-9]* there and [0-9]* here" err ||
    fail "another $number joins: $(cat err)"
done
for number in put_back unused; do
  cp s.db was.db
  [ $number = unused ] && table=pool_step || table=request
  "$ask" was.db "UPDATE $table SET $number = $number + 1"
  cp s.db x.db
  "$kvreport" merge x.db was.db 2>err
  [ $? = 1 ] && grep -q "the pool [0-9a-f]*: $number of .* there and" err ||
    fail "another $number of $table joins: $(cat err)"
done
"$ask" r.db 'UPDATE pool SET peak = peak + 1'
"$kvreport" merge m.db r.db 2>err
[ $? = 1 ] && grep -q 'the pool .*: peak is ' err || fail 'a false pool joins'
share --pool $room --db r.db >/dev/null
[ $? = 1 ] && grep -q 'pool of .* contradicts .*: peak is [0-9]* before' err ||
  fail 'a false pool'

# --- who waits ---------------------------------------------------------------
share --pool $room --wait --db w.db -f jsonl >wait || fail 'who waits'
cmp -s <(rows plain) <(rows wait) || fail 'a queue changes a row'
[ ! -s err ] && [ "$(field refused wait)" = "$nobody" ] ||
  fail 'who waits is refused'
[ "$(field waited two)" = '0 0 0 0 0 0 ' ] &&
  ! field waited wait | grep -q '^0 0 0 0 0 0 $' || fail 'nobody waits'
share --pool $room --wait --db w.db -j 1 -f jsonl >again || fail 'a queue again'
[ "$("$ask" w.db 'SELECT count(*) FROM pool')" = 2 ] ||
  fail 'a queue is another one by one thread'
share --pool $room --admit peak --db w.db -f jsonl >stays || fail 'who can stay'
share --pool $room --admit room -f jsonl >room || fail '--admit room'
share --pool $room --wait -f jsonl >wait2 && cmp -s room wait2 ||
  fail '--admit room is not --wait'
cmp -s <(rows plain) <(rows stays) || fail 'who can stay changes a row'
! field put_back wait | grep -q '^0 0 0 0 0 0 $' || fail 'nobody is put back'
[ "$(field put_back stays)" = '0 0 0 0 0 0 ' ] ||
  fail 'who can stay is put back'
[ "$(field refused stays)" = "$nobody" ] || fail 'who can stay is refused'
# Who stays is let in by the peak of the sum of what all hold, not by the sum of
# their peaks: most that run at a time, and steps.
five=("$tiny"/{text_400,retrieval_16,haystack_8,multiturn_11,text_400})
for row in 1000:3:925 1300:4:756 2000:5:675; do
  IFS=: read -r kib batch steps <<<"$row"
  "$kvreplay" run "${five[@]/%/.safetensors}" -q --together --admit peak \
    -m leankv:variant=paper:alpha_l=0.1 --pool "${kib}KiB" --arrive 40 >out ||
    fail "a pool of $kib KiB"
  grep -q "bytes in $steps steps$" out &&
    grep -q "requests run, at most $batch, and" out ||
    fail "a pool of $kib KiB: $(tail -n 3 out)"
done
for layout in unified:code slots pages:16 pages:16:model; do
  share --pool 1MiB --wait --arrive poisson:9:3 -l $layout --db w.db -f jsonl \
    >out || fail "a queue over $layout: $(cat err)"
  [ "$(field refused out)" = "$nobody" ] ||
    fail "who waits over $layout is refused"
done
cat >times.jsonl <<'END'
{"timestamp": 1000, "input_length": 300, "output_length": 20, "hash_ids": [0]}
{"timestamp": 1051.5, "input_length": 250, "output_length": 900}

{"timestamp": 1075, "input_length": 700}
END
"$kvreplay" run "$b" "$src/traces/tiny/retrieval_16.safetensors" -q -p 250 \
  -m snapkv -b 20% --together --pool 64MiB --wait --arrive times.jsonl \
  --pace 25 -l slots --db w.db -f jsonl >of 2>err ||
  fail "a file of times: $(cat err)"
[ "$(field arrives of)" = '0 2 3 ' ] || fail "times of a file: $(cat of)"
[ "$(grep -o '"trace": "[a-z0-9_]*"' of | cut -d '"' -f 4 | tr '\n' ' ')" = \
  'text_400 retrieval_16 text_400 ' ] || fail 'not the nearest trace of a line'
[ "$(field blocks of)" = '21 360 151 ' ] ||
  fail "how long answers are: $(field blocks of)"
"$kvreport" table w.db --pools >table || fail 'a table of pools'
grep -q 'slots  *1048576  poisson:3 9  waits  *3 ' table ||
  fail "the table of pools says $(cat table)"
"$kvreport" export w.db -o views && [ "$(wc -l <views/pools.csv)" = 14 ] &&
  [ "$(wc -l <views/requests.csv)" = 40 ] || fail 'views of pools'
[ "$("$ask" w.db 'SELECT count(*) FROM pool WHERE running != (SELECT
  sum(s.running) FROM pool_step s WHERE s.pool = pool.pool)')" = 0 ] ||
  fail 'steps of a pool'
if command -v python3 >/dev/null; then
  python3 "$src/tests/python/pool_queue.py" "$kvreplay" "$a" >out ||
    fail "the queue by hand: $(head -n 3 out)"
fi

# Traces of one name are called by their files, of a long one by its end.
end=12345678/12345678/12345678/x.safetensors
long=87654321/${end%/*}
mkdir -p one $long && cp "$a" one/x.safetensors && cp "$a" $long/x.safetensors
"$kvreplay" run {one,$long}/x.safetensors "${cells[@]}" --together \
  --pool 140KiB >out 2>err
grep -q ' one/x.safetensors  ' out && grep -q "  $end  " out &&
  grep -q ": one/x.safetensors, .*request 1: " err &&
  grep -q ": $long/x.safetensors, .*request 2: " err ||
  fail "whose requests: $(cat out err)"

# --- what is wrong -----------------------------------------------------------
run=("$kvreplay" run "$a" "${cells[@]}")
refused 2 'as --pool 64MiB' "${run[@]}" --together
refused 2 'as --pool 64MiB; not 64MB' "${run[@]}" --together --pool 64MB
refused 2 'add --together' "${run[@]}" --pool 64MiB
refused 2 'add --together' "${run[@]}" --arrive 3
refused 2 'add --together' "${run[@]}" --wait
refused 2 'add --together' "${run[@]}" --admit peak
refused 2 'timestamps in a file' "${run[@]}" --together --pool 1MiB --pace 5 \
  --arrive 10
wrong() { refused "$1" "$2" "${run[@]}" --together --pool 1MiB --arrive "$3"; }
wrong 2 'poisson:EVERY' poisson:0
wrong 2 'perhaps a seed' poisson:3:x
wrong 2 'or a file of times, and nothing: No such' nothing
wrong 3 'has no line' /dev/null
bad_line() { echo "$2" >>bad.jsonl && wrong 3 "line $1: " bad.jsonl; }
echo '{"timestamp": 5}' >bad.jsonl
bad_line 2 '{"timestamp": 4}'
sed -i '$d' bad.jsonl && bad_line 2 '[5]'
sed -i '$d' bad.jsonl && bad_line 2 '{"timestamp": "6"}'
sed -i '$d' bad.jsonl && bad_line 2 '{"timestamp": 6, "output_length": 0}'
grep -q 'tokens, 1 to 2^30' err || fail 'the most tokens of a line'
sed -i '$d' bad.jsonl && bad_line 2 '{"timestamp": 9007199254740993}'
grep -q 'a number from 0 to below 2^53' err || fail 'the latest time of a line'
refused 2 'leave out --shard' "${run[@]}" --together --pool 1MiB --shard 1/2
refused 2 'has one pool' "${run[@]}" --together --pool 1MiB \
  -l unified,unified:code
refused 2 'one at least for each of its' "${run[@]}" --together --pool 16KiB
refused 2 'other layers, heads or rows' "$kvreplay" run "$a" \
  "$src/traces/tiny/retrieval_8_small.f32.safetensors" "${cells[@]}" \
  --together --pool 1MiB
share --pool $((page * 16)) >out
[ $? = 2 ] && [ "$(grep -c 'too small for it alone' err)" = 6 ] &&
  grep -q 'no request found room' err || fail 'a pool smaller than any request'

[ $bad = 0 ] && echo 'check_requests: all holds'
[ $bad = 0 ]
