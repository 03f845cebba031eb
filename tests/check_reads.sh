#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A plugin that reads a file, plugins/reads.c: run with the file named and with
# the one beside the trace, stored under its bytes, verified, graded and asked
# every law. A file that is missing, damaged or of other shapes refuses its
# cell by one sentence and no other; one that another took the place of is
# another row. No output is written over it.
. "$(dirname "$0")/plugins.sh"

# written PATH SHAPE DATA...: a safetensors file with keep, I32; FORMAT too
written() {
  local path=$1 shape=$2 head number
  shift 2
  head="{\"__metadata__\":{\"format\":\"${FORMAT:-kvreads}\"},"
  head+="\"keep\":{\"dtype\":\"I32\",\"shape\":[$shape],"
  head+="\"data_offsets\":[0,$((4 * $#))]}}"
  while [ $((${#head} % 8)) != 0 ]; do head+=' '; done
  {
    printf "\\x$(printf %02x $((${#head} & 255)))"
    printf "\\x$(printf %02x $((${#head} >> 8)))\\0\\0\\0\\0\\0\\0%s" "$head"
    for number; do
      printf "\\x$(printf %02x "$number")\\0\\0\\0"
    done
  } >"$path"
}

# cell_refused SPEC TEXT: alone it is exit 2 and its row says why; beside
# another cell, that one runs, and it is exit 3.
cell_refused() {
  local how code
  for how in "2 $1" "3 $1,window"; do
    checks=$((checks + 2))
    "${run[@]}" -b 20 -m "${how#* }" >"$tmp/out" 2>"$tmp/err"
    code=$?
    [ $code = "${how%% *}" ] || fail "$1: exit $code: $(cat "$tmp/err")"
    grep '"method": "reads".*"status": "refused"' "$tmp/out" |
      grep -qF -- "$2" || fail "$1: no '$2' in: $(cat "$tmp/out")"
  done
  grep -q '"method": "window".*"journal"' "$tmp/out" || fail "$1: no window"
}

run=("$kvreplay" run "$tmp/t.safetensors" -q -f jsonl)
code() { grep -oE '"code": "[0-9a-f]*"' "$tmp/out"; }
journal() { grep -oE '"journal": "[0-9a-f]*"' "$tmp/out"; }

cp "$trace" "$tmp/t.safetensors"
chmod u+w "$tmp/t.safetensors"
model=$("$top/traces/kvtrace" info "$trace" | sed -n 's/^ *model  *//p')
beside=$tmp/assets/reads.$(tr -c 'A-Za-z0-9._\n-' _ <<<"$model").safetensors
mkdir "$tmp/assets"
heads=16
keeps=$(seq 20 $((19 + heads)))
built reads "$src/tests/plugins/reads.c" -Wno-cast-qual
written "$beside" $heads $keeps

# ---- run: beside, named, stored, verified ----------------------------------
"${run[@]}" -m "$tmp/reads.so" -d "$tmp/r.db" --twice >"$tmp/out" ||
  fail 'run with the file beside the trace'
has '"spec": "reads:write=no"' 'run'
has '"asset": 64, "fetched"' 'run'
first=$(code)$(journal)
"$kvreplay" run "$tmp/t.safetensors" -q -m "$tmp/reads.so,dense" >"$tmp/out"
has '^  reads reads a file of 64 bytes, shared by all requests' 'the table'
cp "$beside" "$tmp/named.safetensors"
"${run[@]}" -m "$tmp/reads.so:file=$tmp/named.safetensors" >"$tmp/out" ||
  fail 'run with a file that is named'
[ "$(code)$(journal)" = "$first" ] || fail 'named, it is another row'
mkdir "$tmp/plugins"
cp "$tmp/reads.so" "$tmp/plugins"
export KVREPLAY_PLUGINS=$tmp/plugins
(cd "$tmp" && "$kvreplay" verify -q r.db) >"$tmp/out" 2>"$tmp/err"
has '^1 rows match, 0 differ' "verify: $(cat "$tmp/err")"
written "$beside" $heads $(seq 30 $((29 + heads)))
"${run[@]}" -m "$tmp/reads.so" >"$tmp/out" || fail 'run with another file'
[ "$(code)$(journal)" != "$first" ] || fail 'another file, the same row'
(cd "$tmp" && "$kvreplay" verify -q r.db) >"$tmp/out" 2>"$tmp/err"
has '0 rows match.*1 are of other code' 'verify with another file'

# ---- graded by its own decisions -------------------------------------------
"$kvreplay" run "$tmp/t.safetensors" -q -m "$tmp/reads.so" \
  --decisions "$tmp/d" >"$tmp/out" || fail 'run --decisions'
"$kvreplay" grade "$tmp/t.safetensors" -q -m "$tmp/reads.so" \
  --theirs "$tmp"/d/*.safetensors >"$tmp/out" 2>"$tmp/err" ||
  fail "grade: exit $?: $(cat "$tmp/err" "$tmp/out")"

# ---- laws ------------------------------------------------------------------
law=("$kvreplay" lawcheck -t "$tmp/t.safetensors" -l hooks -l lengths -l repeat)
"${law[@]}" -q "$tmp/reads.so:file=$tmp/named.safetensors" >"$tmp/out" 2>&1 ||
  fail "lawcheck: $(cat "$tmp/out")"
has '^reads: .*laws hold' 'lawcheck'
"${law[@]}" "$tmp/reads.so:file=$tmp/named.safetensors:write=yes" \
  >"$tmp/out" 2>&1
[ $? = 1 ] || fail 'lawcheck of one that writes: not exit 1'
has 'compress_lane writes its file.s tensors, which all hooks share' 'lawcheck'

# ---- what is wrong ---------------------------------------------------------
r=$tmp/reads.so bad_file=$tmp/bad.safetensors
rm "$beside"
cell_refused "$r" 'no file of reads for this model: there is no '
cell_refused "$r:file=$tmp/nowhere.safetensors" 'nowhere.safetensors'
written "$bad_file" 1 7
cell_refused "$r:file=$bad_file" 'keep has 1 numbers for'
written "$bad_file" '2, 8' $keeps
cell_refused "$r:file=$bad_file" 'keep has shape [2, 8]; it must have'
FORMAT=others written "$bad_file" $heads $keeps
cell_refused "$r:file=$bad_file" 'format is others; write kvreads'
head -c 100 "$tmp/named.safetensors" >"$bad_file"
cell_refused "$r:file=$bad_file" 'bad.safetensors'
echo text >"$bad_file"
cell_refused "$r:file=$bad_file" 'bad.safetensors: too short'

# ---- no output over it -----------------------------------------------------
kept() {
  checks=$((checks + 1))
  refused 2 'what a method reads' run "$tmp/t.safetensors" -q -m "$1" \
    "$2" "$3"
  cmp -s "$beside" "$tmp/named.safetensors" || fail "$2 $3 changed a file"
}
cp "$tmp/named.safetensors" "$beside"
ln -s "$beside" "$tmp/link"
ln "$beside" "$tmp/hard"
for output in --views --stored --outputs; do
  kept "$r" $output "$beside"
  kept "$r" $output "$tmp/link"
  kept "$r:file=$tmp/named.safetensors" $output "$tmp/named.safetensors"
done
kept "$r" --selections "$tmp/hard"
count_checks
