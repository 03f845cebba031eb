#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Laws of stopping: the first SIGINT or SIGTERM ends a command with 130 within
# two seconds, whatever a method does in its hooks; what was finished is
# stored and printed whole, the database is sound, no file is left under its
# name or beside it, and a repeated command goes on. A database that somebody
# else writes is waited for, aloud.
. "$(dirname "$0")/sh.sh"
whole=$top/tests/faults/whole_db trace=$small dir=$tmp
cd "$dir" || exit 1

# A case is a process in a folder of its own, for each takes its two seconds;
# what fails is a line of $dir/failed.
fail() {
  echo "FAILED: ${PWD##*/}: $*" >>"$dir/failed"
  [ ! -s err ] || sed 's/^/  stderr: /' err | head -n 5 >>"$dir/failed"
}

# A window whose compression sleeps or spins where the prompt has nine tokens.
cc=${CC:-cc}
for way in 'pause()' 'free(malloc(99))'; do
  name=sleeps
  [ "$way" = 'pause()' ] || name=spins
  sed "s/\"window\"/\"$name\"/; s/kv_method_window/kv_plugin/
    s/^static void compress_lane.*/&\\
  if (lane->shape->prompt_len == 9) {\\
    fclose(fopen(\"hangs\", \"w\"));\\
    for (;;) $way;\\
  }/
    1i #include <stdio.h>\\
#include <stdlib.h>\\
#include <unistd.h>" "$src/ref/methods/window.c" >$name.c
  $cc -std=c11 -O1 -D_GNU_SOURCE -I"$src" -fPIC -shared $name.c \
    -o $name.so 2>err || {
    cat err
    echo "check_stop: skipped, $cc compiles no plugin"
    exit 77
  }
done
made=$dir/made.st
"$top/traces/kvtrace" synth -q -o "$made" -t 24 -p 9 2>err || fail synth

# there FILE: waits for it
there() {
  local i=0
  while [ ! -e "$1" ] && [ $i -lt 600 ]; do
    sleep 0.05
    i=$((i + 1))
  done
}

# ended PID: within twenty seconds, if need be by force
ended() {
  local i=0
  while kill -0 "$1" 2>/dev/null && [ $i -lt 400 ]; do
    sleep 0.05
    i=$((i + 1))
  done
  [ $i -lt 400 ] || kill -KILL "$1"
}

# stopped SIGNAL TEXT COMMAND...: the command is in a hook that does not come
# back; the signal ends it in time, with TEXT
stopped() {
  local signal=$1 text=$2 rc from ms left
  shift 2
  env --default-signal=INT "$@" >out 2>err &
  there hangs
  from=$(date +%s%N)
  kill -"$signal" $!
  ended $!
  wait $!
  rc=$? ms=$((($(date +%s%N) - from) / 1000000))
  [ $rc = 130 ] || fail "$*: SIG$signal: exit $rc, not 130"
  # The promise is two seconds; this machine may be busy with other tests.
  [ $ms -lt 6000 ] || fail "$*: SIG$signal: $ms ms"
  [ "$(wc -l <err)" = 1 ] || fail "$*: not one line"
  grep -q -- "$text" err || fail "$*: does not say '$text'"
  left=$(find . -name '*.part' -o -name '.*.[0-9]*-[0-9]*')
  [ -z "$left" ] || fail "$*: left behind: $left"
}

# database SIGNAL METHOD FORM: what was finished is stored and printed
database() {
  local form=$3
  stopped "$1" 'rows of 1 of 2 traces are stored' "$kvreplay" run "$trace" \
    "$made" -q -b 8 -m "window,$dir/$2.so" --db r.db -f "$form"
  grep -q window out || fail 'the first trace is not printed'
  [ "$form" != json ] || [ "$(tail -n 1 out)" = ']' ] || fail 'json: no end'
  "$whole" r.db >rows 2>err || fail 'the database'
  [ "$(wc -l <rows)" = 2 ] || fail 'not the rows of one trace'
  "$kvreplay" run "$trace" "$made" -q -b 8 -m window --db r.db >out 2>err ||
    fail 'a repeat'
}

table() {
  stopped INT 'rows of 1 of 2 traces are printed' "$kvreplay" run "$trace" \
    "$made" -q -b 8 -m "$dir/spins.so,window" -j 1
  [ "$(grep -c '^window' out)" = 1 ] || fail 'the table is not printed'
}

# file OPTION: none under its name
file() {
  echo old >kept
  stopped TERM 'rows of 0 of 1' "$kvreplay" run "$made" -q -b 8 \
    -m "$dir/sleeps.so" "--$1" kept
  [ "$(cat kept)" = old ] || fail "--$1: half a file"
}

decisions() {
  stopped TERM 'rows of 0 of 1' "$kvreplay" run "$made" -q -b 8 \
    -m "$dir/sleeps.so" --decisions d
  [ -z "$(ls d)" ] || fail '--decisions: half a file'
}

vectors() {
  stopped INT 'are kept' "$kvreplay" vectors "$made" -b 8 -m "$dir/sleeps.so" \
    -o v
  [ ! -e v ] || fail 'half a folder'
}

search() {
  stopped INT 'are kept' "$kvreplay" run "$made" -q -b mean:40% \
    -m "$dir/sleeps.so"
}

check() {
  stopped TERM '1 of 2 traces compared' "$kvreplay" check "$trace" \
    "$made" -q -b 8 -m "$dir/sleeps.so" -B ref,ref
  grep -q 'sleeps.*equal' out || fail 'what is compared is not printed'
}

# No thread can be made to wait: an alarm does.
alone() {
  local shim=$top/tests/faults/.libs/failthread.so
  [ -e "$shim" ] || return
  stopped INT 'are kept' env KV_THREADS=0 "LD_PRELOAD=$shim" \
    "ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0" "$kvreplay" run \
    "$made" -q -b 8 -m "$dir/sleeps.so" -j 1
}

# A database that somebody else writes is waited for, aloud, and not after an
# interrupt; quietly with -q.
waiting() {
  local run=("$kvreplay" run "$trace" -b 8 -p 303 --db r.db) writer rc from
  command -v sqlite3 >/dev/null || return
  "${run[@]}" -q -m window >out 2>err || fail 'run'
  mkfifo until
  sqlite3 r.db 'BEGIN IMMEDIATE' '.shell touch begun; cat until' >/dev/null &
  writer=$!
  there begun
  rm err
  env --default-signal=INT "${run[@]}" -m streamingllm >out 2>err &
  while kill -0 $! && ! [ -s err ]; do sleep 0.1; done
  grep -q 'waiting for r.db, which another process.* is writing' err ||
    fail 'does not say that it waits'
  kill -INT $!
  ended $!
  wait $!
  rc=$?
  [ $rc = 130 ] || fail "interrupted while it waits: exit $rc"
  [ "$(wc -l <err)" = 2 ] || fail 'not two lines'
  sqlite3 r.db .dump | sqlite3 other.db
  sqlite3 other.db "PRAGMA application_id = $((0x6b767270));
    PRAGMA user_version = $(sqlite3 r.db 'PRAGMA user_version')"
  "$top/analysis/kvreport" merge r.db other.db 2>told &
  rc=$!
  while kill -0 $rc && ! [ -s told ]; do sleep 0.1; done
  echo >until
  wait $rc || fail 'merge after a wait'
  grep -q 'waiting for r.db, which another process is writing' told ||
    fail 'merge does not say that it waits'
  wait $writer
}

# A method that calls exit ends nothing with 0.
exits() {
  sed 's/for (;;) pause()/exit(0)/' "$dir/sleeps.c" >e.c
  $cc -std=c11 -D_GNU_SOURCE -I"$src" -fPIC -shared e.c -o e.so 2>err
  "$kvreplay" run "$made" -q -b 8 -m ./e.so >out 2>err
  [ $? = 4 ] || fail 'exit in a hook: not exit 4'
  grep -q 'a method that called exit' err || fail 'exit in a hook is not said'
}

cases=('database INT sleeps table' 'database TERM spins json'
  'database INT sleeps jsonl' table 'file views' 'file selections'
  'file stored' 'file outputs' decisions vectors search check alone waiting
  exits)
for case in "${cases[@]}"; do
  (mkdir "$dir/$case" && cd "$dir/$case" && $case) &
done
wait
cat "$dir/failed" 2>/dev/null
printf 'check_stop: %d cases, %d failed\n' "${#cases[@]}" \
  "$(grep -cs FAILED "$dir/failed")"
[ ! -e "$dir/failed" ]
