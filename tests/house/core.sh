# SPDX-License-Identifier: Apache-2.0
#
# For check_house.sh, which sources it: the wall around the core, and how large
# each room may be.
#
#   core      what a digest covers: it includes itself alone, and no library
#   clients   of the core they include installed headers and the ground floor
#   budgets   lines of every room, of the core's C, of what is read first
#             (tests/house/budgets.tsv)

# The core's files by their paths.
core='(ref|sim/(ask|replay))/'

# What a newcomer reads in an evening (sim/README.md).
evening='ref/(ground/arith|lane/(trace|method|lane)|backend/backend)[.]h
  ref/methods/(dense|window|h2o|snapkv|kivi)[.]c sim/replay/engine/.*'

# The ground floor: text, numbers, JSON, hashes, threads. Every room includes
# it; gpu has a floor of its own.
ground='ref/ground/'

in_core() { [[ $1 =~ ^$core ]]; }

# Headers that Makefile.am of the core's rooms install.
installed() {
  local room
  for room in ref ref/formats sim traces; do
    [ -e "$top/$room/Makefile.am" ] || continue
    sed -e ':a' -e '/\\$/ { N; s/\\\n//; ta' -e '}' "$top/$room/Makefile.am" |
      sed -nE 's/^(nobase_[a-z]*|refformats)_HEADERS =//p' | tr -s ' \t' '\n' |
      sed -n "s,^..*,$room/&,p"
  done
}

# A file of gpu is a twin of the core's; a test looks at everything.
walls() {
  local file name public
  public=" $(installed | tr '\n' ' ') "
  while read -r file name; do
    if in_core "$file"; then
      in_core "$name" || [[ " $generated " == *" $name "* ]] ||
        echo "$file: of the core, includes \"$name\", which is not"
    elif [[ $file != gpu/* && $file != tests/* && $name != "$ground"* ]] &&
      in_core "$name" && [[ $public != *" $name "* ]]; then
      echo "$file: includes \"$name\" of the core, which is not installed"
    fi
  done < <(included)
  (cd "$top" && files '[.](c|h)' | while read -r file; do
    if in_core "$file"; then echo "$file"; fi
  done | lines '^ *# *include <(jansson|sqlite3|cblas)[.]h>' \
    'a library in the core')
}

# ROOM LINES of each room that is named, a room within another counted there
# alone, and of `core` and `evening`. Generated files and recorded results are
# not counted.
sizes() {
  local all rest room path
  all=$( (cd "$top" && written | xargs -rd '\n' wc -l | grep -v ' total$') |
    awk '{ print $2 "\t" $1 }')
  for room in "$@"; do
    if [ "$room" = core ]; then
      printf 'core\t%d\n' "$(awk -v is="^$core" '
        $1 ~ /[.][ch]$/ && $1 ~ is { n += $2 }
        END { print n + 0 }' <<<"$all")"
      continue
    fi
    path=^$room/
    [ "$room" != evening ] || path="^($(echo $evening | tr ' ' '|'))$"
    rest=$(printf '%s\n' "$@" | grep "^$room/" | paste -sd '|') || true
    printf '%s\t%d\n' "$room" "$(awk -v is="$path" \
      -v not="^(${rest:-none})/" '$1 ~ is && $1 !~ not { n += $2 }
        END { print n + 0 }' <<<"$all")"
  done
}

budgets() {
  local table=$top/tests/house/budgets.tsv room most has
  for room in $rooms; do
    [ ! -d "$top/$room" ] || grep -q "^$room	" "$table" ||
      echo "tests/house/budgets.tsv: no line of $room"
  done
  while IFS=$'\t' read -r room has; do
    most=$(sed -n "s,^$room	\([0-9]*\).*,\1,p" "$table")
    [ "$has" -le "$most" ] || echo "$room: $has lines, $most at most:" \
      'take something away, or name the issue that grants lines'
  done < <(sizes $(grep -v '^#' "$table" | cut -f 1))
}

# The table, every room at its size of today, to the next hundred.
grants() {
  printf '# Lines that a room may have, and those that it had when they were\n'
  printf '# granted (check_house.sh --sizes). A feature that passes a budget\n'
  printf '# takes something away, unless its issue grants lines.\n'
  sizes core evening $rooms \
    sim/{ask,replay,store,run,cli,python} | awk -v OFS='\t' '
    BEGIN { fixed["core"] = 42000; fixed["evening"] = 6000 }
    { print $1, $1 in fixed ? fixed[$1] : int(($2 + 99) / 100) * 100, $2 }'
}

core_plant() {
  mkdir -p "$1/tests/house" "$1/sim/replay/engine"
  printf '/* SPDX-License-Identifier: Apache-2.0 */\n' \
    >"$1/sim/replay/engine/e.h"
  echo 'X += replay/engine/e.h' >>"$1/sim/Makefile.am"
  printf '%s\t900\n' core $rooms >"$1/tests/house/budgets.tsv"
}
core_broken() {
  echo 'sim/replay/engine/e.h|#include "sim/s.h"|of the core, includes'
  echo 'sim/replay/engine/e.h|#include <sqlite3.h>|a library in the core'
  echo 'sim/s.h|#include "sim/replay/engine/e.h"|which is not installed'
  printf 'ref/n.c|%s|core: ' "$(printf '\\n%.0s' {1..901})"
  echo
  printf 'ref/methods.h|%s|ref: ' "$(printf '\\n%.0s' {1..901})"
  echo
}
