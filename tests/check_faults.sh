#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Laws of bad days. Whatever fails - memory, disk, the file that is read, the
# process itself - a program ends with its exit code and one line, writes
# nothing by halves, and what it said was done is kept; a repeated command
# completes. And whatever mood the process is in, the bits are the same.
#
# Usage: check_faults.sh [SECTION...]: memory disk cut killed resumed
# stopped mood threads.
# Environment: KV_BIG=1: a hundred allocations a command and ten kills
# (minutes); else sixty and three.
. "$(dirname "$0")/faults.sh"

# ---- memory ----------------------------------------------------------------

after_repeat() {
  whole "$tmp/again.db" "$2"
  [ "$(wc -l <"$tmp/rows")" = 2 ] || fail "$2: rows lost"
}

# The one file a run may leave, whole or not there.
after_file() {
  local left
  left=$(find "$tmp/to" -mindepth 1 ! -name result)
  [ -z "$left" ] || fail "$2: left behind: $left"
  [ "$1" = 0 ] || [ ! -e "$tmp/to/result" ] || fail "$2: a half result"
  [ "$1" != 0 ] || [ ! -e "$tmp/to/want" ] ||
    cmp -s "$tmp/to/result" "$tmp/to/want" || fail "$2: another result"
  rm -rf "$tmp/to"
  mkdir "$tmp/to"
}

# The one folder, as $tmp/folder or not there.
after_folder() {
  local left
  left=$(find "$tmp/to" -mindepth 1 -maxdepth 1 ! -name result)
  [ -z "$left" ] || fail "$2: left behind: $left"
  if [ "$1" = 0 ]; then
    diff -rq "$tmp/folder" "$tmp/to/result" >"$tmp/err" ||
      fail "$2: another folder"
  else
    [ ! -e "$tmp/to/result" ] || fail "$2: a half folder"
  fi
  rm -rf "$tmp/to"
  mkdir "$tmp/to"
}

# Sets `vectors`, to which only -o is wanting, and makes $tmp/folder with it.
vectors_of() {
  vectors=("$kvreplay" vectors "$small" --prompt-len 298 --layers 2
    --steps 298,first,last "$@")
  rm -rf "$tmp/folder"
  "${vectors[@]}" -o "$tmp/folder" 2>"$tmp/err" || fail "vectors $*: exit $?"
}

# Chunks of two ranks in $tmp/dump, for `kvtrace pack`.
dumped() {
  python3 "$src/tests/python/check_pack.py" --cut "$small" "$tmp/dump" 2 &&
    pack=("$kvtrace" pack -q "$tmp/dump" -o "$tmp/to/result")
}
slim=("$kvtrace" slim -q "$small" --rows last=4,decode -o "$tmp/to/result")

check_memory() {
  local run=("$kvreplay" run "$small" -q -j 1 -p 298 -f jsonl) spec
  local check=("$kvreplay" check "$small" -q --jobs 1 --prompt-len 302)
  mkdir -p "$tmp/to"
  sweep 'kvtrace info' nothing "$kvtrace" info --format json "$small"
  sweep 'kvtrace check' nothing OMP_NUM_THREADS=1 "$kvtrace" check \
    --format json "$small"
  sweep 'kvtrace synth' after_file OMP_NUM_THREADS=1 "$kvtrace" synth \
    -o "$tmp/to/result" -t 24 --output
  ! dumped || sweep 'kvtrace pack' after_file "${pack[@]}"
  sweep 'kvtrace slim' after_file OMP_NUM_THREADS=1 "${slim[@]}" --layers 0-1
  sweep 'kvtrace plan' nothing "$kvtrace" plan "$tiny/model" --format json
  sweep 'kvreplay run' nothing "${run[@]}" -b 40 \
    -m dense,h2o,kivi:bits=2,zsmerge,quest,adakv,tova,oracle-topk
  sweep 'kvreplay run, a budget in bytes' nothing "${run[@]}" \
    -m window -b mean:30% --layout slots,unified
  echo '[40, 20, "9%", "9%"]' >"$tmp/budgets"
  sweep 'kvreplay run, a budget a layer' nothing "${run[@]}" \
    -m snapkv,window:budget=40/20/9/9 -b "layers:$tmp/budgets"
  "${run[@]}" -m window -b 40 --decisions "$tmp/kept" >/dev/null
  sweep 'kvreplay run, a file' nothing "${run[@]}" \
    -m "replay:file=$(echo "$tmp"/kept/*)" --views "$tmp/to/views"
  rm -f "$tmp/to/views"
  sweep 'kvreplay run --db' after_run "${run[@]}" -m dense,window -b 40 \
    --db "$tmp/f.db"
  "${run[@]}" -m dense,window -b 40 --db "$tmp/again.db" >/dev/null
  sweep 'kvreplay run --db, again' after_repeat "${run[@]}" \
    -m dense,window -b 40 --db "$tmp/again.db"
  before_part "${run[@]}"
  sweep 'kvreplay run --db, layers kept' after_part KVREPLAY_KEEP=0 \
    "${run[@]}" -m dense,window -b 40 --db "$tmp/f.db"
  went_on memory
  sweep 'kvreplay tune' nothing "$kvreplay" tune "$small" -q --jobs 1 -p 302 \
    -m snapkv -s window=2:8:2 -b 40 --at-most kr=0.5 --least output_error \
    --hold-out "$tiny/retrieval_8_small.f32.safetensors" -f jsonl
  sweep 'kvreplay tune --db' after_run "$kvreplay" tune "$small" -q --jobs 1 \
    -p 302 -m kivi -s bits=2:4 --least kr --db "$tmp/f.db"
  sweep 'kvreplay verify' after_repeat OMP_NUM_THREADS=1 "$kvreplay" \
    verify "$tmp/again.db"
  # The same pass again, and on the executor where there is one.
  sweep 'kvreplay check' nothing "${check[@]}" -m dense,kivi -b 40 \
    -B ref,ref --format jsonl
  sweep 'kvreplay check --db' after_run "${check[@]}" -m dense,window -b 40 \
    -B ref,ref --db "$tmp/f.db" --format junit
  if "${check[@]}" -m window -b 40 -B ref,emu >/dev/null 2>&1; then
    sweep 'kvreplay check, emu' nothing "${check[@]}" -m snapkv,quest -b 40 \
      -B ref,emu --format jsonl
  fi
  sweep 'kvreplay run --stored' after_file "${run[@]}" -m zsmerge -b 40 \
    --stored "$tmp/to/result"
  sweep 'kvreplay run --selections' after_file "${run[@]}" -m h2o -b 40 \
    --selections "$tmp/to/result"
  for spec in h2o zsmerge kivi:group=8:residual=16; do
    vectors_of -m "$spec" -b 40
    sweep "kvreplay vectors -m $spec" after_folder "${vectors[@]}" \
      -o "$tmp/to/result"
  done
  vectors_of -m quest:skip=0 -b 40 -f raw
  sweep 'kvreplay vectors, raw' after_folder "${vectors[@]}" \
    -o "$tmp/to/result"
  "${run[@]}" -m snapkv:window=4,snapkv:window=8 -b 40 \
    --db "$tmp/again.db" >/dev/null
  sweep 'kvreport table' nothing "$kvreport" table "$tmp/again.db"
  sweep 'kvreport export' nothing "$kvreport" table --format json \
    "$tmp/again.db"
  sweep 'kvreport html' after_file "$kvreport" html "$tmp/again.db" \
    -o "$tmp/to/result"
  "$kvreplay" run "$small" -q -m tova -b 20 --db "$tmp/other.db" >/dev/null
  sweep 'kvreport merge' after_file "$kvreport" merge "$tmp/to/result" \
    "$tmp/again.db" "$tmp/other.db"
}

# ---- disk ------------------------------------------------------------------

# The data of a trace is compared with what is free before a file is begun.
room() {
  local synth=("$kvtrace" synth -o "$tmp/to/result" -t 99) bytes
  checks=$((checks + 2))
  "${synth[@]}" 2>/dev/null
  bytes=$(($(wc -c <"$tmp/to/result") - 8 -
    $(od -An -td8 -N8 "$tmp/to/result")))
  KV_FULL_LEFT=$bytes preloaded faildisk "${synth[@]}" || fail "room: exit $?"
  after_file 0 'kvtrace synth in just enough room'
  KV_FULL_LEFT=$((bytes - 1)) preloaded faildisk "${synth[@]}"
  [ $? = 4 ] || fail 'room: one byte too few: not exit 4'
  one_line 'room: one byte too few'
  grep -q 'needs .* GB but its disk has' "$tmp/err" || fail 'room: the sentence'
  after_file 4 'kvtrace synth without room'
}

check_disk() {
  local run=("$kvreplay" run "$small" -q --prompt-len 298) f
  local check=("$kvreplay" check "$small" -q --prompt-len 302 -B ref,ref)
  mkdir -p "$tmp/to"
  fill 'kvreplay run --db' after_run "${run[@]}" -m dense,window -b 40 \
    --db "$tmp/f.db"
  before_part "${run[@]}"
  fill 'kvreplay run --db, layers kept' after_part KVREPLAY_KEEP=0 \
    "${run[@]}" -m dense,window -b 40 --db "$tmp/f.db"
  went_on disk
  fill 'kvreplay check --db' after_run "${check[@]}" -m dense,window -b 40 \
    --db "$tmp/f.db"
  fill 'kvreplay run --stored' after_file "${run[@]}" -m dense \
    --stored "$tmp/to/result"
  fill 'kvreplay run --outputs' after_file "${run[@]}" -m dense \
    --outputs "$tmp/to/result"
  room
  fill 'kvtrace synth' after_file "$kvtrace" synth -o "$tmp/to/result" -t 99
  ! dumped || fill 'kvtrace pack' after_file "${pack[@]}"
  fill 'kvtrace slim' after_file "${slim[@]}"
  for f in safetensors raw; do
    vectors_of -m quest:skip=0 -b 40 -f $f
    fill "kvreplay vectors -f $f" after_folder "${vectors[@]}" \
      -o "$tmp/to/result"
    limited 4 "${vectors[@]}" -o "$tmp/to/result"
    after_folder 4 "vectors, $f"
  done
  # Room for all but the manifest.
  kib=40 limited 4 "${vectors[@]}" -o "$tmp/to/result"
  grep -q manifest.json "$tmp/err" || fail 'vectors: not its manifest'
  after_folder 4 'vectors, the manifest'
  for f in selections views stored outputs; do
    limited 4 "${run[@]}" -m dense "--$f" "$tmp/to/result"
    after_file 4 "--$f"
  done
  "${run[@]}" -m dense,window -b 40 --db "$tmp/kept.db" >/dev/null
  echo kept >"$tmp/to/result"
  limited 4 "$kvreport" html "$tmp/kept.db" -o "$tmp/to/result"
  [ "$(cat "$tmp/to/result")" = kept ] || fail 'html: the old page is lost'
  rm -f "$tmp/to/result"
  after_file 4 'kvreport html'
  limited 4 "${run[@]}" -m h2o -b 40 --db "$tmp/kept.db"
  limited 4 "${check[@]}" -m h2o -b 40 --db "$tmp/kept.db"
  whole "$tmp/kept.db" 'a limit on the database'
  [ "$(wc -l <"$tmp/rows")" = 2 ] || fail 'earlier rows are not kept'
  [ -c /dev/full ] || return
  full "${run[@]}" -m dense
  full "${run[@]}" -m dense --format jsonl
  for f in table json jsonl junit; do
    full "${check[@]}" -m dense --format $f
  done
  full "$kvtrace" info "$small"
  full "$kvtrace" check --format json "$small"
  full "$kvreport" table "$tmp/kept.db"
  full "$kvreport" html "$tmp/kept.db" -o /dev/full
  [ -c /dev/full ] || fail 'html removed a device'
}

# ---- a file that shrinks ---------------------------------------------------

# begun: waits for the first row on $tmp/out
begun() {
  local i=0
  while [ ! -s "$tmp/out" ] && [ $i -lt 600 ]; do
    sleep 0.05
    i=$((i + 1))
  done
}

check_cut() {
  local rc size i
  for i in 1 2 3; do
    rm -f "$tmp"/cut.db* "$tmp/out"
    cp "$tiny/haystack_8.safetensors" "$tmp/cut.safetensors"
    chmod u+w "$tmp/cut.safetensors"
    size=$((300000 + i * 1000000))
    "$kvreplay" run "$small" "$tmp/cut.safetensors" -q -m all -b 20% \
      --db "$tmp/cut.db" --format jsonl >"$tmp/out" 2>"$tmp/err" &
    begun
    truncate -s $size "$tmp/cut.safetensors"
    wait $!
    rc=$? checks=$((checks + 1))
    [ $rc = 3 ] || fail "cut to $size bytes: exit $rc, not 3"
    one_line "cut to $size bytes"
    grep -qF "$tmp/cut.safetensors" "$tmp/err" || fail 'cut: not its name'
    whole "$tmp/cut.db" "cut to $size bytes"
    [ "$(wc -l <"$tmp/rows")" -gt 9 ] || fail 'cut: earlier rows are lost'
    ! grep -q ' cut ' "$tmp/rows" || fail 'cut: a row of a damaged file'
  done
}

# ---- the process dies, or is asked to --------------------------------------

# In a subshell, whose process it becomes.
sweep_all() {
  exec "$kvreplay" run "$small" "$tiny/retrieval_16.safetensors" \
    "$tiny/retrieval_8_small.f32.safetensors" "$tiny/multiturn_11.safetensors" \
    -q -m dense,window,snapkv -b 10% --db "$tmp/$1.db" --format jsonl
}

# Each whole line of $tmp/out is a row of the database $1.
stored() {
  local journal
  whole "$1" "$2"
  # A line that was cut by the kill was not printed.
  sed '$!b; /}$/!d' "$tmp/out" | grep -oE '"journal": "[0-9a-f]{64}"' |
    grep -oE '[0-9a-f]{64}' >"$tmp/journals"
  while read -r journal; do
    checks=$((checks + 1))
    grep -q "$journal" "$tmp/rows" || fail "$2: a printed row is not stored"
  done <"$tmp/journals"
}

check_killed() {
  local i hit=0 rc
  (sweep_all one) >"$tmp/want" 2>"$tmp/err" || fail 'the sweep'
  whole "$tmp/one.db" 'without a kill'
  mv "$tmp/rows" "$tmp/rows.one"
  for ((i = 0; i < kills; i++)); do
    rm -f "$tmp/out"
    sweep_all two >"$tmp/out" 2>"$tmp/err" &
    sleep "0.$((RANDOM % 9))$((RANDOM % 9))"
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
    rc=$?
    [ $rc != 137 ] || hit=$((hit + 1))
    stored "$tmp/two.db" "kill $i"
    # Too late for a kill: the next one has something to end again.
    [ $rc = 137 ] || rm -f "$tmp"/two.db*
  done
  echo "killed: $hit of $kills while they ran"
  (sweep_all two) >"$tmp/out" 2>"$tmp/err" || fail 'a repeat after kills'
  whole "$tmp/two.db" 'after all kills'
  same_rows "$tmp/rows.one"
  plain "$tmp/out" | sed -E 's/"(threads|isa)": [^,}]*//g' |
    cmp -s - <(plain "$tmp/want" | sed -E 's/"(threads|isa)": [^,}]*//g') ||
    fail 'kills changed the table'
}

# One trace of many layers, killed again and again.
long_trace() {
  KVREPLAY_KEEP=${2-0} exec "$kvreplay" run "$tmp/long.safetensors" -q \
    -m dense,h2o,kivi,snapkv -b 10%,20% --twice --db "$tmp/$1.db" --format jsonl
}

check_resumed() {
  local i hit=0 rc left=0 same='s/"(threads|isa)": [^,}]*//g'
  "$kvtrace" synth -o "$tmp/long.safetensors" --layers 12 --heads 4 \
    --kv-heads 2 --dim 32 -t 600 -p 560 2>"$tmp/err" || fail 'the trace'
  (long_trace whole 5) >"$tmp/want" 2>"$tmp/err" || fail 'the long trace'
  whole "$tmp/whole.db" 'one trace, without a kill'
  mv "$tmp/rows" "$tmp/rows.whole"
  for ((i = 0; i < kills; i++)); do
    long_trace resumed >"$tmp/out" 2>"$tmp/err" &
    sleep "0.$((3 + RANDOM % 7))$((RANDOM % 9))"
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
    rc=$?
    [ $rc != 137 ] || hit=$((hit + 1))
    ! grep -q 'are kept from an earlier run' "$tmp/err" || left=$((left + 1))
    whole "$tmp/resumed.db" "kill $i of one trace"
  done
  echo "killed: $hit of $kills in one trace, of which $left had gone on"
  (long_trace resumed) >"$tmp/out" 2>"$tmp/err" || fail 'one trace, after kills'
  whole "$tmp/resumed.db" 'one trace, after kills'
  same_rows "$tmp/rows.whole"
  plain "$tmp/out" | sed -E "$same" |
    cmp -s - <(plain "$tmp/want" | sed -E "$same") ||
    fail 'kills changed the table of one trace'
}

check_stopped() {
  local signal rc
  for signal in INT TERM; do
    rm -f "$tmp"/stop.db* "$tmp/out"
    # Bash makes background jobs deaf to SIGINT; env hears it again.
    env --default-signal=INT "$kvreplay" run "$small" \
      "$tiny/haystack_8.safetensors" -q -m all -b 20% \
      --db "$tmp/stop.db" --format jsonl >"$tmp/out" 2>"$tmp/err" &
    begun
    kill -$signal $!
    wait $!
    rc=$? checks=$((checks + 1))
    [ $rc = 130 ] || fail "SIG$signal: exit $rc, not 130"
    one_line "SIG$signal"
    grep -q 'rows of 1 of 2 traces are stored, and all finished layers' \
      "$tmp/err" || fail "SIG$signal: does not say what is kept"
    stored "$tmp/stop.db" "SIG$signal"
    [ "$(wc -l <"$tmp/journals")" -gt 9 ] || fail "SIG$signal: rows lost"
  done
}

# ---- moods -----------------------------------------------------------------

digests() {
  grep -oE '"(journal|state|output)": "[0-9a-f]{64}"' "$tmp/out"
}

check_mood() {
  local run=("$kvreplay" run "$small" -q -m all -b 20% --format jsonl) mood
  "${run[@]}" >"$tmp/out" 2>"$tmp/err" || fail 'all methods'
  digests >"$tmp/want"
  plain "$tmp/out" >"$tmp/text"
  [ "$(wc -l <"$tmp/want")" -gt 30 ] || fail 'no digests'
  if command -v localedef >/dev/null; then
    printf '%s\n' LC_NUMERIC 'decimal_point "<U002C>"' \
      'thousands_sep "<U002E>"' 'grouping 3' 'END LC_NUMERIC' >"$tmp/comma"
    localedef -c -i "$tmp/comma" "$tmp/xx_XX" >/dev/null 2>&1
  fi
  for mood in flush up locale; do
    preloaded mood KV_MOOD=$mood "KV_MOOD_SEEN=$tmp/seen" "LOCPATH=$tmp" \
      LC_ALL=xx_XX "${run[@]}" || fail "$mood: exit $?"
    checks=$((checks + 1))
    digests | cmp -s - "$tmp/want" || fail "$mood: other digests"
    plain "$tmp/out" | cmp -s - "$tmp/text" || fail "$mood: other numbers"
    [ $mood != locale ] || [ "$(cat "$tmp/seen")" = 1,5 ] ||
      echo 'mood: no locale with a decimal comma could be made'
  done
}

# ---- no more threads -------------------------------------------------------

# Whatever the limit, the same numbers by fewer threads, and a sentence.
check_threads() {
  local run=("$kvreplay" run "$small" -q -p 302 -m h2o,kivi -b 40 -j 6
    --format jsonl) most_threads
  "${run[@]}" >"$tmp/out" 2>"$tmp/err" || fail 'six threads'
  digests >"$tmp/want"
  for most_threads in 0 1 3; do
    KV_THREADS=$most_threads preloaded failthread "${run[@]}" ||
      fail "$most_threads threads more: exit $?"
    checks=$((checks + 3))
    one_line "$most_threads threads more"
    grep -q "only [1-4] of 6 threads" "$tmp/err" ||
      fail "$most_threads threads more: not said"
    digests | cmp -s - "$tmp/want" || fail "$most_threads: other digests"
    KV_THREADS=$most_threads preloaded failthread OMP_NUM_THREADS=6 \
      "$kvtrace" check "$small" || fail "kvtrace, $most_threads: exit $?"
    KV_THREADS=$most_threads preloaded failthread OMP_NUM_THREADS=6 \
      "$kvtrace" info --identity "$small" || fail "info, $most_threads: $?"
  done
}

[ $# -gt 0 ] || set -- memory disk cut killed resumed stopped mood threads
for section; do "check_$section"; done
printf 'check_faults: %d checks, %d failed\n' "$checks" "$bad"
[ "$bad" = 0 ]
