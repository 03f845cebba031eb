#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The house rules that a grep can hold. Usage: check_house.sh [SOURCE TREE].
# It first proves on a small tree of its own that each rule can be broken.
#
#   includes  rooted, of files that exist, along the arrows of rooms, and within
#   calls     along the arrows within a room, and gpu/host's order (calls.awk)
#   walls     the core sees nothing else, and what others see of it (core.sh)
#   budgets   a room has no more lines than tests/house/budgets.tsv grants
#   rooms     no folder holds more than 60 files, those of methods.mk apart
#   licence   an SPDX line among the first five of every source file
#   shape     80 columns, 800 lines, no tab, no unfinished word, no NaN let pass
#   lists     every file is named by the Makefile.am of its folder; every method
#             has its source, its twin in gpu/ (or is ref-only) and its test;
#             every format its two files and its section
#   pages     those of methods are what the methods' files say (methods.awk)
#   prose     a page has no more hard sentences than its budget (prose.sh)
#   recipe    a method that was added by the recipe of CONVENTIONS.md is named
#             in the files of that recipe and nowhere else in code
#   mutants   every seeded fault still applies (tests/mutants)
#   format    clang-format 14 has nothing to change (a later one: only said)
#
# check_house.sh --sizes prints budgets.tsv with the sizes of today, --prose
# prose.tsv.
#
# One line for each violation on stdout; exit 0 when there is none.
set -euo pipefail
export LC_ALL=C.UTF-8
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/tests/house/host.sh"
. "$here/tests/house/core.sh"
. "$here/tests/house/prose.sh"
rooms='ref gpu traces sim analysis tests'
generated=$(echo config.h commit.h {ref,gpu}/methods/list.h ref/parts/scored.h \
  {ref,gpu}/formats/list.h gpu/formats/all.h sim/new_texts.h \
  analysis/{measures,page_js,ranked_txt,style_css,views_sql}.h \
  traces/trace/models_csv.h \
  ref/METHODS_{EACH,TABLE}.md)

# What a file of room $1 may include, as an extended regular expression.
arrows() {
  case $1 in
  ref) echo 'ref/' ;;
  gpu) echo 'gpu/|ref/' ;;
  traces)
    echo 'traces/|ref/(ground/|kernels/kernels[.]h' \
      '|lane/(assets?|decisions|trace)[.]h)' | tr -d ' '
    ;;
  sim) echo 'sim/|gpu/|ref/|traces/' ;;
  analysis)
    echo 'analysis/|traces/option/|sim/store/(tables|union)[.]h' \
      '|ref/ground/sha256[.]h' | tr -d ' '
    ;;
  tests) echo '(tests|analysis|sim|gpu|ref|traces)/' ;;
  esac
}

# Rooms within room $1, in an order in which each includes only itself and
# those before it.
floors() {
  case $1 in
  ref) echo ground pages kernels formats lane backend parts methods ;;
  gpu) echo shared emu block formats lane parts backend methods module host ;;
  traces) echo text container option trace decisions cli ;;
  sim)
    echo ask replay/measure replay/layout replay/engine store run/sweep \
      run/look run/compare run/grade run/laws run/session run/tune \
      cli/show cli/capacity cli/sheet cli
    ;;
  analysis) echo database tables compare page figures ;;
  esac
}

# May a file of the folder $1 include one of the folder $2, of the same room?
upwards() {
  local floor room=${1%%/*}
  for floor in $(floors "$room"); do
    [ "$2" != "$room/$floor" ] || return 0
    [ "$1" != "$room/$floor" ] || return 1
  done
}

# Files of the tree $top below the rooms whose names match the pattern $1.
files() {
  local room
  for room in $rooms; do
    [ -d "$top/$room" ] || continue
    (cd "$top" && find "$room" -path traces/tiny -prune -o -type f \
      -regextype posix-extended -regex ".*$1" -print)
  done | grep -vxF "$(tr ' ' '\n' <<<"$generated")" | sort
}

# Everything that somebody wrote.
written() {
  files '[.](c|h|cc|cu|cuh|sh|am|sql|awk|py|mk|md)'
  (cd "$top" && for f in configure.ac Makefile.am docs.mk methods.mk \
    quickstart kvreplay.pc.in .ci/* README.md \
    CONVENTIONS.md CONTRIBUTING.md; do
    if [ -e "$f" ]; then echo "$f"; fi
  done)
}

# NAME of each #include "NAME" of a file: FILE NAME, line by line.
included() {
  (cd "$top" && files '[.](c|h|cc|cu|cuh)' | xargs -d '\n' awk '
    /^ *# *include *"/ { split($0, part, "\""); print FILENAME, part[2] }')
}

includes() {
  local file name allowed
  while read -r file name; do
    [[ " $generated " != *" $name "* ]] || continue
    allowed=$(arrows "${file%%/*}")
    if [ ! -e "$top/$name" ]; then
      echo "$file: includes \"$name\", which is not a path from the top"
    elif ! [[ $name =~ ^($allowed) ]]; then
      echo "$file: includes \"$name\" against the arrows"
    elif [ "${file%%/*}" = "${name%%/*}" ] &&
      ! upwards "${file%/*}" "${name%/*}"; then
      echo "$file: includes \"$name\" of a room that comes later"
    fi
  done < <(included)
}

calls() {
  local room list
  for room in ref gpu traces sim analysis; do
    mapfile -t list < <(files '[.](c|h|cc|cu|cuh)' | grep "^$room/[^/]*/")
    (cd "$top" && awk -v room="$room" -v order="$(floors "$room")" \
      -f "$here/tests/house/calls.awk" "${list[@]}" /dev/null)
  done
  host_calls
}

# Files that somebody made: data of fuzzers and traces are no rooms.
rooms() {
  local method
  method=$(methods | sed 's/[.]c$//' | paste -sd '|')
  files '' | grep -vE "/corpus_|/methods/($method)[.](c|h|cu)\$" |
    sed 's,/[^/]*$,,' | sort | uniq -c |
    awk '$1 > 60 { print $2 ": " $1 " files, 60 at most" }'
}

licence() {
  (cd "$top" && written | xargs -d '\n' awk '
    FNR <= 5 && /SPDX-License-Identifier: Apache-2.0/ { has[FILENAME] = 1 }
    END {
      for (i = 1; i < ARGC; i++)
        if (!has[ARGV[i]]) print ARGV[i] ": no SPDX line among the first five"
    }')
}

# Says of each file on stdin how many of its lines match $1, where the first
# is, and $2.
lines() {
  (cd "$top" && xargs -rd '\n' grep -nHE "$1" || true) |
    awk -F : -v what="$2" '
      !n[$1]++ { file[++files] = $1; at[$1] = $2 }
      END {
        for (i = 1; i <= files; i++)
          printf "%s:%d: %s (%d lines)\n", file[i], at[file[i]], what,
            n[file[i]]
      }'
}

shape() {
  local words='TO''DO|FIX''ME|X''XX|place''holder'
  (cd "$top" && written | xargs -d '\n' wc -l) | awk '
    $1 > 800 && $2 != "total" { print $2 ": " $1 " lines, 800 at most" }'
  written | grep -v '[.]md$' | lines '^.{81,}' 'over 80 columns'
  written | grep -v '[.]md$' |
    lines "(^|[^A-Za-z_])($words)([^A-Za-z_]|\$)" 'a word of unfinished work'
  files '[.](c|h)' | lines "$(printf '\t')" 'a tab'
  files '[.](c|h|cc)' |
    lines 'if \(fabsf?\([^;]*\) > [^;]*\)( fail.*)?$' 'passes a NaN: !(x <= y)'
}

methods() {
  sed -n 's/^METHODS += \([^#]*\).*/\1/p' "$top/methods.mk" |
    tr -s ' ' '\n'
}

# Those that must have a twin.
twins() {
  grep -v ' # ref-only$' "$top/methods.mk" |
    sed -n 's/ [a-z0-9_]*[.]c # scorer$/ scored.c/
      s/^METHODS += \([a-z0-9_]*\)[.]c.*/\1.cu/p' | sort -u
}

formats() {
  sed -n 's/^FORMATS += //p; s/^REF_FORMATS += //p' "$top/formats.mk" \
    2>/dev/null
}

# A format has its file in ref, its section, and its file in gpu where kernels
# read it.
coded_lists() {
  local name
  for name in $(formats); do
    [ -e "$top/ref/formats/$name" ] || echo "ref/formats/$name: missing"
    [ -e "$top/gpu/formats/${name%.c}.cuh" ] ||
      grep -qx "REF_FORMATS += $name" "$top/formats.mk" ||
      echo "gpu/formats/${name%.c}.cuh: missing"
    grep -qsx "## ${name%.c}" "$top/ref/FORMATS.md" ||
      echo "ref/FORMATS.md: no section '## ${name%.c}'"
  done
}

# Is $2 in the folder $1 there because of a line of methods.mk, formats.mk?
listed() {
  case $1/$2 in
  ref/methods/*.c) methods | grep -qxF "$2" ;;
  ref/methods/*.h) methods | grep -qxF "${2%.h}.c" ;;
  gpu/methods/*.cu) twins | grep -qxF "$2" ;;
  ref/formats/*.c) formats | grep -qxF "$2" ;;
  gpu/formats/*.cuh) formats | grep -qxF "${2%.cuh}.c" ;;
  *) return 1 ;;
  esac
}

lists() {
  local file base dir name line='METHODS [+]= [a-z0-9_]+[.]c'
  line+='( # (ref-only|of-file|scorer))?'
  if grep -vE "^#|^METHODS =\$|^$line\$|^\$" "$top/methods.mk"; then
    echo 'methods.mk: a line that is not METHODS += NAME.c'
  fi
  for name in $(twins); do
    [ -e "$top/gpu/methods/$name" ] || echo "gpu/methods/$name: missing"
  done
  for name in $(methods); do
    [ -e "$top/ref/methods/$name" ] || echo "ref/methods/$name: missing"
    [ -e "$top/tests/methods/${name%.c}.txt" ] ||
      echo "tests/methods/${name%.c}.txt: missing"
  done
  while read -r file; do
    base=${file##*/} dir=${file%/*}
    if listed "$dir" "$base"; then continue; fi
    while [ ! -e "$top/$dir/Makefile.am" ]; do
      case $dir in
      */*) base=${dir##*/}/$base dir=${dir%/*} ;;
      *) break ;;
      esac
    done
    # A program of one file is named without its ending.
    name=${base//./[.]}
    [[ $file != tests/*.c ]] || name="${name%\[.]c}([.]c)?"
    grep -qsE "(^|[ /	])$name( |	|\$)" "$top/$dir/Makefile.am" ||
      echo "$file: not named in $dir/Makefile.am"
  done < <(files '[.](c|h|cc|cu|cuh|sh|md|awk|sql|css)' | grep -v '/corpus_')
}

# The page $1 of methods, as the files of the tree make it.
page() {
  (cd "$top" && awk -v page="$1" -f "$here/ref/methods.awk" methods.mk 2>&1)
}

pages() {
  local name
  for name in EACH TABLE; do
    page "$name" | cmp -s - "$top/ref/METHODS_$name.md" ||
      echo "ref/METHODS_$name.md: not what ref/methods/*.c say"
  done
}

# Code that names knorm, but its own files, and those of presses.
recipe() {
  local name=knorm own file
  own=$(echo ref/methods/$name.c gpu/parts/scorers.cuh \
    tests/python/{presses_rows,evaluate_press}.py \
    sim/python/kvreplay/evaluate/press.py)
  while read -r file; do
    [[ " $own " = *" $file "* ]] ||
      echo "$file: names $name; a method stands in its own files only"
  done < <(cd "$top" && files '[.](c|h|cc|cu|cuh|am|sql|py)$' |
    grep -v '^tests/bench/' | xargs -rd '\n' grep -lw "$name" || true)
}

# The release of clang-format here; 0: none.
formatter() {
  local text
  text=$(clang-format --version 2>/dev/null) || true
  [[ $text =~ version\ ([0-9]+) ]] && echo "${BASH_REMATCH[1]}" || echo 0
}

format() {
  local release found
  release=$(formatter)
  [ "$release" -ge 14 ] || {
    echo 'check_house: no clang-format from 14 on here, format not checked' >&2
    return 0
  }
  found=$( (cd "$top" && files '[.](c|h)' |
    xargs -d "\n" clang-format --dry-run --Werror 2>&1 || true) |
    awk -F: '/: error: / && !told[$1]++ {
      print $1 ": clang-format -i changes it"
    }')
  [ -n "$found" ] || return 0
  if [ "$release" = 14 ]; then
    printf '%s\n' "$found"
  else
    printf 'check_house: clang-format %d is not 14, not checked: %s\n' \
      "$release" "$(cut -d : -f 1 <<<"$found" | paste -sd ' ')" >&2
  fi
}

mutants() {
  [ ! -e "$top/tests/mutants/run.sh" ] ||
    bash "$top/tests/mutants/run.sh" --apply | grep -v '^mutants: all' || true
}

check() {
  top=$1
  includes
  calls
  walls
  budgets
  rooms
  licence
  shape
  lists
  coded_lists
  pages
  prose
  recipe
  mutants
  format
}

# A tree without a violation, in the folder $1.
plant() {
  local tag='SPDX-License-Identifier: Apache-2.0' facts
  facts=$(printf ' * %s: x.\n' Family Acts Needs Bound Bytes Gather Reduce \
    Sample Cost)
  mkdir -p "$1"/{ref,gpu,tests}/methods "$1"/{sim,traces,analysis,ref/lane}
  printf '/* %s */\n' "$tag" | tee "$1"/ref/{a.h,b.c,lane/c.c} "$1"/sim/s.h \
    "$1"/tests/methods/{m,r}.txt "$1"/ref/methods/m.h \
    "$1"/gpu/{g.cuh,methods/m.cu} "$1"/traces/t.c >/dev/null
  printf '/* %s\n *\n%s\n */\nconst int x = {\n    .title = "x",\n};\n' \
    "$tag" "$facts" | tee "$1"/ref/methods/{m,r}.c >/dev/null
  printf '#include "ref/methods/m.h"\n' >>"$1/gpu/methods/m.cu"
  printf '#include "gpu/g.cuh"\n' >>"$1/sim/s.h"
  echo 'int kv_late(int x) { return x; }' >>"$1/ref/methods/m.c"
  printf '# %s\nX = a.h b.c lane/c.c\n' "$tag" >"$1/ref/Makefile.am"
  printf '# %s\nX = s.h\n' "$tag" >"$1/sim/Makefile.am"
  printf '# %s\nX = t.c\n' "$tag" >"$1/traces/Makefile.am"
  printf '# %s\nX = g.cuh\n' "$tag" >"$1/gpu/Makefile.am"
  host_plant "$1"
  core_plant "$1"
  printf '# %s\nMETHODS =\nMETHODS += m.c\nMETHODS += r.c # ref-only\n' \
    "$tag" >"$1/methods.mk"
  top=$1 page EACH >"$1/ref/METHODS_EACH.md"
  top=$1 page TABLE >"$1/ref/METHODS_TABLE.md"
  printf 'BasedOnStyle: LLVM\n' >"$1/.clang-format"
  prose_plant "$1"
}

# Breaks rule by rule: FILE, what is appended to it, what must be said.
broken() {
  local file text want bad="FIX""ME"
  while IFS='|' read -r file text want; do
    [ -n "$file" ] || continue
    rm -rf "$scratch/t"
    plant "$scratch/t"
    printf '%b\n' "$text" >>"$scratch/t/$file"
    grep -qF "$want" <<<"$(check "$scratch/t" 2>/dev/null)" ||
      echo "check_house: does not see '$want' in $file"
  done <<END
ref/b.c|#include "a.h"|not a path from the top
ref/b.c|#include "sim/s.h"|against the arrows
traces/t.c|#include "sim/s.h"|against the arrows
ref/b.c|#include "gpu/g.cuh"|against the arrows
traces/t.c|#include "gpu/g.cuh"|against the arrows
analysis/a.c|#include "ref/a.h"|against the arrows
gpu/g.cuh|#include "sim/s.h"|against the arrows
ref/lane/c.c|int f(void) { return kv_late(1); }|calls kv_late of a room
$(host_broken)
$(core_broken)
$(prose_broken)
ref/n.c|int x;|no SPDX line
ref/b.c|// $(printf '%078d' 0)|over 80 columns
ref/b.c|$(printf '\\n%.0s' {1..800})|800 at most
ref/b.c|// $bad|unfinished
ref/b.c|\\tint x;|a tab
ref/b.c|  if (fabs(x - y) > 1e-6 * y) fail_msg("%g", x);|passes a NaN
ref/n.c|int x;|not named in ref/Makefile.am
ref/methods/n.h|int x;|not named in ref/Makefile.am
gpu/n.cc|#include "sim/s.h"|against the arrows
gpu/n.cu|int x;|not named in gpu/Makefile.am
gpu/methods/r.cu|int x;|not named in gpu/Makefile.am
methods.mk|METHODS += k.c|ref/methods/k.c: missing
methods.mk|METHODS += k.c|gpu/methods/k.cu: missing
methods.mk|METHODS += k.c # ref-only|ref/methods/k.c: missing
methods.mk|METHODS += k.c # no twin|not METHODS +=
methods.mk|METHODS += k.c|tests/methods/k.txt: missing
ref/METHODS_EACH.md|more|ref/METHODS_EACH.md: not what ref/methods/*.c say
ref/methods/r.c|    .paper = "x, arXiv:1",|ref/METHODS_TABLE.md: not what
methods.mk|METHODS += k.c j.c|not METHODS +=
sim/s.h|// knorm|a method stands in its own files only
formats.mk|FORMATS += k.c|ref/formats/k.c: missing
formats.mk|FORMATS += k.c|gpu/formats/k.cuh: missing
formats.mk|FORMATS += k.c|ref/FORMATS.md: no section
$([ "$(formatter)" != 14 ] ||
    echo 'ref/b.c|int  x ;|clang-format -i changes it')
END
}

# The check is worth something only if it is silent on a clean tree and not
# silent on any of the broken ones.
prove() {
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  plant "$scratch/t"
  check "$scratch/t" 2>/dev/null
  broken
}

if [ "${1:-}" = --sizes ] || [ "${1:-}" = --prose ]; then
  top=$here
  if [ "$1" = --sizes ]; then grants; else prose_grants; fi
  exit
fi
found=$(prove && check "${1:-$here}")
[ -z "$found" ] || { printf '%s\n' "$found" && exit 1; }
echo 'check_house: all rules hold'
