# SPDX-License-Identifier: Apache-2.0
#
# Sections of .ci/run about what somebody has who only installed, sourced by it:
# by make, as a wheel of Python, and beside transformers.

# Installs, compiles a program against what was installed, uninstalls.
run_install() {
  local to=$ci/installed left
  rm -rf "$to"
  alone gcc0
  make -C "$ci/gcc0" -s --no-print-directory install >/dev/null
  printf '%s\n' '#include "ref/ground/err.h"' \
    'int main(void) { return kv_fail(0, KV_OK, "%d", 1); }' >"$ci/use.c"
  export PKG_CONFIG_PATH=$to/lib/pkgconfig LD_LIBRARY_PATH=$to/lib
  # shellcheck disable=SC2046
  cc "$ci/use.c" -o "$ci/use" $(pkg-config --cflags --libs kvreplay)
  "$ci/use"
  printf '%s\n' '#include <kvreplay.h>' \
    'int main() { return kv_session_abi() != KV_SESSION_ABI; }' >"$ci/use.cc"
  # shellcheck disable=SC2046
  c++ "$ci/use.cc" -o "$ci/use" $(pkg-config --cflags --libs kvreplay)
  "$ci/use"
  find "$to/include" -name '*.h' | while read -r header; do
    cc -fsyntax-only -x c "$header" -I"$to/include/kvreplay" &&
      c++ -fsyntax-only -x c++ "$header" -I"$to/include/kvreplay" ||
      { echo "$header does not compile alone"; return 1; }
  done
  for program in "$to"/bin/*; do
    [ ! -x "$program" ] || "$program" --version
  done
  own_method "$to/bin"
  make -C "$ci/gcc0" -s --no-print-directory uninstall >/dev/null
  left=$(find "$to" ! -type d)
  [ -z "$left" ] || { echo "left behind: $left"; return 1; }
}

# A method of one's own, with nothing but what was installed in $1.
own_method() {
  local trace=$top/traces/tiny/retrieval_8_small.safetensors
  rm -rf "$ci/own" && mkdir "$ci/own"
  (cd "$ci/own" && PATH=$1:$PATH && kvreplay new mine && make -s -C mine &&
    make -s -C mine check && kvreplay lawcheck -q ./mine/mine.so &&
    kvreplay run "$trace" -q -m ./mine/mine.so,h2o -b 20% -f jsonl >rows &&
    [ "$(grep -oE '"(state|output)": "[0-9a-f]{64}"' rows |
      sort -u | wc -l)" = 2 ])
}

# The wheel as `pip wheel .` makes it, without executor and BLIS, in an
# environment that has no compiler: it has the digests of quickstart's build.
# Where everything is asked for, on a Debian that has had none, too.
run_wheel() {
  local made=$ci/wheel
  packages python3-numpy python3-pip python3-venv
  [ -x build/sim/kvreplay ] || ./quickstart check
  rm -rf "$made"
  if ! step alone wheel "$made"; then
    echo 'auditwheel could not be fetched, or failed: the wheel as it is'
    ! draw_all || return 1
    step alone wheel "$made" --config-settings=audit=no
  fi
  made=$(echo "$made"/kvreplay-*.whl)
  PYTHON=/usr/bin/python3 KV_WHEEL=$made top_builddir=$top/build \
    top_srcdir=$top step bash tests/check_package.sh
  ! draw_all || step bare "$made"
}

# wheel FOLDER [OPTION]...
wheel() {
  local to=$1
  shift
  PIP_ROOT_USER_ACTION=ignore /usr/bin/python3 -m pip wheel -q --no-deps \
    --disable-pip-version-check -w "$to" "$@" "$top" 2>"$ci/wheel.said" ||
    { tail -n 5 "$ci/wheel.said"; return 1; }
}

# bare WHEEL: installed into a Debian 12 that has Python and numpy beside what
# every Debian has: recorded digests, and the same test.
bare() {
  local root=$ci/bare mirror
  packages debootstrap
  # shellcheck disable=SC2016 # apt's variables
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' |
    awk '$2 == "bookworm" { print $1; exit }')
  rm -rf "$root"
  # What it mounts goes with it, whatever ends it.
  unshare -m debootstrap --variant=minbase \
    --include=python3-numpy,python3-venv bookworm "$root" "$mirror" \
    >"$ci/bare.said" 2>&1 </dev/null ||
    { tail -n 5 "$ci/bare.said"; return 1; }
  mkdir "$root/src"
  git ls-files -coz --exclude-standard | xargs -0 tar c | tar x -C "$root/src"
  cp "$1" "$root/src"
  # shellcheck disable=SC2016 # of the shell in there
  unshare -m sh -c 'mount -t proc proc "$1/proc" && exec chroot "$@"' sh \
    "$root" env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 bash -ec 'cd /src
      ! command -v cc gcc clang ld as make
      python3 -m venv --system-site-packages /v
      /v/bin/pip install -q --no-index --no-deps "$0"
      native=$(cd / && /v/bin/python -m kvreplay --prefix)
      export KVREPLAY=$native/bin/kvreplay KVTRACE=$native/bin/kvtrace
      export KVREPORT=$native/bin/kvreport
      bash tests/golden.sh
      KV_WHEEL=$0 PYTHON=/usr/bin/python3 bash tests/check_package.sh' \
    "${1##*/}"
}

# What the tests of quickstart skip without torch and transformers: recorder,
# evaluations, training, sessions and types, of real models. The environment is
# for every clone and later run of this machine. A skipped test is a failure.
run_hf() {
  local release=5.24.0 cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvreplay to
  to=$cache/transformers-$release
  packages python3-venv
  mkdir -p "$cache"
  (flock 9 && step torch "$to" numpy torch==2.15.0 "transformers==$release") \
    9>"$to.lock"
  [ -x build/sim/kvreplay ] || ./quickstart check
  PYTHON=$to/bin/python KV_TORCH=1 top_builddir=$top/build top_srcdir=$top \
    bash tests/sim/check_train.sh
  PYTHON=$to/bin/python top_builddir=$top/build top_srcdir=$top \
    bash tests/cases.sh tests/cases/session_py.cases |
    tee "$ci/hf.tests" || return 1
  grep -q "(transformers $release, torch 2.15.0" "$ci/hf.tests" || return 1
  ! grep ': skipped, ' "$ci/hf.tests" || return 1
  PYTHONPATH=sim/python KVREPLAY_LIBRARY=build/sim/.libs/libkvreplay.so.0 \
    step "$to/bin/python" tests/python/two_runtimes.py
}

# torch ENVIRONMENT PACKAGE...: with these, where it is not there yet.
torch() {
  local to=$1
  shift
  [ ! -e "$to/.made" ] || return 0
  rm -rf "$to"
  /usr/bin/python3 -m venv "$to"
  PIP_ROOT_USER_ACTION=ignore "$to/bin/pip" install -q \
    --disable-pip-version-check "$@"
  touch "$to/.made"
}
