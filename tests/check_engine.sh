#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The engine sheet, `kvreplay methods --engine`: what is known of methods by
# their papers stands in it, whatever it is worked out from; its three forms say
# the same; a method that cannot be shown says why; bad words are refused. And
# `run --tp`: who decides head by head decides the same on ranks, from q, k and
# v of the right heads; who does not, does not. And `run --chunk`: who ranks
# tokens by what does not change decides the same after pieces of a prompt.
. "$(dirname "$0")/sh.sh"
mkdir "$tmp/t"
export TMPDIR=$tmp/t # where nobody else makes folders

ran 0 "$kvreplay" methods --engine -f csv
cp "$tmp/out" "$tmp/csv"
"$kvreplay" methods -f json | grep -o '"name": "[^"]*", "title"' |
  cut -d '"' -f 4 >"$tmp/methods"

# cell METHOD COLUMN
cell() {
  awk -F, -v m="$1" -v c="$2" 'NR == 1 { for (i = 1; i <= NF; i++)
    if ($i == c) at = i } $1 == m { print $at }' "$tmp/csv"
}
# known METHOD COLUMN=VALUE...
known() {
  local pair got
  for pair in "${@:2}"; do
    checks=$((checks + 1))
    got=$(cell "$1" "${pair%%=*}")
    [ "$got" = "${pair#*=}" ] || fail "$1: ${pair%%=*} is '$got', not $pair"
  done
}
# over METHOD COLUMN LEAST: a number above LEAST
over() {
  awk -v x="$(cell "$1" "$2")" -v y="$3" 'BEGIN { exit !(x != "" && x > y) }' ||
    fail "$1: $2 is $(cell "$1" "$2"), not above $3"
}

sed 1d "$tmp/csv" | cut -d , -f 1 | cmp -s - "$tmp/methods" ||
  fail 'not a row for every method'
sed 1d "$tmp/csv" | cut -d , -f 2 | grep -v '^""$' && fail 'a method has no row'

none='prompt_flops=0 flash=stays message_bytes=0'
nobody='across=none tp2=same'
# shellcheck disable=SC2086
known dense $none $nobody ragged=1 freed= prefill_peak=100 scanned=0
# shellcheck disable=SC2086
known streamingllm $none $nobody ragged=1
# The probabilities of every query there is; of 32 rows of 4,096; of the last.
# shellcheck disable=SC2086
known h2o flash=left $nobody
# shellcheck disable=SC2086
known snapkv flash=again ragged=1 $nobody
known adakv flash=again across=heads tp2=other
over adakv ragged 1.05
known tova flash=left across=heads
# shellcheck disable=SC2086
known quest flash=stays freed= $nobody
over quest scanned 6
known oracle-topk flash=left scanned=50
known oracle-evict flash=stays
known kivi flash=stays freed=100 across=none
known zsmerge flash=left
# A bit for each of 4,352 tokens, and 16 bytes.
known omnikv across=layers tp2=other message_bytes=560
known palu across=codes tp2= made_file=1
known less made_file=1 tp2=
known pyramidkv across=none tp2=same
over pyramidkv ragged 1.05
# By the theory of pages of 16 a fifth kept at random frees few of them.
over window freed 90
awk -v x="$(cell random freed)" 'BEGIN { exit !(x < 20) }' ||
  fail "random frees $(cell random freed) % of what it left"
# 20 % and, before it is compressed, one layer of 32: 20 + 80 / 32 = 22.5.
for m in window snapkv adakv h2o; do over $m prefill_peak 22; done
awk -v x="$(cell snapkv prefill_peak)" 'BEGIN { exit !(x < 23) }' ||
  fail 'snapkv holds more than it should in prefill'
# The logits of all of a prompt's rows: 2 d n^2 / 2 of 32 heads and layers, of
# all that the model computes: 2 FLOPs a token and weight of 6.98e9, and 4 d n^2
# / 2 of attention.
python3 - "$(cell h2o prompt_flops)" <<'PY' || fail 'FLOPs of h2o'
import sys
n, d = 4096, 128
pairs = n * (n + 1) / 2 * 32 * 32
weights = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
want = 100 * 2 * d * pairs / (2 * n * weights + 4 * d * pairs)
sys.exit(abs(float(sys.argv[1]) - want) > 1e-4 * want)
PY

# --- forms, lists and what is refused -----------------------------------------
# A row is named as in other tables: by its format, by what was set.
list=snapkv,kivi,snapkv+int4,nvfp4,int8-q4_0:rotate=keys
ran 0 "$kvreplay" methods --engine $list -f json
cp "$tmp/out" "$tmp/json"
ran 0 "$kvreplay" methods --engine $list -f csv
python3 - "$tmp/json" "$tmp/out" <<'PY' || fail 'CSV and JSON differ'
import csv, json, sys
a, b = json.load(open(sys.argv[1])), list(csv.DictReader(open(sys.argv[2])))
assert [x["method"] for x in a] == [
    "snapkv", "kivi", "snapkv+int4", "nvfp4", "int8-q4_0:rotate=keys"]
assert len(a) == len(b)
for x, y in zip(a, b):
    assert list(x) == list(y), "names"
    for k, v in x.items():
        same = (y[k] == "" if v is None else float(y[k]) == float("%.6g" % v)
                if isinstance(v, (int, float)) else y[k] == v)
        assert same, (k, v, y[k])
PY
for m in snapkv kivi; do
  [ "$(grep "^$m," "$tmp/out")" = "$(grep "^$m," "$tmp/csv")" ] ||
    fail "$m alone is not $m among all"
done
ran 0 "$kvreplay" methods --engine snapkv:window=64
grep -qE '^snapkv:window=64 +0[.]11  again ' "$tmp/out" || fail 'a table of one'
ran 0 "$kvreplay" methods --engine snapkv:budget=8:window=16
grep -q '^snapkv:window=16: snapkv: window=16 exceeds the budget' "$tmp/out" ||
  fail 'why there is no row'
refused 2 '--format csv needs --engine' "$kvreplay" methods -f csv
refused 2 'leave out --engine' "$kvreplay" methods --bibtex --engine
refused 2 'no method is called nosuch' "$kvreplay" methods --engine nosuch
TMPDIR=$tmp/none refused 4 'set TMPDIR' "$kvreplay" methods --engine dense
# --- rows of a database -------------------------------------------------------
db=$tmp/rows.db
ran 0 "$kvreplay" run "$small" "$tiny/haystack_8.safetensors" -q -b 20% \
  -m dense,adakv,quest,snapkv:window=16 --layout pages:16 --db "$db" -f json
cp "$tmp/out" "$tmp/rows"
ran 0 "$kvreplay" methods --engine adakv,quest,snapkv:window=32 \
  --db "$db" -f csv
python3 - "$tmp/rows" "$tmp/out" "$tmp/csv" <<'PY' || fail 'the sheet of rows'
import csv, json, sys
rows = json.load(open(sys.argv[1]))
sheet, made = [{x["method"]: x for x in csv.DictReader(open(f))}
               for f in sys.argv[2:]]
dense = {x["trace"]: x["bytes"] for x in rows if x["method"] == "dense"}
other = sheet["snapkv:window=32"]
assert dict(other, method="snapkv") == made["snapkv"], "other parameters"
assert made["adakv"]["cells"] == "0" == other["cells"]
for m in "adakv", "quest":
    mine = [x for x in rows if x["method"] == m]
    assert sheet[m]["cells"] == "2" == str(len(mine))
    pages = [x["layout"]["pages:16"] for x in mine]
    of = [dense[x["trace"]] for x in mine]
    want = {
        "scanned": [x["bytes"]["scanned"] / d["read"] * 100
                    for x, d in zip(mine, of)],
        "prefill_peak": [x["bytes"]["peak"] / d["end"]["total"] * 100
                         for x, d in zip(mine, of)],
        "ragged": [x["kept_max"] / x["kept"] for x in mine],
        "freed": [x["freed"] / x["vacated"] * 100
                  for x in pages if x["vacated"]]}
    for k, v in want.items():
        if not v:
            assert sheet[m][k] == "", (m, k)
            continue
        got, mean = float(sheet[m][k]), sum(v) / len(v)
        assert abs(got - mean) < 1e-4 * max(mean, 1), (m, k, got, mean)
PY
refused 2 '--db needs --engine' "$kvreplay" methods --db "$db"
refused 4 'none.db' "$kvreplay" methods --engine dense --db "$tmp/none.db"

# --- beside rows --------------------------------------------------------------
# beside KEY METHODS OPTION...: $tmp/rows1 has the rows with KEY in each. They
# are the same by two threads, and but for KEY those of a run without OPTION.
beside() {
  local key=$1 run=(run "$small" -q -p 300 -b 20% -f json -m "$2") jobs
  shift 2
  for jobs in 1 2; do
    ran 3 "$kvreplay" "${run[@]}" "$@" -j $jobs
    grep -v '"seconds"\|"threads"' "$tmp/out" >"$tmp/rows$jobs"
  done
  cmp -s "$tmp/rows1" "$tmp/rows2" || fail "$key: other rows by two threads"
  ran 3 "$kvreplay" "${run[@]}"
  python3 - "$tmp/rows1" "$tmp/out" "$key" <<'PY' || fail "$key: other rows"
import json, sys
beside, without = [json.load(open(x)) for x in sys.argv[1:3]]
assert len(beside) == len(without)
for x, y in zip(beside, without):
    assert x["journal"] == y["journal"], x["method"]
    assert sys.argv[3] in x and sys.argv[3] not in y, x["method"]
PY
}

# --- ranks --------------------------------------------------------------------
alone=dense,snapkv,h2o,criticalkv,keydiff,quest,kivi,zsmerge
beside tp "$alone,adakv,tova,random,less" --tp 2
python3 - "$tmp/rows1" $alone <<'PY' || fail ranks
import json, sys
rank = {x["method"]: x["tp"] for x in json.load(open(sys.argv[1]))}
for m, x in rank.items():
    if m == "less":
        assert x["not_asked"] and x["lanes"] is None, m
        continue
    assert x["ranks"] == 2 and x["lanes"] == 16 and x["not_asked"] is None, m
    assert 1 <= x["fullest"] < 2 and 1 <= x["fullest_told"] < 2, m
for m in sys.argv[2].split(","):
    assert rank[m]["decide_other"] == 0, m
    assert rank[m]["fullest"] == rank[m]["fullest_told"] == 1, m
for m in "adakv", "tova":
    assert rank[m]["decide_other"] > 0, m
assert rank["adakv"]["fullest_told"] > 1
assert rank["random"]["decide_other"] == 8, "the lanes of the second rank"
PY
ran 0 "$kvreplay" run "$small" -q -p 300 -m snapkv,adakv -b 20% --tp 4
grep -qE '^  retrieval_8_small  +snapkv  .* 0 of +16 +1[.]000 +1[.]000$' \
  "$tmp/out" || fail 'the table of ranks'
refused 2 '4 KV heads cannot be split among 3 ranks' \
  "$kvreplay" run "$small" -q -m dense --tp 3

# --- prompts in pieces --------------------------------------------------------
# A prompt of 300 in 10 pieces of 30: the last holds what `same` go by.
same=dense,window,random,streamingllm,knorm,quest,oracle-topk,oracle-evict,kivi
beside chunked "$same,h2o,snapkv,rkv,zsmerge,less" --chunk 30
python3 - "$tmp/rows1" $same <<'PY' || fail pieces
import json, sys
chunked = {x["method"]: x["chunked"] for x in json.load(open(sys.argv[1]))}
assert chunked.pop("less")["not_asked"]
for m, x in chunked.items():
    assert x["chunk"] == 30 and x["lanes"] == 16, m
    assert x["not_asked"] is None and 0 < x["shared"] <= 100, m
for m in sys.argv[2].split(","):
    assert chunked[m]["decide_other"] == 0 and chunked[m]["shared"] == 100, m
for m in "h2o", "snapkv", "rkv":
    assert chunked[m]["decide_other"] > 0 and chunked[m]["shared"] < 100, m
# Of 20 % no more than a piece beside it is held, in a layer before it settles.
for m in "window", "snapkv":
    assert chunked[m]["peak"] < chunked[m]["whole_peak"], m
PY
# A last piece of one row is shown the rows before it too.
for p in 300 301; do
  "$kvreplay" run "$small" -q -p $p -m chunkkv -b 20% --chunk 30 -f jsonl |
    grep -o '"shared": [0-9]*'
done >"$tmp/rows"
[ "$(uniq "$tmp/rows" | tr -dc '0-9\n' | sort -n | head -n 1)" -ge 87 ] ||
  fail "a short piece: $(cat "$tmp/rows")"
ran 0 "$kvreplay" run "$small" -q -p 300 -m snapkv -b 20% --chunk 300
grep -q 'snapkv .* no answer: its prompt is no longer than a piece' \
  "$tmp/out" || fail 'a piece as long as the prompt'

# --- traces of one name -------------------------------------------------------
# Every table and remark calls them by their files, a bad one too.
mkdir "$tmp/a" "$tmp/b" "$tmp/c"
cp "$small" "$tmp/a/one.safetensors"
cp "$small" "$tmp/b/one.safetensors"
echo bad >"$tmp/c/one.safetensors"
(cd "$tmp" && "$kvreplay" run {a,b,c}/one.safetensors -m snapkv -p 90 -b 100 \
  --tp 2 --chunk 64 --cache lru:4) >"$tmp/out" 2>"$tmp/err"
for row in a:4 b:4 c:1; do
  [ "$(grep -c "^ *${row%:*}/one.safetensors[, ]" "$tmp/out")" = ${row#*:} ] ||
    fail "tables do not name ${row%:*}/one: $(grep one "$tmp/out")"
done
grep -q ' a/one.safetensors, snapkv: budget 100 exceeds' "$tmp/err" ||
  fail "a remark names no file: $(cat "$tmp/err")"

[ -z "$(ls "$tmp/t")" ] || fail "left in TMPDIR: $(ls "$tmp/t")"
concluded
