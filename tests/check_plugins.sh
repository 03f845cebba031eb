#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Methods at run time: a plugin is a method like those that are built in - the
# same digests from the same code, a row, a database, help, laws - and what is
# no plugin is one sentence. What a hook leaves of the floating-point mode ends
# with the hook. `kvreplay new` writes one that compiles.
. "$(dirname "$0")/plugins.sh"

# A plugin that can (needs.chunks) reads prompts in chunks, the prompt's rows as
# those of the method that is built in; one that cannot is refused.
chunked() { # METHOD, which mine.so is
  [ "$1" != zsmerge ] || {
    refused 2 'mine does not read a prompt in chunks yet (needs.chunks)' \
      run "$trace" -q -b 20% -m "$tmp/mine.so:prefill=64"
    return
  }
  checks=$((checks + 1))
  digests "$tmp/mine.so:prefill=64" >"$tmp/c"
  digests "$1:prefill=64" >"$tmp/b"
  cmp -s "$tmp/c" "$tmp/b" && ! cmp -s "$tmp/c" "$tmp/a" ||
    fail "$1 as a plugin reads chunks otherwise"
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
    chunked "$method"
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
  "$kvreplay" methods "$tmp/mine.so" --bibtex >"$tmp/out" || fail 'as BibTeX'
  has 'eprint = {2503.10714}' 'methods ./mine.so --bibtex'
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
  "$kvreplay" verify -q "$tmp/r.db" >"$tmp/out" 2>"$tmp/err"
  [ $? = 3 ] || fail 'verify without a plugin is not exit code 3'
  has '^1 rows the same, 0 different, .*1 without their plugin' 'no folder'
  built other "$tmp/mine.c" -O1 -DOTHER
  cp "$tmp/other.so" "$folder/mine.so"
  printf x >>"$folder/mine.so"
  KVREPLAY_PLUGINS=$folder "$kvreplay" verify -q "$tmp/r.db" >"$tmp/out"
  has '1 of other code' 'verify with another file'
}

# A path may hold what separates methods and parameters, behind a backslash;
# so may the folder of plugins, and a path that a row prints can be pasted.
escaped() {
  local folder="$tmp/a,b:c+d\\e" path file spec
  mkdir "$folder"
  cp "$tmp/mine.so" "$folder/f,g:h.so"
  cp "$tmp/mine.so" "$folder"
  for path in "$tmp"/'a\,b\:c\+d\\e/f\,g\:h.so' "$tmp"/mine.so; do
    "$kvreplay" run "$trace" -q -p 302 -m "window,$path:residual=2" -b 64 \
      -f jsonl >"$tmp/out" 2>"$tmp/err" || fail "$path: $(cat "$tmp/err")"
    has '"spec": "mine:.*residual=2' "$path"
  done
  for path in 'f\,g\:h.so' './f\,g\:h.so' '../a\,b\:c\+d\\e/mine.so'; do
    (cd "$folder" && "$kvreplay" run "$trace" -q -p 302 -b 64 -f jsonl \
      -m "$path:residual=2,window") >"$tmp/out" 2>"$tmp/err" ||
      fail "$path: $(cat "$tmp/err")"
    has '"method": "mine"' "$path"
  done
  refused 2 'escapes nothing' run "$trace" -q -m './a\b.so' -b 64
  "$kvreplay" methods "$folder/f,g:h.so" >"$tmp/out" || fail 'methods of a path'
  has '^mine' 'methods of a path'
  KVREPLAY_PLUGINS=$tmp/none:${folder//[\\:]/\\&} "$kvreplay" run "$trace" -q \
    -p 302 -m mine -b 64 -f jsonl >"$tmp/out" 2>"$tmp/err" ||
    fail "KVREPLAY_PLUGINS: $(cat "$tmp/err")"
  has '"method": "mine"' 'KVREPLAY_PLUGINS'
  # What the row and the label of decisions say is what was typed.
  "$kvreplay" run "$trace" -q -p 302 -m window -b 64 --decisions "$folder/d" \
    >"$tmp/out" 2>"$tmp/err" || fail "decisions: $(cat "$tmp/err")"
  file=$(echo "$folder"/d/*.safetensors)
  spec="replay:file=$(sed 's/[,:+\\]/\\&/g' <<<"$file")"
  "$kvreplay" run "$trace" -q -p 302 -m "$spec:name=a\\,b" -d "$tmp/e.db" \
    -f jsonl >"$tmp/out" 2>"$tmp/err" || fail "replay: $(cat "$tmp/err")"
  has 'spec": "replay:' replay
  spec=$(grep -oE '"spec": "[^"]*"' "$tmp/out" | cut -d '"' -f 4)
  "$kvreplay" run "$trace" -q -p 302 -m "${spec//\\\\/\\}" -f jsonl \
    >"$tmp/b" 2>"$tmp/err" || fail "a spec that was printed: $(cat "$tmp/err")"
  checks=$((checks + 1))
  cmp -s "$tmp/out" "$tmp/b" || fail 'a spec that was printed is another'
}

sentences() {
  local run=(run "$trace" -q -b 20% -m)
  variant faulty ''
  variant abi 's/= KV_METHOD_ABI/= KV_METHOD_ABI + 16/'
  variant clash 's/"faulty"/"h2o"/'
  variant again 's/a window with/another window with/'
  variant nameless 's/"faulty"/"Mine 1"/'
  variant unending 's/{.name = NULL}};/};/'
  variant offset 's/^static const kv_param/struct far {\
  char before[4000];\
  int fault;\
};\
&/; s/"fault", params,/"fault", struct far,/'
  variant fallback 's/fault, "none"/fault, "nome"/'
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

# A hook, or loading, that changes the floating-point mode changes nobody else's
# numbers; a cell whose hook does it fails, by name.
modes() {
  local fault ctor='__attribute__((constructor)) static void f(void)'
  digests window >"$tmp/a"
  digests h2o >>"$tmp/a"
  for fault in rounds flushes opens; do
    "$kvreplay" run "$trace" -q -b 20% -f jsonl \
      -m "$tmp/faulty.so:fault=$fault,window,h2o" >"$tmp/out" 2>"$tmp/err"
    [ $? = 3 ] || [ $fault = opens ] || fail "run $fault: not exit 3"
    checks=$((checks + 2))
    has '"reason": "(compress_lane|open) of faulty returns with' "run $fault"
    grep -E '"method": "(window|h2o)"' "$tmp/out" |
      grep -oE '"(journal|state|output)": "[0-9a-f]{64}"' | cmp -s - "$tmp/a" ||
      fail "run $fault: window and h2o have other digests"
  done
  variant loading "\$a $ctor { flush_to_zero(); }"
  digests "$tmp/loading.so:fault=none" >"$tmp/a"
  digests "$tmp/faulty.so:fault=none" >"$tmp/b"
  cmp -s "$tmp/a" "$tmp/b" || fail 'a constructor changes the mode'
  "$kvreplay" lawcheck "$tmp/loading.so" -t made:token -l modes >"$tmp/out"
  has '^  loading it leaves ' 'lawcheck of a constructor'
  # What is read after it was loaded: in another direction, 0.7 is another p.
  variant rounding "\$a $ctor { fesetround(FE_UPWARD); }"
  "$kvreplay" run "$trace" -q -b 20% -f json \
    -m "$tmp/rounding.so:fault=none,oracle-topp:p=0.7" >"$tmp/out"
  has '"spec": "oracle-topp:p=0.7"' 'run after a constructor that rounds up'
}

# What ends the process, or does not return, while it is loaded: a sentence.
loading() {
  local ctor='__attribute__((constructor)) static void f(void)' which
  local dtor='__attribute__((destructor)) static void f(void)'
  variant aborts "\$a $ctor { abort(); }"
  variant leaves "\$a $ctor { exit(0); }"
  variant unloads "\$a $dtor { abort(); }"
  for which in aborts leaves unloads; do
    refused 3 'loading it ends the process (' run "$trace" -m "$tmp/$which.so"
  done
  refused 3 'loading it ends the process (' lawcheck "$tmp/aborts.so"
  wait "$hanging"
  [ $? = 3 ] && grep -q 'loading it does not return' "$tmp/hanging.err" ||
    fail "a constructor that hangs: $(cat "$tmp/hanging.err")"
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

# What is called like a word of C compiles beside headers that have an open, by
# every compiler that is here; and links where it calls libm.
clean_of_clashes() {
  local compiler
  (cd "$tmp" && "$kvreplay" new "$1" >out) || fail "new $1"
  { printf '#include <%s.h>\n' fcntl math stdlib sys/mman unistd
    sed 's,kv_scores(.*,&\n  *score = sqrtf(*score);,' "$tmp/$1/$1.c"
  } >"$tmp/$1.c"
  for compiler in $cc gcc clang; do
    command -v "${compiler%% *}" >/dev/null || continue
    checks=$((checks + 1))
    $compiler -std=c11 -O0 -Wall -Wextra -Wconversion -Werror -fPIC -I"$src" \
      -D_DEFAULT_SOURCE -ffp-contract=off -shared "$tmp/$1.c" -lm \
      -o "$tmp/$1.so" || fail "new $1: $compiler does not take it"
  done
  checks=$((checks + 1))
  [ "$(grep -c -- ' -lm$' "$tmp/$1/Makefile")" = 2 ] ||
    fail 'new: its Makefile does not link libm'
}

# Where pkg-config finds no kvreplay its Makefile compiles nothing.
without_kvreplay() {
  checks=$((checks + 1))
  env -u MAKEFLAGS -u MFLAGS -u PKG_CONFIG_PATH PKG_CONFIG_LIBDIR="$tmp" \
    make -s --no-print-directory -C "$1" >"$tmp/out" 2>&1
  [ $? = 2 ] && [ "$(wc -l <"$tmp/out")" = 1 ] &&
    grep -q 'pkg-config finds no kvreplay: install' "$tmp/out" ||
    fail "new: make without kvreplay: $(cat "$tmp/out")"
}

written() {
  local name=my_own
  (cd "$tmp" && "$kvreplay" new "$name" >out) || fail 'new'
  built "$name" "$tmp/$name/$name.c" -Werror -Wconversion -Wshadow
  checks=$((checks + 4))
  [ "$(wc -l <"$tmp/$name/$name.c")" -le 45 ] || fail 'new: over 45 lines'
  without_kvreplay "$tmp/$name"
  clean_of_clashes int
  digests "$tmp/$name.so" >"$tmp/a"
  digests h2o >"$tmp/b"
  cmp -s "$tmp/a" "$tmp/b" || fail 'new: not the digests of h2o'
  "$kvreplay" lawcheck -q "$tmp/$name.so" >"$tmp/out" || fail 'new: lawcheck'
  has '^my-own: 14 laws hold' 'new'
  tested "$name"
  (cd "$tmp" && refused 2 'is there already' new "$name"
    refused 2 'is no name' new 9x
    refused 2 'is no name' new Mine
    refused 2 'is no name' new a-b
    refused 2 'nothing is no name' new ''
    refused 2 'is built in' new h2o
    refused 2 'every method that is built in' new all
    exit "$bad") || bad=$((bad + 1))
  [ ! -e "$tmp/h2o" ] || fail 'new: a folder for nothing'
}

variant hangs '$a __attribute__((constructor)) static void f(void) { pause(); }'
"$kvreplay" run "$trace" -m "$tmp/hangs.so" 2>"$tmp/hanging.err" >/dev/null &
hanging=$!
twin
described
escaped
stored
sentences
modes
backends
no_paths
loading
written
count_checks
