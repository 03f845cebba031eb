#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The pages, by python/check_docs.py: links lead somewhere, commands print what
# stands below them, tables are made of what they say, and README.md has its
# three places and no more than 90 lines. The files of traces/tiny are those of
# its card. Asked first on a page of its own in which each of these is wrong.
# With KV_ALL what takes long is computed again, too (minutes).
set -u
here=$(cd "$(dirname "$0")" && pwd)
src=${top_srcdir:-$here/..}
build=${top_builddir:-.}
kvreplay=${KVREPLAY:-$build/sim/kvreplay}
kvtrace=${KVTRACE:-$build/traces/kvtrace}
export PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8
bad=0
fail() {
  echo "FAIL: $*" >&2
  bad=1
}
ask() { # ask TREE ARGUMENT...
  local tree=$1
  shift
  python3 "$here/python/check_docs.py" "$tree" "$kvreplay" "$kvtrace" "$@"
}

command -v python3 >/dev/null || {
  echo 'check_docs: no python3 here'
  exit 77
}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# --- a page of its own ---
# page SED-SCRIPT: a page that is right, but for this.
page() {
  sed "$1" >"$dir/p.md" <<'END'
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
mkdir "$dir/traces"
cp "$src/traces/tiny/haystack_8.safetensors" "$dir/traces/t.safetensors"
printf 'name,x\na,.25\nb,\n' >"$dir/n.csv"
printf 'head_dim,tokens\n64,633\n' >"$dir/made.csv"
page ''
ask "$dir" --all >"$dir/out" 2>&1 ||
  fail "a page that is right: $(cat "$dir/out")"
while IFS=@ read -r script said; do
  page "$script"
  ask "$dir" >"$dir/out" 2>&1 && fail "$script is not seen"
  grep -qF "p.md: $said" "$dir/out" || fail "$script: $(cat "$dir/out")"
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
printf 'head_dim,tokens\n64,632\n' >"$dir/made.csv"
ask "$dir" >"$dir/out" 2>&1 && fail 'a stale file is not seen'
ask "$dir" --all 2>&1 | grep -q 'csv made.csv: is not what is computed' ||
  fail '--all does not compute'
ask "$dir" --update >"$dir/out" 2>&1
ask "$dir" --all >"$dir/out" 2>&1 || fail "--update: $(cat "$dir/out")"

# --- the tree ---
ask "$src" ${KV_ALL:+--all} || bad=1
[ "$(wc -l <"$src/README.md")" -le 90 ] || fail 'README.md is over 90 lines'
places=$(sed -n 's/^<!-- place: \([a-z ]*\).*/\1/p' "$src/README.md" |
  sed 's/ *$//' | paste -sd ,)
[ "$places" = 'first table,verdict,methods' ] ||
  fail "README.md has the places $places"
[ "$(wc -l <"$src/traces/tiny/README.md")" -le 140 ] ||
  fail 'the card of traces/tiny is over 140 lines'
(cd "$src/traces/tiny" && sha256sum -c --quiet SHA256SUMS) ||
  fail 'traces/tiny: not the files of SHA256SUMS'
(cd "$src/traces/tiny" && find . -name '*.safetensors' | sed 's,^[.]/,,' |
  sort) >"$dir/have"
sed -n 's/.*  \(.*[.]safetensors\)$/\1/p' "$src/traces/tiny/SHA256SUMS" |
  sort | diff - "$dir/have" || fail 'SHA256SUMS does not name every file'
exit $bad
