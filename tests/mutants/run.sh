#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Are the checks worth anything? Builds a copy of the tree, then seeds one
# fault of list*.sh after the other, builds what changed, and runs the checks
# that must notice. Exit 0 only if every one does.
#
#   tests/mutants/run.sh [NAME...]   all mutants, or these
#   tests/mutants/run.sh --watch [NAME...]   those of list_watch.sh, in a build
#                                    by configure --enable-watch
#
# Several mutants are dealt out to as many copies as there are JOBS, since
# most of the time goes into one compilation and one link after the other.
#
# Environment: CC, JOBS, MUTANT_DIR (kept and used again; else temporary),
# MUTANT_MOST: that many of all, chosen by .ci/draw.sh: most of files that
# changed, so that each is run again and again. MUTANT_PASSED=1: the checks are
# known to pass without a fault, so they are not asked first.
# Needs ./configure in the tree. Some minutes.
#
#   tests/mutants/run.sh --apply     does each mutant still apply? a second
#   tests/mutants/run.sh --checks    lines: a check, a file whose faults it sees
#   tests/mutants/run.sh --drawn     the names of MUTANT_MOST of them
set -u
here=$(cd "$(dirname "$0")" && pwd)
src=$(cd "$here/../.." && pwd)
jobs=${JOBS:-2}
. "$src/.ci/draw.sh"
export LC_ALL=C OMP_WAIT_POLICY=passive KV_QUICK=1 KV_FIRST=1
if [ -n "${MUTANT_DIR-}" ]; then
  mkdir -p "$MUTANT_DIR"
  work=$(cd "$MUTANT_DIR" && pwd)
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
fresh=$work/fresh
tree=$work/tree
build=$work/build
names=() survived=0 seen=0
last=

say() { printf '%-24s %-24s %-20s %s\n' "$@"; }

# --- the copy ----------------------------------------------------------------

copy() { # fresh: the tree as it is now; tree: the one with faults
  local f
  rm -rf "${work:?}/fresh"
  mkdir -p "$fresh" "$tree" "$build"
  tar -C "$src" --exclude=.git --exclude='./build*' --exclude='*.o' \
    --exclude='*.lo' --exclude='*.la' --exclude=.deps --exclude=.libs \
    --exclude=config.status --exclude=./config.h --exclude='*.log' \
    --exclude=./traces/tiny --exclude=./traces/smollm2 --exclude=Makefile \
    -cf - . | tar -C "$fresh" -xf -
  tar -C "$src" -cf - build-aux | tar -C "$fresh" -xf -
  if [ ! -e "$build/Makefile" ]; then
    cp -a "$fresh/." "$tree"
  else # what changed is newer than what was built
    (cd "$fresh" && find . -type f) | while read -r f; do
      cmp -s "$fresh/$f" "$tree/$f" && continue
      mkdir -p "$(dirname "$tree/$f")"
      cp "$fresh/$f" "$tree/$f"
    done
  fi
  ln -sfn "$src/traces/tiny" "$src/traces/smollm2" "$tree/traces"
  cd "$build" || exit 1
  [ -e Makefile ] || "$tree/configure" -q --disable-shared --without-cuda \
    ${MUTANT_WATCH:+--enable-watch} ${CC:+CC="$CC"} CFLAGS='-O1' \
    >"$work/log" 2>&1 || stop configure
  make -s commit.h >"$work/log" 2>&1 || stop commit.h
}

stop() {
  tail -n 20 "$work/log"
  echo "mutants: $1 failed"
  exit 1
}

# make_for CHECK...: what these checks run.
make_for() {
  local check programs= scripts=
  for check in "$@"; do
    [ "${check#watch:}" = "$check" ] || continue # makes what it needs
    case $check in
    *.sh | *.cases) scripts=yes ;;
    *) programs="$programs check_$check" ;;
    esac
  done
  make -s -C "$build/ref" -j"$jobs" &&
    make -s -C "$build/traces" -j"$jobs" &&
    make -s -C "$build/gpu" -j"$jobs" &&
    make -s -C "$build/sim" -j"$jobs" libsim.la libcli.la kvreplay &&
    { [ -z "$programs" ] ||
      make -s -C "$build/tests" -j"$jobs" $programs; } &&
    { [ -z "$scripts" ] ||
      { make -s -C "$build/analysis" -j"$jobs" &&
        make -s -C "$build/tests" -j"$jobs" faults/bad_traces \
          faults/sql_db faults/whole_db fill_db; }; }
}

# A program of cmocka's goes on after a failure, and need not.
run_check() (
  set -o pipefail
  export top_srcdir=$tree top_builddir=$build
  case $1 in
  watch:*) timeout 600 bash "$tree/tests/watch.sh" "${1#watch:}" ;;
  *.sh) timeout 600 bash "$tree/tests/$1" ;;
  *.cases) timeout 600 bash "$tree/tests/cases.sh" "$tree/tests/$1" ;;
  *) timeout 600 "$build/tests/check_$1" 2>&1 | sed '/^\[  FAILED  \]/q' ;;
  esac >"$work/said" 2>&1
)

# --- faults ------------------------------------------------------------------

# edit FILE OLD NEW
edit() {
  OLD=$2 NEW=$3 awk -v name="$1" '
    { text = text $0 "\n" }
    END {
      old = ENVIRON["OLD"]
      new = ENVIRON["NEW"]
      at = index(text, old)
      rest = substr(text, at + length(old))
      if (old == "") text = new "\n" text
      else if (!at || index(rest, old)) {
        print "mutants: not once in " name ": " old >"/dev/stderr"
        exit 1
      } else text = substr(text, 1, at - 1) new rest
      printf "%s", text
    }' "$tree/$1" >"$tree/.edited" || return
  cat "$tree/.edited" >"$tree/$1"
}

heal() { # the originals come back, newer than what was built of the mutant
  local f
  for f in $last; do cp "$fresh/$f" "$tree/$f"; done
  last=
}

wanted() {
  [ ${#names[@]} = 0 ] || [[ " ${names[*]} " == *" $1 "* ]]
}

mutants=()
mutant() { mutants+=("$1"$'\x1f'"$2"$'\x1f'"$3"$'\x1f'"$4"$'\x1f'"$5"); }
# also FILE OLD NEW: another edit of the mutant before.
also() { mutants+=(""$'\x1f'"$1"$'\x1f'$'\x1f'"$2"$'\x1f'"$3"); }

fields() {
  local rest=$1
  name=${rest%%$'\x1f'*} rest=${rest#*$'\x1f'}
  file=${rest%%$'\x1f'*} rest=${rest#*$'\x1f'}
  checks=${rest%%$'\x1f'*} rest=${rest#*$'\x1f'}
  old=${rest%%$'\x1f'*} new=${rest#*$'\x1f'}
}

judge() { # NAME CHECKS FILE APPLIES: the mutant in the tree
  local check
  if [ -z "$4" ]; then
    say "$1" "$3" - 'DOES NOT APPLY'
    survived=$((survived + 1))
    return
  fi
  if ! make_for $2 >"$work/log" 2>&1; then
    say "$1" "$3" - 'DOES NOT BUILD'
    tail -n 5 "$work/log"
    survived=$((survived + 1))
    return
  fi
  for check in $2; do
    if run_check "$check"; then
      say "$1" "$3" "$check" SURVIVED
      survived=$((survived + 1))
    else
      say "$1" "$3" "$check" seen
      seen=$((seen + 1))
    fi
  done
}

each() {
  local i name file checks old new who what where applies
  for ((i = 0; i < ${#mutants[@]}; i++)); do
    fields "${mutants[i]}"
    wanted "$name" || continue
    who=$name what=$checks where=$file last=$file applies=yes
    edit "$file" "$old" "$new" || applies=
    while [ $((i + 1)) -lt ${#mutants[@]} ]; do
      fields "${mutants[i + 1]}"
      [ -z "$name" ] || break
      i=$((i + 1))
      last="$last $file"
      edit "$file" "$old" "$new" || applies=
    done
    judge "$who" "$what" "$where" "$applies"
    heal
  done
}

all_checks() {
  local m name file checks old new
  for m in "${mutants[@]}"; do
    fields "$m"
    if [ -n "$name" ] && wanted "$name"; then echo "$checks"; fi
  done | tr ' ' '\n' | sort -u
}

all_names() {
  local m name file checks old new
  for m in "${mutants[@]}"; do
    fields "$m"
    [ -z "$name" ] || ! wanted "$name" || printf '%s\n' "$name"
  done
}

# Every jobs-th mutant to a run of its own; 1 if any of them fails.
deal() {
  local i worker=() dealt rc=0
  for ((i = 0; i < jobs; i++)); do
    mapfile -t dealt < <(all_names | awk -v n="$jobs" -v i="$i" 'NR % n == i')
    [ ${#dealt[@]} -gt 0 ] || continue
    JOBS=1 MUTANT_DIR=$work/$i bash "$0" "${dealt[@]}" >"$work/$i.said" 2>&1 &
    worker+=("$!")
  done
  for i in "${!worker[@]}"; do
    wait "${worker[i]}" && continue
    rc=1
    mv "$work/$i.said" "$work/x$i.said" # what failed is said last
  done
  cat "$work"/*.said
  return "$rc"
}

pass_first() {
  local check
  for check in "${needed[@]}"; do
    run_check "$check" || {
      tail -n 20 "$work/said"
      echo "mutants: $check fails without any mutant"
      exit 1
    }
  done
}

work_through() {
  local check
  mapfile -t needed < <(all_checks)
  copy
  make_for "${needed[@]}" >"$work/log" 2>&1 || stop 'the build'
  say mutant file check ''
  [ "${MUTANT_PASSED-}" = 1 ] || pass_first
  each
  printf 'mutants: %d seen, %d survived\n' "$seen" "$survived"
  [ "$survived" = 0 ]
}

# The names of $1 of them.
drawn() {
  local m name file checks old new line=
  for m in "${mutants[@]}" $'a\x1f'; do
    fields "$m"
    [ -z "$name" ] || [ -z "$line" ] || echo "$line"
    if [ -n "$name" ]; then line="$name $file"; else line="$line $file"; fi
  done | draw_some mutants "$1" $((($1 * 3 + 3) / 4))
}

each_check() {
  local m name file checks old new check now
  for m in "${mutants[@]}"; do
    fields "$m"
    [ -z "$name" ] || now=$checks
    for check in $now; do echo "$check $file"; done
  done | sort -u
}

# Says which mutants do not apply; nothing is built.
apply() {
  local m name file checks old new bad=0
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  tree=$work/tree
  for m in "${mutants[@]}"; do
    fields "$m"
    mkdir -p "$tree/$(dirname "$file")"
    cp "$src/$file" "$tree/$file" && edit "$file" "$old" "$new" || bad=1
  done
  [ "$bad" = 0 ] && echo "mutants: all ${#mutants[@]} edits apply"
}

if [ "${1-}" = --watch ]; then
  export MUTANT_WATCH=1
  shift
fi
for list in "$here"/list*.sh; do
  case $list in
  */list_watch.sh)
    [ -n "${MUTANT_WATCH-}" ] || [ "${1-}" = --apply ] || continue
    ;;
  *) [ -z "${MUTANT_WATCH-}" ] || continue ;;
  esac
  . "$list"
done
case ${1-} in
--apply) apply && exit || exit 1 ;;
--checks) each_check && exit ;;
--drawn) drawn "${MUTANT_MOST:-3}" && exit ;;
esac
names=("$@")
n=$(all_names | wc -l)
[ "$n" -gt 0 ] || { echo "mutants: no such mutant"; exit 2; }
if [ $# = 0 ] && [ "$n" -gt "${MUTANT_MOST:-$n}" ]; then
  mapfile -t names < <(drawn "$MUTANT_MOST")
elif [ $# = 0 ] && [ -n "${KV_PART-}" ]; then
  mapfile -t names < <(all_names | draw_part)
fi
if [ "$n" -gt 1 ] && [ "$jobs" -gt 1 ]; then
  rm -f "$work"/*.said
  deal
else
  work_through
fi
