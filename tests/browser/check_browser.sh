#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The page of kvreport html in headless Chromium (browse.py, probe.js), of
# one database and of two; then the same with seeded faults, each of which must
# be seen. Skipped where there is no Chromium.
. "$(dirname "$0")/../sh.sh"
export LC_ALL=C.UTF-8
for chromium in chromium chromium-browser google-chrome ''; do
  command -v "$chromium" >/dev/null && break
done
if [ -z "$chromium" ] || ! command -v python3 >/dev/null; then
  echo 'check_browser: no chromium or no python3 here' && exit 77
fi

# looked PAGE [OLD NEW]...: what is wrong, in $tmp/wrong.
looked() {
  python3 "$src/tests/browser/browse.py" "$chromium" "$1" "$tmp" "${@:2}" \
    >"$tmp/wrong" 2>"$tmp/err"
}
# seen WORDS OLD NEW...: a page with that fault is found wrong by these words.
seen() {
  checks=$((checks + 1))
  looked "$tmp/one.html" "${@:2}"
  [ $? = 1 ] && grep -q "^$1" "$tmp/wrong" ||
    fail "not seen: $1: $(head -n 3 "$tmp/wrong" "$tmp/err")"
}

"$fill" "$tmp/a.db" 0 3 0 && "$fill" "$tmp/b.db" 1 3 1 &&
  "$fill" "$tmp/one.db" 0 1 0 || fail fill_db
"$kvreport" html "$tmp/one.db" -o "$tmp/one.html" || fail 'html of one trace'
"$kvreport" html "$tmp/a.db" -o "$tmp/a.html" || fail html
"$kvreport" html "$tmp/a.db" "$tmp/b.db" -o "$tmp/two.html" || fail 'two'
for page in a two; do
  checks=$((checks + 1))
  looked "$tmp/$page.html" || fail "$page: $(head -n 9 "$tmp/wrong" "$tmp/err")"
done

seen 'console: ' "'use strict';" "'use strict';console.error('x');"
seen 'policy: ' "script-src 'sha256-" "script-src 'sha256-0"
seen 'order: ' '<details class="fold">' '<details class="fold" open>'
seen 'name: ' "input.setAttribute('aria-label', name);" ''
seen 'keyboard: .* is not reached' 'svg.tabIndex = 0' 'svg.tabIndex = -1'
seen 'keyboard: no outline' ':focus-visible{' \
  ':focus-visible{outline:0 none;}p{'
seen 'sort: ' 'sign * (x - y' '(x - y'
seen 'sort: ' '? 1 : -1;' '? -1 : -1;' 'sign * (x - y' 'sign * (y - x'
seen 'filter: ' 'r.hidden = !words' 'r.hidden = words'
seen 'points: silent under' "addEventListener('pointerover'" \
  "addEventListener('pointerout'"
seen 'points: silent at' 'e.preventDefault();' 'return;'
seen 'methods: ' 'insertRule(`:is(${names})' 'insertRule(`p:is(${names})'
seen 'methods: none leaves rows' 'class="r end v' 'class="r end n'
seen 'width: ' '.scroll{overflow:auto' '.scroll{overflow:visible'
seen 'colours: ' '--soft:#a3adba' '--soft:#3a3f46'
seen 'script: ' '<main' '<main><button>x</button><p'
concluded
