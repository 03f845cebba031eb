#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Laws of `kvreplay vectors`: what it writes of dense, h2o, quest and kivi, on
# F32 traces and at steps from the prompt to the last, is recomputed to the
# bit by a program of sixty lines that knows the rules and q, k and v; the
# same command writes the same bytes, raw or as safetensors; a folder appears
# whole or not at all; a wrong list is one sentence.
#
# The program needs a compiler with _Float16 (gcc 12, clang 15).
. "$(dirname "$0")/replays.sh"

again=$tmp/again
bad=0
fail() {
  printf 'check_vectors: %s\n' "$*" >&2
  bad=$((bad + 1))
}

for cc in ${CC:+"$CC"} gcc cc clang; do
  # shellcheck disable=SC2086
  if $cc -std=c11 -O1 -ffp-contract=off -w -o "$again" \
    "$src/tests/vectors_recompute.c" -lm 2>"$tmp/said"; then
    break
  fi
done
if [ ! -x "$again" ]; then
  echo "check_vectors: no compiler with _Float16: $(tail -n 1 "$tmp/said")"
  exit 77
fi
[ "$(wc -l <"$src/tests/vectors_recompute.c")" -le 60 ] ||
  fail 'vectors_recompute.c is no longer one page'

# A number of the manifest's first line.
number() { sed -n "1s/.* $1=\([^ ]*\).*/\1/p" "$tmp/raw/manifest.tsv"; }

# recomputed TRACE LAYER SPEC METHOD A,B,C: all files again, and alike.
files=0
recomputed() {
  local trace=$1 layer=$2 spec=$3 method=$4 abc=$5 g group steps shape n
  rm -rf "$tmp/raw" "$tmp/made"
  mkdir "$tmp/made"
  "$kvreplay" vectors "$trace" -m "$spec" --layers "$layer" -f raw \
    --steps "first,+17,last,$prompt" -o "$tmp/raw" || {
    fail "$spec: exit $?"
    return
  }
  steps=,$(awk -F '\t' '$3 > 0 { print $3 }' "$tmp/raw/manifest.tsv" |
    sort -nu | paste -s -d ,),
  group=$(($(number n_heads) / $(number n_kv_heads)))
  shape=$(number prompt_len),$(number n_tokens),$(number d),$(number d_v)
  for ((g = 0; g < $(number n_kv_heads); g++)); do
    "$again" "$tmp/raw" "$tmp/made" "$layer" "$steps" "$method" "$abc" \
      "$g,$group,$shape,$(number scale)" || fail "vectors_recompute: exit $?"
  done
  n=$(find "$tmp/made" -type f | wc -l)
  [ "$n" -gt "$6" ] || fail "$spec: only $n files recomputed"
  rm "$tmp/raw"/{q,k,v}.layers.* "$tmp/raw"/manifest.*
  diff -rq "$tmp/raw" "$tmp/made" >"$tmp/said" ||
    fail "$spec on $trace: $(head -n 3 "$tmp/said")"
  files=$((files + n))
}

mapfile -t traces < <(replay_traces)
tiny=${traces[2]} full=${traces[0]}
for trace in "$tiny" "$full"; do
  layer=2 prompt=137
  [ "$trace" = "$tiny" ] || layer=1 prompt=260
  recomputed "$trace" $layer dense dense 0 100
  recomputed "$trace" $layer h2o:budget=32 h2o 32,16 100
  recomputed "$trace" $layer h2o:budget=200:recent=3 h2o 200,3 100
  recomputed "$trace" $layer quest:page=8:skip=0:budget=32 quest 32,8 100
  recomputed "$trace" $layer quest:page=5:skip=0:budget=170 quest 170,5 100
  recomputed "$trace" $layer kivi:group=8:residual=16 kivi 2,8,16 150
  recomputed "$trace" $layer kivi:bits=4:group=12:residual=24 kivi 4,12,24 150
done

# The recomputation can fail: one bit of q, and it is another attention.
"$kvreplay" vectors "$tiny" -m dense --layers 2 -f raw -o "$tmp/one"
printf '\001' | dd of="$tmp/one/q.layers.2.heads.0.bin" bs=1 \
  seek=$((137 * 32 * 4)) conv=notrunc 2>/dev/null
mkdir "$tmp/two"
"$again" "$tmp/one" "$tmp/two" 2 ,138, dense 0 0,2,137,305,32,32,0x1.6a09e6p-3
if cmp -s "$tmp/one/logits.layers.2.steps.138.heads.0.bin" \
  "$tmp/two/logits.layers.2.steps.138.heads.0.bin"; then
  fail 'another q gives the same logits'
fi

# The same bytes twice, of every method; raw holds what safetensors hold.
ask=(vectors "$full" -b 32 --steps 260,first,+2 --layers 0,1)
specs=$(replay_specs),quest:skip=0:rule=paper:share=group_max
methods=0
for spec in ${specs//,/ }; do
  rm -rf "$tmp"/{a,b,raw}
  for to in a b; do
    "$kvreplay" "${ask[@]}" -m "$spec" -o "$tmp/$to" || fail "$spec: exit $?"
  done
  diff -r "$tmp/a" "$tmp/b" >/dev/null || fail "$spec: twice, and different"
  methods=$((methods + 1))
done
"$kvreplay" "${ask[@]}" -m kivi -f raw -o "$tmp/raw"
rm -rf "$tmp/a"
"$kvreplay" "${ask[@]}" -m kivi -o "$tmp/a"
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

# refused CODE TEXT ARGUMENT...: one line that holds TEXT, and no folder.
refused() {
  local code=$1 text=$2 got
  shift 2
  "$kvreplay" vectors "$tiny" "$@" >"$tmp/said" 2>&1
  got=$?
  [ "$got" = "$code" ] || fail "$*: exit $got, not $code"
  [ "$(wc -l <"$tmp/said")" = 1 ] || fail "$*: $(cat "$tmp/said")"
  grep -qF -- "$text" "$tmp/said" || fail "$*: no '$text': $(cat "$tmp/said")"
  [ ! -e "$tmp/no" ] || fail "$*: made a folder"
}
refused 2 'is no step' -m dense --steps first,x -o "$tmp/no"
refused 2 'is step 306' -m dense --steps 306 -o "$tmp/no"
refused 2 'is step 136' -m dense --steps 136 -o "$tmp/no"
refused 2 'is step 306' -m dense --steps last,+1 -o "$tmp/no"
refused 2 'as first,+17,last' -m dense --steps first,,last -o "$tmp/no"
refused 2 'give it a LIST' -m dense --steps '' -o "$tmp/no"
refused 2 'has no layer 4' -m dense --layers 0,4 -o "$tmp/no"
refused 2 'write numbers of layers' -m dense --layers all -o "$tmp/no"
refused 2 'give -o DIR' -m dense
refused 2 'one method' -m dense,window -b 8 -o "$tmp/no"
refused 2 'amount of bytes' -m h2o -b end:20% -o "$tmp/no"
refused 2 'needs a budget' -m h2o -o "$tmp/no"
refused 2 'is more than the budget' -m h2o:budget=4:recent=9 -o "$tmp/no"
refused 2 'no empty folder' -m dense -o "$tmp/a"
refused 4 'no folder can be made' -m dense -o "$tmp/none/no"

[ "$bad" = 0 ] || exit 1
printf 'check_vectors: %d files recomputed to the bit, %d methods twice\n' \
  "$files" "$methods"
