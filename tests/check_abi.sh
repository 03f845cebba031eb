#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What other people's programs are compiled against has a number: whoever
# changes a header of it raises the number, so that an old plugin or program is
# refused by a sentence instead of reading memory as something else. abi.tsv
# records each number with the digest of its headers, comments, white space and
# their places left out.
#
#   check_abi.sh            fails where headers changed and abi.tsv did not
#   check_abi.sh --update   records what is; refuses where the headers changed
#                           and the number did not
set -u
export LC_ALL=C
src=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$src" || exit 1
record=tests/abi.tsv

# A header and what it includes, each file once.
below() {
  local name
  case " $seen " in *" $1 "*) return ;; esac
  seen="$seen $1"
  for name in $(sed -n 's/^#include "\(.*\)"$/\1/p' "$1"); do
    below "$name"
  done
}

# Tokens, as far as blanks and comments matter. The number itself is left out,
# and what a header that only moves changes: paths and guards.
text() {
  tr '\n' '\1' | sed 's,/\*[^*]*\**\([^/*][^*]*\**\)*/, ,g' | tr '\1' '\n' |
    grep -v "$1" | grep -v '^# *include "' |
    grep -vE '^# *(ifndef|define) KV_[A-Z0-9_]*_H *$' |
    tr -s ' \t\n\\' ' '
}

# NAME FILE HEADER: the number of NAME in FILE, and the digest below HEADER.
now() {
  local seen='' number
  number=$(sed -n "s/^.*\<$1[ =]*\([0-9][0-9]*\).*$/\1/p" "$2" | head -n 1)
  below "$3"
  printf '%s\t%s\t%s\n' "$1" "${number:-none}" \
    "$(for f in $seen; do
      text "\<$1\>" <"$f" | sha256sum
    done | sort | sha256sum | cut -c 1-16)"
}

all() {
  now KV_METHOD_ABI ref/lane/lane.h ref/parts/parts.h
  now KV_SESSION_ABI sim/run/session/session.h sim/run/session/session.h
  now KV_EVALUATION_ABI sim/store/evaluation.h sim/store/evaluation.h
}

# 1: to be recorded, 2: a number is to be raised
compare() {
  awk -F '\t' '
    NR == FNR { number[$1] = $2; digest[$1] = $3; next }
    digest[$1] == $3 && number[$1] == $2 { next }
    { rc = rc ? rc : 1 }
    digest[$1] != $3 && number[$1] == $2 && $1 in number {
      print "check_abi: headers of " $1 " changed: raise it above " $2
      rc = 2
    }
    END { exit rc }' "$record" - <<<"$(all)"
}

[ -e "$record" ] || : >"$record"
compare
rc=$?
if [ "${1-}" = --update ]; then
  [ $rc != 2 ] || exit 1
  all >"$record"
elif [ $rc = 1 ]; then
  echo 'check_abi: record the new number: tests/check_abi.sh --update'
  exit 1
fi
[ $rc != 2 ] && cat "$record"
