#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Laws of outputs: none is an input of the same command or another output of
# it, however it is spelled or linked; none replaces a trace or a database; a
# database is a file of the name that was typed, whatever SQLite takes it for;
# each is exit 2 and one line that names both, and every file is as it was.
# What may be replaced is replaced whole, and a link to it stays a link.
. "$(dirname "$0")/sh.sh"
dir=$tmp shows=("$tmp/err")
cd "$dir" || exit 1

sums() { find . -name '*.db*' -o -name 't*.st' -o -name '*.so' | sort |
  xargs sha256sum; }

# spared TEXT COMMAND...: it is refused so, and every file is as it was
pattern=-E
spared() {
  refused 2 "$@"
  sums | cmp -s - want || fail "${*##*/}: a file is another"
}
worked() { ran 0 "$@"; }

cp "$src/traces/tiny/retrieval_8_small.safetensors" t.st
chmod u+w t.st
run=("$kvreplay" run t.st -q -p 302 -m window -b 20)
worked "${run[@]}" --db r.db
worked "${run[@]}" --decisions d
mv d/*.safetensors d.st
"$kvtrace" synth -q -o made.st -t 16 2>err || fail synth
ln -s t.st link.st
ln t.st hard.st
mkdir sub
ln -s ../t.st sub/link.st
sums >want

# ---- an input --------------------------------------------------------------
for f in selections views stored outputs; do
  for path in t.st ./t.st sub/../t.st "$dir/t.st" link.st hard.st sub/link.st
  do
    spared "--$f $path would write over t.st, the trace" \
      "${run[@]}" "--$f" "$path"
  done
  spared "--$f r.db would write over r.db, --db" "${run[@]}" --db r.db \
    "--$f" r.db
done
for path in new.db new.db-wal new.db-shm new.db-journal; do
  spared "--views ./$path would write over $path, --db" "${run[@]}" \
    --db new.db --views "./$path"
done
spared 'd.st, what a method reads' "$kvreplay" run t.st -q -p 302 \
  -m replay:file=d.st --stored ./d.st
cp d.st own.db-wal
for command in run check 'grade --theirs d.st'; do
  # shellcheck disable=SC2086 # a command and an option
  refused 2 '--db ./own.db would write over ./own.db-wal, what a method' \
    "$kvreplay" $command t.st -q -p 302 -m replay:file=own.db-wal --db ./own.db
  cmp -s d.st own.db-wal || fail "$command: what a method reads is another"
done
rm own.db-wal
spared 'the trace' "$kvreplay" run made.st -q -m dense --views made.st
printf '{"weight_map":{"a":"shard.bin"}}' >set.safetensors.index.json
echo shard >shard.bin
spared 'shard.bin, the trace' "$kvreplay" run set.safetensors.index.json \
  -m dense --views ./shard.bin
if cc=${CC:-cc} && echo 'int x;' | $cc -shared -fPIC -x c - -o x.so 2>err; then
  sed 's/"window"/"mine"/; s/kv_method_window/kv_plugin/' \
    "$src/ref/methods/window.c" >mine.c
  $cc -std=c11 -I"$src" -fPIC -shared mine.c -o mine.so 2>err &&
    sums >want &&
    spared 'mine.so, a method' "$kvreplay" run t.st -q -p 302 -m ./mine.so \
      -b 20 --views mine.so
fi

# ---- two outputs -----------------------------------------------------------
spared '--stored x and --outputs ./x are one file|--outputs ./x and --sto' \
  "${run[@]}" --stored x --outputs ./x
mkdir kept
spared '--views kept/v lies in --decisions ./kept' "${run[@]}" \
  --decisions ./kept --views kept/v

# ---- what is precious, though no input -------------------------------------
cp t.st t2.st
sums >want
spared '--views r.db is an SQLite database' "${run[@]}" --views r.db
spared '--outputs t2.st is a trace' "${run[@]}" --outputs t2.st
spared '--outputs made.st is a trace' "${run[@]}" --outputs made.st
spared '--out r.db is an SQLite database' "$kvtrace" synth -o r.db -t 16
spared '--out t.st is a recorded trace' "$kvtrace" synth -q -o t.st -t 16
worked "$kvtrace" synth -q -o made.st -t 24

# ---- the standard output ---------------------------------------------------
cp t.st t3.st
cp r.db r3.db
sums >want
appended() { # appended FILE COMMAND...: with its standard output behind FILE
  local file=$1 got=0
  shift
  checks=$((checks + 1))
  "$@" >>"$file" 2>err || got=$?
  [ "$got" = 2 ] || fail "${*##*/} >>$file: exit $got, not 2"
  sums | cmp -s - want || fail "${*##*/} >>$file: a file is another"
}
appended t3.st "$kvreplay" run t3.st -q -p 302 -m dense -f json
appended t3.st "$kvtrace" info t3.st
appended r3.db "${run[@]}" --db r3.db
appended r3.db "$kvreport" table r3.db
appended r3.db "$kvreport" html r3.db -o -

# ---- kvreport --------------------------------------------------------------
ln -s r.db link.db
ln r.db hard.db
sums >want
for path in r.db ./r.db link.db hard.db; do
  spared "$path would write over r.db" "$kvreport" html r.db -o "$path"
  spared "$path would write over r.db" "$kvreport" table r.db -o "$path"
  spared "$path would write over r.db" "$kvreport" history r.db -o "$path"
done
spared 'r3.db is an SQLite database' "$kvreport" html r.db -o r3.db
spared 't.st is a trace' "$kvreport" html r.db -o t.st
spared 'link.st is a trace' "$kvreport" html r.db -o link.st
mkdir data
ln -s ../r3.db data/gap.csv
spared 'data/gap.csv would write over r3.db' "$kvreport" export r3.db -o data
spared 'data/gap.csv is an SQLite database' "$kvreport" export r.db -o data
[ "$(ls data)" = gap.csv ] || fail 'export wrote before it refused'
spared './r.db would write over r.db' "$kvreport" merge ./r.db r3.db r.db
spared 'link.db would write over r.db' "$kvreport" merge link.db r.db

# ---- names that are URIs elsewhere -----------------------------------------
# db NAME ROWS: only NAME is there, and every reader finds these rows in it.
db() {
  checks=$((checks + 1))
  [ "$(ls)" = "$1" ] || fail "$1 gave $(ls | tr '\n' ' ')"
  "$kvreport" table -f csv "$1" >../found 2>../err || fail "table $1"
  [ "$(sed 1d ../found | wc -l)" = "$2" ] || fail "$1: $(cat ../found)"
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import sqlite3' 2>/dev/null || continue
    [ "$("$python" -c 'import sys, kvreplay.results as r
print(len([*r.read_results(sys.argv[1])]))' "$1" 2>../err)" = "$2" ] ||
      fail "Python does not read $1"
    break
  done
}
mkdir uri
cd uri || exit 1
small=("$dir/t.st" -q -p 302)
for name in file:r.db 'file:z#a%41' file::memory: 'file:y?mode=memory'; do
  worked "$kvreplay" run "${small[@]}" -m window,dense -b 20 --db "$name"
  db "$name" 2
  cp "$name" ../one.db
  worked "$kvreplay" verify -q "$name"
  worked "$kvreport" merge "$name" ../one.db "$dir/r.db"
  db "$name" 2
  rm "$name"
  worked "$kvreport" merge "$name" ../one.db
  db "$name" 2
  [ "$name" = 'file:y?mode=memory' ] || rm "$name"
done
mv "$name" ../file:in.db
(cd "$dir" && "$kvreport" merge out.db file:in.db 2>err && rm out.db) ||
  fail 'merge reads another file'
worked "$kvreplay" tune "${small[@]}" -m window -s budget=20:24:4 --least kr \
  --db "$name"
db "$name" 2
rm "$name"
for look in attention residuals selection; do
  worked "$kvreplay" $look "$dir/t.st" -q --db "$name"
  [ "$(ls)" = "$name" ] || fail "$look --db $name gave $(ls)"
  rm "$name"
done
refused_name() { # COMMAND...: a name of no file is one sentence, nothing left
  local got=0
  checks=$((checks + 1))
  "$@" >../out 2>../err </dev/null || got=$?
  [ "$got" = 2 ] && [ "$(wc -l <../err)" = 1 ] && [ -z "$(ls)" ] ||
    fail "$*: exit $got, left $(ls)"
}
for name in :memory: ''; do
  refused_name "$kvreplay" run "${small[@]}" -m dense --db "$name"
done
cd "$dir" || exit 1
rm -r uri one.db file:in.db

# ---- what may be replaced --------------------------------------------------
echo old >page
ln page old
ln -s page link.html
worked "$kvreport" html r.db -o link.html
[ -L link.html ] && grep -q '</html>' page || fail 'html through a link'
[ "$(cat old)" = old ] || fail 'html: written in place'
worked "$kvreport" html r.db -o /dev/stdout
grep -q '</html>' out || fail 'html to /dev/stdout'
echo old >views
ln views views.old
ln -s views views.link
worked "${run[@]}" --views views.link
[ -L views.link ] && grep -q positions views || fail '--views through a link'
[ "$(cat views.old)" = old ] || fail '--views: written in place'

# ---- Python ----------------------------------------------------------------
for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import numpy' 2>/dev/null || continue
  cat >py.py <<'END'
import sys
from kvreplay.decisions import write_decisions
from kvreplay.trace import read_trace, write_trace
t = read_trace("t.st")
layers = {l: dict(q=t.q(l), k=t.k(l), v=t.v(l)) for l in t.layers}
lists = {l: {s: [[0]] * t.n_kv_heads for s in
             range(t.prompt_len, t.n_tokens + 1)} for l in t.layers}
for write in (lambda p: write_trace(p, layers, prompt_len=9),
              lambda p: write_decisions(p, t, "x", lists)):
    for path in sys.argv[1:]:
        try:
            write(path)
        except ValueError as e:
            assert "r.db" in str(e), e
        else:
            sys.exit(f"{path} was written over")
END
  checks=$((checks + 2))
  "$python" py.py r.db link.db 2>err || fail python
  "$python" "$src/traces/examples/my_method.py" t.st hard.st 20 >out 2>err &&
    fail 'my_method.py writes over its trace'
  sums | cmp -s - want || fail 'python: a file is another'
  break
done

concluded
