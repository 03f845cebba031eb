#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Decisions out and in: for every method that only keeps and views, and for
# variants of it, what `run --decisions` writes and `replay` follows gives the
# same outputs to the bit and the same bytes (but for what the method declares
# beside its entries), on every bundled trace, in its last 200 decode steps.
# Methods that merge or code are named and write nothing; less attends what it
# remembers of what it dropped, too. --decisions sees no thread.
. "$(dirname "$0")/replays.sh"

no='zsmerge|kivi|quant|leankv|less|deltakv|palu'
methods=$(replay_methods | grep -vxE "$no" | paste -s -d ,)
variants=,quest:page=8:skip=0,h2o:variant=masked,h2o:group=query_head
variants+=,snapkv:group=query_head,adakv:normalise=yes,oracle-topp:p=0.5
variants+=,streamingllm:positions=original,tova:variant=prefill
variants+=,snapkv:budget=34/9/20/60
wrong=0

say() {
  echo "$*"
  wrong=$((wrong + 1))
}

# trace spec budget revision journal state output, by line; $tmp/lacking counts
# the cells that want more query rows than the trace records.
rows() {
  "$kvreplay" run "$1" -q --format jsonl "${@:2}" 2>"$tmp/said" >"$tmp/rows" ||
    true
  grep -c '"reason": "[a-z]* needs the last' "$tmp/rows" >"$tmp/lacking" || true
  grep -v '"reason": "[a-z]* needs the last' "$tmp/rows" | digests
}

followed=0
traces=("$src"/traces/tiny/*.safetensors)
! replay_little || traces=("$src"/traces/tiny/retrieval_8_small.safetensors)
for trace in "${traces[@]}"; do
  stem=$(basename "$trace" .safetensors)
  replay_last "$trace" 200
  specs=$methods
  # Its column sums are those of its own prompt.
  [ "$stem" != haystack_20_long ] || last=()
  case $stem in retrieval_8_small*) specs+=$variants ;; esac
  rm -rf "$tmp/d"
  rows "$trace" -m "$specs" -b 20% -j 2 "${last[@]}" --decisions "$tmp/d" \
    >"$tmp/made"
  lacking=$(<"$tmp/lacking")
  files=("$tmp/d/$stem".*.safetensors)
  list=$(printf 'replay:file=%s,' "${files[@]}")
  rows "$trace" -m "${list%,}" "${last[@]}" >"$tmp/followed" || cat "$tmp/said"
  awk '{ print $NF }' "$tmp/followed" | sort >"$tmp/b"
  awk '{ print $NF }' "$tmp/made" | sort >"$tmp/a"
  n=$(wc -l <"$tmp/a") want=$(($(tr -cd , <<<"$specs" | wc -c) + 1 - lacking))
  [ "$n" = $want ] && [ "${#files[@]}" = "$n" ] ||
    say "$stem: $n methods, ${#files[@]} files, not $want"
  cmp -s "$tmp/a" "$tmp/b" || say "$stem: outputs differ"
  followed=$((followed + ${#files[@]}))
done

# One thread and several write the same bytes.
trace=$src/traces/tiny/retrieval_8_small.safetensors
for j in 1 3; do
  "$kvreplay" run "$trace" -q -m h2o,quest,zsmerge,kivi,quant,leankv -b 20% \
    -j $j --decisions "$tmp/$j" >"$tmp/rows" 2>"$tmp/said"
  for m in zsmerge kivi quant leankv; do
    grep -q "$m .* entries, which decisions cannot express" "$tmp/said" ||
      say "nothing is said of $m"
  done
done
diff -r "$tmp/1" "$tmp/3" >"$tmp/said" || say 'threads are seen'

# A budget a layer is graded layer by layer: its own decisions are equal, those
# of another list wrong in the layer where the lists differ.
graded() { # LIST LAYER
  "$kvreplay" run "$trace" -q -m snapkv -b "$1" --decisions "$tmp/l$2" \
    >"$tmp/rows"
  "$kvreplay" grade "$trace" -m snapkv -b 34/9/20/60 -f json \
    --theirs "$tmp/l$2"/* >"$tmp/said"
  tr -d ' \n' <"$tmp/said" |
    grep -oE '"layer":[0-9],"equal":[0-9]+,"ties":0,"wrong":[1-9]' |
    cut -c 9 >"$tmp/wrong"
  grep -q '"decisions"' "$tmp/said" && [ "$(cat "$tmp/wrong")" = "$2" ] ||
    say "decisions of $1: wrong in layer '$(cat "$tmp/wrong")', not '$2'"
}
graded 34/9/20/60 ''
graded 34/9/21/60 2

# The kernels follow as the reference does, where there is an executor.
"$kvreplay" check "$trace" -q --backends ref,emu \
  -m "$(printf 'replay:file=%s,' "$tmp"/1/*.safetensors | sed 's/,$//')" \
  >"$tmp/said" 2>&1
case $? in
0 | 4) ;;
*) cat "$tmp/said" && say 'emu does not follow' ;;
esac

# Nothing is written over, and where nothing can be written that is said.
"$kvreplay" run "$trace" -q -m h2o -b 20% --decisions "$tmp/1" >"$tmp/rows" \
  2>"$tmp/said"
[ $? = 2 ] && grep -q 'exists; remove it' "$tmp/said" ||
  say 'a file of decisions is written over'
for dir in "$tmp/rows" "$tmp/no/folder"; do
  "$kvreplay" run "$trace" -q -m h2o -b 20% --decisions "$dir" >"$tmp/out" \
    2>"$tmp/said"
  [ $? = 4 ] && grep -q 'cannot make the folder' "$tmp/said" ||
    say "--decisions $dir: $(cat "$tmp/said")"
done

# A database knows the file by its bytes: verify follows it again, and not
# one that has changed.
# Files tell by their names which is which: traces of one name by their
# folders, parameter sets by what is not at its default; and none is written
# over another.
o=$tmp/o
mkdir -p "$o/a" "$o/b"
cp "$trace" "$o/a/x y.safetensors"
cp "$src"/traces/tiny/retrieval_8_small.f32.safetensors "$o/b/x y.safetensors"
"$kvreplay" run "$o/a/x y.safetensors" "$o/b/x y.safetensors" "$trace" \
  -q -m 'quest:page=8,quest:skip=0:page=32,h2o' -b 64,20%,27 \
  --decisions "$o/n" >"$tmp/rows" 2>"$tmp/said" || say "$(cat "$tmp/said")"
for stem in a.x_y b.x_y retrieval_8_small; do
  for b in 27 27-2 64; do
    for m in h2o quest.page=8 quest.page=32.skip=0; do
      echo "$stem.$m-b$b.safetensors"
    done
  done
done | sort >"$tmp/want"
(cd "$o/n" && printf '%s\n' *) | sort | diff - "$tmp/want" ||
  say 'decisions are not called what they are of'
for stem in a b; do # the name in the file and the file's name agree
  "$kvreplay" run "$o/$stem/x y.safetensors" -q -f csv \
    -m "replay:file=$o/n/$stem.x_y.quest.page=32.skip=0-b64.safetensors" |
    grep -q 'quest:page=32:skip=0' || say "$stem: other decisions in its file"
done
"$kvreplay" run "$trace" -q -m h2o -b 9 --views "$o/v" \
  --outputs "$o/a/../v" >"$tmp/rows" 2>"$tmp/said"
[ $? = 2 ] && grep -q 'are one file' "$tmp/said" && [ ! -e "$o/v" ] ||
  say "two options write one file: $(cat "$tmp/said")"

cp "$(ls "$tmp"/1/*.h2o-*)" "$tmp/mine.safetensors"
"$kvreplay" run "$trace" -q -m "replay:file=$tmp/mine.safetensors" \
  --db "$tmp/r.db" >"$tmp/said" 2>&1 || say 'replay into a database'
"$kvreplay" verify -q "$tmp/r.db" >"$tmp/said" 2>&1
grep -q '^1 rows match' "$tmp/said" ||
  say "verify: $(cat "$tmp/said")"

# However its path is written, and wherever it lies, it is one row; what was
# stored with the whole path in its key, as it once was, is verified, too.
follow() {
  local run of
  run=$(realpath "$kvreplay") of=$(realpath "$trace")
  (cd "$tmp" && "$run" run "$of" -q -m "replay:file=$1" --db r.db) \
    >"$tmp/said" 2>&1 || say "$1 into a database: $(cat "$tmp/said")"
}
rows_of() { "$top/analysis/kvreport" history "$1" -f jsonl | grep -c '"key"'; }
mkdir "$tmp/else"
cp "$tmp/mine.safetensors" "$tmp/else"
for path in mine.safetensors ./mine.safetensors else/mine.safetensors; do
  follow "$path"
  [ "$(rows_of "$tmp/r.db")" = 1 ] || say "$path is another row"
done
if command -v sqlite3 >/dev/null; then
  cp "$tmp/r.db" "$tmp/old.db"
  sqlite3 "$tmp/old.db" "UPDATE run SET params = json_set(params, '\$.file',
    '$tmp/mine.safetensors')"
  key=$(sqlite3 "$tmp/old.db" "SELECT printf('trace %s
prompt_len %d
method %s
params %s
code %s
arithmetic %d', identity, prompt_len, method, params, code, arithmetic)
    FROM run" | sha256sum | cut -d ' ' -f 1)
  sqlite3 "$tmp/old.db" "UPDATE run SET key = '$key'"
  "$kvreplay" verify -q "$tmp/old.db" >"$tmp/said" 2>&1
  grep -q '^1 rows match' "$tmp/said" ||
    say "verify of an old row: $(cat "$tmp/said")"
  sqlite3 "$tmp/old.db" "UPDATE run SET params = json_set(params, '\$.meta', 1)"
  "$kvreplay" verify -q "$tmp/old.db" >"$tmp/said" 2>&1
  grep -q 'its key does not match' "$tmp/said" ||
    say 'verify takes params that are not those of the key'
fi

# A file that is not there is not one that holds other decisions.
mv "$tmp/mine.safetensors" "$tmp/away"
"$kvreplay" verify -q "$tmp/r.db" >"$tmp/said" 2>&1
[ $? = 3 ] || say 'verify without the file is not exit code 3'
grep -q 'no file .*mine.safetensors, which replay reads; put it back' \
  "$tmp/said" && grep -q '1 have no file, 0 are of other' "$tmp/said" ||
  say "verify without the decisions: $(cat "$tmp/said")"

cp "$(ls "$tmp"/1/*.quest-*)" "$tmp/mine.safetensors"
"$kvreplay" verify -q "$tmp/r.db" >"$tmp/said" 2>&1
grep -q '1 are of other code' "$tmp/said" || say 'verify follows another file'
follow mine.safetensors
[ "$(rows_of "$tmp/r.db")" = 2 ] || say 'other decisions are the same row'

# What is declared is told apart.
"$kvreplay" run "$trace" -q \
  -m "replay:columns=1:meta=100:name=mine:file=$(ls "$tmp"/1/*.h2o-*)" \
  >"$tmp/said" 2>&1
grep -q '^  mine declares .* not measured' "$tmp/said" ||
  say 'declared bytes are not told apart'

# The last byte of the file is the sign of the last position.
file=$(ls "$tmp"/1/*.h2o-*)
cp "$file" "$tmp/changed.safetensors"
size=$(stat -c %s "$file")
printf '\377' | dd of="$tmp/changed.safetensors" bs=1 seek=$((size - 1)) \
  conv=notrunc 2>/dev/null
"$kvreplay" run "$trace" -q -m "replay:file=$tmp/changed.safetensors" \
  >"$tmp/said" 2>&1
grep -q 'position -[0-9]* is outside the trace' "$tmp/said" ||
  say 'a position out of range is not refused'

echo "$followed decisions files were followed"
[ "$wrong" = 0 ]
