#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The figures of how tokens are stored, on runs over two small synthetic traces
# whose numbers are replaced by ones that can be worked out by hand: views and
# page have what figures/NAME.txt says (support/figures.sh). A page of rows
# that no such figure compares has none of them. What runs of deltakv need of
# `kvreplay residuals` is asked where a Python has numpy (PYTHON names one), and
# is else not checked (77).
. "$(dirname "$0")/sh.sh"
. "$(dirname "$0")/support/numpy.sh"
. "$(dirname "$0")/support/figures.sh"
report=$kvreport build=$top dir=$tmp

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
for id in mirrors pruning sparsity paged utilised rewritten stride run_latent \
  run_hidden ablations ratios merging; do
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
figures formats "$dir/a.db"
grep -q 'nan\|inf"' "$dir/formats.html" && fail 'a number that is none'

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
[ -n "$python" ] || {
  echo 'figures: not of weights that residuals looks at, which needs numpy'
  exit "$((bad > 0 ? 1 : 77))"
}
looks() {
  "$kvreplay" residuals "${traces[@]}" -q "$@" >"$dir/said" 2>"$dir/err" ||
    fail "residuals: $(cat "$dir/err")"
}
looks -w "$dir/w.safetensors" -w "$dir/alone.safetensors" --db "$dir/d.db"
figures deltakv "$dir/d.db"

# Runs by three compressors.
looks -w "$dir/w.safetensors" -w "$dir/narrow.safetensors" \
  -w "$dir/thin.safetensors" --db "$dir/e.db"
by=$delta:compressor=$dir
run "$dir/e.db" -m "$by/w.safetensors,$by/narrow.safetensors" \
  -m "$by/thin.safetensors" || fail 'a run by three compressors'
figures compressors "$dir/e.db"

exit "$((bad > 0))"
