#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Laws of bad input, as the programs show them: a trace that breaks a rule of
# the format is refused by `kvreplay run` and the verbs of kvtrace alike, with
# exit 3, one line on standard error that names the file and the reason, and
# nothing on standard output; also beside a good trace, whose rows then are
# not lost. A parameter that cannot be is exit 2 before anything is opened.
. "$(dirname "$0")/sh.sh"
export TMPDIR=$tmp
good=$small dir=$tmp shows=("$tmp/err")

# both FILE REASON: by every program, with and without a database
both() {
  local path=$dir/$1
  refused 3 "$2" "$kvreplay" run "$path" -q -m dense --format json
  grep -qF -- "${1%.index.json}" "$dir/err" || fail "$1: not its name"
  refused 3 "$2" "$kvreplay" run "$path" -q -m dense --db "$dir/bad.db"
  refused 3 "$2" "$kvtrace" check "$path"
  grep -qF -- "${1%.index.json}" "$dir/err" || fail "$1: not its name"
}

# every FILE REASON: and by `kvtrace info`, which reads no data
every() {
  both "$@"
  refused 3 "$2" "$kvtrace" info "$dir/$1"
}

# row CODE TEXT FILE: where streamingllm alone has no result, dense one
row() {
  local code=$1 got=0
  checks=$((checks + 1))
  "$kvreplay" run "$3" -q -m streamingllm -b 4 >"$dir/out" 2>"$dir/err" ||
    got=$?
  [ "$got" = "$code" ] || fail "${3##*/}: exit $got, not $code"
  grep -qF -- "$2" "$dir/out" || fail "${3##*/}: does not say '$2'"
  "$kvreplay" run "$3" -q -m dense >"$dir/out" 2>"$dir/err" ||
    fail "${3##*/}: dense has no result"
}

# shown TEXT FILE: a right trace, whose text and whose name would move the
# cursor. Every program shows them, and nothing of it is obeyed; a tensor that
# nobody reads is named, which is no failure.
shown() {
  local odd=$'\e[2Jx\xff\xe2\x80\xae\x7f\t' verb got
  mkdir -p "$dir/odd" && mv "$2" "$dir/odd/$odd.safetensors"
  for verb in "$kvtrace info" "$kvtrace check" "$kvreplay run -q -m dense" \
    "$kvreplay check -q -B ref,ref -m dense" \
    "$kvreplay check -q -B ref,ref -m dense -f junit" \
    "$kvreplay run --dry-run -m dense" \
    "$kvtrace convert -q -d bf16 -o $dir/odd/${odd%?}" \
    "$kvreplay run -q -m dense -p 99"; do
    checks=$((checks + 1)) got=0
    $verb "$dir/odd/$odd.safetensors" >"$dir/out" 2>"$dir/err" || got=$?
    [ "$got" = 0 ] || [ "${verb##* }" = 99 ] || fail "$verb: exit $got"
    ! cat "$dir/out" "$dir/err" | tr -d '\n' |
      grep -qE $'[[:cntrl:]]|\xff|\xe2\x80\xae|\xc2\x9b' ||
      fail "$verb: raw bytes in $(cat "$dir/out")"
    grep -qF '\x1b[2Jx\xff\u202e\x7f' "$dir/out" "$dir/err" ||
      fail "$verb: the name is not shown: $(cat "$dir/out")"
    case $verb in
    "$kvtrace info") grep -qF 'a\x1b]0;b\x07\u009b\u202ec\x0a'$'\xc3\xa9' \
      "$dir/out" || fail "$verb: the model is not shown: $(cat "$dir/out")" ;;&
    "$kvtrace info" | "$kvtrace check") grep -qF -- "$1" "$dir/out" ||
      fail "$verb: does not say '$1': $(cat "$dir/out")" ;;
    esac
  done
}

# no_number WHAT FILE: numbers of which no output can be recomputed are not
# called right: by none who compares, nor as a measure.
no_number() {
  local got=0
  checks=$((checks + 4))
  "$kvtrace" check "$2" >"$dir/out" 2>"$dir/err" || got=$?
  [ "$got" = 1 ] || fail "${2##*/}: check exits $got, not 1"
  grep -qE '^ +1 +(nan|inf) .* DIFFERENT$' "$dir/out" ||
    fail "${2##*/}: layer 1 is called right: $(cat "$dir/out")"
  "$kvtrace" check -f json "$2" >"$dir/out" 2>"$dir/err"
  grep -qF '"ok": false' "$dir/out" && grep -qF "\"relative\": \"$1\"" \
    "$dir/out" || fail "${2##*/}: as JSON: $(cat "$dir/out")"
  rm -rf "$dir/theirs" && mkdir "$dir/theirs"
  "$kvreplay" run "$2" -q -m dense -f jsonl --outputs "$dir/o.safetensors" \
    --decisions "$dir/theirs" >"$dir/out" 2>"$dir/err" || [ "$1" = NaN ] ||
    fail "${2##*/}: dense has no row"
  grep -q '"output_error": null, "output_abs": null' "$dir/out" ||
    fail "${2##*/}: an output error: $(cat "$dir/out")"
  [ "$1" != NaN ] || return 0
  got=0
  "$kvreplay" grade "$2" -m dense --outputs "$dir/o.safetensors" \
    --theirs "$dir"/theirs/*.safetensors >"$dir/out" 2>"$dir/err" || got=$?
  [ "$got" = 1 ] || fail "${2##*/}: grade exits $got: $(cat "$dir/out")"
}

# st FILE HEADER BYTES: a file of that header and so many zero bytes
st() {
  local n=${#2} i
  for i in 1 2 3 4 5 6 7 8; do
    # shellcheck disable=SC2059
    printf "\\$(printf %03o $((n & 255)))"
    n=$((n >> 8))
  done >"$dir/$1"
  printf %s "$2" >>"$dir/$1"
  head -c "$3" /dev/zero >>"$dir/$1"
}

u8() { printf '{"dtype":"U8","shape":%s,"data_offsets":[%s]}' "$1" "$2"; }

# ---- the container ---------------------------------------------------------
every none.st 'none.st'
mkdir "$dir/folder" && every folder 'not a regular file'
: >"$dir/empty.st" && every empty.st 'too short'
printf 'abc' >"$dir/abc.st" && every abc.st 'too short'
printf '\377\377\377\377\377\377\377\377' >"$dir/huge.st" &&
  every huge.st 'the limit of 100000000'
printf '\001\000\000\001\000\000\000\000' >"$dir/long.st" &&
  every long.st 'longer than the file'
while read -r name bytes reason header; do
  st "$name.st" "$header" "$bytes"
  every "$name.st" "${reason//_/ }"
done <<END
json 0 not_valid_JSON {"a":
list 0 object [1]
deep 0 JSON $(printf '[%.0s' {1..3000})
twice 1 duplicate_key {"a":$(u8 '[1]' 0,1),"a":$(u8 '[1]' 0,1)}
dtype 1 unknown_dtype_Q4 {"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,1]}}
fields 1 fields {"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}
minus 1 whole {"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}
over 1 overflows {"a":$(u8 '[9000000000000000000,9]' 0,1)}
overlap 6 overlaps {"a":$(u8 '[4]' 0,4),"b":$(u8 '[4]' 2,6)}
hole 9 leaves_a_hole {"a":$(u8 '[4]' 0,4),"b":$(u8 '[4]' 5,9)}
more 5 1_trailing_bytes {"a":$(u8 '[4]' 0,4)}
less 3 1_missing_bytes {"a":$(u8 '[4]' 0,4)}
meta 0 not_a_string {"__metadata__":{"a":1}}
metalist 0 not_an_object {"__metadata__":[]}
foreign 0 only_kvtrace {"__metadata__":{"format":"pt"}}
END
st utf8.st $'{"\xff":1}' 0 && every utf8.st 'not UTF-8'
st line.st '{"a\nb\u001b[2J":1}' 0 && every line.st 'is not an object'
printf '\24\0\0\0\0\0\0\0{"a":%s}\0\0\0' '{"dtype":"x' >"$dir/padded.st" &&
  every padded.st 'is not valid JSON'
printf '\14\0\0\0\0\0\0\0{}\0\0\0\0\0\0\0\0\0\0' >"$dir/padded.st" &&
  every padded.st 'padded with 10 zero bytes instead of blanks'
printf '\14\0\0\0\0\0\0\0{}          ' >"$dir/padded.st" &&
  every padded.st 'format is missing'
st $'new\nline.st' '{' 0
refused 3 'not valid JSON' "$kvreplay" run "$dir"/$'new\nline.st' -m dense
for path in ../x.st /etc/passwd a/b.st .. ''; do
  printf '{"weight_map":{"a":"%s"}}' "$path" >"$dir/i.safetensors.index.json"
  every i.safetensors.index.json 'outside the folder'
done
printf '{"weight_map":{"a":"gone.st"}}' >"$dir/i.safetensors.index.json" &&
  refused 3 "cannot open $dir/gone.st" "$kvtrace" info \
    "$dir/i.safetensors.index.json"
head -c 1000000 "$good" >"$dir/cut.safetensors" &&
  every cut.safetensors 'missing bytes at the end'
mkfifo "$dir/pipe" && every pipe 'not a regular file'

# ---- what stands in it -----------------------------------------------------
"$top/tests/faults/bad_traces" "$dir" >"$dir/list" || fail 'bad_traces'
[ "$(wc -l <"$dir/list")" -gt 30 ] || fail 'no bad traces'
while read -r name reason; do
  path=$name.safetensors
  case $name in
  right)
    "$kvreplay" run "$dir/$path" -q -m all -b 50% >"$dir/out" 2>"$dir/err" ||
      fail 'a right trace is refused'
    checks=$((checks + 1))
    ;;
  turned_far) row 2 "$reason" "$dir/$path" ;;
  turned_wide) row 3 "$reason" "$dir/$path" ;;
  foreign) shown "$reason" "$dir/$path" ;;
  expanded)
    "$kvtrace" info "$dir/$path" | grep -qF "$reason" || fail "$name: info"
    "$kvtrace" info -f json "$dir/$path" | tr -d ' \n' | grep -qF \
      '"expanded":{"shared":2,"end":"last","latent":12}' || fail "$name: JSON"
    "$kvtrace" info -f json "$good" | grep -qF '"expanded": null' ||
      fail 'a trace of groups of heads is called expanded'
    checks=$((checks + 3))
    ;;
  no_logit | no_output) no_number "$reason" "$dir/$path" ;;
  only_check)
    refused 3 "$reason" "$kvtrace" check "$dir/$path"
    "$kvreplay" run "$dir/$path" -q -m dense >"$dir/out" 2>"$dir/err" ||
      fail 'kvreplay scans what it does not read'
    ;;
  *) both "$path" "$reason" ;;
  esac
done <"$dir/list"

# ---- beside a good one -----------------------------------------------------
# beside FILE: a bad trace, known by its header before anything runs or by its
# numbers when their layer's turn is, between two good ones: its cells failed,
# with the reason, told once on standard error; all others ran, and only they
# are stored.
cp "$good" "$dir/other.safetensors"
beside() {
  local form rc
  rm -f "$dir"/kept.db*
  for form in jsonl json csv table; do
    "$kvreplay" run "$good" "$dir/$1" "$dir/other.safetensors" -q \
      -m dense,window -b 9 --db "$dir/kept.db" -f $form \
      >"$dir/out" 2>"$dir/err"
    rc=$? checks=$((checks + 4))
    [ $rc = 3 ] || fail "$1 beside good traces, $form: exit $rc, not 3"
    # What was kept of its good layers is another remark.
    [ "$(grep -vc 'kept from an earlier run' "$dir/err")" = 1 ] ||
      fail "$1, $form: not one line"
    grep -qF -- "$dir/$1" "$dir/err" || fail "$1, $form: not its name"
    grep -q 'failed.*safetensors' "$dir/out" || fail "$1, $form: no reason"
  done
  "$kvreplay" run "$good" "$dir/$1" "$dir/other.safetensors" -q -b 9 \
    -m dense,window -f jsonl 2>"$dir/err" |
    sed -E 's/.*"trace": "([^"]*)".*"status": "([^"]*)".*/\1 \2/' >"$dir/out"
  printf '%s\n' retrieval_8_small\ {fixed,ok} "${1%.safetensors} failed" \
    "${1%.safetensors} failed" other\ {fixed,ok} | cmp -s - "$dir/out" ||
    fail "$1: rows: $(tr '\n' ' ' <"$dir/out")"
  [ "$("$top/tests/faults/whole_db" "$dir/kept.db" | wc -l)" = 2 ] ||
    fail "$1: the database does not hold the good rows alone"
}
beside format.safetensors
beside nan_k.safetensors
"$kvreplay" run -m dense "$dir/format.safetensors" "$dir/format.safetensors" \
  >"$dir/out" 2>"$dir/err"
[ $? = 3 ] && [ ! -s "$dir/out" ] || fail 'only bad traces'
grep -q 'none of the 2 traces' "$dir/err" || fail 'only bad traces: not said'

# A cell that fails is told on standard error, too: one line each.
"$kvreplay" run "$dir/turned_wide.safetensors" -q -m streamingllm,dense -b 4 \
  >"$dir/out" 2>"$dir/err"
[ $? = 3 ] || fail 'a failed cell: not exit 3'
[ "$(wc -l <"$dir/err")" = 1 ] || fail 'a failed cell: not one line'
grep -q 'turned_wide, streamingllm:.* failed: ' "$dir/err" ||
  fail 'a failed cell is not told'

# Rows for programs say what they are, with a database and without.
for form in json jsonl csv; do
  "$kvreplay" run "$good" -q -m dense,window -b 9 -p 303 -f $form \
    >"$dir/rows" 2>"$dir/err" || fail "rows as $form"
  "$kvtrace" info --identity "$good" >"$dir/id"
  id=$(grep -oE '[0-9a-f]{64}' "$dir/id")
  checks=$((checks + 2))
  [ "$(grep -c "$id" "$dir/rows")" = 2 ] || fail "$form: no identity"
  [ "$(grep -cE '"schema": 1|^schema,|^1,' "$dir/rows")" -ge 2 ] ||
    fail "$form: no version of its keys"
done

# ---- parameters that no table of cases/cli.cases has ----------------------
run=("$kvreplay" run "$good" -q)
refused 2 bits "${run[@]}" -m kivi:bits=3
refused 2 'given twice' "${run[@]}" -m h2o:recent=1:recent=2 -b 9
refused 2 'no value' "${run[@]}" -m h2o:recent -b 9
refused 2 'escapes nothing' "${run[@]}" -m 'h2o:recent=\1' -b 9
refused 2 share "${run[@]}" -m quest:share=all -b 9
refused 2 'must be a number' "${run[@]}" -m oracle-topp:p=nan
refused 2 budget "${run[@]}" -m h2o:budget=99999999999999999999
refused 2 budget "${run[@]}" -m h2o:budget=-1
refused 2 '12x' "${run[@]}" -m h2o -b 12x
refused 2 '' "${run[@]}" -m h2o -b ''
refused 2 '' "${run[@]}" -m '' -b 9
refused 2 '' "${run[@]}" -m h2o, -b 9
refused 2 '0%' "${run[@]}" -m h2o -b 0%
refused 2 'nan%' "${run[@]}" -m h2o -b mean:nan%
refused 2 'one cell' "${run[@]}" -m h2o -b 8,9 --selections "$dir/s"
refused 2 'one cell' "${run[@]}" "$good" -m h2o -b 8 --stored "$dir/s"
refused 2 'not a regular file' "${run[@]}" -m dense --views /dev/null
refused 2 'not a regular file' "${run[@]}" -m dense --outputs /dev/null
refused 2 'the result is a file' "${run[@]}" -m dense --selections -
refused 2 'the result is a file' "${run[@]}" -m dense --outputs -
refused 2 jobs "${run[@]}" -m dense --jobs 0
refused 2 prompt-len "${run[@]}" -m dense --prompt-len 0
mkfifo "$dir/fifo"
for path in "$dir" "$dir/fifo" /dev/null; do
  refused 2 "$path is not a regular file" "${run[@]}" -m dense \
    --db "$path"
  refused 3 "cannot read $path" timeout 9 "$kvreplay" verify -q "$path"
done
refused 2 'is not a file' "${run[@]}" -m dense --db :memory:
seq 1000 >"$dir/text"
refused 3 'not a kvreplay database' "${run[@]}" -m dense --db "$dir/text"

concluded
