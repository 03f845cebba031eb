#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What is said of prompts that are read in chunks (prefill=N): the tables of
# kvreplay and kvreport have their columns where some row was, and nowhere else;
# what the view `prompts` and the page set beside the same prompt read whole is
# what the tables of the database say of both runs. Two runs of dense on a trace
# give no cell twice.
. "$(dirname "$0")/../sh.sh"
shows=("$tmp/err")
hold() { # WHAT CONDITION..: the condition is true
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" >"$tmp/held" 2>&1 || fail "$what: $(tail -n 1 "$tmp/held")"
}
lacks() { ! grep "$1" "$tmp/out"; }

trace=$tmp/four.safetensors db=$tmp/r.db
"$kvtrace" synth -q --layers 2 --heads 4 --kv-heads 2 --dim 32 --dtype F32 \
  -t 190 -p 170 -s 11 -o "$trace" 2>"$tmp/err" || fail synth
quest=quest:page=8:skip=0
whole=dense,h2o,h2o:recent=6,$quest,tova
chunks=dense:prefill=32,h2o:prefill=24,h2o:prefill=48,$quest:prefill=48

# --- the table of a run ---
ran 0 "$kvreplay" run -q "$trace" -b 24,mean:40% -m h2o,tova
hold 'no column without chunks' lacks '^method .*prompt'
ran 0 "$kvreplay" run -q "$trace" -b 24,mean:40% -m h2o,tova --wide
hold 'nor in the wide table' lacks 'p mass'
ran 0 "$kvreplay" run -q "$trace" -b 24 -m "$whole,$chunks" -d "$db"
cp "$tmp/out" "$tmp/narrow"
hold 'two columns' grep -q '^method .* prompt error  *prompt mass$' "$tmp/out"
hold 'dense loses nothing' grep -q '^dense:prefill=32 .* 0  *1\.0000$' \
  "$tmp/out"
hold 'a whole prompt has none' grep -q '^tova .* [0-9.]\+  *-  *-$' "$tmp/out"
ran 0 "$kvreplay" run -q "$trace" -b 24 -m "$whole,$chunks" --wide
hold 'and in the wide table' grep -q ' prompt p mass  *journal' "$tmp/out"
"$kvreplay" run --help | tr -s '\n ' '  ' >"$tmp/help"
for head in 'prompt error' 'prompt mass' prompt 'p mass'; do
  hold "a word on $head" grep -qF -- "\`$head\`" "$tmp/help"
done

# --- kvreport ---
tables() { "$sql" "$db" "$1;"; }
mean() { # MEASURE FORM SPEC [BUT PARAMS]: as the database has it
  tables "SELECT printf('%.$2', mean) FROM metric JOIN run USING (run_id)
    WHERE part = 0 AND measure = '$1' AND spec LIKE '$3' AND
    params NOT LIKE '${4-}'"
}
ran 0 "$kvreport" table "$db"
hold 'a cell each' test "$(grep -c '^four ' "$tmp/out")" = 9
hold 'columns of the table' grep -q ' p error  *p mass  *checked$' "$tmp/out"
hold 'error of the narrow table' test "$(mean prompt_error 4f h2o%=48)" = \
  "$(awk '$1 == "h2o:prefill=48" { print $(NF - 1) }' "$tmp/narrow")"
hold 'mass of the narrow table' test "$(mean prompt_mass 4f h2o%=48)" = \
  "$(awk '$1 == "h2o:prefill=48" { print $NF }' "$tmp/narrow")"
ran 0 "$kvreport" table "$db" -w method=tova
hold 'none where no row has any' lacks 'p error\|p mass'
ran 0 "$kvreport" table "$db" --mean
hold 'columns of the means' grep -q ' p error  *p mass  *checked$' "$tmp/out"
hold 'a line each' test "$(grep -c ' one run$' "$tmp/out")" = 9

# Each beside the same method read whole, and nothing beside what was not run.
ran 0 "$kvreplay" run -q "$trace" -b 20 -m keydiff:prefill=48 -d "$db"
ran 0 "$kvreport" export "$db" -o "$tmp/csv" -f jsonl
said() { # SPEC COLUMN [DIGITS]: of the view
  grep "\"spec\":\"$1" "$tmp/csv/prompts.jsonl" |
    sed 's/.*"'"$2"'":\([^,]*\),.*/\1/' | xargs printf "%.${3-6}f\n"
}
hold 'a row a cell' test "$(wc -l <"$tmp/csv/prompts.jsonl")" = 5
for column in mass output_error lse_error; do
  for spec in h2o:%recent=12:% quest:%; do
    m=${spec%%:*}
    hold "$m: $column after chunks" test "$(said "$m.*=48\"" $column)" = \
      "$(mean $column 6f "$spec=48")"
    hold "$m: $column after the whole" test "$(said "$m.*=48\"" \
      whole_$column)" = "$(mean $column 6f "$spec" %prefill%)"
  done
done
hold 'of both chunks' test "$(said h2o prompt_error)" = \
  "$(mean prompt_error 6f h2o%=24; mean prompt_error 6f h2o%=48)"
hold 'which differ' test "$(said h2o prompt_error | sort -u | wc -l)" = 2
hold 'nothing beside keydiff' grep -q \
  '"method":"keydiff".*"whole_output_error":null' "$tmp/csv/prompts.jsonl"
ran 0 "$kvreport" html "$db" -o "$tmp/r.html"
sed -n '/<h2 id="prompts">/,/<\/figure>/p' "$tmp/r.html" >"$tmp/section"
hold 'rows of the section' test "$(grep -c '^<tr' "$tmp/section")" = 5
hold 'its numbers' grep -q "=48.*>$(mean prompt_mass 4g h2o%=48)<.*>$(
  mean output_error 4g h2o:%recent=12:% %prefill%)<" "$tmp/section"
hold 'columns of all cells' grep -q '>prompt error<.*>prompt mass<' \
  <(sed -n '/<h2 id="cells">/,/<tbody>/p' "$tmp/r.html")
ran 0 "$kvreplay" run -q "$trace" -b 24 -m "$whole" -d "$tmp/plain.db"
ran 0 "$kvreport" html "$tmp/plain.db" -o "$tmp/plain.html"
hold 'a page without' test "$(grep -c 'id="prompts"\|>prompt error<' \
  "$tmp/plain.html")" = 0
concluded
