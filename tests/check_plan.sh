#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# analysis/evaluations/PLAN.md is what it was before the first result: its text
# in the parent of the commit that added the first rows_*.csv.xz, but for its
# section Deviations. So is the section Plan of BITS.md, with bits_*.csv.xz.
# First, a repository with a changed plan must fail. Where there is no git
# history of a plan, 77.
. "$(dirname "$0")/sh.sh"
plan=analysis/evaluations/PLAN.md
rows='analysis/evaluations/rows_*.csv.xz'

# held TREE: 0 if its plan holds, or it has no results; 1 if not; 77 if its
# history does not reach back to its first result.
held() {
  local first parent
  git -C "$1" rev-parse HEAD >"$tmp/head" 2>&1 || return 77
  first=$(git -C "$1" log --diff-filter=A --format=%H --reverse -- "$rows" |
    head -n 1)
  if [ -z "$first" ]; then
    compgen -G "$1/$rows" >"$tmp/some" && return 77
    return 0
  fi
  parent=$(git -C "$1" rev-parse -q --verify "$first^") || return 77
  git -C "$1" show "$parent:$plan" >"$tmp/then.md" 2>"$tmp/err" || return 1
  diff <(fixed "$tmp/then.md") <(fixed "$1/$plan") >"$tmp/diff"
}

# fixed FILE: the text of its section Plan, or of all but Deviations.
fixed() {
  if [ "${plan##*/}" = BITS.md ]; then
    awk '/^## / { in_plan = $0 == "## Plan" } in_plan' "$1"
  else
    awk '/^## / { out = $0 == "## Deviations"; print } !out' "$1"
  fi
}

# want CODE WHAT
want() {
  local got=0
  held "$tmp/tree" || got=$?
  checks=$((checks + 1))
  [ $got = "$1" ] || fail "$2: $got, not $1"
}

command -v git >"$tmp/git" || {
  echo 'check_plan: no git here'
  exit 77
}

own() {
  git -C "$tmp/tree" -c user.name=x -c user.email=x@example.org "$@" \
    >"$tmp/out" 2>&1 || fail "git $*"
}
mkdir -p "$tmp/tree/analysis/evaluations"
printf '# Plan\n\n## Tests\n\nten\n\n## Deviations\n\nnone\n' >"$tmp/tree/$plan"
want 77 'no history'
own init
own add .
own commit -m plan
want 0 'no result'
sed -i s/ten/twelve/ "$tmp/tree/$plan"
own commit -am 'a change before results'
echo x >"$tmp/tree/analysis/evaluations/rows_a.csv.xz"
want 77 'a result that history does not know'
own add .
own commit -m rows
want 0 'a result'
sed -i s/none/one/ "$tmp/tree/$plan"
want 0 'a deviation'
own commit -am deviation
echo y >"$tmp/tree/analysis/evaluations/rows_b.csv.xz"
sed -i s/twelve/two/ "$tmp/tree/$plan"
own add .
own commit -m 'more rows and another plan'
want 1 'a changed plan'
own revert --no-edit HEAD
printf '\n## More\n' >>"$tmp/tree/$plan"
want 1 'a new section'

plan=analysis/evaluations/BITS.md rows='analysis/evaluations/bits_*.csv.xz'
printf '## Plan\n\nnine\n\n## Results\n\nnone\n' >"$tmp/tree/$plan"
own add .
own commit -m 'another plan'
echo x >"$tmp/tree/analysis/evaluations/bits_a.csv.xz"
own add .
own commit -m rows
sed -i s/none/one/ "$tmp/tree/$plan"
want 0 'results'
sed -i s/nine/ten/ "$tmp/tree/$plan"
want 1 'a changed section'

shows=("$tmp/diff" "$tmp/err")
unknown=0
for of in PLAN.md:rows BITS.md:bits; do
  plan=analysis/evaluations/${of%:*}
  rows="analysis/evaluations/${of#*:}_*.csv.xz"
  got=0
  held "$src" || got=$?
  case $got in
  77) unknown=1 ;;
  *) checks=$((checks + 1)) && [ $got = 0 ] || fail "$plan has changed" ;;
  esac
done
[ $unknown = 0 ] || [ $bad != 0 ] || {
  echo 'check_plan: no history of the first result here'
  exit 77
}
concluded
