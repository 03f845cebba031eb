#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# All that is asked of a device, in one command of at most twelve minutes:
#
#   device.sh [-B emu] [-o FOLDER] [-s STAGES] [-p TIMES]
#       asks it; the answers go to FOLDER (default: device-run). STAGES: some of
#       device,quick,digests,database,again,pages,cases,shapes,laws,memcheck,
#       racecheck,initcheck,attend,top,compress,kivi,compact,paged,regular,
#       delta,replay (default: all, in this order). Each has as many TIMES its
#       limit as -p says: stages that check may run side by side, each device.sh
#       with a folder of its own
#   device.sh --pack FOLDER
#       makes FOLDER from a build: what the command above needs on a machine
#       that has bash, libc and a driver. There: bash FOLDER/tests/device.sh.
#       Under 100 MB of a build for one architecture --without-blis, a library
#       that no stage calls
#
# What is right comes before what is fast: first the machine and its driver, the
# kernels beside plain loops, every method's digests, as recorded and twice the
# same; then compute-sanitizer; then a theme of the benchmark at a time, the
# longest last, so that a machine that is taken away has said the most.
#
# FOLDER gets summary.tsv (stage, verdict, seconds), the output of each stage,
# device.txt (machine and driver), a CSV of each theme, and device.db, which
# `kvreport merge` takes. compute-sanitizer comes with the CUDA toolkit, and
# --pack takes it along where it finds it; SANITIZER names another place. A
# verdict is passed, failed, or owed where a stage could not be asked or did not
# end in its time. Exit code: 1 something failed, 4 nothing failed but something
# is owed. -B emu rehearses it on the executor, which is given four times as
# long.
. "$(dirname "$0")/replays.sh"
small=$src/traces/tiny/retrieval_8_small.safetensors
all=device,quick,digests,database,again,pages,cases,shapes,laws,memcheck
all+=,racecheck,initcheck,attend,top,compress,kivi,compact,paged,regular,delta
all+=,replay
# The programs of tests that ask the backend of KV_TEST_BACKEND.
programs='methods places layers segments whims laws'
backend=cuda out=device-run pack='' stages=$all patience=1
usage="usage: device.sh [-B BACKEND] [-o FOLDER] [-s STAGES] [-p TIMES]
       device.sh --pack FOLDER
STAGES: $all"

while [ $# -gt 0 ]; do
  case $1 in
  -B | -o | -s | -p | --pack)
    [ $# -gt 1 ] || { echo "$usage" >&2 && exit 2; }
    ;;&
  -B) backend=$2 ;;
  -o) out=$2 ;;
  -s) stages=$2 ;;
  -p) patience=$2 ;;
  --pack) pack=$2 ;;
  --help) echo "$usage" && exit 0 ;;
  *) echo "$usage" >&2 && exit 2 ;;
  esac
  shift 2
done

# ---- a folder that needs no build -----------------------------------------

# copied FROM NAME...: files of the folder FROM, at the same names.
copied() {
  local from=$1 name
  shift
  for name in "$@"; do
    mkdir -p "$pack/$(dirname "$name")" && cp -L "$from/$name" "$pack/$name" ||
      exit 4
  done
}

# The libraries that the programs ask for and that are not libc's.
libraries() {
  mkdir -p "$pack/lib"
  ldd "$pack/sim/kvreplay" "$pack/traces/kvtrace" "$pack"/tests/check_laws |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -vE '/(libc|libm|libdl|libpthread|librt)[.]so' | sort -u |
    while read -r file; do cp -L "$file" "$pack/lib/"; done
}

# The folder of compute-sanitizer, which it needs whole; nothing: not here.
sanitizer_folder() {
  local name=compute-sanitizer nvcc tool
  nvcc=$(command -v nvcc || echo /none)
  for tool in "${SANITIZER:-}" "$(command -v $name)" \
    "${nvcc%/*}/../$name/$name" "/usr/lib/nvidia-cuda-toolkit/$name/$name"; do
    tool=$(readlink -f "$tool" 2>/dev/null) || continue
    [ -e "${tool%/*}/libsanitizer-collection.so" ] || continue
    echo "${tool%/*}" && return
  done
}

packed() {
  local optional sanitizer name
  copied "$top" sim/kvreplay traces/kvtrace
  for name in $programs; do copied "$top" "tests/check_$name"; done
  for optional in gpu/cuda.so tests/bench/device; do
    [ ! -e "$top/$optional" ] || copied "$top" "$optional"
  done
  copied "$src" tests/device.sh tests/golden.sh tests/golden.tsv \
    tests/check_backends.sh tests/replays.sh tests/sh.sh ref/ground/arith.h \
    traces/tiny/retrieval_8_small.safetensors \
    traces/tiny/retrieval_8_small.f32.safetensors \
    traces/tiny/text_400.safetensors \
    traces/smollm2/smollm2_needle.safetensors
  for name in "$src"/traces/tiny/assets/* "$src"/tests/methods/*.txt; do
    copied "$src" "${name#"$src"/}"
  done
  sanitizer=$(sanitizer_folder)
  if [ -n "$sanitizer" ]; then
    mkdir -p "$pack/compute-sanitizer"
    find "$sanitizer" -maxdepth 1 -type f \
      -exec cp {} "$pack/compute-sanitizer" \;
  else
    echo 'device.sh: no compute-sanitizer here: it is not in the folder' >&2
  fi
  libraries
  strip --strip-debug "$pack/sim/kvreplay" "$pack/traces/kvtrace" \
    "$pack"/tests/check_*[!.]?? "$pack/tests/bench/device" 2>/dev/null
  if [ ! -e "$pack/gpu/cuda.so" ]; then
    echo 'device.sh: no gpu/cuda.so in this build: the executor only' >&2
  elif ! grep -qs 'code=sm_' "$top/gpu/Makefile"; then
    echo 'device.sh: cuda.so has PTX alone, which a driver translates first;'
    echo '  for code of a device: ../configure --with-cuda-arch=major'
  fi >&2
  echo "device.sh: $pack, $(du -sm "$pack" | cut -f 1) MB"
}

[ -z "$pack" ] || {
  packed
  exit
}

# ---- the stages -----------------------------------------------------------

export LD_LIBRARY_PATH=$src/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export KV_TEST_BACKEND=$backend XDG_CACHE_HOME=$tmp/cache
mkdir -p "$out" || exit 4
summary=$out/summary.tsv
[ "$backend" != emu ] || patience=$((4 * patience))
printf 'stage\tverdict\tseconds\n' >"$summary"

# verdict STAGE WORD [WHY]: a line on the screen and one in the summary.
verdict() {
  printf '%-10s %-7s %4d s  %s\n' "$1" "$2" "$SECONDS" "${3-}"
  printf '%s\t%s\t%d\n' "$1" "$2" "$SECONDS" >>"$summary"
}

# stage NAME LIMIT COMMAND...: at most LIMIT seconds of it.
stage() {
  local name=$1 limit=$(($2 * patience)) rc
  shift 2
  [[ ,$stages, = *,$name,* ]] || return 0
  SECONDS=0
  timeout -k 5 "$limit" "$@" >"$out/$name.txt" 2>&1
  rc=$?
  case $rc in
  0) verdict "$name" passed "$(tail -n 1 "$out/$name.txt" | cut -c 1-50)" ;;
  4 | 77) verdict "$name" owed "$(tail -n 1 "$out/$name.txt")" ;;
  124 | 137) verdict "$name" owed "not done in $limit s" ;;
  *)
    verdict "$name" failed "exit code $rc; the end of $out/$name.txt:"
    tail -n 8 "$out/$name.txt" | sed 's/^/  /'
    ;;
  esac
}

machine() {
  nvidia-smi 2>/dev/null | head -n 20
  uname -srm
  nvidia-smi --query-gpu=name,driver_version,memory.total \
    --format=csv,noheader 2>/dev/null || echo 'no nvidia-smi'
  "$kvreplay" --version
  [ "$backend" = emu ] ||
    "$kvreplay" check "$small" -m window -b 25% -q -B "ref,$backend"
}

# Rows by the reference and by the device, which confirm each other.
database() {
  local by
  for by in ref "$backend"; do
    "$kvreplay" run "$small" -m all -b 25% -q -B "$by" --db "$out/device.db" ||
      return
  done
}

# Both backends, from the start: a difference that comes and goes is one.
again() {
  "$kvreplay" check "$small" -m all -b 40% -q -B "ref,$backend"
}

# The worked cases of every method, compressions by place, and what may not
# depend on how a replay is cut.
cases() {
  local name rc=0
  for name in ${programs% *}; do
    echo "---- check_$name"
    top_srcdir=$src "$top/tests/check_$name" || rc=1
  done
  return "$rc"
}

# Rows in unified pages: the same digests.
pages() {
  "$kvreplay" check "$small" -m "$coded" -b 30% --pages -q -B "ref,$backend"
}

# Half of the methods each, side by side.
laws() {
  local half rc=0
  KV_HALF=0 "$top/tests/check_laws" >"$out/laws.half" 2>&1 &
  half=$!
  KV_HALF=1 "$top/tests/check_laws" || rc=1
  wait "$half" || rc=1
  cat "$out/laws.half"
  return "$rc"
}

# A layer of two chunks and twelve steps: a sanitizer takes a millisecond a
# start of a kernel, and there are 28 methods.
sanitized() {
  local tool=${SANITIZER:-$src/compute-sanitizer/compute-sanitizer}
  local trace=$out/$1.safetensors rc=0
  [ -x "$tool" ] || tool=compute-sanitizer
  [ "$backend" != emu ] || { echo 'the executor is no device' && return 77; }
  command -v "$tool" >/dev/null || { echo "no $tool here" && return 77; }
  "$kvtrace" synth -o "$trace" --layers 1 --heads 4 --kv-heads 2 --dim 40 \
    --dtype F16 -t 300 -p 288 -s 7 >/dev/null 2>&1 || return
  set -- "$tool" --tool "$1" --error-exitcode 1 "$kvreplay" run "$trace" -q \
    -B "$backend" -f jsonl
  "$@" -m all -b 25% && "$@" -m "$coded" -b 30% --layout unified || rc=1
  rm "$trace"
  return "$rc"
}

# benchmark NAME [ARGUMENT...]: what it says goes to NAME.csv, too.
benchmark() {
  local csv=$out/$1.csv
  shift
  [ "$backend" != emu ] || { echo 'the executor is no device' && return 77; }
  [ -x "$top/tests/bench/device" ] || { echo 'was not packed' && return 77; }
  "$top/tests/bench/device" --csv "$csv" "$@"
}

# Limits in seconds, 720 in all.
coded=leankv,leankv:variant=paper,snapkv+int4,dense+k8v4:residual=32
export -f machine database again cases pages laws sanitized benchmark
export kvreplay kvtrace small backend out top src coded programs
stage device 20 bash -c machine
stage quick 30 bash -c 'benchmark quick --quick'
stage digests 110 bash "$src/tests/golden.sh"
stage database 30 bash -c database
stage again 30 bash -c again
stage pages 10 bash -c pages
stage cases 60 bash -c cases
stage shapes 60 bash "$src/tests/check_backends.sh"
stage laws 80 bash -c laws
for tool in memcheck racecheck initcheck; do
  stage "$tool" 40 bash -c "sanitized $tool"
done
for theme in attend top compress kivi compact paged regular delta; do
  stage "$theme" 12 bash -c "benchmark $theme --theme $theme"
done
stage replay 74 bash -c 'benchmark replay --theme replay --phases'

if grep -q '	failed	' "$summary"; then
  exit 1
fi
if grep -q '	owed	' "$summary"; then
  echo 'owed: what is marked so above was not asked of this machine'
  exit 4
fi
echo "all of it is right on this device: $out"
