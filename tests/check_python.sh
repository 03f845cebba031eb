#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kvreplay.trace, .decisions, .scores, .results and .grade against the C
# programs: check_python.py (traces), check_python_runs.py (decisions, results),
# check_python_scores.py, check_python_grades.py and check_python_layouts.py
# (regular indices, recounted); what of kvreplay.evaluate
# needs no torch: check_evaluate.py and tasks_text.py; verdicts on what papers
# claim: check_claims.py. By the first Python that has numpy (PYTHON names
# another). 77 where none has.
. "$(dirname "$0")/replays.sh"
. "$(dirname "$0")/support/numpy.sh"
replay_emu && export KV_EMU=1
export LC_ALL=C.UTF-8 KVTRACE=$kvtrace KVREPLAY=$kvreplay KVREPORT=$kvreport

# Claims look at traces through the library of the program on the path.
[ -z "$python" ] ||
  "$python" "$src/tests/python/check_claims.py" "$src" "$tmp" || exit

for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import numpy' 2>"$tmp/err" || continue
  "$python" "$src/tests/python/check_evaluate.py" "$src" "$tmp" &&
    "$python" "$src/tests/python/tasks_text.py" "$tmp" \
      "$src/traces/tiny/model" &&
    "$python" "$src/tests/python/check_python.py" "$src" "$tmp" &&
    "$python" "$src/tests/python/check_python_runs.py" "$src" "$tmp" &&
    "$python" "$src/tests/python/check_python_grades.py" "$src" "$tmp" &&
    "$python" "$src/tests/python/check_python_layouts.py" "$src" "$tmp" &&
    "$python" "$src/tests/python/check_python_scores.py" "$src" "$tmp"
  exit
done
echo "check_python: no Python with numpy here (apt-get install python3-numpy)"
exit 77
