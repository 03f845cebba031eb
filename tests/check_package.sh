#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The Python package as a user has it. Commands kvreplay-NAME of the path; what
# `import kvreplay` loads; and the wheel that pip makes of this build, installed
# into an environment of its own, with no compiler on the path: its programs
# have the digests of the build's, a session and decisions those of the
# programs, tests/python holds of it, and a plugin is compiled by what it
# carries. With torch in PYTHON its OpenMP runtime and ours share a process.
#
# Environment: PYTHON; KV_WHEEL, a wheel to take instead of one of this build,
# as CI's section wheel does with what auditwheel made; KV_WHEEL=none leaves the
# wheel out. The wheel needs a Python with numpy, pip and venv; without, 77.
. "$(dirname "$0")/sh.sh"

# ---- commands of the path --------------------------------------------------
mkdir "$tmp/one" "$tmp/two"
# shellcheck disable=SC2016
printf '#!/bin/sh\nprintf "%%s|" "$0" "$@"\nexit 7\n' >"$tmp/two/kvreplay-go"
chmod +x "$tmp/two/kvreplay-go"
cp "$tmp/two/kvreplay-go" "$tmp/two/kvreplay-"
cp "$tmp/two/kvreplay-go" "$tmp/two/kvreplay-run" # never reached, nor listed
echo x >"$tmp/one/kvreplay-go"      # not executable: passed over
mkdir "$tmp/one/kvreplay-folder"    # no file
ln -s none "$tmp/one/kvreplay-none" # leads nowhere
path=$tmp/one:$tmp/two::$tmp/two:$PATH
said=$(PATH=$path "$kvreplay" go -x 'a b' --help)
[ "$?:$said" = "7:$tmp/two/kvreplay-go|-x|a b|--help|" ] ||
  fail "kvreplay go: $said"
# --help lists every command of the Python package and of kvreport once,
# wherever they are.
{
  "$kvreplay" --commands && "$kvreport" --commands
  sed -n 's/^kvreplay-\(.*\) =.*/\1/p' "$src/pyproject.toml"
} | sort >"$tmp/want"
"$kvreplay" --help | sed -n 's/^  \([a-z-]*\)  *[a-z].*/\1/p' |
  grep -vx kvreplay | sort | diff "$tmp/want" - >"$tmp/err" ||
  fail "kvreplay --help: $(tail -n 1 "$tmp/err")"
cp "$kvreplay" "$tmp/one/kvreplay"
# A wheel's program finds the wheel's libraries from its own folder alone.
LD_LIBRARY_PATH=$(ldd "$kvreplay" 2>&1 |
  sed -n 's,.* => \(.*/kvreplay\.libs\)/.*,\1,p;T;q')
export LD_LIBRARY_PATH
for name in capacity table; do
  [ "$name" = table ] && file=kvreport || file=kvreplay-$name
  PATH=/usr/bin:/bin refused 4 "no $file on the path: type make" \
    "$tmp/one/kvreplay" $name
done
PATH=${kvreport%/*}:/bin ran 3 "$tmp/one/kvreplay" table none
unset LD_LIBRARY_PATH
# A wheel has it in the folder of its environment's python.
[ ! -x "${kvreplay%/*}/kvreplay-capacity" ] ||
  [ "$("$kvreplay" capacity --version)" = "$("$kvreplay" --version)" ] ||
  fail 'kvreplay capacity --version'
printf '\001\002' >"$tmp/two/kvreplay-broken" && chmod +x "$tmp/two"/kvreplay-*
# asked CODE TEXT COMMAND...: refused, in one line like TEXT.
asked() { PATH=$path pattern=-G refused "$1" "$2" "$kvreplay" "${@:3}"; }
asked 4 'cannot start .*kvreplay-broken' broken
asked 4 "no kvreplay-record on the path: .*pip install '.\[hf\]'" record x
asked 2 'no command folder' folder
asked 2 'no command none' none
asked 2 'no command ../two/kvreplay' ../two/kvreplay
PATH=$path asked 2 'did you mean run' runn

# ---- import ----------------------------------------------------------------
python=
for p in ${PYTHON:-python3 /usr/bin/python3}; do # the first that has numpy
  if [ -z "$python" ] && "$p" -c 'import numpy' 2>/dev/null; then python=$p; fi
done
[ -n "$python" ] || {
  echo 'package: needs python3 and numpy (apt-get install python3-numpy)'
  exit 77
}
"$python" "$src/tests/python/package_imports.py" >"$tmp/said" 2>&1 ||
  fail "import: $(tail -n 1 "$tmp/said")"
says='import kvreplay; print(kvreplay.__version__)'
version=$("$kvreplay" --version | sed '1s/.* //;q')
[ "$("$python" -c "$says")" = "$version" ] || fail 'kvreplay.__version__'

# ---- the wheel -------------------------------------------------------------
wheel=${KV_WHEEL-}
if [ "$wheel" = none ]; then
  [ $bad = 0 ] && echo 'package: commands and imports; the wheel is elsewhere'
  exit "$((bad > 0))"
fi
library=$top/sim/.libs/libkvreplay.so.0
case $wheel:$([ -n "$wheel" ] || nm -D "$library" 2>&1) in
:*__[at]san_init* | :*o\ such\ file*)
  echo 'package: no wheel of this build: it has no shared library, or one' \
    'with a sanitizer, which python cannot load'
  [ $bad = 0 ] && exit 77 || exit 1
  ;;
esac
{ [ -n "$wheel" ] || "$python" -m pip --version >/dev/null 2>&1; } &&
  "$python" -c 'import ensurepip, venv' 2>/dev/null || {
  echo 'package: no wheel: needs pip and venv (apt-get install python3-venv' \
    'python3-pip)'
  [ $bad = 0 ] && exit 77 || exit 1
}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
unset PYTHONPATH
if [ -z "$wheel" ]; then
  PIP_NO_INDEX=1 "$python" -m pip wheel -q --no-deps -w "$tmp/wheel" \
    "--config-settings=build=$top" --config-settings=audit=no "$src" \
    >"$tmp/said" 2>&1 || {
    fail "pip wheel: $(tail -n 3 "$tmp/said")"
    exit 1
  }
  wheel=$(echo "$tmp"/wheel/kvreplay-*.whl)
fi
# Beside the wheel the environment has what PYTHON has: numpy, perhaps torch.
"$python" -m venv "$tmp/v" &&
  "$python" -c 'import sys; print(*sys.path[1:], sep="\n")' |
  grep -E '(site|dist)-packages$' \
    >"$(echo "$tmp"/v/lib/python3*/site-packages)/beside.pth" &&
  "$tmp/v/bin/python" -m pip install -q --no-deps --no-index "$wheel" \
    >"$tmp/said" 2>&1 || {
  fail "pip install: $(tail -n 3 "$tmp/said")"
  exit 1
}

# Everything that is on the path, but what compiles and links.
mkdir "$tmp/bin"
for folder in ${PATH//:/ }; do
  find "$folder" -maxdepth 1 ! -type d ! -regex \
    '.*/\(.*\(cc\|\+\+\|clang\|cpp\)\(-[0-9.]*\)?\|ld.*\|as\|make\)' \
    ! -name 'kv*' -exec ln -sf -t "$tmp/bin" {} + 2>/dev/null
done
compilers=$PATH native=$(cd / && "$tmp/v/bin/python" -m kvreplay --prefix)
export PATH=$tmp/v/bin:$tmp/bin
! command -v cc gcc clang ld as make || fail 'a compiler is on the path'
[ "$(command -v kvreplay)" = "$tmp/v/bin/kvreplay" ] || fail 'no kvreplay'

# What pip knows of it. It has no BLIS, and at most 8 MB without CUDA.
python -m pip show -v kvreplay >"$tmp/said"
for line in "Version: $version" 'Author: The' '  Topic ::' '  Repository, '; do
  grep -q "^$line" "$tmp/said" || fail "pip show has no $line"
done
[ "$(cd / && python -c "$says")" = "$version" ] || fail 'its __version__'
(cd / && python -m kvreplay) | cmp -s - <(kvreplay --help) ||
  fail 'python -m kvreplay prints no help'
python -m zipfile -l "$wheel" >"$tmp/said"
grep -q cuda.so "$tmp/said" || [ "$(stat -c %s "$wheel")" -le 8000000 ] ||
  fail "the wheel has $(stat -c %s "$wheel") bytes"
! grep -E '/lib(bl|lapack)' "$tmp/said" || fail 'BLIS in the wheel'

# Every module of the tree is in the wheel, and what pip put beside it is found.
(cd "$src/sim/python" && find kvreplay -name '*.py') | sort >"$tmp/want"
(cd "${native%/kvreplay/native}" && find kvreplay -name '*.py') | sort |
  diff "$tmp/want" - >"$tmp/said" || fail "modules: $(sed -n 2p "$tmp/said")"
kvreplay record --help | grep -q -- --prompts || fail 'kvreplay record'
kvreplay evaluate --help | grep -q -- --tasks || fail 'kvreplay evaluate'
kvreplay claims --only 14 | grep -q 0.00233 || fail 'kvreplay claims'
kvreplay train --help | grep -q -- --hold-out || fail 'kvreplay train'
kvreplay capacity -M tiny -w 1e9 -g l40 -c 64 -m dense >"$tmp/said" 2>&1 ||
  fail "kvreplay capacity: $(cat "$tmp/said")"

cells=(-m all -b 20% -q -f csv)
digests() { # digests KVREPLAY: of every cell
  "$1" run "$small" "${cells[@]}" 2>"$tmp/err" | grep -oE '[0-9a-f]{64}'
}
digests "$kvreplay" >"$tmp/want"
digests kvreplay >"$tmp/got"
[ "$(wc -l <"$tmp/want")" -gt 60 ] && cmp -s "$tmp/want" "$tmp/got" ||
  fail 'kvreplay of the wheel has other digests'
kvtrace check "$small" >/dev/null || fail 'kvtrace of the wheel'
kvreplay run "$small" -q -m h2o -b 20% --db "$tmp/r.db" >/dev/null &&
  kvreport table "$tmp/r.db" | grep -q h2o || fail 'kvreport of the wheel'
kvreplay table "$tmp/r.db" | grep -q h2o || fail 'kvreplay table of the wheel'
cp "$tmp/two/kvreplay-go" "$tmp/v/bin" # as kvreplay-record lies there
[ "$(PATH=/bin:/usr/bin "$tmp/v/bin/kvreplay" go 1)" = \
  "$tmp/v/bin/kvreplay-go|1|" ] || fail 'a command beside is not found'

specs=(h2o quest:page=8:skip=0 streamingllm)
"$tmp/v/bin/python" "$src/tests/python/session_feed.py" "$small" \
  "${specs[@]}" >"$tmp/fed" 2>"$tmp/err" ||
  fail "a session of the wheel: $(tail -n 1 "$tmp/err")"
[ "$(cut -d ' ' -f 2- "$tmp/fed" | tr ' ' '\n')" = "$("$kvreplay" run "$small" \
  -q -b 20% -f csv -m "$(IFS=,; echo "${specs[*]}")" |
  grep -oE '[0-9a-f]{64}' | awk 'NR % 4 != 1')" ] ||
  fail 'a session of the wheel has other digests'

# All that the tests hold of the package of the tree, decisions among it.
export KV_INSTALLED=1 PYTHON=$tmp/v/bin/python
export KVREPLAY=$tmp/v/bin/kvreplay KVTRACE=$tmp/v/bin/kvtrace
bash "$src/tests/check_python.sh" >"$tmp/said" 2>&1 ||
  fail "tests/python: $(tail -n 5 "$tmp/said")"
at=$tmp/hf && mkdir "$at"
tests=$src/tests/python
! "$PYTHON" -c 'import torch, transformers' 2>/dev/null || {
  "$PYTHON" "$tests/session_hf.py" &&
    "$PYTHON" "$tests/trace_hf.py" "$KVTRACE" "$KVREPLAY" "$at" "$tiny" &&
    "$PYTHON" "$tests/press_hf.py" "$KVREPLAY" "$at" "$tiny"
} >"$tmp/said" 2>&1 || fail "kvreplay.hf: $(tail -n 1 "$tmp/said")"

# A plugin, by the headers and the library that the wheel carries.
kvreplay new mine -o "$tmp/mine" >/dev/null || fail 'kvreplay new'
if PATH=$compilers command -v pkg-config make cc >/dev/null; then
  PATH=$compilers PKG_CONFIG_PATH=$native/lib/pkgconfig \
    make -s -C "$tmp/mine" check >"$tmp/said" 2>&1 ||
    fail "a plugin by the wheel: $(tail -n 3 "$tmp/said")"
  kvreplay run "$small" -q -m "$tmp/mine/mine.so" -b 20% >/dev/null ||
    fail 'a plugin in the wheel'
fi
if "$PYTHON" -c 'import torch' 2>/dev/null; then
  "$PYTHON" "$tests/two_runtimes.py" >"$tmp/said" 2>&1 ||
    fail "two OpenMP runtimes: $(tail -n 1 "$tmp/said")"
  runtimes=", $(tail -n 1 "$tmp/said")"
fi

# pip install -e: the package as it lies here, and the programs of the build.
if [ -e "$top/Makefile" ]; then
  PATH=$compilers PIP_NO_INDEX=1 "$PYTHON" -m pip install -q --no-deps \
    "--config-settings=build=$top" -e "$src" >"$tmp/said" 2>&1 ||
    fail "pip install -e: $(tail -n 3 "$tmp/said")"
  [ "$(cd / && "$PYTHON" -c 'import kvreplay.programs as x
print(x.__file__, x.library())')" = "$src/sim/python/kvreplay/programs.py \
$top/native/lib/libkvreplay.so.0" ] || fail 'pip install -e: another package'
  digests kvreplay | cmp -s "$tmp/want" - ||
    fail 'kvreplay of pip install -e has other digests'
fi
[ $bad = 0 ] &&
  echo "package: ${wheel##*/}, $(wc -l <"$tmp/want") digests${runtimes-}"
[ $bad = 0 ]
