#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What it costs to store merged rows in 16 bits: the table of ref/FORMATS.md,
# computed. Bundled traces as bf16 and as fp16; output error and, of traces with
# answers, the needle's share, with merged=trace and merged=fp32.
# haystack_20_long has too few query rows for either method.
#
#   check_merging.sh           fails where the table says something else
#   check_merging.sh --print   prints its rows
. "$(dirname "$0")/replays.sh"
traces='text_400 retrieval_16 haystack_8 multiturn_11 generated_1500
  retrieval_8_small'
! replay_little || traces=text_400

specs=zsmerge,zsmerge:merged=fp32
specs+=,hardkv:condensed=merge,hardkv:condensed=merge:merged=fp32

row() { # TRACE TYPE: one row of the table
  local file=$tmp/$1.safetensors
  "$kvtrace" convert "$src/traces/tiny/$1.safetensors" -d "$2" -q -o "$file" \
    2>"$tmp/said" || { cat "$tmp/said" >&2; return 1; }
  "$kvreplay" run "$file" -m "$specs" -b 20% -q -f jsonl |
    awk -v name="$1" -v type="$2" '
      function value(key) {
        return substr($0, index($0, "\"" key "\": ") + length(key) + 4)
      }
      function mean(key,   text) { # of the object that is the value of key
        text = value(key)
        return substr(text, index(text, "\"mean\": ") + 8) + 0
      }
      { line = line sprintf(" | %.4f", mean("output_error"))
        needle = value("needle_share")
        line = line (needle ~ /^null/ ? " | -" : sprintf(" | %.4f", needle)) }
      END { print "| " name " | " type line " |"; exit NR != 4 }'
  [ "${PIPESTATUS[*]}" = '0 0' ] && rm "$file"
}

for t in $traces; do
  for type in bf16 f16; do
    row "$t" "$type" || { echo "check_merging: $t as $type" >&2; exit 1; }
  done
done >"$tmp/rows" || exit 1
[ "${1-}" != --print ] || { cat "$tmp/rows"; exit 0; }
while read -r line; do
  grep -qF "$line" "$src/ref/FORMATS.md" ||
    fail "ref/FORMATS.md does not say $line"
done <"$tmp/rows"
[ -s "$tmp/rows" ] && [ "$bad" = 0 ] || exit 1
echo "check_merging: $(wc -l <"$tmp/rows") rows as computed"
