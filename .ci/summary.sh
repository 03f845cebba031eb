# SPDX-License-Identifier: Apache-2.0
#
# What .ci/run says at its end, sourced by it: what ran, passed, failed and was
# skipped.

# result LOG RESULT: how many cases of a test passed, failed, were skipped and
# broke off, by what cmocka prints; without that the test is a case itself.
result() {
  awk -v result="$2" '
    /^\[  PASSED  \] [0-9]+ test/ { pass += $4; cases = 1 }
    /^\[  FAILED  \] [0-9]+ test/ { fail += $4; cases = 1 }
    /^\[  SKIPPED \] [0-9]+ test/ { skip += $4; cases = 1 }
    END {
      if (!cases) {
        pass = result == "PASS"
        skip = result == "SKIP"
        fail = result == "FAIL" || result == "XPASS"
      }
      error = result == "ERROR" || (result == "FAIL" && fail == 0)
      print pass + 0, fail + 0, skip + 0, error + 0
    }' "$1"
}

# The sum of all tests of the builds made since the start, by automake's
# result files.
tally() {
  local trs
  find build build-ci -name '*.trs' -newer "$ci/.start" 2>/dev/null |
    while read -r trs; do
      result "${trs%.trs}.log" "$(sed -n 's/^:test-result: *//p' "$trs")"
    done |
    awk '{ p += $1; f += $2; s += $3; e += $4 }
      END { print p + 0, f + 0, s + 0, e + 0 }'
}

# Each section counts as one more, so that what is no test program fails too.
summary() {
  local pass fail skip error bar names
  read -r pass fail skip error < <(tally)
  results ok && pass=$((pass + ${#names[@]}))
  results skipped && skip=$((skip + ${#names[@]}))
  results FAILED && fail=$((fail + ${#names[@]}))
  bar=$(printf '=%.0s' {1..76})
  printf '%s\n' "$bar" 'Testsuite summary for kvreplay, all builds' "$bar"
  printf '# TOTAL: %d\n# PASS:  %d\n# SKIP:  %d\n# XFAIL: 0\n' \
    $((pass + fail + skip + error)) "$pass" "$skip"
  printf '# FAIL:  %d\n# XPASS: 0\n# ERROR: %d\n%s\n' "$fail" "$error" "$bar"
  printf '%d passed, %d failed, %d skipped in %d s\n' "$pass" \
    $((fail + error)) "$skip" "$SECONDS"
}

# What failed says so at the end, too, where it is looked for.
again() {
  local name
  for name in $(sed -n 's/^FAILED //p' "$ci/.results"); do
    [ ! -e "$ci/$name.said" ] || tail -n 25 "$ci/$name.said"
  done
}

# results RESULT: into the array $names.
results() {
  mapfile -t names < <(sed -n "s/^$1 //p" "$ci/.results")
  [ ${#names[@]} = 0 ] || printf '%s: %s\n' "$1" "${names[*]}"
}
