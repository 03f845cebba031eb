#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The pages, by python/check_docs.py: links lead somewhere, commands print what
# stands below them, tables are made of what they say, and README.md has its
# three places and no more than 80 lines. The files of traces/tiny and
# traces/smollm2 are those of their SHA256SUMS. Asked first on a page of its own
# in which each of these is wrong. With KV_ALL what takes long is computed, too
# (minutes).
here=$(cd "$(dirname "$0")" && pwd)
. "$here/sh.sh"
ask() { # ask TREE ARGUMENT...
  local tree=$1
  shift
  python3 "$here/python/check_docs.py" "$tree" "$kvreplay" "$kvtrace" "$@"
}

command -v python3 >/dev/null || {
  echo 'check_docs: no python3 here'
  exit 77
}

# --- a page of its own ---
# page SED-SCRIPT: a page that is right, but for this.
page() {
  sed "$1" >"$tmp/p.md" <<'END'
# A page, of *words*

[Here](#a-page-of-words), [there](n.csv).

    $ kvtrace info traces/t.safetensors
    ...
    heads      8 query, 2 KV; dimension 64
    ...

<!-- table
csv n.csv
show SELECT name, dot(x, 2) FROM t
-->
| name | x | prose |
|---|---|---|
| a | .25 | of one |
| b | - | |

<!-- table
csv made.csv
$ kvtrace info traces/t.safetensors
keep SELECT head_dim, tokens FROM t
show SELECT * FROM t
-->
| d | tokens |
|---|---|
| 64 | 633 |
END
}
mkdir "$tmp/traces" "$tmp/build-ci"
echo '[A copy](none.md)' >"$tmp/build-ci/p.md" # not looked at
cp "$tiny/haystack_8.safetensors" "$tmp/traces/t.safetensors"
printf 'name,x\na,.25\nb,\n' >"$tmp/n.csv"
printf 'head_dim,tokens\n64,633\n' >"$tmp/made.csv"
page ''
ask "$tmp" --all >"$tmp/out" 2>&1 ||
  fail "a page that is right: $(cat "$tmp/out")"
while IFS=@ read -r script said; do
  page "$script"
  ask "$tmp" >"$tmp/out" 2>&1 && fail "$script is not seen"
  grep -qF "p.md: $said" "$tmp/out" || fail "$script: $(cat "$tmp/out")"
done <<'END'
s/(n.csv)/(m.csv)/@no file m.csv
s/(#a-page/(#page/@no heading #page-of-words
s/dimension 64/dimension 65/@kvtrace info traces/t.safetensors does not print
s/^    [.]*$//@kvtrace info traces/t.safetensors does not print
s/| [.]25/| .26/@'| a | .26 | of one |' should be '| a | .25 | of one |'
/^| b/d@the table below '| name | x | prose |' should have 2 rows, not 1
s/^csv n.csv/csv m.csv/@csv m.csv: [Errno 2] No such file
s/633/634/@'| 64 | 634 |' should be
s/FROM t$/FROM u/@csv n.csv: no such table: u
END
page ''
printf 'head_dim,tokens\n64,632\n' >"$tmp/made.csv"
ask "$tmp" >"$tmp/out" 2>&1 && fail 'a stale file is not seen'
ask "$tmp" --all 2>&1 | grep -q 'csv made.csv: is not what is computed' ||
  fail '--all does not compute'
ask "$tmp" --update >"$tmp/out" 2>&1
ask "$tmp" --all >"$tmp/out" 2>&1 || fail "--update: $(cat "$tmp/out")"

# --- the tree ---
ask "$src" ${KV_ALL:+--all} || fail 'pages'
[ "$(wc -l <"$src/README.md")" -le 80 ] || fail 'README.md is over 80 lines'
places=$(sed -n 's/^<!-- place: \([a-z ]*\).*/\1/p' "$src/README.md" |
  sed 's/ *$//' | paste -sd ,)
[ "$places" = 'first table,verdict,methods' ] ||
  fail "README.md has the places $places"
[ "$(wc -l <"$tiny/README.md")" -le 140 ] ||
  fail 'the card of traces/tiny is over 140 lines'
for folder in "$tiny" "$src/traces/smollm2"; do
  (cd "$folder" && sha256sum -c --quiet SHA256SUMS) ||
    fail "$folder: not the files of SHA256SUMS"
  (cd "$folder" && find . -name '*.safetensors' | sed 's,^[.]/,,' |
    sort) >"$tmp/have"
  sed -n 's/.*  \(.*[.]safetensors\)$/\1/p' "$folder/SHA256SUMS" |
    sort | diff - "$tmp/have" ||
    fail "$folder/SHA256SUMS does not name every file"
done
exit $((bad > 0))
