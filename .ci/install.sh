# SPDX-License-Identifier: Apache-2.0
#
# The section install of .ci/run: what somebody has who only installed.

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
    cc -fsyntax-only -x c "$header" -I"$to/include/kvreplay" ||
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
