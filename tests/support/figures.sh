# SPDX-License-Identifier: Apache-2.0
#
# Part of scripts that check figures; sourced behind sh.sh. figures NAME DB: of
# that database, which is changed for it, kvreport exports and draws what
# figures/NAME.txt says. The page is $tmp/NAME.html. Exit 77 without Python.
command -v python3 >/dev/null || {
  echo "${0##*/}: no python3 here, which compares the figures"
  exit 77
}
figures() {
  local check=$src/tests/python/check_figures.py
  local file=$src/tests/figures/$1.txt csv=$tmp/csv_$1 page=$tmp/$1.html
  python3 "$check" "$file" "$2" 2>"$tmp/err" &&
    "$kvreport" export "$2" -o "$csv" 2>"$tmp/err" &&
    "$kvreport" html "$2" -o "$page" 2>"$tmp/err" &&
    python3 "$check" "$file" "$2" "$csv" "$page" 2>"$tmp/err" ||
    fail "$1: $(tail -n 1 "$tmp/err")"
}
