# SPDX-License-Identifier: Apache-2.0
#
# What a run takes of that for which it has not the time; sourced by .ci/run,
# tests/mutants/run.sh and tests/watch.sh, never run.
#
# It is chosen by the tree, files included that are not committed yet, so that
# a message that is amended changes nothing; and by what differs from the commit
# that tests/last-whole-run names, at which everything passed: first what such
# files touch, up to a bound, then a share that every tree chooses anew.
# KV_ALL=1 takes everything, and .ci/run then notes in that file what passed
# (.ci/whole.sh).
#
#   draw_all             is everything taken?
#   draw_number FOR OF   below OF, by the tree, and by the word FOR
#   draw_one FOR WORD... one of the words; all of them where everything is taken
#   draw_base            the commit of the last whole run; fails without one,
#                        or where git does not know it
#   draw_changed         the files that differ from it
#   draw_some FOR MOST FIRST
#                        of the lines on stdin, each a name and the files that
#                        touch it, MOST names: those that are touched, at most
#                        FIRST of them, and the others evenly from all the rest.
#                        Says on stderr how many and why
#   draw_part            of the lines on stdin the part KV_PART=2/6: the second
#                        of every six; all of them without it
#   draw_why             a sentence: the tree, and since when
draw_src=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

draw_all() { [ "${KV_ALL-}" = 1 ]; }

# The tree that a commit of what lies here would have.
draw_tree() {
  local index tree
  index=$(mktemp)
  tree=$(cd "$draw_src" && cp "$(git rev-parse --git-path index)" "$index" &&
    export GIT_INDEX_FILE=$index && git add -A . && git write-tree) \
    2>/dev/null || tree=none
  rm -f "$index" "$index.lock"
  echo "$tree"
}

draw_number() {
  local sum
  sum=$(echo "${KV_TREE:=$(draw_tree)} $1" | cksum)
  echo $((${sum%% *} % $2))
}

draw_one() {
  local for=$1
  shift
  if draw_all; then echo "$*"; else
    shift "$(draw_number "$for" $#)"
    echo "$1"
  fi
}

draw_base() {
  local commit=none
  read -r commit _ 2>/dev/null <"$draw_src/tests/last-whole-run"
  [ "$commit" != none ] &&
    git -C "$draw_src" cat-file -e "$commit^{commit}" 2>/dev/null &&
    echo "$commit"
}

draw_changed() {
  local base
  base=$(draw_base) || return 0
  (cd "$draw_src" && git diff --name-only "$base" &&
    git ls-files --others --exclude-standard) |
    grep -vxF tests/last-whole-run | sort -u
}

draw_some() {
  awk -v from="$(draw_number "$1" 1000003)" -v name="$1" -v most="$2" \
    -v first="$3" -v all="${KV_ALL-}" '
    # k of the n lines in the list, evenly, from a place on.
    function take(list, n, k,   i) {
      if (k > n) k = n
      for (i = 0; i < n; i++) if ((i * k + from) % n < k) taken[list[i]] = 1
      return k
    }
    FILENAME == ARGV[1] { changed[$1] = 1; next }
    {
      line[lines++] = $1
      for (i = 2; i <= NF && !($i in changed); i++);
      if (i <= NF) touched[touches++] = $1
      else other[others++] = $1
    }
    END {
      if (all == 1) most = first = lines
      by = take(touched, touches, first)
      rest = take(other, others, most - by)
      for (i = 0; i < lines; i++) if (line[i] in taken) print line[i]
      printf "%s: %d of the %d that changed files touch, %d of %d others\n", \
        name, by, touches, rest, others >"/dev/stderr"
    }' <(draw_changed) - # it is empty without a base: then nothing is touched
}

draw_part() { awk -v part="${KV_PART:-1/1}" '
  BEGIN { split(part, p, "/") }
  NR % p[2] == p[1] % p[2]'; }

draw_why() {
  local base
  draw_all && echo 'everything (KV_ALL=1)' && return
  printf 'by the tree %.12s' "${KV_TREE:=$(draw_tree)}"
  if base=$(draw_base); then
    printf ' and %d files that differ from %.12s, the last whole run\n' \
      "$(draw_changed | wc -l)" "$base"
  else
    printf '%s\n' '; no whole run is known (tests/last-whole-run)'
  fi
}
