# SPDX-License-Identifier: Apache-2.0
#
# The whole run, sourced by .ci/run: everything that KV_ALL=1 takes passed on
# one commit. It takes many hours, so it is assembled from sections, and long
# sections (asan, gpu, mutants) from parts: KV_ALL=1 KV_PART=2/6 .ci/run asan.
#
# Where KV_ALL=1 and nothing but tests/last-whole-run differs from HEAD, each
# section writes a line to that file, to be committed:
#
#   COMMIT SECTION PART RESULT SECONDS DATE
#
# RESULT is ok, skipped or FAILED; PART is 1/1 unless KV_PART is set. Lines of
# another commit are removed. At most two sections may be missing, each by a
# line that is written by hand and gives a reason that holds on every machine
# of two cores:
#
#   COMMIT SECTION - missing REASON
#
# When no section is left, the first line becomes COMMIT DATE SECONDS. It is
# "none - 0" until then, or names the whole run before.
whole_file=tests/last-whole-run

# The commit that is checked out, where KV_ALL=1 and nothing else is.
whole_commit() {
  ! draw_all || [ -n "$(git status --porcelain -- . ":!$whole_file" \
    2>/dev/null)" ] || git rev-parse HEAD 2>/dev/null || true
}

# whole_note COMMIT SECTION RESULT SECONDS
whole_note() {
  [ -n "$1" ] && [ "$1" = "$(whole_commit)" ] || return 0
  (
    flock 9
    awk -v commit="$1" -v section="$2" -v part="${KV_PART:-1/1}" '
      NR == 1 || ($1 == commit && !($2 == section && $3 == part))' \
      "$whole_file" >"$ci/.whole"
    echo "$1 $2 ${KV_PART:-1/1} $3 $4 $(date -u +%F)" >>"$ci/.whole"
    { head -n 1 "$ci/.whole" && sed 1d "$ci/.whole" | sort -k 2,2 -k 3,3V; } \
      >"$whole_file"
  ) 9>"$ci/.alone-whole"
}

# Says which sections the whole run of COMMIT lacks, or ends it.
whole() {
  local lacks total
  [ -n "$1" ] || return 0
  total=$(awk -v commit="$1" '
    $1 == commit && $4 == "ok" { n += $5 }
    END { print n + 0 }' "$whole_file")
  lacks=$(printf '%s\n' "${sections[@]}" | whole_lacks "$1" | paste -s -d ' ')
  if [ -n "$lacks" ]; then
    echo "tests/last-whole-run: still to come at ${1:0:12}: $lacks"
  else
    sed -i "1s/.*/$1 $(date -u +%F) $total/" "$whole_file"
    echo 'commit tests/last-whole-run: everything passed'
  fi
}

# Of the sections on stdin those without a result for each part.
whole_lacks() {
  awk -v commit="$1" '
    FILENAME == ARGV[1] {
      if ($1 != commit) next
      if ($4 == "missing" && NF > 4 && ++missing <= 2) done[$2] = 1
      if ($4 != "ok") next
      split($3, p, "/")
      if (++parts[$2, p[2]] == p[2]) done[$2] = 1
      next
    }
    !($1 in done)' "$whole_file" -
}
