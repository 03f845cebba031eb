#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Laws of the program kvtrace: data on stdout and nothing else there; a NaN
# gives exit 3, one line on stderr that names file, tensor and place, and an
# empty stdout (check_inputs.sh has every other bad trace); a wrong command
# line gives exit 2 and the nearest right word; a difference gives exit 1, a
# full disk 4.
. "$(dirname "$0")/sh.sh"
dir=$tmp shows=("$tmp/err")

# expect CODE ARGUMENT...: runs kvtrace; stdout and stderr to $dir/out, err
expect() { ran "$1" "$kvtrace" "${@:2}"; }

# says PATTERN: the last run printed one line on stderr with it, no stdout
says() {
  [ "$(wc -l <"$dir/err")" -eq 1 ] || fail "not one line on stderr"
  grep -qF -- "$1" "$dir/err" || fail "stderr lacks '$1'"
  [ ! -s "$dir/out" ] || fail "stdout is not empty"
}

shows() {
  grep -qE -- "$1" "$dir/out" || fail "stdout lacks '$1'"
}

# --- a real trace, damaged ----------------------------------------------
real=$src/traces/tiny/retrieval_8_small.f32.safetensors
expect 0 info "$real"
shows '^request +305 tokens: 137 prompt, 168 decode steps'
expect 0 info --format json "$real"
shows '"prompt_len": 137'
expect 0 info --identity --format=json "$real"
shows '"identity": "[0-9a-f]{64}"'
expect 0 info --attention "$src/traces/tiny/haystack_8.safetensors"
shows '^ +5 +7 .* retrieval$'
[ "$(grep -c ' retrieval$' "$dir/out")" = 1 ] || fail 'more that retrieve'
shows '^ +4 +2 .* local$'
shows '^a sink .* in 6 of 6 layers$'
expect 0 info -a -f json "$real"
shows '"needle": 0.[0-9]+'
[ "$(grep -c '"word": ' "$dir/out")" = 32 ] || fail 'not 32 heads'
expect 0 synth -q -o "$dir/short.safetensors" -t 40 --layers 1
expect 0 info -a "$dir/short.safetensors"
shows '^ +0 +0 +- .* none$' # too few tokens to say anything
for name in "$src"/traces/{smollm2,tiny}/*.safetensors; do
  expect 0 check "$name"
  [ "$(grep -cE ' (ok|no output recorded)$' "$dir/out")" -ge 4 ] ||
    fail "$name: not all ok"
done
expect 0 check --format json "$real"
shows '"ok": true'

# patch FILE OFFSET BYTES: overwrites bytes of a copy of the real trace
patch() {
  cp "$real" "$dir/$1" && chmod u+w "$dir/$1"
  # shellcheck disable=SC2059
  printf "$3" | dd of="$dir/$1" bs=1 seek="$2" conv=notrunc status=none
}

# the first data byte: q, k, v, o of layer 0 stand in bytewise order k o q v
data=$((8 + $(od -An -td8 -N8 "$real")))
patch nan.safetensors $((data + 128 + 12)) '\000\000\300\177'
expect 0 info "$dir/nan.safetensors"
expect 3 check "$dir/nan.safetensors"
says 'nan.safetensors: tensor layers.0.k holds NaN or Inf at [0, 1, 3]'
patch far.safetensors $((data + 14)) '\200\101'
expect 1 check "$dir/far.safetensors"
grep -q DIFFERENT "$dir/out" || fail 'no DIFFERENT on stdout'

# --- convert ------------------------------------------------------------
# identity FILE
identity() { "$kvtrace" info -i "$1" | sed -n 's/^identity *//p'; }

expect 0 convert -q "$real" --dtype bf16 -o "$dir/h.safetensors"
grep -q 'outputs of 4 layers left out' "$dir/err" || fail 'o is not told'
expect 0 info "$dir/h.safetensors"
shows '^numbers +BF16;'
shows 'outputs in 0,'
expect 0 check "$dir/h.safetensors"
# There and back is exact, so that rounding again changes nothing.
expect 0 convert -q "$dir/h.safetensors" -d F32 -o "$dir/w.safetensors"
expect 0 convert -q "$dir/w.safetensors" -d BF16 -o "$dir/again.safetensors"
grep -q ' 0 numbers were rounded' "$dir/err" || fail 'an exact one rounds'
[ "$(identity "$dir/h.safetensors")" = "$(identity \
  "$dir/again.safetensors")" ] || fail 'there and back'
expect 0 convert -q "$real" -d f32 -o "$dir/same.safetensors"
[ "$(identity "$real")" = "$(identity "$dir/same.safetensors")" ] ||
  fail 'converted to its own type it is another trace'
expect 2 convert -q "$dir/h.safetensors" -d f32 -o "$dir/h.safetensors"
says 'would write over'
expect 2 convert "$real" -d f64 -o "$dir/x.safetensors"
says '--dtype f64 is none of F16|BF16|F32'
expect 2 convert "$real" -o "$dir/x.safetensors"
says 'convert needs --dtype TYPE'
expect 2 convert "$real" -d f16
says 'convert needs --out FILE'
patch large.safetensors $((data + 128 + 12)) '\000\044\164\111'
expect 3 convert -q "$dir/large.safetensors" -d f16 -o "$dir/x.safetensors"
says 'layers.0.k holds 1e+06 at [0, 1, 3], which is beyond F16'
expect 0 convert -q "$dir/large.safetensors" -d bf16 -o "$dir/x.safetensors"
expect 3 convert -q "$dir/nan.safetensors" -d bf16 -o "$dir/y.safetensors"
says 'holds NaN or Inf'
(ulimit -f 64 && expect 4 convert -q "$real" -d bf16 -o "$dir/y.safetensors" &&
  says 'nothing was written' && exit "$bad") || bad=$((bad + 1))
find "$dir" -name '*y.safetensors*' | grep -q . && fail 'something was left'

# --- sparse prefill -----------------------------------------------------
# A command of the Python package, which needs numpy.
for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import numpy' 2>/dev/null || continue
  expect 0 prefill -b 16 "$src/traces/tiny/haystack_8.safetensors"
  shows '^ +1  mean +[0-9.]+%( +0\.[0-9]{4}){3}$'
  expect 0 prefill -b 465 "$src/traces/tiny/haystack_8.safetensors"
  shows '^  all  mean   100.0%( +1\.0000){3}$'
  expect 0 prefill -f json -b 32 "$real"
  [ "$(grep -c '"needed": ' "$dir/out")" = 32 ] || fail 'not 32 heads'
  expect 0 prefill -f json -b 32 -m 1 "$real"
  [ "$(grep -c '"mass": ' "$dir/out")" = $((8 * 15)) ] || fail 'no map in JSON'
  expect 2 prefill -m 1 "$real"
  says 'give --format csv or json'
  expect 2 prefill -f csv -m 4 "$real"
  says 'layer 4 is not recorded'
  expect 2 prefill -b 0 "$real"
  says 'block: 0 is no whole number from 1 to'
  expect 3 prefill "$dir/nan.safetensors"
  says 'tensor layers.0.k holds NaN or Inf'
  expect 0 slim -q "$real" --rows last=9,decode -o "$dir/few.safetensors"
  expect 3 prefill -f json "$dir/few.safetensors"
  says "layer 0 has query rows of 9 of the prompt's 137 tokens"
  expect 0 synth -q -o "$dir/bounded.safetensors" --layers 2 --dtype F32 \
    -t 200 -p 160 --window 48 --full-every 2 --sinks --softcap 30
  PYTHONPATH=$src/sim/python ran 0 "$python" \
    "$src/tests/python/check_prefill.py" "$dir" "$dir/bounded.safetensors"
  break
done

# --- the command line ---------------------------------------------------
expect 2
says 'no command'
expect 2 chek "$real"
says 'did you mean check?'
expect 2 info --formt json "$real"
says 'did you mean --format?'
expect 2 info --format xml "$real"
says 'is none of table|json'
expect 2 info
says 'info needs TRACE'
expect 2 synth --tokens 10
says 'synth needs --out FILE'
expect 2 synth -o "$dir/s" --like llama-3.1-8
says 'did you mean llama-3.1-8b?'
expect 2 synth -o "$dir/s" --tokens 10x
says '--tokens 10x is not a number from 1 to 8388608'
expect 2 synth -o "$dir/s" --seed -1
says '--seed -1 is not a whole number'
expect 2 synth -o "$dir/s" --heads 6
says 'do not divide'
expect 2 synth -o "$dir/s" --prompt-len 2000
says '--prompt-len 2000 is more than the 1024 of --tokens'
expect 2 synth -o /dev/null
says '/dev/null'
expect 2 synth -o -
says 'goes to a file'
expect 0 --help
[ "$(sed -n 3p "$dir/out")" = Examples: ] ||
  fail 'help without examples'
expect 0 synth --help
shows '--prompt-len N'
expect 0 --version
shows '^kvtrace [0-9]'

# complete WORD...: what bash completes after these.
complete() {
  bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
    _kvtrace 2>/dev/null; echo "${COMPREPLY[@]}"' - \
    <("$kvtrace" --completion) kvtrace "$@"
}
checks=$((checks + 5))
: >"$dir/err"
[ "$(complete sy)" = synth ] || fail 'completion of a verb'
[ "$(complete synth --like mi)" = mistral-7b ] || fail 'completion: a model'
[ "$(complete info --id)" = --identity ] || fail 'completion: an option'
[ "$(complete info "$dir/na")" = "$dir/nan.safetensors" ] ||
  fail 'completion of a trace is no file'
[ "$(complete convert --dtype B)" = BF16 ] || fail 'completion: a type'

# --- synth --------------------------------------------------------------
checks=$((checks + 1))
expect 0 synth -o "$dir/a.safetensors" -t 200 -s 7 --output
[ ! -s "$dir/out" ] || fail 'synth printed to stdout'
OMP_NUM_THREADS=1 KVREPLAY_ISA=portable \
  expect 0 synth -o "$dir/b.safetensors" -t 200 -s 7 --output
cmp "$dir/a.safetensors" "$dir/b.safetensors" || fail 'synth differs'
expect 0 check "$dir/a.safetensors"
expect 2 synth -o "$dir/c.safetensors" --record 4
expect 0 synth -o "$dir/c.safetensors" --record 1,3 -t 50
expect 0 info "$dir/c.safetensors"
shows '2 of 4 recorded'
expect 3 info "$dir/b"
before=$(ls -A "$dir" | wc -l)
(ulimit -f 64 && expect 4 synth -o "$dir/full.safetensors" -t 2000 &&
  says 'nothing was written' && exit "$bad") || bad=$((bad + 1))
[ "$(ls -A "$dir" | wc -l)" -eq "$before" ] || fail 'something was left'
expect 4 synth -o "$dir/big" --layers 16 --heads 65536 --kv-heads 65536 \
  --dim 1024 -t 8388608
says 'needs 5.404e+07 GB and its disk has'
[ "$(ls -A "$dir" | wc -l)" -eq "$before" ] || fail 'something was left'
checks=$((checks + 1))
"$kvtrace" synth -o "$dir/stop.safetensors" -t 1000000 2>"$dir/err" &
sleep 0.3
kill -TERM $!
wait $!
[ $? -eq 130 ] || fail 'an interrupted synth did not exit with 130'
[ "$(ls -A "$dir" | wc -l)" -eq "$before" ] || fail 'something was left'
if [ -w /dev/full ]; then
  checks=$((checks + 1))
  "$kvtrace" info "$real" >/dev/full 2>"$dir/err"
  [ $? -eq 4 ] || fail 'a lost standard output went unnoticed'
fi

concluded
