#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What is asked for, and what is refused: the last line on standard error says
# how many cells were, of which methods and why; a method that was named and got
# no cell at all is exit 3 after the others' rows, whatever comes between: a
# database, shards, a pool, a dry run, `check`. And what can be had without
# asking: a budget that has a default, a file beside the trace for one of two
# methods on a lane.
. "$(dirname "$0")/sh.sh"
cp "$small" "$tmp/t.safetensors"
cd "$tmp" || exit 1
trace=t.safetensors shows=(err)

# exits CODE LINE ARGUMENT...: the last line on stderr matches LINE, "": none.
exits() {
  local line=$2
  ran "$1" "$kvreplay" "${@:3}"
  if [ -n "$line" ]; then
    tail -n 1 err | grep -qE -- "^kvreplay: $line\$" || fail "$*: not '$line'"
  else
    [ ! -s err ] || fail "$*: not silent"
  fi
}
# rows N: so many rows were printed
rows() { [ "$(grep -c '"method"' out)" = "$1" ] || fail "not $1 rows"; }
# row KEY: of the first row
row() { grep -oE "\"$1\": [^,}]*" out | head -1 | cut -d' ' -f2; }

why='snapkv \(snapkv: window=32 exceeds the budget of 24; .*\)'
run=(run $trace -q -p 300 -f jsonl)
two=(-m dense,snapkv:window=32)

# --- a method that was named --------------------------------------------------
exits 3 "1 of 2 cells refused: $why" "${run[@]}" "${two[@]}" -b 24
rows 2
exits 2 "no cell could run: 1 of 1 cells refused: $why" "${run[@]}" \
  -m snapkv:window=32 -b 24
exits 3 "no cell could run: 1 of 1 cells refused: $why" "${run[@]}" \
  -m snapkv:window=32 -b 24 --strict
exits 0 '' "${run[@]}" -m dense,snapkv:window=32 -b 64 --strict
# Another budget, or another trace, gave it a cell.
exits 0 "1 of 3 cells refused: $why" "${run[@]}" "${two[@]}" -b 24,64
exits 3 "1 of 3 cells refused: $why" "${run[@]}" "${two[@]}" -b 24,64 --strict
gone='less \(no file of less for this model: .*\)'
exits 0 "1 of 2 cells refused: $gone" "${run[@]}" -m less -b 64 \
  "$tiny/text_400.safetensors"
# Two are told each with its reason; of `all` nobody named one.
exits 3 "2 of 3 cells refused: $why; $gone" "${run[@]}" "${two[@]},less" -b 24
exits 0 "[0-9]+ of [0-9]+ cells refused: $gone; .*" "${run[@]}" -m all -b 24
exits 3 "[0-9]+ of [0-9]+ cells refused: $gone; .*" "${run[@]}" -m all -b 24 \
  --strict
exits 3 "[0-9]+ of [0-9]+ cells refused: .*" "${run[@]}" -m all,${two[1]#*,} \
  -b 24 -n

# --- a budget of more than the prompt -----------------------------------------
# It is told once, whatever the budget is in; not where it does something: where
# decoding drops entries, or a reader reads fewer than there are.
for b in 200% prompt:110% 200 entries:138 end:150% mean:150% peak:150% \
  read:150% traffic:150% 200/139/150/1000; do
  name=$b
  [ "${b##*/}" = "$b" ] || name='layers:[0-9a-f]*'
  exits 0 "t, snapkv: budget $name exceeds the prompt of 137 tokens, so \
nothing is dropped" run $trace -f jsonl -m dense,snapkv,kivi -b $b
done
exits 0 't, h2o: budget 306 exceeds .*; also in 1 other cell' \
  run $trace -f jsonl -m h2o:budget=306,streamingllm:budget=400
[ "$(wc -l <err)" = 1 ] || fail 'a budget is told twice'
for b in 100% 136 200/139/100/1000; do
  exits 0 '' run $trace -f jsonl -m snapkv -b $b
done
exits 0 '' run $trace -f jsonl -m streamingllm,h2o,quest -b 110%
exits 0 '' run $trace -q -f jsonl -m snapkv -b 200%

# --- whatever comes between ---------------------------------------------------
for again in 1 2; do
  exits 3 "1 of 2 cells refused: $why" "${run[@]}" "${two[@]}" -b 24 --db r.db
done
exits 3 "1 of 2 cells refused: $why" "${run[@]}" "${two[@]}" -b 24 --twice
exits 3 "1 of 2 cells refused: $why" "${run[@]}" "${two[@]}" -b 24 -n
exits 3 "1 of 2 cells refused: $why" "${run[@]}" "${two[@]}" -b 24 \
  --together --pool 64MiB
exits 3 "1 of 2 cells refused: $why" check $trace -q -p 300 "${two[@]}" -b 24 \
  -B ref,ref
exits 0 "1 of 3 cells refused: $why" check $trace -q -p 300 "${two[@]}" \
  -b 24,64 -B ref,ref
exits 3 "1 of 3 cells refused: $why" check $trace -q -p 300 "${two[@]}" \
  -b 24,64 -B ref,ref --strict
# A shard answers for the cells that it has, and looks at all for the others.
shards() { # CODES ARGUMENT...: those of the two shards, sorted
  local want=$1 i codes=
  shift
  checks=$((checks + 1))
  for i in 1 2; do
    "$kvreplay" "${run[@]}" "$@" --shard $i/2 >out 2>err
    codes+="$? "
  done
  [ "$(tr ' ' '\n' <<<"$codes" | sort | tr -d '\n')" = "$want" ] ||
    fail "shards of $*: $codes"
}
shards 03 "${two[@]}" -b 24
shards 00 "${two[@]}" -b 24,64
# What is worse than a refusal is told, and the refusals still come last.
head -c 3000 $trace >cut.safetensors
exits 3 "1 of 4 cells refused: $why" "${run[@]}" cut.safetensors "${two[@]}" \
  -b 24
grep -q 'cut.safetensors' err || fail 'the bad trace is not told'

# --- a budget with a default --------------------------------------------------
exits 2 '-m all needs a budget: -b 20%, or several: -b 20%,512' \
  "${run[@]}" -m all
exits 0 '' "${run[@]}" -m omnikv --db o.db --twice
[ "$(row status)$(row basis)$(row budget)$(row k)" = '"fixed"null2020' ] ||
  fail "omnikv is $(row status) at $(row budget) of 300 tokens: $(cat out)"
journal=$(row journal)
exits 0 '' "${run[@]}" -m omnikv:k=20
[ "$(row journal)$(row status)" = "$journal\"ok\"" ] || fail 'k=20 is other'
exits 0 '' "${run[@]}" -m omnikv -b 10%
[ "$(row budget)$(row k)$(row target)" = '3030"10%"' ] || fail '-b sets no k'
exits 0 '' "${run[@]}" -m omnikv:share=0.1
[ "$(row budget)$(row k)" = 3030 ] || fail 'share=0.1 is other'
exits 0 '' "${run[@]}" -m omnikv:roles=sparse-vllm
[ "$(row k)" = 4096 ] || fail "sparse-vllm: k is $(row k)"
exits 0 '' "${run[@]}" -m omnikv -b read:60%
[ "$(row basis)" = '"read"' ] || fail 'bytes set no k'
(cd "$tmp" && "$kvreplay" verify -q o.db) >out 2>err || fail 'verify'
exits 0 '' check $trace -q -p 300 -m omnikv -B ref,ref
exits 0 '' vectors $trace -p 300 -m omnikv -o vectors
exits 0 '' "${run[@]}" -m omnikv:tier=device --decisions kept
exits 0 '' grade $trace -q -p 300 -m omnikv:tier=device \
  --theirs kept/*.safetensors
exits 0 '' tune $trace -q -p 300 -m omnikv -s share=0.05:0.1:0.05 --least kr
exits 0 '' methods omnikv
grep -q '^  k  .*(set by -b; otherwise computed when a run opens)$' out ||
  fail "methods: $(cat out)"

# --- two on a lane, of which one reads a file ---------------------------------
mkdir assets
cp "$tiny"/text_400.safetensors "$tiny"/assets/less.* . && mv less.* assets
run[1]=text_400.safetensors
for second in quant int4 kivi; do
  exits 0 '' "${run[@]}" -m "less+$second" -b 64 -p 395
  grep -q '"status": "ok"' out || fail "less+$second did not run"
done
file=$(echo assets/less.*)
sum=$(sha256sum <"$file")
exits 2 ".*would overwrite $file, what a method reads.*" "${run[@]}" \
  -m less+int4 -b 64 --stored "$file"
[ "$(sha256sum <"$file")" = "$sum" ] || fail 'the file is another'
rm "$file"
exits 2 ".*no file of less for this model: there is no assets/less\..*" \
  "${run[@]}" -m less+int4 -b 64

concluded
