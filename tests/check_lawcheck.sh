#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `kvreplay lawcheck` names each seeded fault of plugins/faulty.c with a
# command that shows it again, as text, JSON and JUnit; it can be interrupted,
# and leaves no process and no file behind.
. "$(dirname "$0")/plugins.sh"

# The answers for programs: as many as were asked, and of one that is broken the
# command that asks again.
forms() {
  local ask=("$tmp/faulty.so:fault=rounds" -t made:token -l needs -l modes
    -l budget -b 30)
  "$kvreplay" lawcheck "${ask[@]}" -f json >"$tmp/out" &&
    fail 'json: exit 0 of what is broken'
  checks=$((checks + 2))
  [ "$(grep -c '"law":' "$tmp/out")" = 3 ] || fail 'json of laws'
  has '"law": "needs".*"budget": 30, "outcome": "holds", "reason": null' json
  has '"outcome": "broken", "reason": "layer 0.*"again": "kvreplay lawch' json
  has '"law": "budget".*"outcome": "refused", "reason": "no budget' json
  [ "$(sed -n '1p;$p' "$tmp/out" | tr -d '\n')" = '[]' ] || fail 'no array'
  "$kvreplay" lawcheck "${ask[@]}" -f junit >"$tmp/out"
  has '<testsuite name="kvreplay lawcheck" tests="3" failures="1" errors="0"' \
    junit
  has 'classname="made:token" name="modes of .*, budget 30">' junit
  has '<failure message="layer 0, lane 0, step [0-9]+: compress_lane ret' junit
  has '^</testsuite>' junit
}

# Seeded faults: FAULT LAW WORDS. Asan has its own words, and hides what is
# allocated.
faults() {
  local fault law words again on asan=
  nm "$kvreplay" 2>/dev/null | grep -q ' __asan_init' && asan=yes
  while IFS='|' read -r fault law words; do
    [ -z "$asan" ] || [[ $fault != @(leaks|maps|threads|address) ]] || continue
    on=made:grouped
    [ "$fault" != late ] || on=made:long
    checks=$((checks + 1))
    "$kvreplay" lawcheck "$tmp/faulty.so:fault=$fault" -t $on -b 48 -w 5 \
      >"$tmp/out" 2>&1
    [ $? = 1 ] || fail "lawcheck $fault: exit $?"
    grep -qE "^broken: law $law," "$tmp/out" ||
      fail "lawcheck $fault: not law $law: $(head -n 3 "$tmp/out")"
    [ -n "$asan" ] || has "$words" "lawcheck $fault"
    again=$(sed -n "s,^  again: kvreplay,'$kvreplay',p" "$tmp/out" |
      grep -m 1 -e "--law $law ")
    eval "$again" >"$tmp/out" 2>&1
    [ $? = 1 ] && grep -qE "^broken: law $law," "$tmp/out" ||
      fail "lawcheck $fault: $again shows it no more"
  done <<'END'
outside|hooks|compress_lane writes outside the lane_state
wild|hooks|compress_lane died of SIG
column|hooks|writes a column beyond
greedy|hooks|needs.work must cover
leaks|hooks|allocates memory
twice|hooks|keep lists an entry once
dropped|hooks|keep lists live entries
direct|journal|by the journal
remembers|repeat|differs from run 0
thread|repeat|differs from run 0
clock|repeat|differs from run 0
junk|repeat|differs from run 0
exceeds|budget|with a budget of 48
rows|observation|needs.want does not declare.* p
lossy|full|output of dense
fickle|needs|metas differently
far_view|views|end past n
promises|lengths|when no query is shown
beyond|hooks|writes to byte 100 of take [1-9] of the workspace, which has 100
before|hooks|writes 1 bytes before take
far|hooks|writes to byte 100000 of take
unset|repeat|differs from run 0
last|hooks|writes id beyond
spare|hooks|writes id beyond
others|hooks|compress_lane writes lane 0, which is not its own
params|hooks|compress_lane writes its parameters
shown|hooks|observe writes the rows it is shown
steps|hooks|writes the lane's step
rounds|modes|compress_lane returns with rounding not to nearest
flushes|modes|compress_lane returns with
opens|modes|open returns with rounding not to nearest
late|hooks|step 100: compress_lane did not return within 5 s
ignores|hooks|compress_lane ended the process .signal 11.
exits|hooks|compress_lane ended the process .exit code 0.
closes|hooks|compress_lane closes files
maps|hooks|compress_lane maps memory
threads|hooks|compress_lane starts a thread
forks|hooks|compress_lane forks
spawns|hooks|left 1 process running
process|process|another process computes another
address|process|another process computes another
looks|views|depends on the query but declares nothing
END
  ! pgrep -fx "sleep $sleeper" >/dev/null || fail 'lawcheck leaves a process'
  "$kvreplay" lawcheck -q "$tmp/faulty.so:fault=none" >"$tmp/out"
  has '^faulty: 14 laws hold' 'lawcheck none'
  refused 2 'needs one budget for all layers' lawcheck h2o:budget=9/9
  forms
  refused 2 'no law is called' lawcheck "$tmp/faulty.so" --law fool
  refused 2 'no made trace' lawcheck "$tmp/faulty.so" -t made:up
  refused 3 'cannot open' lawcheck "$tmp/faulty.so" -t "$tmp/none"
  refused 2 'no cell could run' lawcheck h2o:recent=9999:budget=9
}

# Interrupted, by whoever tells the parent, or all: one line, the child ended.
# What they wrote is looked for below. A child that is interrupted alone has
# ended in its hook.
stopped() {
  local who parent child i code
  for who in parent all; do
    # Bash makes background jobs deaf to SIGINT; env hears it again.
    env --default-signal=INT "$kvreplay" lawcheck \
      "$tmp/faulty.so:fault=hangs" -t made:grouped >"$tmp/out" 2>"$tmp/err" &
    parent=$! child=
    for i in {1..200}; do # the child that asks begins when the trace is made
      sleep 0.1
      [ -z "$child" ] || break
      [ -z "$(find "$tmp"/kvreplay.* -name 1.safetensors 2>/dev/null)" ] ||
        child=$(awk -v p="$parent" '$4 == p { print $1 }' /proc/[0-9]*/stat \
          2>/dev/null)
    done
    [ $who = parent ] || kill -INT $child 2>/dev/null
    kill -INT "$parent"
    wait "$parent"
    code=$? checks=$((checks + 3))
    [ $code = 130 ] || fail "lawcheck interrupted ($who): exit $code"
    [ "$(wc -l <"$tmp/err")" = 1 ] &&
      grep -q '^kvreplay: interrupted: [0-9]* laws held' "$tmp/err" ||
      fail "lawcheck interrupted ($who): $(cat "$tmp/err")"
    [ -n "$child" ] && ! kill -0 $child 2>/dev/null ||
      fail "lawcheck interrupted ($who): child '$child' is left"
  done
}

# The program that it begins has a name of its own: others may be at it, too.
sleeper=4321$$
variant faulty "s/\"4321\"/\"$sleeper\"/"
faults
stopped
count_checks
