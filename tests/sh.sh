# SPDX-License-Identifier: Apache-2.0
#
# What scripts of tests share; sourced first, never run.
#
#   src, top      the tree and the build, from the root: that of top_builddir,
#                 else the tree where it is configured, else its folder build
#   kvreplay, kvtrace, kvreport, fill, sql
#                 the programs of the build, or the environment's KVREPLAY,
#                 KVTRACE, KVREPORT, FILL_DB, SQL_DB
#   tiny, small   the bundled traces, and a small one of them
#   tmp           a folder that goes at the end; the user's cache lies in it
#   fail WORDS    says what does not hold, counts it in $bad, and goes on: with
#                 KV_FIRST=1, as whoever seeds a fault wants, it ends there.
#                 The files of the array $shows come with it, five lines each
#   ran CODE COMMAND...
#                 runs it without input, its output to $tmp/out and $tmp/err;
#                 its exit code must be CODE
#   refused CODE TEXT COMMAND...
#                 the same, and it must print nothing on standard output and on
#                 standard error one line, without control characters, that has
#                 TEXT: a string, or what grep takes with the option $pattern
#   checks        how many there were, for who counts them
#   concluded     says both numbers; fails if something did
[ -z "${checks-}" ] || return 0 # it was sourced
set -u
export LC_ALL=C OMP_WAIT_POLICY=passive PYTHONDONTWRITEBYTECODE=1
unset KVREPLAY_PLUGINS
src=$(cd "${top_srcdir:-$(dirname "${BASH_SOURCE[0]}")/..}" && pwd) || exit 5
top=$src
[ -e "$src/config.status" ] || [ ! -d "$src/build" ] || top=$src/build
top=$(cd "${top_builddir:-$top}" && pwd) || exit 5
kvreplay=${KVREPLAY:-$top/sim/kvreplay}
kvtrace=${KVTRACE:-$top/traces/kvtrace}
kvreport=${KVREPORT:-$top/analysis/kvreport}
fill=${FILL_DB:-$top/tests/fill_db}
sql=${SQL_DB:-$top/tests/faults/sql_db}
tiny=$src/traces/tiny
small=$tiny/retrieval_8_small.safetensors
tmp=$(mktemp -d) || exit 4
trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT
export XDG_CACHE_HOME=$tmp/cache
# Python's package is that of the tree; with KV_INSTALLED=1 the one that PYTHON
# has (check_package.sh).
export PYTHONPATH=$src/sim/python
[ -z "${KV_INSTALLED-}" ] || unset PYTHONPATH
checks=0 bad=0 shows=() pattern=-F

fail() {
  local file
  bad=$((bad + 1))
  echo "FAILED: $(basename "$0" .sh): $*" >&2
  for file in ${shows[@]+"${shows[@]}"}; do
    [ ! -s "$file" ] || head -n 5 "$file" | sed 's/^/  /' >&2
  done
  [ "${KV_FIRST-}" != 1 ] || exit 1
}

ran() {
  local code=$1 got=0
  shift
  checks=$((checks + 1))
  "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || got=$?
  [ "$got" = "$code" ] ||
    fail "${*##*/}: exit $got, not $code: $(head -c 400 "$tmp/err")"
}

refused() {
  local text=$2
  ran "$1" "${@:3}"
  shift 2
  [ ! -s "$tmp/out" ] || fail "${*##*/}: wrote to standard output"
  [ "$(wc -l <"$tmp/err")" = 1 ] || fail "${*##*/}: not one line"
  ! grep -q '[[:cntrl:]]' "$tmp/err" || fail "${*##*/}: a control character"
  grep -q "$pattern" -- "$text" "$tmp/err" ||
    fail "${*##*/}: no '$text' in: $(cat "$tmp/err")"
}

concluded() {
  printf '%s: %d checks, %d failed\n' "$(basename "$0" .sh)" "$checks" "$bad"
  [ "$bad" = 0 ]
}
