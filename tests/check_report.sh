#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The laws of kvreport on made-up rows: merge is associative, commutative and
# idempotent and refuses contradictions naming both files' values, leaving OUT
# as it was; a database is never changed by reading it; tables, exports and
# the page are what the database says, the same bytes each time, and the page
# needs nothing from outside; every mistake is one line and its exit code.
. "$(dirname "$0")/sh.sh"
report=$kvreport build=$top dir=$tmp

pattern=-G # of refused

# All that is in a database, but for integers that mean nothing outside it, in
# the folder DATABASE.all; again only where the database has changed since.
dump() {
  [ ! -e "$1.all" ] || ! cmp -s "$1" "$1.was" || return 0
  rm -rf "$1.all"
  "$report" export "$1" --format jsonl -o "$1.all" || fail "export $1"
  cp "$1" "$1.was"
}
same() {
  dump "$1"
  dump "$2"
  diff -r "$1.all" "$2.all" >/dev/null || fail "$3"
}
merge() { "$report" merge "$@" || fail "merge $*"; }

a=$dir/a.db b=$dir/b.db c=$dir/c.db
"$fill" "$a" 0 2 0 && "$fill" "$b" 1 3 1 && "$fill" "$c" 2 4 2 ||
  { echo "FAIL: fill_db"; exit 1; }

# --- merge ---
merge "$dir/ab.db" "$a" "$b"
merge "$dir/ba.db" "$b" "$a"
same "$dir/ab.db" "$dir/ba.db" "merge is not commutative"
merge "$dir/ab_c.db" "$dir/ab.db" "$c"
merge "$dir/bc.db" "$b" "$c"
merge "$dir/a_bc.db" "$a" "$dir/bc.db"
merge "$dir/abc.db" "$a" "$b" "$c"
same "$dir/ab_c.db" "$dir/a_bc.db" "merge is not associative"
same "$dir/ab_c.db" "$dir/abc.db" "merge of three is not that of two by two"
merge "$dir/aa.db" "$a" "$a"
same "$dir/aa.db" "$a" "merge with itself adds something"
merge "$dir/ab.db" "$a"
same "$dir/ab.db" "$dir/ba.db" "merge into OUT of what it has adds something"
cp "$a" "$dir/into.db"
merge "$dir/into.db" "$b" "$c"
same "$dir/into.db" "$dir/abc.db" "merge into a file is not that into a new one"
"$report" export "$dir/abc.db" >"$dir/cells.csv"
[ "$(wc -l <"$dir/cells.csv")" = 193 ] || fail "merged cells are not 4 * 48"

# Two machines that agree confirm what each had only once.
"$fill" "$dir/one.db" 0 1 0
one=$("$report" table "$dir/one.db" --format json | grep -c '"confirmed":1')
[ "$one" = 0 ] || fail "one run is called confirmed"
"$fill" "$dir/two.db" 0 1 3
merge "$dir/both.db" "$dir/one.db" "$dir/two.db"
both=$("$report" table "$dir/both.db" --format json | grep -c '"confirmed":1')
[ "$both" = 48 ] || fail "two machines confirm $both of 48"

# A contradiction: told with both values, OUT as it was or not there.
"$fill" "$dir/wrong.db" 0 1 4 flip
refused 1 'h2o.* output of layer 2 is [0-9a-f]* there and [0-9a-f]* here' \
  "$report" merge "$dir/no.db" "$a" "$dir/wrong.db"
[ -e "$dir/no.db" ] && fail "a refused merge wrote OUT"
cp "$a" "$dir/kept.db"
refused 1 'contradicts' "$report" merge "$dir/kept.db" "$c" "$dir/wrong.db"
same "$dir/kept.db" "$a" "a refused merge changed OUT"

# Who looked at scores says so for who did not, whichever comes first, and a
# contradiction in them alone is told.
"$fill" "$dir/odd.db" 0 1 4 scores && "$fill" "$dir/blind.db" 0 1 5 blind ||
  fail "fill_db without scores"
told='h2o.* scores of layer 1 is [0-9a-f]* there and [0-9a-f]* here'
merge "$dir/seen.db" "$dir/blind.db" "$dir/one.db"
refused 1 "$told" "$report" merge "$dir/no.db" "$dir/seen.db" "$dir/odd.db"
merge "$dir/nees.db" "$dir/one.db" "$dir/blind.db"
refused 1 "$told" "$report" merge "$dir/no.db" "$dir/odd.db" "$dir/nees.db"
cp "$dir/blind.db" "$dir/grown.db"
merge "$dir/grown.db" "$dir/one.db"
refused 1 "$told" "$report" merge "$dir/grown.db" "$dir/odd.db"
merge "$dir/fine.db" "$dir/blind.db" "$dir/odd.db"

# A conflict in one database stands in its history, table and page.
"$fill" "$a" 0 1 4 flip 2>"$dir/err"
[ $? = 1 ] || fail "fill_db did not see the flipped bit"
"$report" table "$a" | grep -q 'h2o .*CONFLICT' || fail "table hides a conflict"

# A kernel that was graded and found wrong says nothing against our run.
trace=${top_srcdir:-.}/traces/tiny/retrieval_8_small.safetensors
kvreplay=$build/sim/kvreplay
"$kvreplay" run "$trace" -q -m window -b 30 --decisions "$dir/d" >/dev/null ||
  fail "run --decisions"
"$kvreplay" grade "$trace" -q -m window -b 31 --theirs "$dir"/d/*.safetensors \
  --db "$dir/graded.db" >/dev/null
[ $? = 1 ] || fail "a smaller window was graded as right"
"$report" table "$dir/graded.db" | grep -q CONFLICT &&
  fail "a graded kernel is a conflict"
"$report" html "$dir/graded.db" -o "$dir/graded.html" || fail "html of graded"
grep -q 'Kernels graded and found wrong' "$dir/graded.html" ||
  fail "the page hides what was graded"

# Decisions are called what their maker called them, alone and beside others,
# and further parameters tell those of one name apart.
replayed() {
  "$kvreplay" run "$trace" -q --db "$dir/mine.db" \
    -m "replay:file=$(ls "$dir"/d/*.safetensors):$1" >/dev/null || fail "$1"
}
replayed name=mine
"$report" table "$dir/mine.db" | grep -q ' mine (replay)  ' ||
  fail "a lone replay has no name"
replayed name=other && replayed name=other:meta=8
"$report" table "$dir/mine.db" >"$dir/out"
for name in 'mine (replay)  ' 'other (replay) meta=0' 'other (replay) meta=8'
do
  [ "$(grep -cF " $name" "$dir/out")" = 1 ] || fail "table lacks $name"
done
"$report" html "$dir/mine.db" -o "$dir/mine.html" || fail "html of decisions"
[ "$(grep -c '^<tr.*<td class=x title="[^"]*">mine (replay)<td' \
  "$dir/mine.html")" = 1 ] ||
  fail "the page lacks mine"
replayed "name=a$(printf 'é%.0s' {1..80})"
"$report" table "$dir/mine.db" |
  grep -qF " a$(printf 'é%.0s' {1..18}) (replay)  " ||
  fail "a long name is cut within a character"

# The gap of what evicts to B: random and oracle-evict at B stand beside it, B +
# 1 entries attended, until they were run at B + 1 too; a random that grows does
# not, nor do lists of budgets of which B is the mean. What grew beyond B, and
# what reads, has none until the page's own commands, typed as they stand, were
# run.
mkdir "$dir/a trace's"
cp "$trace" "$dir/a trace's/t.safetensors"
gapped="$dir/a trace's/gap.db"
"$kvreplay" run "$dir/a trace's/t.safetensors" -q --db "$gapped" -b 30 \
  -m random,oracle-evict,h2o,snapkv,quest:page=8:skip=0 >/dev/null ||
  fail "run for the gap"
"$kvreplay" run "$dir/a trace's/t.safetensors" -q --db "$gapped" \
  -m random:variant=prefill,random,oracle-evict -b 30,20/40/20/40 >/dev/null ||
  fail "run of what is no reference"
# gap METHOD: the entries it attends and the budget of its references.
gap() {
  rm -rf "$dir/gaps"
  "$report" export "$gapped" --format jsonl -o "$dir/gaps" || fail "export gap"
  grep "\"method\":\"$1\"" "$dir/gaps/gap.jsonl" |
    sed 's/.*"equal_budget":\([^,]*\),[^:]*:\([^,]*\),.*/\1 \2/'
}
[ "$(gap h2o)" = '31 30' ] || fail "gap of h2o: $(gap h2o)"
[[ $(gap snapkv) = *' null' ]] || fail "gap of snapkv: $(gap snapkv)"
[[ $(gap quest) = *' null' ]] || fail "gap of quest: $(gap quest)"
"$report" html "$gapped" -o "$dir/gap.html" || fail "html of gaps"
beside='at budget 30: random .*, oracle-evict'
grep -q "<title>h2o at 30, .*: gap .* at 31 entries .* $beside" \
  "$dir/gap.html" || fail "the page lacks the gap of h2o"
sed -n 's/^<p><code>kvreplay \(run .*\)<\/code><\/p>$/\1/p' "$dir/gap.html" \
  >"$dir/commands"
[ "$(wc -l <"$dir/commands")" = 2 ] || fail "the page's commands for gaps"
while read -r command; do
  eval "\"$kvreplay\" $command -q" >/dev/null </dev/null ||
    fail "the page's '$command'"
done <"$dir/commands"
for method in snapkv quest; do
  read -r attends at < <(gap "$method")
  [ "$attends" = "$at" ] || fail "the page's commands left $method no gap"
done
"$kvreplay" run "$dir/a trace's/t.safetensors" -q --db "$gapped" -b 31 \
  -m random,oracle-evict >/dev/null || fail "run at 31"
[ "$(gap h2o)" = '31 31' ] || fail "an equal budget is not preferred"

# --- reading changes nothing ---
cp "$b" "$dir/before"
"$report" table "$b" >"$dir/t1" || fail table
"$report" history "$b" --format csv >/dev/null || fail history
"$report" html "$b" -o "$dir/p1.html" || fail html
"$report" html "$b" -o "$dir/p2.html" || fail html
"$report" html "$b" -o - >"$dir/p3.html" || fail "html -o -"
"$report" html "$b" -o /dev/stdout | cat >"$dir/p4.html" || fail "/dev/stdout"
ln -s p5.html "$dir/link"
"$report" html "$b" -o "$dir/link" || fail "html to a link"
[ -L "$dir/link" ] || fail "html replaced a link"
for page in p3 p4 p5; do
  cmp -s "$dir/p1.html" "$dir/$page.html" || fail "$page is another page"
done
"$report" export "$b" -o - | cmp -s - <("$report" export "$b") ||
  fail "export -o -"
cmp -s "$b" "$dir/before" || fail "reading changed the database"
cmp -s "$dir/p1.html" "$dir/p2.html" || fail "the page differs each time"

# --- what is written ---
grep -q 'made_up_2  *h2o  *10%  *48  *ok' "$dir/t1" || fail "table lacks a row"
grep -q 'window 32 is larger' "$dir/t1" || fail "table hides why a cell refused"
grep -q 'Open loop' "$dir/t1" || fail "the table does not say open loop"
[ "$("$report" table "$b" -w method=h2o,asked=10% --format jsonl |
  wc -l)" = 2 ] || fail "--where"
grep -Eq '(src|href)="?(https?:)?//' "$dir/p1.html" && fail "the page loads"
[ "$(grep -c '<script' "$dir/p1.html")" = 1 ] ||
  fail "the page has another script than its own"
[ "$(grep -c 'Open loop:' "$dir/p1.html")" -ge 7 ] ||
  fail "a figure does not say open loop"
for name in bytes_stored bytes_read along_mean gap crosscheck; do
  grep -q "download=\"$name.csv\"" "$dir/p1.html" || fail "no $name.csv"
done
sed -n '/<h2 id="cells">/,/<\/figure>/p' "$dir/p1.html" |
  grep 'Data: too many to ' |
  grep -q '<code>kvreport export .*b.db. -o data</code>' ||
  fail "no word on where the data of cells are"
if command -v jq >/dev/null; then
  "$report" table "$b" --format json | jq -e 'length == 96' >/dev/null ||
    fail "JSON"
fi
"$report" --man | grep -q '^.TH KVREPORT' || fail "manual page"
"$report" --completion | bash -n || fail "completion"
"$report" --help | sed -n 3p | grep -q Examples || fail "--help"
"$report" --version | grep -q kvreport || fail "--version"

# --- mistakes ---
echo 'not a database, only some text that is long enough' >"$dir/text"
refused 3 'not a kvreport\|not a kvreplay database' "$report" table "$dir/text"
mkfifo "$dir/fifo"
for path in "$dir/nothing.db" "$dir/fifo" "$dir" /dev/null; do
  refused 3 'no readable file' "$report" table "$path"
done
cp "$b" "$dir/minus.db" # its version, four bytes, becomes -1
printf '\377\377\377\377' |
  dd of="$dir/minus.db" bs=1 seek=60 conv=notrunc status=none
refused 3 'has schema -1, and this kvreport' "$report" table "$dir/minus.db"
if command -v sqlite3 >/dev/null; then
  cp "$b" "$dir/less.db"
  sqlite3 "$dir/less.db" 'PRAGMA user_version = 2'
  for what in "table $dir/less.db" "merge $dir/more.db $dir/less.db"; do
    # shellcheck disable=SC2086
    refused 3 'less.db has schema 2, and .* run the replays again' \
      "$report" $what
  done
  sqlite3 "$dir/less.db" 'PRAGMA user_version = 3' 'DROP TABLE diff'
  refused 3 'less.db does not have the tables.*no such table: main.diff' \
    "$report" table "$dir/less.db"
fi
refused 3 'no readable file' "$report" merge "$dir/new.db" "$dir/nothing.db"
refused 2 'did you mean table?' "$report" tabel "$b"
refused 2 'did you mean --where' "$report" table "$b" --were x=y
refused 2 'did you mean method?' "$report" table "$b" -w metod=h2o
refused 2 'did you mean jsonl?' "$report" table "$b" --format jsnl
refused 2 'none of table|csv|json|jsonl' "$report" table "$b" --format xml
refused 2 'there are trace, .*, method, ' "$report" table "$b" -w foo=1
refused 3 "$dir/text is not a kvreplay database" \
  "$report" merge "$dir/new.db" "$dir/text"
refused 2 'html needs DB' "$report" html
refused 2 'html needs --output FILE' "$report" html "$b"

# A value that no row has is told, with those there are; it is no mistake.
told() {
  local words=$1
  shift
  "$report" table "$b" "$@" -f csv >"$dir/out" 2>"$dir/err" ||
    fail "table $*: exit $?"
  [ "$(wc -l <"$dir/out")" = 1 ] || fail "table $*: not only a head"
  [ "$(wc -l <"$dir/err")" = 1 ] || fail "table $*: said not one line"
  grep -q -- "$words" "$dir/err" || fail "table $*: $(cat "$dir/err")"
}
told "no row has method 'nope'; there are .*h2o, " -w asked=10%,method=nope
told 'no row has all' -w method=dense,asked=10%
refused 2 'kvreport --help' "$report"
if [ -w /dev/full ]; then
  "$report" table "$b" >/dev/full 2>"$dir/err"
  [ $? = 4 ] || fail "a full disk is not exit code 4"
fi
[ "$bad" = 0 ]
