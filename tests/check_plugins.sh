#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Methods at run time: a plugin is a method like those that are built in - the
# same digests from the same code, a row, a database, help, laws - and what is
# no plugin is one sentence. `kvreplay new` writes one that compiles, and
# lawcheck names each seeded fault with a command that shows it again.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=${top_builddir:-$here/..}
src=${top_srcdir:-$here/..}
kvreplay=$top/sim/kvreplay
trace=$src/traces/tiny/retrieval_8_small.safetensors
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset KVREPLAY_PLUGINS
export TMPDIR=$tmp
bad=0
checks=0

cc=${CC:-cc}
echo 'int x;' >"$tmp/x.c"
$cc -shared -fPIC "$tmp/x.c" -o "$tmp/nothing.so" 2>/dev/null ||
  { echo "check_plugins: skipped, no C compiler $cc"; exit 77; }

fail() {
  printf 'check_plugins: %s\n' "$*" >&2
  bad=$((bad + 1))
}

# built NAME SOURCE [FLAG...]: $tmp/NAME.so
built() {
  local name=$1 source=$2
  shift 2
  $cc -std=c11 -O2 -Wall -Wextra -ffp-contract=off -I"$src" -fPIC -shared \
    -D_GNU_SOURCE "$@" -x c "$source" -o "$tmp/$name.so" ||
    fail "$source does not compile"
}

# refused CODE TEXT ARGUMENT...: one line on stderr that holds TEXT.
refused() {
  local code=$1 text=$2 got
  shift 2
  checks=$((checks + 1))
  "$kvreplay" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
  got=$?
  [ "$got" = "$code" ] || fail "kvreplay $*: exit $got, not $code"
  [ "$(wc -l <"$tmp/err")" = 1 ] ||
    fail "kvreplay $*: not one line: $(cat "$tmp/err")"
  grep -qF -- "$text" "$tmp/err" ||
    fail "kvreplay $*: no '$text' in: $(cat "$tmp/err")"
}

has() {
  checks=$((checks + 1))
  grep -qE -- "$1" "$tmp/out" ||
    fail "$2: no '$1' in: $(head -c 600 "$tmp/out")"
}

# digests SPEC: journal, state and output of a run.
digests() {
  "$kvreplay" run "$trace" -q -m "$1" -b 20% -f json |
    grep -oE '"(journal|state|output)": "[0-9a-f]{64}"'
}

# A method under another name is another method, and the same numbers.
twin() {
  local method
  for method in h2o quest zsmerge; do
    sed "s/\"$method\"/\"mine\"/g; s/kv_method_$method/kv_plugin/" \
      "$src/ref/methods/$method.c" >"$tmp/mine.c"
    built mine "$tmp/mine.c"
    checks=$((checks + 1))
    digests "$tmp/mine.so" >"$tmp/a"
    digests "$method" >"$tmp/b"
    [ "$(wc -l <"$tmp/a")" = 3 ] && cmp -s "$tmp/a" "$tmp/b" ||
      fail "$method as a plugin has other digests"
  done
}

# Help, JSON, rows; the folder of plugins; no row, no path.
described() {
  local sum
  built mine "$tmp/mine.c"
  sum=$(sha256sum "$tmp/mine.so" | cut -d ' ' -f 1)
  "$kvreplay" methods "$tmp/mine.so" >"$tmp/out" || fail 'methods of a plugin'
  has '^  variant  paper[|]code' 'methods ./mine.so'
  has 'ref only' 'methods ./mine.so'
  "$kvreplay" methods "$tmp/mine.so" -f json >"$tmp/out" || fail 'as json'
  has "\"name\": \"mine\".*\"ref_only\": true, \"code\": \"$sum\"" 'json'
  mkdir -p "$tmp/folder"
  cp "$tmp/mine.so" "$tmp/nothing.so" "$tmp/folder"
  KVREPLAY_PLUGINS=$tmp/none:$tmp/folder "$kvreplay" methods >"$tmp/out" \
    2>"$tmp/err" || fail 'methods with a folder of plugins'
  has '^mine  .*ref only' 'methods'
  has '^replay  ' 'methods'
  has '^methods that need a file' 'methods'
  [ "$(grep -c 'no symbol kv_plugin' "$tmp/err")" = 1 ] ||
    fail 'what is no plugin in a folder is not told once'
  KVREPLAY_PLUGINS=$tmp/folder "$kvreplay" methods -f json >"$tmp/out"
  checks=$((checks + 1))
  ! grep -qE '"name": "(mine|replay)"' "$tmp/out" ||
    fail 'a plugin is in the list of all'
  "$kvreplay" methods replay -f json >"$tmp/out" || fail 'methods replay'
  has '"name": "replay"' 'methods replay'
  (cd "$tmp/folder" && "$kvreplay" run "$trace" -q \
    -m mine.so:residual=2,./mine.so -b 64 -f jsonl) >"$tmp/out" || fail 'a list'
  has "\"code\": \"$sum\".*\"spec\": \"mine:.*residual=2" 'rows'
}

# Stored under the bytes of the file, verified with the same file only.
stored() {
  local folder=$tmp/folder
  "$kvreplay" run "$trace" -q -m "$folder/mine.so,window" -b 64 \
    -d "$tmp/r.db" >/dev/null || fail 'a plugin and a database'
  KVREPLAY_PLUGINS=$folder "$kvreplay" verify -q "$tmp/r.db" >"$tmp/out"
  has '^2 rows the same, 0 different, 0 .*, 0 of other code' 'verify'
  "$kvreplay" verify -q "$tmp/r.db" >"$tmp/out"
  has '^1 rows the same, 0 different, 0 .*, 1 of other code' 'without folder'
  built other "$tmp/mine.c" -O1 -DOTHER
  cp "$tmp/other.so" "$folder/mine.so"
  printf x >>"$folder/mine.so"
  KVREPLAY_PLUGINS=$folder "$kvreplay" verify -q "$tmp/r.db" >"$tmp/out"
  has '1 of other code' 'verify with another file'
}

# variant NAME SCRIPT: the plugin faulty, changed by sed.
variant() {
  sed "$2" "$src/tests/plugins/faulty.c" >"$tmp/$1.c"
  built "$1" "$tmp/$1.c"
}

sentences() {
  local run=(run "$trace" -q -b 20% -m)
  variant faulty ''
  variant abi 's/= KV_METHOD_ABI/= KV_METHOD_ABI + 16/'
  variant clash 's/"faulty"/"h2o"/'
  variant again 's/a window with/another window with/'
  variant nameless 's/"faulty"/"Mine 1"/'
  variant unending 's/{.name = NULL}};/};/'
  variant offset 's/offsetof(params, fault)/4000/'
  variant fallback 's/fallback = "none"/fallback = "nome"/'
  variant hidden 's/^const kv_method kv_plugin/const kv_method kv_plugins/'
  variant missing 's/kv_keep(lane,/kv_kep(lane,/
    s/^enum { STATE/void kv_kep(kv_lane *, int, const int32_t *);\n&/'
  variant openless 's,\.open = open,.open = STATE ? NULL : open,'
  echo 'not an object' >"$tmp/text.so"
  refused 3 'built against another kvreplay' "${run[@]}" "$tmp/abi.so"
  refused 3 'no symbol kv_plugin' "${run[@]}" "$tmp/nothing.so"
  refused 3 'no symbol kv_plugin' "${run[@]}" "$tmp/hidden.so"
  refused 2 'called h2o like one that is built in' "${run[@]}" "$tmp/clash.so"
  refused 2 'called faulty like that of' "${run[@]}" \
    "$tmp/faulty.so,$tmp/again.so"
  refused 3 'there is no file' "${run[@]}" "$tmp/nowhere.so"
  refused 3 'is no file but' "${run[@]}" "$tmp"
  refused 3 'no shared object' "${run[@]}" "$tmp/text.so"
  refused 3 'calls kv_kep, which this kvreplay does not have; did you mean' \
    "${run[@]}" "$tmp/missing.so"
  refused 3 'its name is no word' "${run[@]}" "$tmp/nameless.so"
  refused 3 'params_size' "${run[@]}" "$tmp/offset.so"
  refused 3 'a default is wrong' "${run[@]}" "$tmp/fallback.so"
  refused 3 'it has no open' "${run[@]}" "$tmp/openless.so"
  refused 2 'did you mean fault' "${run[@]}" "$tmp/faulty.so:falt=none"
  refused 2 'no method is called faulty' "${run[@]}" faulty
  cp "$tmp/faulty.so" "$tmp/folder/renamed.so"
  KVREPLAY_PLUGINS=$tmp/none refused 2 'none, which is no folder' \
    run "$trace" -m unheard-of
  KVREPLAY_PLUGINS=$tmp/folder refused 3 'its method is called faulty' \
    "${run[@]}" renamed
}

# No other backend has it: its cell is refused, and stops no other.
backends() {
  "$kvreplay" check "$trace" -q -m "$tmp/faulty.so,window" -p 300 -b 20% \
    -B ref,emu >"$tmp/out" 2>"$tmp/err"
  if [ $? = 4 ] && grep -q 'backend emu' "$tmp/err"; then return; fi
  has '^retrieval.* faulty .* emu .*this backend does not have the method' \
    'check of a plugin'
  has '^1 equal, 0 different, 1 refused' 'check of a plugin and another'
}

# A path in a database is text: no code is loaded to print or verify a row.
no_paths() {
  command -v sqlite3 >/dev/null || return 0
  cp "$tmp/r.db" "$tmp/evil.db"
  sqlite3 "$tmp/evil.db" "UPDATE run SET method = '$tmp/evil.so',
    spec = '$tmp/evil.so:budget=64' WHERE method = 'mine'" ||
    fail 'a database of evil'
  printf '%s\n' '#include <unistd.h>' \
    '__attribute__((constructor)) void f(void) { _exit(66); }' >"$tmp/evil.c"
  built evil "$tmp/evil.c"
  checks=$((checks + 1))
  "$kvreplay" verify -q "$tmp/evil.db" >/dev/null 2>&1
  [ $? != 66 ] || fail 'a database had code loaded'
}

# The test that `new` wrote, against the shared library of this build; a
# sanitizer's cannot be linked so.
tested() {
  local library=$top/sim/.libs/libkvreplay.so.0
  [ -e "$library" ] && ! nm -D "$library" | grep -qE '__[at]san' || return 0
  checks=$((checks + 1))
  $cc -std=c11 -O2 -Wall -Wextra -ffp-contract=off -I"$src" -I"$top" \
    "$tmp/$1/test_$1.c" "$tmp/$1/$1.c" -o "$tmp/test_$1" "$library" \
    -Wl,-rpath,"$(dirname "$library")" >"$tmp/out" 2>&1 &&
    (cd "$tmp" && "./test_$1") >>"$tmp/out" 2>&1 ||
    fail "new: its test: $(cat "$tmp/out")"
}

written() {
  local name=my_own
  (cd "$tmp" && "$kvreplay" new "$name" >out) || fail 'new'
  built "$name" "$tmp/$name/$name.c" -Werror -Wconversion -Wshadow
  checks=$((checks + 4))
  [ "$(wc -l <"$tmp/$name/$name.c")" -le 45 ] || fail 'new: over 45 lines'
  digests "$tmp/$name.so" >"$tmp/a"
  digests h2o >"$tmp/b"
  cmp -s "$tmp/a" "$tmp/b" || fail 'new: not the digests of h2o'
  "$kvreplay" lawcheck -q "$tmp/$name.so" >"$tmp/out" || fail 'new: lawcheck'
  has '^my-own: 12 laws hold' 'new'
  tested "$name"
  (cd "$tmp" && refused 2 'is there already' new "$name"
    refused 2 'is no name' new 9x
    refused 2 'is no name' new Mine
    refused 2 'is built in' new h2o
    exit "$bad") || bad=$((bad + 1))
  [ ! -e "$tmp/h2o" ] || fail 'new: a folder for nothing'
}

# Seeded faults: FAULT LAW WORDS. Asan has its own words, and hides what is
# allocated.
faults() {
  local fault law words again asan=
  nm "$kvreplay" 2>/dev/null | grep -q ' __asan_init' && asan=yes
  while IFS='|' read -r fault law words; do
    [ -z "$asan" ] || [ "$fault" != leaks ] || continue
    checks=$((checks + 1))
    "$kvreplay" lawcheck "$tmp/faulty.so:fault=$fault" -t made:grouped \
      >"$tmp/out" 2>&1
    [ $? = 1 ] || fail "lawcheck $fault: exit $?"
    grep -qE "^broken: law $law," "$tmp/out" ||
      fail "lawcheck $fault: not law $law: $(head -n 3 "$tmp/out")"
    [ -n "$asan" ] || has "$words" "lawcheck $fault"
    again=$(sed -n "s,^  again: kvreplay,'$kvreplay',p" "$tmp/out" | sed -n 1p)
    eval "$again" >"$tmp/out" 2>&1
    [ $? = 1 ] && grep -qE "^broken: law $law," "$tmp/out" ||
      fail "lawcheck $fault: $again shows it no more"
  done <<'END'
outside|hooks|settle_lane writes outside of the lane_state
wild|hooks|settle_lane died of SIG
column|hooks|writes a column beyond
greedy|hooks|needs.work covers
leaks|hooks|allocates memory
twice|hooks|keep lists an entry once
dropped|hooks|keep lists live entries
direct|journal|by the journal
remembers|repeat|another
thread|repeat|another
clock|repeat|another
junk|repeat|another
exceeds|budget|of a budget of 48
rows|evidence|needs.want does not ask for.* p
lossy|full|output of dense
fickle|needs|page otherwise
far_view|views|end past n
promises|lengths|with no query shown
END
  "$kvreplay" lawcheck -q "$tmp/faulty.so:fault=none" >"$tmp/out"
  has '^faulty: 12 laws hold' 'lawcheck none'
  refused 2 'no law is called' lawcheck "$tmp/faulty.so" --law fool
  refused 2 'no made trace' lawcheck "$tmp/faulty.so" -t made:up
  refused 3 'cannot open' lawcheck "$tmp/faulty.so" -t "$tmp/none"
  refused 2 'no cell could run' lawcheck h2o:recent=99:budget=9
}

# Interrupted, by a terminal that tells all - in some order, so that the child
# may hear it long before - or one that tells the parent: one line, the child
# ended. What they wrote is looked for below.
stopped() {
  local who parent child i code
  for who in parent all child; do
    # Bash makes background jobs deaf to SIGINT; env hears it again.
    env --default-signal=INT "$kvreplay" lawcheck \
      "$tmp/faulty.so:fault=hangs" -t made:grouped >"$tmp/out" 2>"$tmp/err" &
    parent=$! child=
    for i in {1..200}; do # the child that asks begins when the trace is made
      sleep 0.1
      [ -z "$child" ] || break
      [ -z "$(find "$tmp"/kvreplay.* -name 1.safetensors 2>/dev/null)" ] ||
        child=$(awk -v p="$parent" '$4 == p { print $1 }' /proc/[0-9]*/stat \
          2>/dev/null)
    done
    [ $who = parent ] || kill -INT $child 2>/dev/null
    [ $who = child ] || kill -INT "$parent"
    wait "$parent"
    code=$? checks=$((checks + 3))
    [ $code = 130 ] || fail "lawcheck interrupted ($who): exit $code"
    [ "$(wc -l <"$tmp/err")" = 1 ] &&
      grep -q '^kvreplay: interrupted: of what had been asked' "$tmp/err" ||
      fail "lawcheck interrupted ($who): $(cat "$tmp/err")"
    [ -n "$child" ] && ! kill -0 $child 2>/dev/null ||
      fail "lawcheck interrupted ($who): child '$child' is left"
  done
}

twin
described
stored
sentences
backends
no_paths
written
faults
stopped
left=$(find "$tmp" -name 'kvreplay.*')
[ -z "$left" ] || fail "left behind: $left"
printf 'check_plugins: %d checks, %d failed\n' "$checks" "$bad"
[ "$bad" = 0 ]
