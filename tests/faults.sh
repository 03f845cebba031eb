# SPDX-License-Identifier: Apache-2.0
#
# What the scripts about bad days share; sourced, never run. Sets kvreplay,
# kvtrace, kvreport, tiny and small (traces), tmp (a folder, removed at the
# end), checks, bad, most (allocations or writes that fail) and kills. Skips
# where a build has no shims to preload.
#
#   fail TEXT...                    counts a failure, with what stderr said
#   preloaded SHIM [NAME=VALUE...] COMMAND...
#   one_line WHAT, whole DB WHAT    what must hold after a run
#   sweep NAME AFTER COMMAND...     allocation after allocation fails
#   fill NAME AFTER COMMAND...      the disk is full from the n-th write on
#   after_run, after_part CODE WHAT   AFTER, for the database $tmp/f.db
#   limited CODE COMMAND...         files have a limit
#   full COMMAND...                 stdout is full
. "$(dirname "${BASH_SOURCE[0]}")/sh.sh"
shims=$top/tests/faults/.libs whole=$top/tests/faults/whole_db
export KVREPLAY_ISA=${KVREPLAY_ISA-}
shows=("$tmp/err") most=40 kills=3
[ "${KV_BIG-}" != 1 ] || most=100 kills=10
allowed='^[04]$'

for f in failmalloc faildisk failthread mood; do
  [ -e "$shims/$f.so" ] && continue
  echo "skipped: no $shims/$f.so (a build without shared libraries)"
  exit 77
done
if nm -D "$kvreplay" 2>/dev/null | grep -q __asan_init; then
  export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0:exitcode=99
  [ "${KV_BIG-}" = 1 ] || most=20
fi

# preloaded SHIM [NAME=VALUE...] COMMAND...: stdout and stderr to $tmp/out
# and err; only the command itself meets the shim
preloaded() {
  local shim=$1
  shift
  rm -f "$tmp/out" "$tmp/err"
  timeout 100 env "LD_PRELOAD=$shims/$shim.so" "$@" >"$tmp/out" 2>"$tmp/err"
}

# Time is no result.
plain() { sed -E 's/("seconds": )[^,}]*/\1/' "$@"; }

# What is said of threads and kept layers comes before the reason of an end, and
# what was refused after it.
remark='layers (of cells are kept|could not be kept)|kept layers of cells'
remark+='|[0-9]+ of [0-9]+ (cells refused: |threads can be made)'

# one_line WHAT: the last run wrote one line to stderr, and perhaps remarks
one_line() {
  [ "$(wc -l <"$tmp/err")" -eq 1 ] ||
    [ "$(grep -vcE "$remark" "$tmp/err")" -eq 1 ] ||
    fail "$1: not one line on stderr"
}

# whole DB WHAT: it holds whole rows only; they are listed in $tmp/rows
whole() {
  checks=$((checks + 1))
  "$whole" "$1" >"$tmp/rows" 2>"$tmp/err" || fail "$2: the database"
}

# same_rows FILE: of the last `whole`.
same_rows() {
  cmp -s "$1" "$tmp/rows" && return
  diff "$1" "$tmp/rows" >"$tmp/err" 2>&1
  fail 'kills changed the rows'
}

# sweep NAME AFTER COMMAND...: fails allocation after allocation, in turn that
# one alone and all from it on. Each run ends with 0 and the full result, or
# with 4 and one line. AFTER is a command that looks at what is left and makes
# the place ready for the next run.
sweep() {
  local name=$1 after=$2 n=1 all rc step runs=0
  shift 2
  KV_FAIL_COUNT=$tmp/count preloaded failmalloc "$@" ||
    fail "$name: does not run: exit $?"
  all=$(cat "$tmp/count")
  [ "$all" -gt 9 ] || fail "$name: only $all allocations"
  plain "$tmp/out" >"$tmp/want"
  $after 0 "$name"
  step=$((all / most + 1))
  while [ "$n" -le "$all" ]; do
    KV_FAIL_AT=$n KV_FAIL_STAY=$((runs % 2)) preloaded failmalloc "$@"
    rc=$? checks=$((checks + 1)) runs=$((runs + 1))
    [[ $rc =~ $allowed ]] || fail "$name: allocation $n of $all: exit $rc"
    [ "$rc" = 0 ] || one_line "$name: allocation $n"
    [ "$rc" != 0 ] || plain "$tmp/out" | cmp -s - "$tmp/want" ||
      fail "$name: allocation $n: exit 0 with another result"
    $after "$rc" "$name: allocation $n"
    n=$((n + step))
  done
  echo "memory: $name: $runs of $all allocations failed"
}

nothing() { :; }

# fill NAME AFTER COMMAND...: the disk is full from the n-th write on.
fill() {
  local name=$1 after=$2 n=1 all rc step
  shift 2
  KV_FULL_COUNT=$tmp/count preloaded faildisk "$@" || fail "$name: exit $?"
  all=$(cat "$tmp/count")
  [ "$all" -gt 4 ] || fail "$name: only $all writes"
  $after 0 "$name"
  step=$((all / most + 1))
  while [ "$n" -le "$all" ]; do
    KV_FULL_AT=$n KV_FULL_ONCE=$((n % 3 == 0)) preloaded faildisk "$@"
    rc=$? checks=$((checks + 1))
    [[ $rc =~ $allowed ]] || fail "$name: write $n of $all: exit $rc"
    [ "$rc" = 0 ] || one_line "$name: write $n"
    $after "$rc" "$name: write $n of $all"
    n=$((n + step))
  done
  echo "disk: $name: full at some of $all writes"
}

# limited CODE COMMAND...: files may not grow beyond $kib, or 8, KiB
limited() {
  local code=$1 got
  shift
  rm -f "$tmp/out" "$tmp/err"
  # The messages go through a pipe: a log beyond the limit is no fault.
  (ulimit -f "${kib:-8}" && "$@") >"$tmp/out" 2>"$tmp/err"
  got=$? checks=$((checks + 1))
  [ "$got" = "$code" ] || fail "limited: ${*##*/}: exit $got, not $code"
  one_line "limited: ${*##*/}"
}

full() {
  rm -f "$tmp/err"
  "$@" >/dev/full 2>"$tmp/err"
  [ $? = 4 ] || fail "full stdout: ${*##*/}: not exit 4"
  checks=$((checks + 1))
  one_line "full stdout: ${*##*/}"
}

# ---- what is in a database after a run --------------------------------------

# The database after a run; a run that said 0 has stored both cells.
after_run() {
  whole "$tmp/f.db" "$2"
  [ "$1" != 0 ] || [ "$(wc -l <"$tmp/rows")" = 2 ] || fail "$2: rows lost"
  rm -f "$tmp"/f.db*
}

# What a run that failed has kept is where the next one goes on. The database
# is there and has a row: most allocations would make it, else.
resumed=0
before_part() {
  "$@" -m random -b 40 --db "$tmp/first.db" >"$tmp/out" 2>&1
  cp "$tmp/first.db" "$tmp/f.db"
}
after_part() {
  ! grep -q 'are kept from an earlier run' "$tmp/err" ||
    resumed=$((resumed + 1))
  whole "$tmp/f.db" "$2"
  [ "$1" = 0 ] || return 0
  [ "$(wc -l <"$tmp/rows")" = 3 ] || fail "$2: rows lost"
  rm -f "$tmp"/f.db*
  cp "$tmp/first.db" "$tmp/f.db"
}

# went_on WHAT: some run of the sweep found what another had kept
went_on() {
  [ "$resumed" -gt 0 ] || fail "$1: nothing was kept"
  resumed=0
  rm -f "$tmp"/f.db*
}
