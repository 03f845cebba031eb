#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Two methods on one lane, a selection and a format for what it keeps: on every
# backend that is here, what a first without decisions leaves is the second
# alone, what is kept is what the first alone keeps, bytes are by formula, and
# what cannot be is one sentence.
. "$(dirname "$0")/replays.sh"
trace=$(replay_traces | head -1)
kivi=kivi:group=8:residual=16
backends=ref
replay_emu && backends='ref emu'

run() { "$kvreplay" run "$trace" -q -f jsonl "$@"; }
three() { digests | cut -d' ' -f5-7; }

# --- laws, and both backends alike -----------------------------------------
for backend in $backends; do
  alone=$(run -B "$backend" -m "$kivi" | three)
  behind=$(run -B "$backend" -m "dense+$kivi" | three)
  [ -n "$alone" ] && [ "$alone" = "$behind" ] ||
    fail "$backend: dense+kivi is not kivi: $behind, not $alone"
  for spec in "snapkv:budget=64+$kivi" "h2o:budget=64+$kivi" \
    "quest:budget=64:page=8:skip=0+$kivi" "tova:budget=64+$kivi" \
    "snapkv:budget=64:grow=no+$kivi" "streamingllm:budget=64+$kivi" \
    window:budget=64+twilight:skip=0 \
    quest:budget=64:skip=0:rule=twilight+twilight:skip=0; do
    run -B "$backend" -m "$spec" | three >"$tmp/of"
    [ "$(wc -w <"$tmp/of")" = 3 ] || fail "$backend: $spec does not run"
    [ "$backend" = ref ] && cp "$tmp/of" "$tmp/$(echo "$spec" | cksum)"
    cmp -s "$tmp/of" "$tmp/$(echo "$spec" | cksum)" ||
      fail "$spec: $backend is not ref"
  done
done

# --- what is kept, and what it takes ----------------------------------------
# What the prompt leaves (behind it kivi alone compresses), without the header
# of its file.
kept() {
  local file=$2/kept.safetensors
  "$kvreplay" vectors "$trace" -m "$1" --steps 260 -o "$2" \
    >"$tmp/said" && tail -c "+$((9 + $(od -An -tu8 -N8 "$file")))" "$file" |
    sha256sum
}
for first in snapkv:budget=64 adakv:budget=64; do
  a=$(kept "$first" "$tmp/alone-$first")
  b=$(kept "$first+$kivi" "$tmp/two-$first")
  [ "$(wc -c <"$tmp/alone-$first/kept.safetensors")" -gt 1024 ] &&
    [ "$a" = "$b" ] || fail "$first+kivi keeps others than $first"
done

# 104 entries at the end: keys full but for 8, values but for 16; 2 bits of 40
# channels, two lanes in each of two layers.
payload=$((4 * (8 * 160 + 96 * 10 + 16 * 160 + 88 * 10)))
run -m "snapkv:budget=64+$kivi" | grep -q "\"end\": {\"payload\": $payload," ||
  fail "the bytes of snapkv+kivi are not $payload"

# All 104 are coded behind the last step.
payload=$((4 * 104 * (40 + 20)))
run -m "snapkv:budget=64+k8v4" | grep -q "\"end\": {\"payload\": $payload," ||
  fail "the bytes of snapkv+k8v4 are not $payload"

# --- what a format cannot hold ------------------------------------------------
# poke FILE OFFSET BYTES: overwrites bytes of its data.
poke() {
  # shellcheck disable=SC2059
  printf "$3" | dd of="$1" bs=1 seek="$((8 + $(od -An -td8 -N8 "$1") + $2))" \
    conv=notrunc status=none
}

# A key with 65504 and -65504 among its elements (its range is no half: no
# int1), and a value from 300 to 300.5 (too far from 0 for the zero point of
# qserve8). Queries, keys and values of the only layer stand first, 24 rows of
# 32 bytes each.
wide=$tmp/wide.safetensors
"$kvtrace" synth -q -o "$wide" --layers 1 --heads 1 --kv-heads 1 --dim 8 \
  --dtype F32 -t 24 -p 16 -s 3 >"$tmp/said" 2>&1
poke "$wide" $((29 * 32)) '\000\340\177\107\000\340\177\307'
for i in 0 4 8 12 16 20 24; do
  poke "$wide" $((54 * 32 + i)) '\000\000\226\103'
done
poke "$wide" $((54 * 32 + 28)) '\000\100\226\103'
for backend in $backends; do
  specs=int1,int4,qserve8,qserve4,e4m3-atom4,dense
  "$kvreplay" run "$wide" -q -f jsonl -B "$backend" -m "$specs" \
    >"$tmp/rows" 2>"$tmp/said"
  echo "exit $?" >>"$tmp/said"
  [ "$(grep -c '"status": "failed"' "$tmp/rows")" = 2 ] &&
    [ "$(grep -c '"status": "fixed"' "$tmp/rows")" = 4 ] ||
    fail "$backend: cells of a wide trace: $(cut -c1-700 "$tmp/rows")"
  grep 'quant:k=int1:' "$tmp/rows" | grep -q "lane 0, step 16: the scale of a \
coded group is not finite as stored (first token 5); these values cannot be" ||
    fail "$backend: int1 of a wide trace says: $(grep int1 "$tmp/rows")"
  grep 'quant:k=qserve8:' "$tmp/rows" | grep -q '(first token 6); these' ||
    fail "$backend: qserve8 of a far value: $(grep qserve8 "$tmp/rows")"
  grep -q '^exit 3$' "$tmp/said" && [ "$(wc -l <"$tmp/said")" = 3 ] ||
    fail "$backend: $(cat "$tmp/said")"
done

# --- names -------------------------------------------------------------------
text=$(run -m "snapkv:budget=64+$kivi" | digests | cut -d' ' -f2)
again=$(run -m "$text" | digests | cut -d' ' -f2)
case $text in
snapkv:budget=64:*+kivi:bits=2:*) ;;
*) fail "the specification is written $text" ;;
esac
[ "$text" = "$again" ] || fail "$text reads back as $again"
run -m "snapkv:window=16+$kivi" -b 64 | grep -q '"method": "snapkv+kivi"' ||
  fail "-b does not set the budget of the selection"
run -m "snapkv+$kivi" -b 64/32 | grep -q '"budget": \[64, 32\]' ||
  fail "-b does not set a budget a layer"

# --- what cannot be ----------------------------------------------------------
# wrong SPEC WORDS: one sentence that holds the words.
wrong() {
  local got
  got=$(run -m "$1" 2>&1)
  case $got in
  *"$2"*) ;;
  *) fail "$1 says: $got" ;;
  esac
}
wrong "zsmerge:budget=64+$kivi" 'merges entries'
wrong "kivi+$kivi" 'both code'
wrong zsmerge:budget=64+twilight 'merges entries'
wrong streamingllm:budget=64+twilight 'other positions'
wrong kivi+twilight 'codes keys'
wrong snapkv:budget=64+h2o:budget=32 'no format'
wrong "kivi+snapkv:budget=64" 'no format'
wrong "snapkv:budget=64+kivi+kivi" 'more than 2 methods'
wrong "snapkv:budget=64+kiwi" 'did you mean kivi'
wrong "snapkv:budget=64+" 'no name'
wrong "snapkv:budget=64+int3" 'did you mean int'
wrong "snapkv:budget=64+k8v3" 'k8v3'
wrong "snapkv:budget=64+int4:groups=7" '7 groups do not divide'
wrong "int4+kivi" 'both code'
wrong zsmerge:budget=64+int4 'merges entries'
trace=$src/traces/tiny/text_400.safetensors # which has directions of palu
bases=$(echo "$src"/traces/tiny/assets/palu.*.safetensors)
wrong "snapkv:budget=64+palu:bases=$bases" 'of all KV heads at once'

[ "$bad" = 0 ] && echo "check_compose: on $backends" || exit 1
