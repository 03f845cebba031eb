#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Laws of `kvreplay vectors`: what it writes is recomputed to the bit by
# programs of at most sixty lines that know the rules and q, k and v - of every
# method logits, chunks, output and LSE, order and choice; of dense, h2o, quest
# and kivi, at steps from the prompt to the last, every matrix there is. The
# same command writes the same bytes, raw or as safetensors; a folder appears
# whole or not at all; a wrong list is one sentence.
#
# The programs need a compiler with _Float16 (gcc 12, clang 15).
# Environment: KV_FIRST=1: the first failure ends it (mutants need no more).
. "$(dirname "$0")/replays.sh"

programs='attention order dense h2o quest kivi'
# program NAME COMPILER...: into $tmp/NAME
program() {
  local name=$1
  shift
  "$@" -std=c11 -D_DEFAULT_SOURCE -O1 -ffp-contract=off -w -I"$src" \
    -o "$tmp/$name" "$src/tests/vectors/vectors_$name.c" -lm 2>"$tmp/said"
}
for cc in ${CC:+"$CC"} gcc cc clang; do
  # shellcheck disable=SC2086
  program kivi $cc && break
done
if [ ! -x "$tmp/kivi" ]; then
  echo "check_vectors: no compiler with _Float16: $(tail -n 1 "$tmp/said")"
  exit 77
fi
for name in $programs; do
  # shellcheck disable=SC2086
  program "$name" $cc || fail "vectors_$name: $(tail -n 1 "$tmp/said")"
  [ "$(wc -l <"$src/tests/vectors/vectors_$name.c")" -le 60 ] ||
    fail "vectors_$name.c is over sixty lines"
done

# again NAME ARG...: a program over $tmp/folder; what it confirms, a line a
# matrix, is added to $tmp/same.
again() {
  local name=$1
  shift
  "$tmp/$name" "$tmp/folder" "$@" >>"$tmp/same" 2>"$tmp/said" && return
  fail "$spec on ${trace##*/}, vectors_$name:" \
    "$(wc -l <"$tmp/said") matrices: $(head -n 3 "$tmp/said")"
}

# attended TRACE LAYERS SPEC [ARG...]: the folder, and what is common to all
# methods again.
attended() {
  trace=$1 spec=$3
  rm -rf "$tmp/folder" "$tmp/same"
  "$kvreplay" vectors "$trace" -m "$spec" --layers "$2" \
    -o "$tmp/folder" "${@:4}" || {
    fail "$spec: exit $?"
    return 1
  }
  again attention "$(sed -n 's/.*"merge_bias": \([^,}]*\).*/\1/p' \
    "$tmp/folder/manifest.json" | grep . || echo 0)"
  again order
}

# confirmed STAGES: of these (an expression) nothing is left to recompute.
files=0
confirmed() {
  sed '/^#/d' "$tmp/folder/manifest.tsv" | cut -f 1-5 |
    grep -E "^($1)$(printf '\t')" | sort >"$tmp/want"
  [ -s "$tmp/want" ] || fail "$spec: a folder without $1"
  sort -u "$tmp/same" | comm -23 "$tmp/want" - >"$tmp/said"
  [ ! -s "$tmp/said" ] ||
    fail "$spec on ${trace##*/}, not recomputed: $(head -n 3 "$tmp/said")"
  files=$((files + $(wc -l <"$tmp/want")))
}

# recomputed TRACE LAYER SPEC PROGRAM...: each with its arguments, one word.
recomputed() {
  attended "$1" "$2" "$3" --steps "first,+17,last,$prompt" || return
  shift 3
  # shellcheck disable=SC2086
  for call; do again $call; done
  confirmed '[a-z0-9_]{2,}' # all but q, k and v
  steps=$(sed '/^#/d' "$tmp/folder/manifest.tsv" | cut -f 3 | sort -nu |
    paste -s -d ' ')
  [ "$steps" = "0 $prompt $((prompt + 1)) $((prompt + 18)) $tokens" ] ||
    fail "$spec on ${trace##*/}: steps $steps"
}

mapfile -t traces < <(replay_traces)
tiny=${traces[2]} full=${traces[0]}
for trace in "$tiny" "$full"; do
  layer=2 prompt=137 tokens=305 list=20/60/32/8
  [ "$trace" = "$tiny" ] || layer=1 prompt=260 tokens=300 list=20/32
  all='dense entries kept'
  recomputed "$trace" $layer dense "$all view"
  recomputed "$trace" $layer h2o:budget=32 'h2o 32 16 none' 'dense view'
  recomputed "$trace" $layer h2o:budget=$list 'h2o 32 16 none' 'dense view'
  recomputed "$trace" $layer h2o:budget=200:recent=3 'h2o 200 3 none' \
    'dense view'
  recomputed "$trace" $layer h2o:budget=32:recent=0:scale=seen \
    'h2o 32 0 seen' 'dense view'
  recomputed "$trace" $layer quest:page=8:skip=0:budget=32 "$all" 'quest 32 8'
  recomputed "$trace" $layer quest:page=5:skip=0:budget=170 "$all" \
    'quest 170 5'
  for rule in paper code; do
    code='h(h(h(x) - min) / scale)'
    [ $rule = code ] || code='(x - min) / scale'
    recomputed "$trace" $layer kivi:group=8:residual=16:variant=$rule \
      "$all view" "kivi 2 8 16 $rule"
    recomputed "$trace" $layer kivi:bits=4:group=12:residual=24:variant=$rule \
      "$all view" "kivi 4 12 24 $rule"
    grep -qF "clamp($code," "$tmp/folder/manifest.json" ||
      fail "$spec: its manifest does not choose codes by $code"
  done
done

# The recomputation can fail: one bit of q, and it is another attention.
attended "$tiny" 2 dense -f raw
printf '\001' | dd of="$tmp/folder/q.layers.2.heads.0.bin" bs=1 \
  seek=$((137 * 32 * 4)) conv=notrunc 2>/dev/null
"$tmp/attention" "$tmp/folder" 0 >"$tmp/same" 2>"$tmp/said" &&
  fail 'another q gives the same attention'
grep -q '^logits.2.138.0.0: differs in row' "$tmp/said" ||
  fail "another q is not named: $(cat "$tmp/said")"

# Of every method: the same bytes twice, and what all have in common again.
ask=(-b 32 --steps 260,first,+2)
specs=$(replay_specs),quest:skip=0:rule=paper:share=group_max
methods=0
for spec in ${specs//,/ }; do
  attended "$full" 0,1 "$spec" "${ask[@]}" || continue
  confirmed 'logits|chunk_.*|out|lse|order|chosen|evicted'
  "$kvreplay" vectors "$full" -m "$spec" --layers 0,1 "${ask[@]}" \
    -o "$tmp/twice" || fail "$spec: exit $?"
  diff -rq "$tmp/folder" "$tmp/twice" >"$tmp/said" ||
    fail "$spec: twice, and different: $(head -n 3 "$tmp/said")"
  rm -rf "$tmp/twice"
  methods=$((methods + 1))
done

# Raw holds what safetensors hold.
ask=(vectors "$full" "${ask[@]}" --layers 0,1 -m kivi)
"$kvreplay" "${ask[@]}" -f raw -o "$tmp/raw"
"$kvreplay" "${ask[@]}" -o "$tmp/a"
cut -f 9-11 "$tmp/raw/manifest.tsv" | sed 1,2d >"$tmp/raw.files"
line=0
while read -r at bytes file _ _ raw; do
  tail -c "+$((at + 1))" "$tmp/a/$file" | head -c "$bytes" |
    cmp -s - "$tmp/raw/$raw" || fail "$raw: not what $file holds"
  line=$((line + 1))
done < <(cut -f 9-11 "$tmp/a/manifest.tsv" | sed 1,2d |
  paste - "$tmp/raw.files")
[ "$line" -gt 50 ] || fail 'a manifest without lines'
sha=$(sha256sum <"$tmp/a/out.safetensors")
grep -qF "${sha%% *}" "$tmp/a/manifest.json" || fail 'sha256 of out'

# wrong CODE TEXT ARGUMENT...: vectors is refused so, and makes no folder.
wrong() {
  refused "$1" "$2" "$kvreplay" vectors "$tiny" "${@:3}"
  [ ! -e "$tmp/no" ] || fail "$*: made a folder"
}
wrong 2 'is not a step' -m dense --steps first,x -o "$tmp/no"
wrong 2 'is step 306' -m dense --steps 306 -o "$tmp/no"
wrong 2 'is step 136' -m dense --steps 136 -o "$tmp/no"
wrong 2 'is step 306' -m dense --steps last,+1 -o "$tmp/no"
wrong 2 'as first,+17,last' -m dense --steps first,,last -o "$tmp/no"
wrong 2 'give it a LIST' -m dense --steps '' -o "$tmp/no"
wrong 2 'has no layer 4' -m dense --layers 0,4 -o "$tmp/no"
wrong 2 'write numbers of layers' -m dense --layers all -o "$tmp/no"
wrong 2 'needs --output DIR' -m dense
wrong 2 'one method' -m dense,window -b 8 -o "$tmp/no"
wrong 2 'budget in bytes' -m h2o -b end:20% -o "$tmp/no"
wrong 2 'needs a budget' -m h2o -o "$tmp/no"
wrong 2 'exceeds the budget' -m h2o:budget=4:recent=9 -o "$tmp/no"
wrong 2 'not an empty folder' -m dense -o "$tmp/a"
wrong 4 'cannot make the folder' -m dense -o "$tmp/none/no"

[ "$bad" = 0 ] || exit 1
printf 'check_vectors: %d matrices recomputed to the bit, %d methods twice\n' \
  "$files" "$methods"
