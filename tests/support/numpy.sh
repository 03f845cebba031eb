# SPDX-License-Identifier: Apache-2.0
#
# Part of scripts that run commands which need numpy and the library; sourced
# behind sh.sh.
#
#   python    the first Python that has numpy, of those that PYTHON names; it is
#             python3 on the path from here on. Empty where there is none, or
#             where it could not load the library, which is not there or was
#             built with a sanitizer
python=
for p in ${PYTHON:-python3 /usr/bin/python3}; do
  if [ -z "$python" ] && "$p" -c 'import numpy' 2>/dev/null; then
    python=$(command -v "$p")
  fi
done
if ! nm -D "$top/sim/.libs/libkvreplay.so.0" >"$tmp/symbols" 2>&1 ||
  grep -qE '__[at]san_init' "$tmp/symbols"; then
  python=
fi
mkdir "$tmp/bin"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$tmp/bin/python3"
chmod +x "$tmp/bin/python3"
[ -z "$python" ] || PATH=$tmp/bin:$PATH
