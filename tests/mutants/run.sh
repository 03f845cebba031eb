#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Can the checks fail? Builds a copy of the tree, seeds one fault of faults.txt
# after the other, builds what changed, and runs the checks that must see it.
# Exit 0 only if each of them does. README.md says how to add a fault.
#
#   tests/mutants/run.sh [WHICH...]  all faults, or these: a line number of
#                                    faults.txt, a check, a place
#   tests/mutants/run.sh --watch [WHICH...]   those of checks watch:.., in a
#                                    build by configure --enable-watch
#   tests/mutants/run.sh --apply     does each fault change what it names? A few
#                                    seconds; nothing is built
#   tests/mutants/run.sh --checks    lines: a check, a file whose faults it sees
#   tests/mutants/run.sh --drawn     the places of MUTANT_MOST of them
#
# Several faults are dealt out to as many copies as there are JOBS, since most
# of the time goes into one compilation and one link after the other.
#
# Environment: CC, JOBS, MUTANT_DIR (kept and used again; else temporary),
# MUTANT_MOST: that many of all, chosen by .ci/draw.sh: most of files that
# changed, so that each is run again and again. MUTANT_PASSED=1: the checks are
# known to pass without a fault, so they do not run without one first.
# Needs ./configure in the tree.
set -u
here=$(cd "$(dirname "$0")" && pwd)
src=$(cd "$here/../.." && pwd)
jobs=${JOBS:-2}
. "$src/.ci/draw.sh"
export LC_ALL=C OMP_WAIT_POLICY=passive KV_QUICK=1 KV_SAYS=9999
watch=no mode=
case ${1-} in
--watch) watch=yes && shift ;;
--apply) watch=all mode=apply ;;
--*) mode=${1#--} ;;
esac
if [ -n "${MUTANT_DIR-}" ] && [ -z "$mode" ]; then
  mkdir -p "$MUTANT_DIR"
  work=$(cd "$MUTANT_DIR" && pwd)
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
fresh=$work/fresh
tree=$work/tree
build=$work/build
survived=0 seen=0

say() { printf '%-36s %-28s %s\n' "$@"; }

# --- the list ----------------------------------------------------------------

# By the index of a fault: its unit, line, checks, file, place and expression.
unit=() line=() checks=() file=() place=() change=()
load() {
  local u l c f p e
  (cd "$src" && find . \( -path './build*' -o -path ./.git -o -path ./tests \) \
    -prune -o -type f -print | sed 's,^[.]/,,') >"$work/files"
  awk -v watch="$watch" -f "$here/faults.awk" "$work/files" \
    "$here/faults.txt" >"$work/faults" || exit 1
  while IFS=$'\t' read -r u l c f p e; do
    unit+=("$u") line+=("$l") checks+=("${c//,/ }") file+=("$f") place+=("$p")
    change+=("$e")
  done <"$work/faults"
}

# Is fault $1 one of those that the words behind it name?
is_of() {
  local i=$1 word check
  shift
  [ $# -gt 0 ] || return 0
  for word; do
    case $word in
    "${line[i]}" | "${place[i]}" | "${place[i]%%:*}" | "${file[i]}") return ;;
    esac
    for check in ${checks[i]}; do
      case $word in "$check" | "${check%%=*}") return ;; esac
    done
  done
  return 1
}

# The indices of faults that these words name.
indices() {
  local i
  for i in "${!unit[@]}"; do
    if is_of "$i" "$@"; then echo "$i"; fi
  done
}

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
  [ -e Makefile ] || "$tree/configure" -q --disable-static --without-cuda \
    "--$([ "$watch" = yes ] && echo en || echo dis)able-watch" \
    ${CC:+CC="$CC"} CFLAGS='-O1' >"$work/log" 2>&1 || stop configure
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
    case $check in
    watch:check_*) programs="$programs ${check#watch:}" ;;
    watch:*) ;; # makes what it needs
    *.sh | *.cases) scripts=yes ;;
    *) programs="$programs check_$check" ;;
    esac
    [ "$check" != module ] || scripts=yes # it loads what scripts preload
  done
  make -s -C "$build/ref" -j"$jobs" &&
    make -s -C "$build/traces" -j"$jobs" &&
    make -s -C "$build/gpu" -j"$jobs" &&
    make -s -C "$build/sim" -j"$jobs" libsim.la libcli.la kvreplay &&
    { [ -z "$programs" ] ||
      make -s -C "$build/tests" -j"$jobs" $programs; } &&
    { [ -z "$scripts" ] ||
      { make -s -C "$build/sim" -j"$jobs" libkvreplay.la &&
        make -s -C "$build/analysis" -j"$jobs" &&
        make -s -C "$build/tests" -j"$jobs" tools; }; }
}

# run_check CHECK [END]: what it says, but for what passed, to $work/said. It
# ends after a line that matches END: a program of cmocka's goes on.
run_check() (
  set -o pipefail
  export top_srcdir=$tree top_builddir=$build
  case $1 in
  watch:check_*) set -- "$build/tests/${1#watch:}" "${2-}" ;;
  watch:*) set -- "bash $tree/tests/watch.sh ${1#watch:}" "${2-}" ;;
  *.sh) set -- "bash $tree/tests/$1" "${2-}" ;;
  *.cases) set -- "bash $tree/tests/cases.sh $tree/tests/$1" "${2-}" ;;
  *) set -- "$build/tests/check_$1" "${2-}" ;;
  esac
  timeout 600 $1 2>&1 |
    sed -e '/^\[ *\(RUN\|OK\|PASSED\|=*\) *\]/d' ${2:+-e "/$2/q"} >"$work/said"
)

# --- faults ------------------------------------------------------------------

# seed INDEX: its expression changes the function, or the file, that it names.
seed() {
  local path=$tree/${file[$1]} name=${place[$1]#*:} cut=$work/cut
  rm -rf "$cut" && mkdir "$cut" && : >"$cut/before" && : >"$cut/after"
  if [ "$name" = "${place[$1]}" ]; then
    cp "$path" "$cut/body"
  else
    awk -v name="$name" -v to="$cut" -f "$here/body.awk" "$path" || {
      say "${place[$1]}" "line ${line[$1]}" 'IS NOT DEFINED ONCE'
      return 1
    }
  fi
  sed -e "${change[$1]}" "$cut/body" >"$cut/new" &&
    ! cmp -s "$cut/body" "$cut/new" || {
    say "${place[$1]}" "line ${line[$1]}" 'CHANGES NOTHING'
    return 1
  }
  cat "$cut/before" "$cut/new" "$cut/after" >"$path"
}

programs() { # of the checks of these faults
  local i check
  for i; do
    for check in ${checks[i]}; do echo "${check%%=*}"; done
  done | sort -u
}

# judged INDEX PROGRAM RC: each check of the fault by what PROGRAM said.
judged() {
  local check text how
  for check in ${checks[$1]}; do
    text=${check#"$2"} text=${text#=} how=seen
    [ "${check%%=*}" = "$2" ] || continue
    case $3 in
    0) how=SURVIVED ;;
    77) how='SKIPPED' ;;
    124) how='TOOK TOO LONG' ;;
    *) [ -z "$text" ] || grep -q -e "$text" "$work/said" ||
      how='SEEN AS ANOTHER' ;;
    esac
    say "${place[$1]}" "$check" "$how, $((SECONDS - start)) s"
    if [ "$how" = seen ]; then
      seen=$((seen + 1))
    else
      survived=$((survived + 1))
    fi
  done
}

# texts PROGRAM INDEX...: what it must say, a line a check, empty for anything.
texts() {
  local i program=$1 check
  for i in "${@:2}"; do
    for check in ${checks[i]}; do
      check=$check=
      [ "${check%%=*}" != "$program" ] || echo "${check#*=}" | sed 's/=$//'
    done
  done
}

# One unit: the faults of these indices together. A program that need say one
# thing only goes on no longer than that.
judge() {
  local i program all=() end text rc start=$SECONDS
  for i; do
    if seed "$i"; then all+=("$i"); else survived=$((survived + 1)); fi
  done
  set -- "${all[@]}"
  [ $# -gt 0 ] || return
  if ! make_for $(programs "$@") >"$work/log" 2>&1; then
    say "${place[$1]}" "line ${line[$1]}" 'DOES NOT BUILD'
    tail -n 5 "$work/log"
    survived=$((survived + $#))
  else
    for program in $(programs "$@"); do
      mapfile -t text < <(texts "$program" "$@")
      end=${text[0]:-^\[  FAILED  \]}
      [ ${#text[@]} = 1 ] || end=
      KV_FIRST=$([ -n "${text[0]}$end" ] || echo 1) run_check "$program" "$end"
      rc=$?
      for i; do judged "$i" "$program" "$rc"; done
    done
  fi
  for i; do cp "$fresh/${file[i]}" "$tree/${file[i]}"; done # newer than built
}

# --- the run -----------------------------------------------------------------

units() { # of these indices, a line each
  local i
  for i; do echo "${unit[i]} $i"; done | awk '
    $1 != last && NR > 1 { print "" }
    { printf "%s ", $2; last = $1 }
    END { print "" }'
}

# Every jobs-th unit to a run of its own; 1 if any of them fails.
deal() {
  local i worker=() dealt rc=0
  for ((i = 0; i < jobs; i++)); do
    mapfile -t dealt < <(units "$@" | awk -v n="$jobs" -v i="$i" 'NR % n == i' |
      tr -s ' ' '\n' | grep .)
    [ ${#dealt[@]} -gt 0 ] || continue
    mapfile -t dealt < <(for i in "${dealt[@]}"; do echo "${line[i]}"; done)
    JOBS=1 MUTANT_DIR=$work/$i bash "$0" \
      $([ "$watch" = no ] || echo --watch) "${dealt[@]}" \
      >"$work/$i.said" 2>&1 &
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
  local program
  for program in $(programs "$@"); do
    run_check "$program" || {
      tail -n 20 "$work/said"
      echo "mutants: $program fails without any fault"
      exit 1
    }
  done
}

work_through() {
  local some
  copy
  make_for $(programs "$@") >"$work/log" 2>&1 || stop 'the build'
  [ "${MUTANT_PASSED-}" = 1 ] || pass_first "$@"
  while read -r some; do judge $some; done < <(units "$@")
  printf 'mutants: %d seen, %d survived\n' "$seen" "$survived"
  [ "$survived" = 0 ]
}

# The places of $1 faults.
drawn() {
  local i
  for i in "${!unit[@]}"; do echo "${place[i]} ${file[i]}"; done | sort -u |
    draw_some mutants "$1" $((($1 * 3 + 3) / 4))
}

each_check() {
  local i check
  for i in "${!unit[@]}"; do
    for check in ${checks[i]}; do echo "${check%%=*} ${file[i]}"; done
  done | sort -u
}

# Says which faults change nothing; nothing is built.
apply() {
  local i bad=0
  tree=$work/tree
  for i in "${!unit[@]}"; do
    mkdir -p "$tree/$(dirname "${file[i]}")"
    cp "$src/${file[i]}" "$tree/${file[i]}"
    seed "$i" || bad=1
  done
  [ "$bad" = 0 ] && echo "mutants: all ${#unit[@]} faults apply"
}

load
case $mode in
apply) apply && exit || exit 1 ;;
checks) each_check && exit ;;
drawn) drawn "${MUTANT_MOST:-3}" && exit ;;
?*) echo "mutants: no option --$mode" && exit 2 ;;
esac
mapfile -t picked < <(indices "$@")
[ ${#picked[@]} -gt 0 ] || { echo 'mutants: no such fault'; exit 2; }
if [ $# = 0 ] && [ "${#picked[@]}" -gt "${MUTANT_MOST:-${#picked[@]}}" ]; then
  mapfile -t places < <(drawn "$MUTANT_MOST")
  mapfile -t picked < <(indices "${places[@]}")
elif [ $# = 0 ] && [ -n "${KV_PART-}" ]; then
  mapfile -t picked < <(units "${picked[@]}" | draw_part | tr -s ' ' '\n' |
    grep .)
fi
if [ "$(units "${picked[@]}" | wc -l)" -gt 1 ] && [ "$jobs" -gt 1 ]; then
  rm -f "$work"/*.said
  deal "${picked[@]}"
else
  work_through "${picked[@]}"
fi
