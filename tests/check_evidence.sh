#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# analysis/evaluations. evidence.py's statistics, computed in another way. Its
# tables are what evidence.sh computes of the committed rows (ranks.csv: taus;
# intervals by the same draws, which are a matter of numpy, to .1). What rows.py
# writes of a database it reads into another, which gives the same file and the
# same table of answers. Without numpy only the first two tables.
. "$(dirname "$0")/sh.sh"
own=$src/analysis/evaluations
cd "$tmp" || exit 99
ran 0 python3 -B "$src/tests/python/check_evidence.py" "$own"
# table NAME COMMAND ROWS: is NAME what evidence.py COMMAND gives of the files?
table() {
  ran 0 python3 "$own/evidence.py" "$2" "$own"/$3.csv.xz
  cmp "$tmp/out" "$own/$1.csv" || fail "$1.csv is not what its rows give"
}
table means means 'rows_*'
table tests tests 'rows_*'
table kvpress beside kvpress_rows
ran 2 python3 "$own/evidence.py" median x
printf 'model,task\nx,y\n' | xz >"$tmp/few.csv.xz"
refused 3 'not rows of rows.py' python3 "$own/evidence.py" means few.csv.xz
refused 3 'not rows of rows.py' python3 "$own/evidence.py" means out
. "$src/tests/support/numpy.sh"
[ -n "$python" ] || {
  echo 'check_evidence: no Python with numpy and the library here'
  exit 77
}
export PATH=$top/sim:$PATH LD_LIBRARY_PATH=$top/sim/.libs
rows=$own/rows.py

python3 "$src/tests/python/answers_rows.py" "$tmp/a.db" || fail 'no database'
ran 0 python3 "$rows" write "$tmp/a.db"
mv "$tmp/out" "$tmp/a.csv.xz"
ran 0 python3 "$rows" read "$tmp/b.db" "$tmp/a.csv.xz"
ran 0 python3 "$rows" write "$tmp/b.db"
cmp "$tmp/out" "$tmp/a.csv.xz" || fail 'another file'
for db in a b; do
  ran 0 "$kvreport" table --answers -f csv "$tmp/$db.db"
  cp "$tmp/out" "$tmp/$db.csv"
done
[ "$(wc -l <"$tmp/a.csv")" = 3 ] || fail 'the table has not two methods'
diff "$tmp/a.csv" "$tmp/b.csv" || fail 'another table'
xz -dc "$tmp/a.csv.xz" >"$tmp/text" || fail 'xz'
grep -q 'open.kl.count\|x\{196\}' "$tmp/text" && fail 'too much is kept'
for name in exact bytes.mean open.kl.mean 'café'; do
  grep -q "$name" "$tmp/text" || fail "$name is lost"
done

refused 3 'not rows of answers' python3 "$rows" read "$tmp/c.db" "$tmp/a.db"
refused 3 'lacks the column' python3 "$rows" read "$tmp/c.db" "$tmp/few.csv.xz"
refused 3 'not a database' python3 "$rows" write "$tmp/text"

mkdir "$tmp/tables"
ln -s "$kvreport" "$tmp/bin/kvreport"
ran 0 env PYTHON="$python" bash "$own/evidence.sh" "$tmp/tables"
# close FILE: does it have the same taus and, to .1, intervals?
close() {
  paste -d, "$own/ranks.csv" "$1" | awk -F, '
    function apart(a, b) { return a > b ? a - b : b - a }
    { for (i = 1; i <= 9; i++)
        if (i == 6 || i == 7 ? apart($i, $(i + 9)) > .1 : $i != $(i + 9))
          exit 1 }'
}
close "$tmp/tables/ranks.csv" || fail 'ranks.csv is not what its rows give'
ran 0 python3 "$own/evidence.py" said "$own/ranks.csv"
cmp "$tmp/out" "$own/../embed/ranked.txt" ||
  fail 'ranked.txt is not what ranks.csv says'
first=$(sed -n '/define KV_SHOWN_EACH/{n;s/^ *S(\([a-z_]*\),.*/\1/p}' \
  "$src/analysis/tables/sheets.h")
[ "$(sed -n '2s/^[^,]*,[^,]*,[^,]*,\([^,]*\),.*/\1/p' "$own/ranks.csv")" = \
  "${first/%_max/.max}" ] || fail "$first does not rank answers best"
cmp "$tmp/tables/answers.csv" "$own/answers.csv" ||
  fail 'answers.csv is not what its rows give'
sed '2s/,0[.]/,0.1/' "$tmp/tables/ranks.csv" >"$tmp/other.csv"
close "$tmp/other.csv" && fail 'another tau is not seen'
concluded
