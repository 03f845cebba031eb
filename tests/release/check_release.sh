#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Databases of releases: each is read as it is, brought forward, found complete
# by the same commands (so no key moved), verified row by row, and merged with
# rows of today's kvreplay; then it has the tables that a new database has, like
# what only reading it makes of it. One that is damaged is told.
. "$(dirname "$0")/../sh.sh"
here=$src/tests/release

# What each table and view of a database is made by, a line each.
tables() {
  "$sql" "$1" "SELECT type || ' ' || name || ' ' || coalesce(sql, '')
    FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
}
# Rows but those of a method whose revision was raised since.
since="EXISTS (SELECT 1 FROM run AS older
  WHERE older.method = run.method AND older.revision < run.revision)"
rows() { "$sql" "$1" "SELECT count(*) FROM run WHERE NOT $since"; }
# How often they were computed; what is refused is asked anew each time.
runs() {
  "$sql" "$1" "SELECT count(*) FROM confirmation JOIN run USING (run_id)
    WHERE status = 'ok' AND NOT $since"
}

ran 0 bash "$here/make.sh" "$kvreplay" "$tmp/new.db"
for file in "$here"/*.db.gz; do
  release=$(basename "$file" .db.gz)
  db=$tmp/$release.db
  gzip -dc "$file" >"$db" || fail "$release: gzip"
  n=$(rows "$db") before=$(runs "$db")
  [ "$n" -ge 8 ] || fail "$release has $n rows"
  cp "$db" "$tmp/was.db"
  ran 0 "$kvreport" table "$db" -f csv
  [ "$(wc -l <"$tmp/out")" -gt "$n" ] || fail "$release: not every row"
  ran 0 "$kvreport" table "$db" --pools
  ran 0 "$kvreport" table "$db" --layouts
  ran 0 "$kvreport" merge "$tmp/alone.$release.db" "$db"
  ran 3 "$kvreport" merge "$db" "$tmp/new.db"
  cmp -s "$tmp/was.db" "$db" || fail "$release: reading changed it"
  cp "$db" "$tmp/logged.db"
  "$sql" "$tmp/logged.db" 'PRAGMA journal_mode = WAL' >"$tmp/out"
  ran 0 "$kvreport" table "$tmp/logged.db" -f csv

  ran 0 bash "$here/make.sh" "$kvreplay" "$db"
  [ "$(rows "$db") $(runs "$db")" = "$n $before" ] ||
    fail "$release: today's rows have other keys"
  ran 0 "$kvreport" table "$db" --answers -f csv
  [ "$(wc -l <"$tmp/out")" -ge 3 ] || fail "$release: no answers"
  ran 0 "$kvreplay" verify "$db" --traces "$tiny" -q
  grep -q ' 0 different' "$tmp/out" || fail "$release: $(cat "$tmp/out")"
  tables "$db" >"$tmp/old.sql"
  tables "$tmp/new.db" >"$tmp/new.sql"
  cmp -s "$tmp/old.sql" "$tmp/new.sql" ||
    fail "$release: other tables: $(diff "$tmp/old.sql" "$tmp/new.sql" |
      head -c 400)"
  tables "$tmp/alone.$release.db" >"$tmp/old.sql"
  cmp -s "$tmp/old.sql" "$tmp/new.sql" || fail "$release: others when read"

  ran 0 "$kvreport" merge "$tmp/both.$release.db" "$tmp/new.db" "$db"
  [ "$(rows "$tmp/both.$release.db")" = "$n" ] || fail "$release: merged"
  ran 0 "$kvreport" html "$tmp/both.$release.db" -o "$tmp/page.html"

  # The check can fail: one bit of one number.
  "$sql" "$db" "UPDATE run SET output = replace(output, substr(output, 1, 1),
    CASE substr(output, 1, 1) WHEN 'a' THEN 'b' ELSE 'a' END)
    WHERE run_id = (SELECT min(run_id) FROM run WHERE status = 'ok')"
  ran 1 "$kvreplay" verify "$db" --traces "$tiny" -q
done
concluded
