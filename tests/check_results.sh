#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Databases that are not as they should be, or lie where nothing can be
# written. Superseded code stands in no table or figure beside the newest,
# rows of an earlier kvreplay lack what it did not measure and contradict
# nobody. What a tampered file holds is refused by
# name or shown as text: no page, terminal, CSV or JSON takes it for more.
. "$(dirname "$0")/sh.sh"
export LC_ALL=C.UTF-8
trace=$small report=$kvreport build=$top dir=$tmp

pattern=-G # of refused

# tampered SQL...: $dir/t.db is a copy of $good to which this was done.
tampered() {
  cp "$good" "$dir/t.db"
  "$sql" "$dir/t.db" "$@" >"$dir/out" || fail "sql_db $*"
}

good=$dir/good.db
"$fill" "$good" 0 2 0 || { echo "FAIL: fill_db"; exit 1; }

# --- old code and new ---
# tova is a plugin: at 5% and 10% by code a..a, then at 10% by code b..b,
# first seen later, on another machine.
a=$(printf 'a%.0s' {1..64}) b=$(printf 'b%.0s' {1..64})
old="method = 'tova' AND run_id IN (SELECT run_id FROM ask WHERE target IN
  ('5%', '10%'))"
tampered "UPDATE run SET code = '$a' WHERE $old" \
  "DELETE FROM ask WHERE run_id IN (SELECT run_id FROM run WHERE
    method = 'tova' AND code <> '$a')" \
  "INSERT INTO environment SELECT 99, '$b', version, commit_name, dirty,
    compiler, flags, cpu, isa, cores, os, locale, ftz, daz, rounding, sqlite,
    jansson, command, '2026-03-01T00:00:00.5Z' FROM environment LIMIT 1" \
  "UPDATE run SET code = '$b' WHERE method = 'tova' AND code <> '$a'" \
  "INSERT INTO ask SELECT run_id, 'prompt', '10%', 'ok', .1, 0 FROM run
    WHERE code = '$b' AND budget = 192" \
  "UPDATE confirmation SET environment_id = 99 WHERE run_id IN
    (SELECT run_id FROM run WHERE code = '$b')"
# rows COMMAND...: the lines of tova, by first letter of their code.
codes() { grep -o '"code":"[ab]' | cut -d '"' -f 4 | sort | uniq -c |
  tr -s ' \n' ' '; }
newest=$("$report" table "$dir/t.db" -w method=tova -f jsonl | codes)
[ "$newest" = ' 2 b ' ] || fail "the newest code of tova is: $newest"
every=$("$report" table "$dir/t.db" -w method=tova -f jsonl --history | codes)
[ "$every" = ' 4 a 2 b ' ] || fail "--history has: $every"
"$report" table "$dir/t.db" >"$dir/out"
grep -q 'Not shown: 4 by superseded code (--history)' "$dir/out" ||
  fail "the table does not say that old code is left out"
"$report" table "$dir/t.db" --history | grep -q 'tova .* aaaaaaaaaaaa *super' ||
  fail "--history does not mark superseded code"
"$report" export "$dir/t.db" -o "$dir/views" -f jsonl || fail export
for view in cell pareto gap along metrics costs crosscheck; do
  grep '"method":"tova"' "$dir/views/$view.jsonl" >"$dir/out"
  for key in $("$report" table "$dir/t.db" --history -w "code=$a" -f csv |
    awk -F , 'NR > 1 { print $(NF - 1) }'); do
    ! grep -q "$key" "$dir/out" || fail "$view has superseded code"
  done
done
"$report" html "$dir/t.db" -o "$dir/t.html" || fail html
grep -q 'Not on this page: 4 cells by superseded' "$dir/t.html" ||
  fail "the page does not say that old code is left out"
if command -v python3 >/dev/null; then
  # keys of what kvreplay.results and the table take for newest
  python3 - "$dir/t.db" >"$dir/a" <<'END' || fail kvreplay.results
import sys
from kvreplay.results import read_results
for x in sorted(x["key"] + (x["target"] or "")
                for x in read_results(sys.argv[1])):
    print(x)
END
  "$report" table "$dir/t.db" -f jsonl | sed \
    's/.*"asked":"\([^"]*\)".*"key":"\([^"]*\)".*/\2\1/' | sort >"$dir/b"
  cmp -s "$dir/a" "$dir/b" || fail "kvreplay.results has another newest code"
fi

# --- rows of a kvreplay that did not measure dense's needles ---
tampered "DELETE FROM metric WHERE measure = 'needle_dense'" \
  "UPDATE run SET measures = 34, value = '$a' WHERE value IS NOT NULL" \
  "UPDATE trace SET request = '$b'" # which $good has not
"$report" table "$dir/t.db" -w trace=made_up_2,method=tova -f jsonl >"$dir/out"
grep -q '"needle_view":0.*"needle_share":null' "$dir/out" ||
  fail "an old row has a needle_share"
# share FILE: rows with a share of dense's needles, and other measures' count
share() {
  "$report" table "$1" -w method=tova -f jsonl |
    grep -c '"needle_share":[0-9]'
}
for order in "$dir/t.db $good" "$good $dir/t.db"; do
  rm -f "$dir/m.db"
  # shellcheck disable=SC2086
  "$report" merge "$dir/m.db" $order || fail "an old database contradicts"
  [ "$(share "$dir/m.db")" = 4 ] || fail "merged $order: lost a measure"
  [ "$("$sql" "$dir/m.db" \
    "SELECT group_concat(DISTINCT measures) FROM run")" = 35 ] ||
    fail "merged $order: a row with all measures says it lacks some"
  [ "$("$sql" "$dir/m.db" "SELECT count(*) FROM trace WHERE request = '$b'")" \
    = 2 ] || fail "merged $order: lost which request a trace holds"
done

# --- numbers that the digest of all values does not count ---
tampered "UPDATE scalar SET value = value + 1 WHERE run_id = 5 AND
  name = 'bytes.asset'"
refused 1 'bytes.asset is [0-9]* there and [0-9]* here' \
  "$report" merge "$dir/no" "$good" "$dir/t.db"

tampered "UPDATE scalar SET value = value + 1 WHERE run_id = 5 AND
  name = 'bytes.fetched'"
refused 1 'bytes.fetched is [0-9]* there and [0-9]* here' \
  "$report" merge "$dir/no" "$good" "$dir/t.db"

tampered "UPDATE metric SET squares_bits = squares_bits + 1
  WHERE part = 3 AND measure = 'tv' AND run_id = 5"
refused 1 'squares of part 3, measure tv is' "$report" merge "$dir/no" \
  "$good" "$dir/t.db"
tampered "UPDATE part SET drift_bits = drift_bits + 1 WHERE part = 3"
refused 1 'drift of part 3 is' "$report" merge "$dir/no" "$good" \
  "$dir/t.db"
tampered "UPDATE step_mean SET mean = zeroblob(length(mean))
  WHERE measure = 'mass'"
refused 1 'mean of measure mass is' "$report" merge "$dir/no" "$good" \
  "$dir/t.db"
tampered "PRAGMA ignore_check_constraints = ON" \
  "UPDATE step_mean SET mean = x'000000' WHERE rowid = 7"
refused 3 'column mean of table step_mean' "$report" table "$dir/t.db"
# A step's number in the export is the one that the blob holds, and the error of
# the mean is that of the means of bins.
"$report" export "$good" -o "$dir/views" || fail export
awk -F , 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
  $at["method"] == "window" && $at["step"] == 484 {
    print $at["output_error"] }' "$dir/views/steps.csv" | sort >"$dir/a"
"$sql" "$good" "SELECT hex(substr(m.mean, 13, 4)) FROM step_mean m JOIN run
  USING (run_id) WHERE method = 'window' AND measure = 'output_error'" \
  >"$dir/hex"
[ "$(wc -l <"$dir/a")" = "$(wc -l <"$dir/hex")" ] && [ -s "$dir/a" ] ||
  fail "steps.csv has not the rows of step_mean"
if command -v python3 >/dev/null; then
  python3 -c 'import struct, sys
for x in sys.stdin:
    print("%.17g" % struct.unpack("<f", bytes.fromhex(x.strip())))
' <"$dir/hex" | sort | cmp -s - "$dir/a" || fail "steps.csv has other numbers"
fi

# --- what is asked ---
"$report" table --help >"$dir/out" || fail "table --help"
grep -q -- '-m, --mean  *a line' "$dir/out" ||
  fail "--help of a flag without a value"
refused 2 'not both' "$report" table "$good" --mean --history

# --- what no kvreplay writes is named: table, column, row ---
evil="'\"><script>alert(1)</script>'"
damaged() { # TABLE COLUMN VALUE: the second row of the table gets it
  local key
  key=$("$sql" "$good" "SELECT name FROM pragma_table_info('$1')
    ORDER BY pk = 0, pk LIMIT 1")
  tampered "UPDATE $1 SET $2 = $3 WHERE $key = (SELECT max($key) FROM $1)"
  refused 3 "t.db is damaged: column $2 of table $1 has .* in row [0-9]" \
    "$report" table "$dir/t.db"
}
for where in run.journal run.state run.output run.value run.key run.subject \
  journal_digest.output confirmation.journal environment.digest; do
  damaged "${where%.*}" "${where#*.}" "$evil"
done
damaged run journal "'$(printf 'A%.0s' {1..64})'"
damaged run journal "x'$(printf '61%.0s' {1..64})'"
damaged part bin 2147483648
damaged part bin -2
damaged scalar value 9e999
damaged scalar value "'many'"
damaged scalar value -1
damaged run budget -5
damaged evaluated value "'many'"
damaged evaluation answer "$evil"
damaged question n_tokens -1
damaged trace n_tokens "'many'"
damaged trace request "$evil"
damaged run params "'{\"budget\": '"
damaged run params "'[1]'"
refused 3 'column params of table run' "$report" html "$dir/t.db" -o "$dir/no"
refused 3 'column params of table run' "$report" export "$dir/t.db" -o "$dir/no"
refused 3 'column params of table run' "$report" merge "$dir/no" "$dir/t.db"
[ -e "$dir/no" ] && fail "something was written of a damaged database"
tampered "DROP TABLE step_cost"
refused 3 'no such table: main.step_cost' "$report" table "$dir/t.db"
tampered "UPDATE part SET bin = 4294967297 WHERE part = 22"
refused 3 'column bin of table part' "$kvreplay" verify -q "$dir/t.db"
for column in prompt_len=481 "params='{}'" "method='tova'" arithmetic=2; do
  tampered "UPDATE run SET $column WHERE run_id = 3"
  refused 3 'run_id 3: its key is not' "$kvreplay" verify -q "$dir/t.db"
done
tampered "UPDATE run SET output = upper(output)"
refused 3 'column output of table run' "$kvreplay" verify -q "$dir/t.db"
tampered "UPDATE run SET key = key || 'x'"
refused 3 'column key of table run' "$kvreplay" verify -q "$dir/t.db"

# A database brings no code: neither its triggers nor its views run, and of a
# text that it calls its schema only the table is made.
tampered "CREATE TRIGGER late AFTER INSERT ON run BEGIN DELETE FROM run; END" \
  "PRAGMA writable_schema = ON" \
  "UPDATE sqlite_schema SET sql = sql || '; ATTACH ''$dir/evil'' AS e;
    CREATE TABLE e.x(y)' WHERE name = 'budget'"
"$report" merge "$dir/n.db" "$dir/t.db" "$good" || fail "merge with a trigger"
[ -e "$dir/evil" ] && fail "merge ran what a schema says"
[ "$("$sql" "$dir/n.db" 'SELECT count(*) FROM run')" = 96 ] ||
  fail "a trigger of a database ran"

# --- names are text ---
names="<img src=x> \\x1b[31m \\xff \\xe2\\x80\\xae\\x22, x"
tampered "UPDATE trace SET name = '$names' WHERE name = 'made_up_1'" \
  "UPDATE run SET spec = '$names', reason = '$names', method = '$names' WHERE
    method = 'tova'" "UPDATE environment SET cpu = '$names'" \
  "UPDATE confirmation SET backend = '$names'" \
  "UPDATE model SET model = '$names'" "UPDATE platform SET dtype = '$names'" \
  "UPDATE question SET task = '$names'" \
  "UPDATE evaluation SET method = '$names', reason = '$names',
    status = 'refused' WHERE method = 'window'"
"$report" html "$dir/t.db" -o "$dir/t.html" || fail "html of odd names"
"$report" table "$dir/t.db" >"$dir/t.txt" || fail "table of odd names"
"$report" table "$dir/t.db" -f csv >"$dir/t.csv" || fail "csv of odd names"
"$report" table "$dir/t.db" -f json >"$dir/t.json" || fail "json of odd names"
"$report" history "$dir/t.db" >"$dir/h.txt" || fail "history of odd names"
"$report" table "$dir/t.db" --answers >"$dir/a.txt" || fail "odd answers"
for file in t.html t.txt t.csv t.json h.txt a.txt; do
  iconv -f UTF-8 -t UTF-8 "$dir/$file" >/dev/null || fail "$file is no UTF-8"
  LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f]' "$dir/$file" &&
    fail "$file has control characters"
  [ $file = t.json ] || ! grep -q $'\u202e' "$dir/$file" ||
    fail "$file has a mark that turns the line around"
  [ $file = t.json ] || grep -qF '\x1B[31m \xFF \xE2\x80\xAE' "$dir/$file" ||
    fail "$file does not show what it hides"
done
grep -q '<img' "$dir/t.html" && fail "a name became a tag"
tags=$(grep -o '<[a-z][a-z0-9]*' "$dir/t.html" | sort -u | tr -d '\n')
[ "$(grep -c '<script' "$dir/t.html")" = 1 ] || fail "a script too many"
for tag in iframe object form; do
  [[ "$tags<" != *"<$tag<"* ]] || fail "the page has $tag"
done
if command -v python3 >/dev/null; then
  python3 - "$dir" <<'END' || fail "CSV or JSON cannot be read"
import csv, json, sys
with open(sys.argv[1] + "/t.csv", newline="", encoding="utf-8") as f:
    assert len({len(x) for x in csv.reader(f)}) == 1
with open(sys.argv[1] + "/t.json", encoding="utf-8") as f:
    assert len({len(x) for x in json.load(f)}) == 1
END
fi

# The page's own style and script are all that its policy lets in.
hash_of() { # hash_of TAG
  sed -n "/<$1>/,/<\/$1>/p" "$dir/t.html" | sed "1s/.*<$1>//
    \$s/<\/$1>.*//" | head -c -1 >"$dir/$1"
  printf "$(sha256sum <"$dir/$1" | cut -c 1-64 | sed 's/../\\x&/g')" | base64
}
grep -qF "content=\"default-src 'none'; img-src data:; base-uri 'none'; \
form-action 'none'; style-src 'sha256-$(hash_of style)'; script-src \
'sha256-$(hash_of script)'\"" "$dir/t.html" ||
  fail "the page's policy forbids its own style or script, or allows more"
grep -q ' style="' "$dir/t.html" && fail "a style outside the sheet"

# kvreplay's own rows of a trace whose name is odd
odd=$(printf '%s/o\033\377, "x".safetensors' "$dir")
cp "$trace" "$odd"
for form in table csv json; do
  "$kvreplay" run "$odd" -q -m window -b 8 -f $form >"$dir/out" || fail $form
  iconv -f UTF-8 -t UTF-8 "$dir/out" >/dev/null || fail "run -f $form"
  LC_ALL=C grep -q $'\x1b' "$dir/out" && fail "run -f $form: a raw escape"
done
"$kvreplay" run "$odd" -q -m window -b 8 -f csv |
  grep -qF '"o\x1b\xff, ""x"""' ||
  fail "run -f csv does not show the name"

# --- where nothing can be written ---
still=$dir/still
mkdir "$still" && cp "$trace" "$dir/t.safetensors"
"$kvreplay" run "$dir/t.safetensors" -q -m window,h2o -b 30 \
  --db "$still/r.db" >/dev/null || fail "run --db"
[ "$(ls "$still")" = r.db ] || fail "left beside it: $(ls "$still")"
[ "$(od -An -tu1 -j 18 -N 1 "$still/r.db" | tr -d ' ')" = 1 ] ||
  fail "a closed database still says that it has a log"
cp "$still/r.db" "$still/log.db"
"$sql" "$still/log.db" 'PRAGMA journal_mode = WAL' >/dev/null
cp "$still/log.db" "$still/full.db" && echo x >"$still/full.db-wal"
[ "$(od -An -tu1 -j 18 -N 1 "$still/log.db" | tr -d ' ')" = 2 ] ||
  fail "sql_db left no log"

# Of another program's database not even the way in which it is written.
"$sql" "$dir/theirs.db" 'CREATE TABLE x(y)' 'PRAGMA journal_mode = WAL' \
  >"$dir/out"
cp "$dir/theirs.db" "$dir/before"
refused 3 'another program' "$kvreplay" run "$trace" -q -m window -b 8 \
  --db "$dir/theirs.db"
cmp -s "$dir/theirs.db" "$dir/before" || fail "a refused database was changed"

# reader COMMAND...: by somebody who may not write to $still.
reader() {
  case $how in
  user) "$@" ;;
  nobody) setpriv --reuid=65534 --regid=65534 --clear-groups "$@" ;;
  # shellcheck disable=SC2016
  mount)
    unshare -m bash -c 'mount --bind "$0" "$0" &&
    mount -o remount,bind,ro "$0" && exec "$@"' "$still" "$@"
    ;;
  esac
}
chmod 755 "$dir" && chmod 555 "$still"
for how in user nobody mount none; do
  [ $how = none ] && break
  reader "$report" --version >/dev/null 2>&1 &&
    reader "$kvreplay" --version >/dev/null 2>&1 &&
    ! reader touch "$still/x" 2>/dev/null && break
done
rm -f "$still/x"
for python in python3 /usr/bin/python3 ''; do
  [ -n "$python" ] && reader "$python" -c 'import sqlite3' 2>/dev/null && break
done
if [ $how = none ]; then
  echo "not tried: nothing here takes the right to write from $(id -un)"
else
  for db in r log; do
    db=$still/$db.db
    [ "$(reader "$report" table "$db" -f jsonl | wc -l)" = 2 ] ||
      fail "table of $db, $how"
    reader "$report" html "$db" -o - >"$dir/out" || fail "html of $db, $how"
    reader "$report" history "$db" >/dev/null || fail "history of $db, $how"
    reader "$report" export "$db" -o - >/dev/null || fail "export $db, $how"
    reader "$kvreplay" verify -q "$db" >"$dir/out" 2>"$dir/err" ||
      fail "verify $db, $how: $(cat "$dir/err")"
    grep -q '^2 rows the same, 0 different' "$dir/out" || fail "verify $db"
    grep -q 'can only be read' "$dir/err" || fail "verify does not say so"
    "$report" merge "$dir/merged.db" "$db" || fail "merge of $db"
    [ -z "$python" ] || reader "$python" -c 'import sys
import kvreplay.results as r; assert len(r.read_results(sys.argv[1])) == 2' \
      "$db" || fail "kvreplay.results of $db, $how"
  done
  refused 4 'full.db-wal holds results' reader "$report" table "$still/full.db"
  refused 4 'full.db-wal holds results' reader "$kvreplay" verify -q \
    "$still/full.db"
fi
[ "$bad" = 0 ]
