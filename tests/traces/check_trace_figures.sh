#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `kvreplay attention`, `residuals` and `selection` on two bundled traces: the
# numbers are those that trace_figures.csv has, a trace is looked at
# once, weights that were not asked yet are asked, and bad input is refused. A
# merge takes the lesser of two numbers, whatever the order. With matplotlib
# every figure is a file.
. "$(dirname "$0")/../sh.sh"
. "$(dirname "$0")/../support/numpy.sh"
[ -n "$python" ] || {
  echo 'trace_figures: needs numpy (apt-get install python3-numpy), and the' \
    'shared library without a sanitizer'
  exit 77
}
db=$tmp/a.db traces=("$tiny"/{text_400,retrieval_8_small.f32}.safetensors)
alone=$tiny/assets/deltakv-alone.kvtiny-6l.safetensors

# look COMMAND ARGUMENT...: what it says without a word of pictures.
look() {
  "$kvreplay" "$@" -q --db "$db" >"$tmp/said" 2>"$tmp/err" ||
    fail "$1: $(cat "$tmp/err")"
}
refused 2 'required: -d/--db; ' \
  "$kvreplay" attention "${traces[@]}"
refused 2 'must be a whole number from 1 to 4096, not 4097' \
  "$kvreplay" attention "${traces[@]}" -d "$db" -j 4097
look attention "${traces[@]}"
grep -qx 'text_400: 95 % of the mass of a row needs 37.4 of 232.5 tokens' \
  "$tmp/said" || fail "attention says: $(cat "$tmp/said")"
look selection "${traces[@]}"
grep -qx '  rkv      151.2 tokens, calibrated 20.1' "$tmp/said" ||
  fail "selection says: $(cat "$tmp/said")"
look residuals "${traces[@]}"
[ "$(grep -c '^  nearest of K.* (8[36].[0-9] % of all earlier ones are)' \
  "$tmp/said")" = 4 ] || fail "residuals says: $(cat "$tmp/said")"
look residuals "${traces[@]}"
[ "$(grep -c ': exists already$' "$tmp/said")" = 2 ] || fail 'residuals twice'
look residuals -w "$alone" "${traces[0]}"
grep -q 'latent 96.*left 0.0096 (without references, as it learned)$' \
  "$tmp/said" ||
  fail "residuals with weights says: $(cat "$tmp/said")"
look residuals -w "$alone" "${traces[0]}"
grep -q 'exists already' "$tmp/said" || fail 'residuals with weights twice'

pictures=()
[ ! -d "$db.figures" ] || pictures=("$db.figures")
"$python" "$src/tests/python/check_trace_figures.py" "$db" \
  "$src/tests/traces/trace_figures.csv" ${pictures[@]+"${pictures[@]}"} \
  2>"$tmp/err" || fail "$(tail -n 1 "$tmp/err")"

# Every figure has points, and every histogram all of it, without matplotlib.
KVREPLAY_LIBRARY=$top/sim/.libs/libkvreplay.so.0 "$python" - "$db" \
  2>"$tmp/err" <<'END' || fail "points: $(tail -n 1 "$tmp/err")"
import math, sys
from kvreplay.figures import command, draw
store = command.Store(sys.argv[1])
traces = dict(store.db.execute("SELECT identity, name FROM trace").fetchall())
for name, of in draw.FIGURES.items():
    for figure, f in of.items():
        lines = draw.averaged(f, draw.looks(store, name, traces))
        sums = [[y for y, _ in xs.values()] for panel in lines.values()
                for xs in panel.values()]
        assert sums and all(0 <= y < math.inf for x in sums for y in x), figure
        assert not f.zeros or all(math.isclose(sum(x), 1) for x in sums), figure
END

# The files that runs read are known by their code.
"$kvreplay" run "${traces[0]}" -q -m deltakv -b 20% --db "$db" >/dev/null ||
  fail 'a run of deltakv'
[ "$("$sql" "$db" "SELECT c.file || ' ' || c.latent || ' ' || c.learned FROM
  run JOIN compressor c USING (code);")" = \
  'deltakv.kvtiny-6l.safetensors 64 nearest' ] || fail 'the code of weights'

cp "$db" "$tmp/b.db"
"$sql" "$tmp/b.db" 'UPDATE figure SET value = value * (1 + 3e-16) WHERE
  typeof(value) = '\''real'\'' AND layer = 1;
  UPDATE figure SET value = value / 2 WHERE figure = '\''missed'\'';' ||
  fail sql_db
for order in 'a b' 'b a'; do
  set -- $order
  "$kvreport" merge "$tmp/$1$2.db" "$tmp/$1.db" "$tmp/$2.db" || fail "$order"
  "$sql" "$tmp/$1$2.db" 'SELECT total(value) FROM figure;' \
    >"$tmp/$1$2"
done
[ -s "$tmp/ab" ] && cmp -s "$tmp/ab" "$tmp/ba" ||
  fail 'a merge of figures depends on the order'

refused 3 'metadata format is kvtrace' \
  "$kvreplay" residuals "${traces[0]}" -w "${traces[0]}" --db "$tmp/no.db"
"$kvtrace" synth -q -o "$tmp/short.safetensors" -s 1 --layers 1 --heads 1 \
  --kv-heads 1 --dim 8 -t 16 -p 8 2>/dev/null || fail 'synth of 16 tokens'
refused 3 'has 16 tokens' \
  "$kvreplay" residuals "$tmp/short.safetensors" --db "$tmp/no.db"
refused 3 'is not a kvreplay database' \
  "$kvreplay" attention "${traces[0]}" --db "${traces[0]}"
refused 3 nowhere "$kvreplay" attention "$tmp/nowhere" --db "$tmp/no.db"
"$kvreplay" selection "${traces[0]}" 2>"$tmp/err"
[ $? = 2 ] && grep -q -- --db "$tmp/err" || fail 'selection without --db'
exit $((bad > 0))
