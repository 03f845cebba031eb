#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The figures of how tokens are stored and of what heads attend to, on two
# small synthetic traces: what is drawn is what its file of data says, and that
# is what the tables of the database give by other questions
# (python/check_figures.py). A page of rows that no such figure compares has
# none of them; two databases that contradict each other are not merged.
. "$(dirname "$0")/sh.sh"
report=$kvreport build=$top dir=$tmp
command -v python3 >/dev/null || {
  echo 'check_figures: no python3 here, which makes weights'
  exit 77
}

for seed in 1 2; do
  "$build/traces/kvtrace" synth -q -o "$dir/synth_$seed.safetensors" -s $seed \
    --layers 2 --heads 4 --kv-heads 2 --dim 64 -t 152 -p 112 ||
    { echo "FAIL: synth"; exit 1; }
done
traces=("$dir"/synth_?.safetensors)
run() { "$kvreplay" run "${traces[@]}" -q --db "$1" "${@:2}" >/dev/null; }

# A plain run has nothing of it to draw but bytes by kind.
run "$dir/plain.db" -m dense,h2o -b 30% || fail 'a plain run'
"$report" html "$dir/plain.db" -o "$dir/plain.html" || fail 'html of it'
for id in mirrors pruning sparsity paged utilised rewritten critical decades \
  nearest distances cosines residuals spectra norms elements sizes strides \
  positions latent hidden rebuilt entropies stride run_latent run_hidden \
  ablations ratios collapse temperatures densities stacked shares merging; do
  grep -q "id=\"$id\"" "$dir/plain.html" && fail "$id of a plain run"
done
grep -q 'id="charged"' "$dir/plain.html" || fail 'no bytes by kind'
grep -q 'id="drifts"' "$dir/plain.html" || fail 'no drift of h2o'

# A method that runs both ways: what merging adds is one line less the other.
run "$dir/plain.db" -m hardkv,hardkv:condensed=merge -b 30% || fail 'hardkv'
"$report" export "$dir/plain.db" -o "$dir/csv_p" || fail 'export of hardkv'
"$report" html "$dir/plain.db" -o "$dir/both.html" || fail 'html of hardkv'
grep -q 'id="merging"' "$dir/both.html" || fail 'nothing of merging'
awk -F , '
  FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
  FILENAME ~ /drifts/ {
    drift[$at["panel"], $at["series"], $at["step"]] = $at["drift"]
    next
  }
  {
    n++
    p = $at["panel"]; s = $at["step"]
    by = drift[p, "hardkv condensed=merge", s]
    by -= drift[p, "hardkv condensed=evict", s]
    moved += by != 0
    if ((by - $at["added"]) ^ 2 > 1e-12) exit 1
  }
  END { exit !(n == 80 && moved > 40) }' "$dir/csv_p/drifts.csv" \
  "$dir/csv_p/merging.csv" || fail 'what merging adds is not the difference'

lean=leankv:window=16:alpha_l
run "$dir/a.db" --layout unified,pages:16,base,hs:max,ha:max -b 30%,60% \
  -m dense,dense+k8v4,dense+k4v8,dense+int8,window,window+int8,window+k4v2 \
  -m window+k2v4,$lean=0.5,$lean=0.2:sparsity=layer ||
  fail 'a run of formats'
# Formats alone are dense in these formats, and stand there once.
run "$dir/a.db" -m $lean=0.3,${lean%:*}:sparsity=static:high_share=0.3 \
  -m $lean=0.5:variant=paper,k8v4,k4v2,k2v4,int8 || fail 'a run of leankv'
"$kvreplay" attention "${traces[@]}" -q --db "$dir/a.db" >"$dir/said" ||
  fail attention
[ "$(grep -c ' % of the mass of a row needs .* of 108.5 tokens' \
  "$dir/said")" = 2 ] || fail "attention says: $(cat "$dir/said")"
KVREPLAY_ISA=portable "$kvreplay" attention "${traces[@]}" -q -j 1 \
  --db "$dir/b.db" >"$dir/again" || fail 'attention again'
cmp -s "$dir/said" "$dir/again" || fail 'attention by other kernels differs'
"$kvreplay" attention "${traces[0]}" -q --db "$dir/b.db" |
  grep -qx 'synth_1: there already' || fail 'attention twice'

"$kvreplay" residuals "${traces[@]}" -q --db "$dir/a.db" >"$dir/said" ||
  fail residuals
[ "$(grep -c '^  nearest of K.* (73.2 % of all earlier ones are)' \
  "$dir/said")" = 4 ] || fail "residuals says: $(cat "$dir/said")"
KVREPLAY_ISA=portable "$kvreplay" residuals "${traces[@]}" -q -j 1 \
  --db "$dir/b.db" >"$dir/again" || fail 'residuals again'
cmp -s "$dir/said" "$dir/again" || fail 'residuals by other kernels differ'
"$kvreplay" residuals "${traces[0]}" -q --db "$dir/b.db" |
  grep -qx 'synth_1: there already' || fail 'residuals twice'

"$kvreplay" selection "${traces[@]}" -q --db "$dir/a.db" >"$dir/said" ||
  fail selection
KVREPLAY_ISA=portable "$kvreplay" selection "${traces[@]}" -q -j 1 \
  --db "$dir/b.db" >"$dir/again" || fail 'selection again'
cmp -s "$dir/said" "$dir/again" || fail 'selection by other kernels differs'
# A larger share selects no fewer as it is.
[ "$("$sql" "$dir/b.db" "SELECT count(*) FROM figure a JOIN figure b
  USING (identity, layer, head, series, x) WHERE (a.figure = b.figure AND
  a.figure = 'selection.before' AND a.y = 60 AND b.y = 90 AND a.value > b.value)
  OR (series = 'vanilla' AND a.y = b.y AND a.figure = 'selection.before' AND
  ((b.figure = 'selection.after' AND a.value != b.value) OR
  (b.figure = 'selection.temperature' AND b.value != 1)));")" = 0 ] ||
  fail 'a larger share selects fewer'

"$report" merge "$dir/m.db" "$dir/a.db" "$dir/b.db" || fail 'merge'
"$report" export "$dir/m.db" -o "$dir/csv" || fail 'export'
"$report" html "$dir/m.db" -o "$dir/page.html" || fail 'html'
grep -q 'nan\|inf"' "$dir/page.html" && fail 'a number that is none'
if command -v python3 >/dev/null; then
  for figures in figures residuals selection; do
    python3 "$src/tests/python/check_$figures.py" "$dir/m.db" "$dir/csv" \
      "$dir/page.html" 2>"$dir/err" || fail "$figures: $(tail -n 1 "$dir/err")"
  done
fi

# Where weights lie beside a trace, its latent vectors are counted: of every
# layer as many tokens as have references, 64 elements each, whose mean square
# is 1 in units of its root. 0.355 is what numpy finds in binary64.
"$kvreplay" residuals "$src/traces/tiny/text_400.safetensors" -q \
  --db "$dir/z.db" >/dev/null || fail 'residuals with weights'
items="FROM figure c WHERE figure = 'class.value' AND part = 'z' AND
  c.layer = z.layer"
[ "$("$sql" "$dir/z.db" "SELECT count(*) FROM figure z
  JOIN figure r USING (identity, figure, layer, series, value)
  JOIN figure s USING (identity, layer, series)
  WHERE z.figure = 'residual.tokens' AND z.part = 'z' AND r.part = 'references'
    AND s.part = 'z' AND s.figure = 'residual.share' AND s.value > 0 AND
    64 * z.value = (SELECT sum(c.value) $items) AND
    (SELECT sum(c.value * (c.x + 0.5) * (c.x + 0.5)) / 64 / sum(c.value)
      $items) BETWEEN 0.9 AND 1.1 AND
    (z.layer <> 2 OR round(s.value, 4) = 0.3550);")" = 6 ] ||
  fail 'latent vectors are not counted'
# The mean of |z| of a layer that is drawn as the classes have it, which are an
# eighth wide: 32 ranges of tokens, the first that has a z at 16, 64 elements.
"$report" export "$dir/z.db" -o "$dir/csv_z" || fail 'export of latent vectors'
"$sql" "$dir/z.db" "SELECT z.layer || '|' || (SELECT
    sum(c.value * abs(c.x + 0.5)) / 8 / sum(c.value) $items)
  FROM figure z WHERE z.figure = 'nearest.tokens' AND z.series = 'kv'" \
  >"$dir/means"
awk -F '[,|]' '
  NR == FNR { mean[$1] = $2; next }
  FNR == 1 { next }
  { sum[$2] += $5; n[$2]++; low[$2] = n[$2] > 1 && low[$2] < $3 ? low[$2] : $3 }
  END {
    for (l in sum) {
      off = sum[l] / n[l] - mean[l]
      good += n[l] == 32 * 64 && low[l] == 16 && off < .02 && off > -.02
    }
    exit good != 3
  }' "$dir/means" "$dir/csv_z/sizes.csv" || fail 'sizes of latent vectors'

# Runs of deltakv, by weights of seeded numbers.
for widths in 'w 32 32' 'narrow 32 16' 'thin 16 32' 'alone 32 48 none'; do
  read -ra of <<<"$widths"
  python3 "$src/tests/support/program/weights.py" "$dir/${of[0]}.safetensors" \
    "${of[@]:1}" || fail 'weights'
done
delta=deltakv:r=0.25:recent=8:full=0 by=compressor=$dir/w.safetensors
none=references=none
run "$dir/d.db" -m dense,$delta:compressor=none:stride=5 \
  -m "$delta:compressor=none,$delta:$by,$delta:$by:$none" \
  -m "$delta:compressor=$dir/alone.safetensors:$none" \
  -m "$delta:$by:kept=int4:latent=int4" || fail 'a run of deltakv'
# An ablation is trained as it is run, and who did not look does not know.
"$report" export "$dir/d.db" -o "$dir/csv_d" || fail 'export of deltakv'
[ "$(grep -c 'without references, weights not looked at' \
  "$dir/csv_d/ablations.csv")" = 2 ] || fail 'weights that were not looked at'
rm -r "$dir/csv_d"
"$kvreplay" residuals "${traces[@]}" -q -w "$dir/w.safetensors" \
  -w "$dir/alone.safetensors" --db "$dir/d.db" >"$dir/said" ||
  fail 'residuals of an ablation'
[ "$(grep -c 'alone.safe.* (without references, as it learned)$' \
  "$dir/said")" = 2 ] || fail "residuals says: $(cat "$dir/said")"
"$report" export "$dir/d.db" -o "$dir/csv_d" || fail 'export of deltakv'
"$report" html "$dir/d.db" -o "$dir/d.html" || fail 'html of deltakv'
if command -v python3 >/dev/null; then
  python3 "$src/tests/python/check_deltakv.py" "$dir/d.db" "$dir/csv_d" \
    "$dir/d.html" 2>"$dir/err" || fail "deltakv: $(tail -n 1 "$dir/err")"
fi

# What these weights miss, and runs by each of them.
rebuild() { "$kvreplay" residuals "${traces[@]}" -q "$@"; }
rebuild -w "$dir/w.safetensors" -w "$dir/narrow.safetensors" \
  --db "$dir/e.db" >"$dir/said" || fail 'residuals with weights'
[ "$(grep -c 'w.safetensors, latent .*, hidden 32: squares left' \
  "$dir/said")" = 4 ] || fail "residuals says: $(cat "$dir/said")"
rebuild -w "$dir/w.safetensors" --db "$dir/e.db" | sort >"$dir/said"
[ "$(cat "$dir/said")" = "synth_1: there already
synth_2: there already" ] || fail 'residuals with weights twice'
rebuild -w "$dir/thin.safetensors" --db "$dir/e.db" >/dev/null ||
  fail 'residuals with other weights'
rebuild -w "${traces[0]}" --db "$dir/no.db" 2>"$dir/err"
[ $? = 3 ] && grep -q 'metadata format is kvtrace' "$dir/err" ||
  fail "a trace for weights: $(cat "$dir/err")"
cp "$dir/e.db" "$dir/odd.db"
"$sql" "$dir/odd.db" "UPDATE figure SET value = value * (1 + 3e-16) WHERE
  figure = 'rebuilt' AND x = -1 AND layer = 1 AND identity IN
  (SELECT identity FROM trace WHERE name = 'synth_2');" || fail 'sql_db'
"$report" merge "$dir/no.db" "$dir/e.db" "$dir/odd.db" 2>"$dir/err"
[ $? = 1 ] && grep -q ': rebuilt of layer 1 of synth_2 is another' "$dir/err" ||
  fail "merge of rebuilt: $(cat "$dir/err")"
by=$delta:compressor=$dir
run "$dir/e.db" -m "$by/w.safetensors,$by/narrow.safetensors" \
  -m "$by/thin.safetensors" || fail 'a run by three compressors'
"$report" export "$dir/e.db" -o "$dir/csv_e" || fail 'export of compressors'
"$report" html "$dir/e.db" -o "$dir/e.html" || fail 'html of compressors'
if command -v python3 >/dev/null; then
  python3 "$src/tests/python/check_compressors.py" "$dir/e.db" "$dir/csv_e" \
    "$dir/e.html" 2>"$dir/err" || fail "compressors: $(tail -n 1 "$dir/err")"
fi

# Any number that is another is told, to its last bit, but for what LAPACK
# found; and a class that one of two histograms lacks.
odd() { # FIGURE STATEMENT WHOSE
  cp "$dir/b.db" "$dir/odd.db"
  "$sql" "$dir/odd.db" "$2 figure = '$1' AND layer = 1 AND
    identity IN (SELECT identity FROM trace WHERE name = 'synth_2');" ||
    fail "sql_db: $1"
  "$report" merge "$dir/no.db" "$dir/a.db" "$dir/odd.db" 2>"$dir/err"
  [ $? = 1 ] && grep -q "$1 of ${3-}layer 1 of synth_2 is another" "$dir/err" ||
    fail "merge of $1: $(cat "$dir/err")"
}
for name in attention.{rows,critical,seen,tokens,class} \
  selection.{before,after}; do
  odd $name 'UPDATE figure SET value = value + 1 WHERE' 'KV head 0 of '
done
bit='UPDATE figure SET value = value * (1 + 3e-16) WHERE'
for name in selection.{lse,temperature}; do
  odd $name "$bit" 'KV head 0 of '
done
odd selection.map 'UPDATE figure SET value = zeroblob(256) WHERE'
for name in nearest.{tokens,far,close} class.{distance,cosine,norm,value} \
  residual.tokens entropy.{bins,elements}; do
  odd $name 'UPDATE figure SET value = value + 1 WHERE'
done
for name in nearest.chance residual.{norm,share} missed \
  entropy.{bits,scales,tables,error}; do
  odd $name "$bit"
done
odd class.norm 'DELETE FROM figure WHERE x % 2 AND'
cp "$dir/b.db" "$dir/odd.db"
"$sql" "$dir/odd.db" "UPDATE figure SET value = value / 2 WHERE
  figure LIKE 'spectrum.%';" || fail 'sql_db'
for order in 'a odd' 'odd a'; do
  set -- $order
  "$report" merge "$dir/$1_$2.db" "$dir/$1.db" "$dir/$2.db" || fail "$order"
  "$report" export "$dir/$1_$2.db" -o "$dir/$1_$2" || fail "export $order"
done
cmp -s "$dir/a_odd/spectra.csv" "$dir/odd_a/spectra.csv" ||
  fail 'a merge of two spectra depends on their order'

"$kvreplay" residuals "${traces[0]}" 2>"$dir/err"
[ $? = 2 ] && grep -q -- --db "$dir/err" || fail 'residuals without --db'
"$build/traces/kvtrace" synth -q -o "$dir/short.safetensors" -s 1 --layers 1 \
  --heads 1 --kv-heads 1 --dim 8 -t 16 -p 8 || fail 'synth of 16 tokens'
"$kvreplay" residuals "$dir/short.safetensors" --db "$dir/no.db" 2>"$dir/err"
[ $? = 3 ] && [ "$(wc -l <"$dir/err")" = 1 ] &&
  grep -q 'has 16 tokens' "$dir/err" || fail "short: $(cat "$dir/err")"

"$kvreplay" attention "${traces[0]}" 2>"$dir/err"
[ $? = 2 ] && grep -q -- --db "$dir/err" || fail 'attention without --db'
[ "$bad" = 0 ]
