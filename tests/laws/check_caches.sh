#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Caches on the device (run --cache). Laws, of every method that has entries in
# the host's memory: a cache of 0 fetches what the ledger counts, one of
# everything each entry once; threads, walks and backends agree; rows are
# stored, found again, merged and told. And what is refused.
. "$(dirname "$0")/../replays.sh"
shows=("$tmp/err" "$tmp/out")
hold() { # WHAT CONDITION..: the condition is true
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" >"$tmp/held" 2>&1 || fail "$what: $(tail -n 1 "$tmp/held")"
}
refused() { # WORDS COMMAND...
  local words=$1 got=0
  shift
  "$@" >"$tmp/out" 2>"$tmp/err" || got=$?
  checks=$((checks + 1))
  [ "$got" = 2 ] && grep -q -- "$words" "$tmp/err" ||
    fail "rc $got, not 2 with '$words': $*"
}
ask() { "$sql" "$tmp/$1.db" "$2"; }

trace=$tmp/four.safetensors
"$kvtrace" synth -q --layers 4 --heads 4 --kv-heads 2 --dim 32 --dtype F32 \
  -t 190 -p 170 -s 11 -o "$trace" 2>"$tmp/err" || fail "synth"
delta=deltakv:compressor=none:full=0/2:recent=16:tier=host
some=omnikv:k=20:layers=1,$delta,$delta:refs=recon,$delta:self=yes
caches=lru:0,lru:1,lru:16,lru:64,lru:190,lfu:0,lfu:1,lfu:16,lfu:64,lfu:190
run() { # DATABASE OPTION...
  local db=$1
  shift
  "$kvreplay" run -q "$trace" -m "$some,snapkv:budget=40" --cache "$caches" \
    -d "$tmp/$db.db" "$@" >"$tmp/out" 2>"$tmp/err" || fail "run $db"
}
run one
hold "a row a cell and cache" test "$(ask one \
  'SELECT count(*) FROM device_cache')" = 40
hold "of 0 all is fetched" test "$(ask one "SELECT count(*) FROM device_cache
  JOIN scalar USING (run_id) WHERE name = 'bytes.fetched' AND cache LIKE '%:0'
  AND hits = 0 AND held_peak = 0 AND fetched > 0 AND fetched = value")" = 8
# deltakv:self=yes reads a reference as its latent vector or as it came.
hold "of everything each entry once" test "$(ask one "SELECT count(*) FROM
  device_cache JOIN run USING (run_id) WHERE cache LIKE '%:190' AND hits > 0
  AND fetched = held_peak AND spec NOT LIKE '%self=yes%'")" = 6
hold "a larger one finds no less" test "$(ask one "SELECT count(*) FROM (SELECT
  hits < lag(hits) OVER size OR fetched > lag(fetched) OVER size AS less FROM
  device_cache WINDOW size AS (PARTITION BY run_id, substr(cache, 1, 3)
  ORDER BY CAST(substr(cache, 5) AS INTEGER))) WHERE less")" = 0
hold "lru and lfu differ" test "$(ask one "SELECT count(*) FROM device_cache a
  JOIN device_cache b USING (run_id) WHERE a.cache = 'lru:16' AND
  b.cache = 'lfu:16' AND a.hits != b.hits")" -ge 1
hold "whoever has nothing there is told" grep -q \
  '^  four  *snapkv .*nothing lies in the host' "$tmp/out"

# Rows for programs: the numbers of the database, null where nothing lies there,
# and the same keys in every row, that of a trace which cannot be read, too.
echo no trace >"$tmp/no.safetensors"
for form in csv jsonl; do
  "$kvreplay" run -q "$tmp/no.safetensors" "$trace" -b 20 -f $form --tp 2 \
    --chunk 60 -m 'omnikv:k=20:layers=1,snapkv' --cache lru:16,lfu:1 \
    >"$tmp/rows.$form" 2>"$tmp/err"
done
hold "in rows" python3 - "$tmp" "$(ask one "SELECT group_concat(
  looked || ' ' || hits || ' ' || fetched || ' ' || fetched_peak || ' ' ||
  held_peak, ' ') FROM device_cache JOIN run USING (run_id)
  WHERE spec LIKE 'omnikv%' AND cache = 'lru:16'")" <<'END'
import csv, json, sys

where, numbers = sys.argv[1:]
rows = [json.loads(line) for line in open(where + "/rows.jsonl")]
assert len({tuple(r) for r in rows}) == 1 and len(rows) == 4, rows
assert [r["cache"]["lru:16"] is None for r in rows] == [True, True, False, True]
keys = "looked", "hits", "fetched", "fetched_peak", "held_peak"
assert [rows[2]["cache"]["lru:16"][k] for k in keys] == [
    int(x) for x in numbers.split()], numbers
names, *lines = csv.reader(open(where + "/rows.csv"))
assert {len(x) for x in lines} == {len(names)}, names
at = names.index("cache.lru:16.looked")
assert names[at + 5] == "cache.lfu:1.looked"
assert lines[2][at:at + 5] == numbers.split() and not any(lines[3][at:at + 5])
END

# A conflict would be the exit code 1.
run one --jobs=1
run one --jobs=3
run one --walk=steps
replay_emu && run one --backend emu
hold "confirmed" test "$(ask one 'SELECT count(*) FROM diff')" = 0
run two
hold "the same elsewhere" "$kvreport" merge "$tmp/both.db" "$tmp/one.db" \
  "$tmp/two.db"
hold "merged" test "$(ask both 'SELECT count(*) FROM device_cache')" = 40
hold "verified" "$kvreplay" verify -q "$tmp/two.db"
ask two "UPDATE device_cache SET held_peak = held_peak + 1
  WHERE cache = 'lfu:16'"
differs=0
"$kvreplay" verify -q "$tmp/two.db" >"$tmp/out" 2>"$tmp/err" || differs=$?
hold "verify sees another number" test "$differs" = 1
hold "and names it" test "$(grep -c \
  'held_peak of cache lfu:16 is [0-9]* before and [0-9]* now' "$tmp/err")" = 4
ask two "UPDATE device_cache SET held_peak = held_peak - 1
  WHERE cache = 'lfu:16'; DELETE FROM diff"
ask two "UPDATE device_cache SET hits = hits + 1 WHERE cache = 'lru:16'"
hold "another number contradicts" test "$("$kvreport" merge "$tmp/bad.db" \
  "$tmp/one.db" "$tmp/two.db" 2>&1 |
  grep -c 'hits of cache lru:16 is [0-9]* there and [0-9]* here')" = 1
hold "and is a conflict" test "$("$kvreplay" run -q "$trace" -m "$some" \
  --cache lru:16 -d "$tmp/two.db" 2>&1 | grep -c 'of cache lru:16')" -ge 1
hold "told" test "$("$kvreport" table "$tmp/one.db" --caches |
  grep -c '^four  .*  lru:16 ')" = 4
"$kvreport" html "$tmp/one.db" -o "$tmp/page.html" 2>"$tmp/err" || fail "a page"
hold "on the page" grep -q 'Caches on the device' "$tmp/page.html"

refused "'mru:5' is no cache" "$kvreplay" run "$trace" -m omnikv --cache mru:5
refused "'' is no cache" "$kvreplay" run "$trace" -m omnikv --cache lru:5,
refused 'name it alone' "$kvreport" table "$tmp/one.db" --caches --mean
concluded
