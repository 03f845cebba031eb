#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# On the bundled traces the methods order as learned attention makes them.
# The little model keeps most of its mass on token 0 and finds an answer with
# one of its heads. The needle's mass over all heads, as a share of what
# dense gives it, says whether a method lets the answer be found; where a view
# lacks token 0, the mass that lay there goes to whatever is left, needles too,
# so methods without it are compared by their errors. Each line below is
# asserted with a margin; the numbers are printed.
. "$(dirname "$0")/replays.sh"
bad=0
checks=0

# NAME of a row -> its specification.
specs='dense random window streamingllm:positions=original h2o tova snapkv
  quest:page=8:skip=0 quest:page=16:skip=0 kivi:bits=2 kivi:bits=4
  oracle-topk'
traces=(retrieval_16 haystack_8)

for t in "${traces[@]}"; do
  "$kvreplay" run "$src/traces/tiny/$t.safetensors" -q -f jsonl \
    -m "$(echo $specs | tr ' ' ,)" -b 12.5%,25%,50% || exit 1
done | awk '
  function value(key,   at) {
    at = index($0, "\"" key "\": ")
    return substr($0, at + length(key) + 4)
  }
  function mean(key,   text) { # of the object that is the value of key
    text = value(key)
    return substr(text, index(text, "\"mean\": ") + 8) + 0
  }
  function word(key,   text) {
    text = value(key)
    if (substr(text, 1, 1) != "\"") return "-"
    return substr(text, 2, index(substr(text, 2), "\"") - 1)
  }
  { name = word("method"); spec = word("spec")
    if (name == "quest") name = name (spec ~ /page=8/ ? 8 : 16)
    if (name == "kivi") name = name (spec ~ /:bits=4/ ? 4 : 2)
    print word("trace"), name, word("target"), mean("output_error"),
      mean("mass"), mean("needle_mass") }' |
  awk '{ if ($2 == "dense") dense[$1] = $6
         print $1, $2, $3, $4, $5, dense[$1] ? $6 / dense[$1] : 0 }' \
    >"$tmp/rows"

printf '%-13s %-13s %-6s %8s %8s %8s\n' trace method budget error mass needle
awk '{ printf "%-13s %-13s %-6s %8.4f %8.4f %8.4f\n", $1, $2, $3, $4, $5, $6 }
' "$tmp/rows"

# number TRACE METHOD BUDGET COLUMN (4 error, 5 mass, 6 needle)
number() {
  awk -v t="$1" -v m="$2" -v b="$3" -v c="$4" '
    $1 == t && $2 == m && ($3 == b || $3 == "-") { print $c; found = 1 }
    END { exit !found }' "$tmp/rows" || echo "no row of $1 $2 $3" >&2
}

# holds SENTENCE A < B: with awk, so that a missing number fails.
holds() {
  checks=$((checks + 1))
  awk -v a="$2" -v b="$4" '
    BEGIN { exit !(a != "" && b != "" && a + 0 < b + 0) }' || {
    bad=$((bad + 1))
    echo "check_orders: not so: $1 ($2 < $4)"
  }
}

times() { awk -v a="$1" -v b="$2" 'BEGIN { if (a != "") print a * b }'; }

# less TRACE BUDGET COLUMN FACTOR METHOD...: each less than FACTOR times the
# next.
less() {
  local t=$1 b=$2 c=$3 factor=$4 x
  shift 4
  while [ $# -gt 1 ]; do
    x=$(number "$t" "$2" "$b" "$c")
    holds "$t, $b, column $c: $1 below $factor $2" \
      "$(number "$t" "$1" "$b" "$c")" '<' "$(times "$x" "$factor")"
    shift
  done
}

for t in "${traces[@]}"; do
  # Needles live in the oracle, mostly in small pages, less in what the
  # prompt's end looked at, rarely in heavy hitters.
  holds "$t: the oracle keeps needles" 0.97 '<' \
    "$(number "$t" oracle-topk 12.5% 6)"
  holds "$t: pages of 8 mostly do" 0.6 '<' "$(number "$t" quest8 12.5% 6)"
  less "$t" 12.5% 6 0.95 h2o snapkv quest16 quest8
  less "$t" 25% 6 0.95 h2o snapkv quest16
  # Errors of the output: first of all the sink must stay.
  for b in 12.5% 25%; do
    less "$t" $b 4 0.2 streamingllm window
    less "$t" $b 4 0.2 h2o random
    less "$t" $b 4 0.2 snapkv random
    less "$t" $b 4 0.95 snapkv streamingllm
    less "$t" $b 4 0.5 kivi4 kivi2
  done
  less "$t" 12.5% 4 0.5 oracle-topk quest8
  # No set of so many tokens has more mass than the oracle's.
  for m in random window streamingllm h2o tova quest8 quest16; do
    less "$t" 12.5% 5 0.99 "$m" oracle-topk
  done
  # More budget, less error. (Not so of the oracle: the sink has the mass and
  # values of almost nothing, so what it adds next may point anywhere.)
  for m in random window streamingllm snapkv h2o quest8 quest16; do
    for pair in '25% 12.5%' '50% 25%'; do
      read -r more fewer <<<"$pair"
      holds "$t, $m: $more errs less than $fewer" \
        "$(number "$t" "$m" "$more" 4)" '<' \
        "$(times "$(number "$t" "$m" "$fewer" 4)" 0.95)"
    done
  done
done
printf 'check_orders: %d orders, %d not as expected\n' "$checks" "$bad"
[ "$bad" = 0 ]
