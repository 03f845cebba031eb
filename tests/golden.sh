#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What every method decided and computed once, recorded: tests/golden.tsv has
# a line per trace, method with all its parameters, and budget, with the
# method's revision and the first 16 digits of its three digests.
#
#   golden.sh            fails where a digest changed and the revision did
#                        not, where a line is missing or is left over
#   golden.sh --update   records what is; refuses where a digest changed and
#                        the revision did not (--force: all the same, for
#                        faults of the record itself)
#
# Methods within sliding windows (windowed=compress) are asked about a synthetic
# trace of version 2, those that need weights about one bundled trace that has
# them, with a prompt of all but ten of its tokens, and one method of each
# family about the trace of SmolLM2, whose KV heads serve three query heads.
# Formats by layer are asked about the bundled trace of four layers.
#
# KV_TEST_BACKEND=emu or cuda asks another backend for the same digests;
# KV_LITTLE=1 asks for the bundled trace at one budget only. KV_SAYS=999: so
# many differences are printed instead of 12.
# The revision is part of a row's key in databases: who changes a decision or
# a number raises `.revision` in the method's file, then records. A change of
# the common arithmetic raises KV_ARITHMETIC, the first line of the record. A
# change of the synthetic traces shows in their line.
. "$(dirname "$0")/replays.sh"
golden=$src/tests/golden.tsv

budgets=6,25%
[ "${KV_LITTLE-}" != 1 ] || budgets=6

traces() {
  replay_traces | if [ "${KV_LITTLE-}" = 1 ]; then tail -n 1; else cat; fi
}

backend=${KV_TEST_BACKEND:-ref}
# Not asked where the bundled traces are missing.
weighted=$src/traces/tiny/text_400.safetensors
known=$src/traces/smollm2/smollm2_needle.safetensors
[ "${KV_LITTLE-}" != 1 ] && [ -e "$weighted" ] || weighted=
[ "${KV_LITTLE-}" != 1 ] && [ -e "$known" ] || known=
# Where layers have sliding windows, with windowed=compress.
windows=
[ "${KV_LITTLE-}" = 1 ] || windows=$(replay_windows)

printf '0 raw int8\n1-2 q8_0 nvfp4\n' >"$tmp/by"
layered=k8v4:raw_layers=first1/3,int4:formats=$tmp/by:raw_layers=last1
layered+=:key_bias=mean

record() {
  local t specs
  specs=$(replay_specs)
  echo "arithmetic $(awk '$2 == "KV_ARITHMETIC" { print $3 }' \
    "$src/ref/ground/arith.h")"
  for t in $(traces) $weighted $known $windows; do
    echo "trace $(basename "$t" .safetensors)" "$("$kvtrace" info -i "$t" |
      awk '$1 == "identity" { print substr($2, 1, 16) }')"
  done
  {
    "$kvreplay" run $(traces) -m "$specs" -b "$budgets" -q -f jsonl \
      --backend "$backend"
    [ -z "$weighted" ] ||
      "$kvreplay" run "$weighted" --prompt-len 390 -m "$replay_weighted" \
        -b 32 -q -f jsonl --backend "$backend"
    [ -z "$known" ] ||
      "$kvreplay" run "$known" -m "$replay_known" -b 25% -q -f jsonl \
        --backend "$backend"
    "$kvreplay" run $(traces | tail -n 1) -m "$layered" -q -f jsonl \
      --backend "$backend"
    [ -z "$windows" ] ||
      "$kvreplay" run "$windows" -m "$replay_windowed" -b "$budgets" -q \
        -f jsonl --backend "$backend"
  } | digests | sed "s,$tmp/,," |
    awk '{ print $1, $2, $3, $4, substr($5, 1, 16), substr($6, 1, 16),
                 substr($7, 1, 16) }'
}

record | tr ' ' '\t' >"$tmp/now"
[ "$(wc -l <"$tmp/now")" -gt 20 ] || {
  echo 'golden: no replay'
  exit 1
}
[ -e "$golden" ] || : >"$tmp/none"

compare() { # 0 equal, 1 different, 3 a revision is missing
  awk -F '\t' -v most="${KV_SAYS:-12}" '
    function say(text) { if (++said <= most) print "golden: " text }
    NR == FNR && $1 == "arithmetic" { arithmetic = $2; next }
    NR == FNR && $1 == "trace" { id[$2] = $3; next }
    NR == FNR { key = $1 FS $2 FS $3; old[key] = $0; next }
    $1 == "arithmetic" { raised = $2 > arithmetic; next }
    $1 == "trace" {
      if (id[$2] == $3) next
      moved[$2] = 1; rc = rc ? rc : 1
      say("the trace " $2 " is another one"); next
    }
    { key = $1 FS $2 FS $3
      if (!(key in old)) { rc = rc ? rc : 1; say("not recorded: " key); next }
      split(old[key], o, FS); delete old[key]
      if (o[5] == $5 && o[6] == $6 && o[7] == $7 && o[4] == $4) next
      rc = rc ? rc : 1
      what = o[5] != $5 ? "journal" : o[6] != $6 ? "state" : "output"
      if (moved[$1]) next
      if (o[4] != $4 || raised) say("to be recorded anew: " key)
      else { rc = 3; say("the " what " changed and the revision did not: " key)
      } }
    END { for (key in old) { rc = rc ? rc : 1; say("no longer made: " key) }
          if (said > most) printf "golden: and %d more\n", said - most
          exit rc }' "$1" "$tmp/now"
}

[ "${KV_LITTLE-}" != 1 ] || {
  awk -F '\t' -v name="$(basename "$(traces)" .safetensors)" \
    '$1 == "arithmetic" || $2 == name ||
      ($1 == name && ($3 == "6" || $3 == "null"))' "$golden" >"$tmp/part"
  golden=$tmp/part
}
left_out() { # left_out TRACE: without the record's lines of it
  grep -vE "^(trace$(printf '\t'))?$1$(printf '\t')" "$golden" >"$tmp/no.$1"
  golden=$tmp/no.$1
}
[ -n "$weighted" ] || left_out text_400
[ -n "$known" ] || left_out smollm2_needle
compare "$([ -e "$golden" ] && echo "$golden" || echo "$tmp/none")" \
  >"$tmp/said"
rc=$?
case ${1-} in
'')
  cat "$tmp/said"
  [ $rc = 0 ] || {
    [ $rc != 3 ] || first='raise the revision, then '
    echo "golden: where that is meant: ${first-}tests/golden.sh --update"
    exit 1
  }
  echo "golden: $(grep -c . "$golden") lines as recorded"
  ;;
--update | --force)
  if [ $rc = 3 ] && [ "$1" = --update ]; then
    cat "$tmp/said"
    exit 1
  fi
  [ "$golden" = "$src/tests/golden.tsv" ] || {
    echo 'golden: only the whole record is written: without KV_LITTLE, with' \
      'all bundled traces'
    exit 1
  }
  cp "$tmp/now" "$golden"
  echo "golden: $(grep -c . "$golden") lines recorded"
  ;;
*)
  echo 'golden.sh [--update | --force]'
  exit 2
  ;;
esac
