#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `kvreplay run --together`, as programs show it: rows and digests are those of
# a run without it, whoever is refused, for any number of threads; a refusal is
# one sentence; what pools held is stored, compared when it is computed again,
# merged and verified with its rows; and what is asked wrongly is one sentence.
. "$(dirname "$0")/shards.sh"
a=$src/traces/tiny/retrieval_8_small.safetensors
b=$src/traces/tiny/text_400.safetensors
cd "$tmp" || exit 1
cells=(-q -m 'snapkv+k8v4,leankv:window=16:alpha_l=0.2' -b 20% -p 250)
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
[ ! -s err ] && [ "$(field refused all)" = 'null null null null null null ' ] ||
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
grep -q '^  *3  retrieval_8_small  *0  *0  *-  *0  *0  refused at step 0$' table &&
  grep -q 'fragmentation: [0-9.]*% of what was held' table ||
  fail "the table says $(cat table)"
share --pool $room --db s.db --arrive 400 -f jsonl >apart || fail 'arrivals'
[ "$(field refused apart)" = 'null null null null null null ' ] ||
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
"$ask" r.db 'UPDATE pool SET peak = peak + 1'
"$kvreport" merge m.db r.db 2>err
[ $? = 1 ] && grep -q 'the pool .* has at most' err || fail 'a false pool joins'
share --pool $room --db r.db >/dev/null
[ $? = 1 ] && grep -q 'the pool of .* contradicts' err || fail 'a false pool'

# --- what is wrong -----------------------------------------------------------
run=("$kvreplay" run "$a" "${cells[@]}")
refused 2 'as --pool 64MiB' "${run[@]}" --together
refused 2 'as --pool 64MiB; not 64MB' "${run[@]}" --together --pool 64MB
refused 2 'add --together' "${run[@]}" --pool 64MiB
refused 2 'add --together' "${run[@]}" --arrive 3
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
