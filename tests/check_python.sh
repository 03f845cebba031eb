#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# traces/kvtrace.py and kvresults.py against the C programs: check_python.py
# (traces), check_python_runs.py (decisions, results) and
# check_python_presses.py (kvpress's formulas), by the first Python
# that has numpy (PYTHON names another). 77 where none has.
set -u

here=$(cd "$(dirname "$0")" && pwd)
src=${top_srcdir:-$(dirname "$here")}
build=${top_builddir:-$src}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export KVTRACE=${KVTRACE:-$build/traces/kvtrace}
export KVREPLAY=${KVREPLAY:-$build/sim/kvreplay}
export PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=$dir/cache LC_ALL=C.UTF-8

for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import numpy' 2>"$dir/err" || continue
  "$python" "$here/python/check_python.py" "$src" "$dir" &&
    "$python" "$here/python/check_python_runs.py" "$src" "$dir" &&
    "$python" "$here/python/check_python_presses.py" "$src" "$dir"
  exit
done
echo "check_python: no Python with numpy here (apt-get install python3-numpy)"
exit 77
