# SPDX-License-Identifier: Apache-2.0
#
# For the checks of plugins, which source this: a compiler, plugins made of
# plugins/faulty.c, and sentences looked for.
. "$(dirname "${BASH_SOURCE[0]}")/sh.sh"
trace=$small
export TMPDIR=$tmp

cc=${CC:-cc}
echo 'int x;' >"$tmp/x.c"
$cc -shared -fPIC "$tmp/x.c" -o "$tmp/nothing.so" 2>/dev/null ||
  { echo "$(basename "$0" .sh): skipped, no C compiler $cc"; exit 77; }

# built NAME SOURCE [FLAG...]: $tmp/NAME.so
built() {
  local name=$1 source=$2
  shift 2
  $cc -std=c11 -O2 -Wall -Wextra -ffp-contract=off -I"$src" -fPIC -shared \
    -D_GNU_SOURCE "$@" -x c "$source" -o "$tmp/$name.so" ||
    fail "$source does not compile"
}

# refused CODE TEXT ARGUMENT...: one line on stderr that holds TEXT.
refused() {
  local code=$1 text=$2 got
  shift 2
  checks=$((checks + 1))
  "$kvreplay" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
  got=$?
  [ "$got" = "$code" ] || fail "kvreplay $*: exit $got, not $code"
  [ "$(wc -l <"$tmp/err")" = 1 ] ||
    fail "kvreplay $*: not one line: $(cat "$tmp/err")"
  grep -qF -- "$text" "$tmp/err" ||
    fail "kvreplay $*: no '$text' in: $(cat "$tmp/err")"
}

has() {
  checks=$((checks + 1))
  grep -qE -- "$1" "$tmp/out" ||
    fail "$2: no '$1' in: $(head -c 600 "$tmp/out")"
}

# digests SPEC: journal, state and output of a run.
digests() {
  "$kvreplay" run "$trace" -q -m "$1" -b 20% -f json |
    grep -oE '"(journal|state|output)": "[0-9a-f]{64}"'
}

# variant NAME SCRIPT: the plugin faulty, changed by sed.
variant() {
  sed "$2" "$src/tests/plugins/faulty.c" >"$tmp/$1.c"
  [ -z "$2" ] || ! cmp -s "$tmp/$1.c" "$src/tests/plugins/faulty.c" ||
    fail "$1 changes nothing"
  built "$1" "$tmp/$1.c"
}

# Ends the check: nothing is left in the folder for temporary files.
count_checks() {
  local left
  left=$(find "$tmp" -name 'kvreplay.*')
  [ -z "$left" ] || fail "left behind: $left"
  concluded
}
