#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# analysis/evaluations/rows.py: what it writes of a database it reads into
# another, which gives the same file and the same table of answers. 77 without
# numpy.
. "$(dirname "$0")/sh.sh"
. "$(dirname "$0")/support/numpy.sh"
[ -n "$python" ] || {
  echo 'check_evidence: no Python with numpy and the library here'
  exit 77
}
export PATH=$top/sim:$PATH LD_LIBRARY_PATH=$top/sim/.libs
rows=$src/analysis/evaluations/rows.py

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
printf 'model,task\n' | xz >"$tmp/few.csv.xz"
refused 3 'lacks the column' python3 "$rows" read "$tmp/c.db" "$tmp/few.csv.xz"
refused 3 'not a database' python3 "$rows" write "$tmp/text"
concluded
