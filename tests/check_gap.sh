#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Baselines (view `gap` of kvreport) on the traces of traces/quick.txt, at 20 %
# of the prompt:
#   - no method that evicts lane by lane retains as much of the attention's mass
#     as oracle-evict with as many entries; methods whose lanes or layers share
#     a budget are printed beside it, and may;
#   - every method that chooses is compared with the baseline that fits what its
#     cell did, at its own entries; a method that chooses nothing has none;
#   - oracle-topp, which has no budget, is interpolated between its two nearest
#     shares.
. "$(dirname "$0")/replays.sh"
lanes=window,streamingllm,h2o,tova,snapkv,rkv,keydiff,lagkv,expected
lanes+=,chunkkv,criticalkv,knorm:skip=0,zsmerge,snapkv:group=query_head
shared=pyramidkv,adakv
reads=quest:page=8:skip=0,twilight:skip=0,kivi
shares=oracle-topp:p=0.3,oracle-topp:p=0.7,oracle-topp:p=0.9,oracle-topp:p=1
db=$tmp/gap.db
mapfile -t traces < <(sed "/^#/d; s|^|$src/traces/|" "$src/traces/quick.txt")
[ "${#traces[@]}" = 5 ] || fail 'other traces than five are bundled'

"$kvreplay" run "${traces[@]}" -q --db "$db" -b 20% \
  -m "dense,random,$lanes,$shared,$reads" >/dev/null || fail 'a run'

value='function value(key,   at, text) {
    at = index($0, "\"" key "\":")
    text = substr($0, at + length(key) + 3)
    if (sub(/^"/, "", text)) return substr(text, 1, index(text, "\"") - 1)
    match(text, /[,}]/)
    return substr(text, 1, RSTART - 1)
  }'
# gaps: of each cell, TRACE SPEC BASELINE ENTRIES AT MASS ORACLE_MASS GAP
# MASS_GAP
gaps() {
  "$kvreport" table "$db" --gap --format jsonl | awk "$value"'
    { group = $0 ~ /query_head/ ? ":group=query_head" : ""
      print value("trace"), value("method") group, value("baseline"),
        value("equal_budget"), value("reference_budget"), value("mass"),
        value("oracle_mass"), value("gap"), value("mass_gap") }' >"$tmp/gaps"
}

# Before random and the baselines have run, a cell has no reference.
gaps
awk '$5 != "null" && $4 != $5 && $4 != $5 + 1' "$tmp/gaps" | grep . &&
  fail 'a reference at other entries'
for trace in "${traces[@]}"; do
  name=$(basename "$trace" .safetensors)
  for baseline in oracle-evict oracle-evict:group=query_head oracle-topk; do
    budgets=$(awk -v t="$name" -v r=$baseline '
      $1 == t && $3 == r { print $4 - 1 }' "$tmp/gaps" | sort -nu | paste -sd,)
    "$kvreplay" run "$trace" -q --db "$db" -m random,$baseline -b "$budgets" \
      >/dev/null || fail "$baseline on $name"
  done
  budgets=$(awk -v t="$name" '$1 == t && $3 == "oracle-topp" { print $4 }' \
    "$tmp/gaps")
  "$kvreplay" run "$trace" -q --db "$db" -b "$budgets" -m "random,$shares" \
    >/dev/null || fail "oracle-topp on $name"
done
gaps

# compared BASELINE METHOD...: it is their baseline on every trace, and has run.
compared() {
  local baseline=$1 method n
  shift
  for method; do
    n=$(awk -v m="$method" -v r="$baseline" '
      $2 == m && $3 == r && $8 != "null" && $9 != "null"' "$tmp/gaps" | wc -l)
    [ "$n" = 5 ] || {
      grep " $method " "$tmp/gaps" >&2
      fail "$method is compared with $baseline on $n of 5 traces"
    }
  done
}
compared oracle-evict window streamingllm h2o tova snapkv rkv keydiff lagkv \
  expected chunkkv criticalkv knorm zsmerge pyramidkv adakv
compared oracle-evict:group=query_head snapkv:group=query_head
compared oracle-topk quest
compared oracle-topp twilight
grep ' kivi ' "$tmp/gaps" | grep -v ' kivi null ' && fail 'kivi has a baseline'

# The line between the two shares, drawn again.
"$kvreport" table "$db" --format jsonl | awk "$value"'
  { t = value("trace"); x = value("attended") + 0 }
  value("method") == "oracle-topp" {
    mass[t, x] = value("mass"); at[t, ++n[t]] = x }
  value("method") == "twilight" { of[t] = x }
  END { for (t in of) { low = 0; high = 1e9
    for (i = 1; i <= n[t]; i++) {
      x = at[t, i]
      if (x <= of[t] && x > low) low = x
      if (x >= of[t] && x < high) high = x }
    part = (of[t] - low) / (high - low)
    y = mass[t, low] + (mass[t, high] - mass[t, low]) * part
    printf "%s %.9f %s %s\n", t, y, low, high } }' >"$tmp/line"
while read -r trace mass low high; do
  [ "$low" != "$high" ] && awk -v t="$trace" -v y="$mass" '
    $1 == t && $2 == "twilight" && ($7 - y) ^ 2 < 1e-10 { found = 1 }
    END { exit !found }' "$tmp/gaps" ||
    fail "oracle-topp on $trace, between $low and $high: not $mass"
done <"$tmp/line"
[ "$(wc -l <"$tmp/line")" = 5 ] || fail 'twilight on other traces than five'

# No method that chooses anew at each step retains more mass than its baseline.
awk '$3 == "oracle-topk" && !($9 < 1)' "$tmp/gaps" | grep . &&
  fail 'more mass than the exact top tokens'
awk '$2 != "pyramidkv" && $2 != "adakv" && $3 ~ /^oracle-evict/ &&
  !($6 < $7 && $9 < 1)' "$tmp/gaps" | grep . &&
  fail 'more mass than oracle-evict retains with as many entries'
awk '$2 == "pyramidkv" || $2 == "adakv" {
    printf "check_gap: %s on %s, lanes share a budget: %.4f of %.4f%s\n", $2,
      $1, $6, $7, ($6 > $7 ? ", more than the baseline" : "") }' "$tmp/gaps"
awk '$3 ~ /^oracle-evict/ { n++; sum += $9
    if ($9 > most) { most = $9; who = $2 " on " $1 } }
  END { printf "check_gap: %d cells go %.2f of the way in mass, at most %.4f" \
    " (%s)\n", n, sum / n, most, who }' "$tmp/gaps"
[ "$bad" = 0 ]
