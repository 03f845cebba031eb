#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kvreplay decides as the authors' own code did, whose decisions are recorded
# in tests/vectors/authors_*.txt: conformance/check.py, by the first Python that
# has numpy (PYTHON names another); 77 where none has. The authors' code itself
# is run again by conformance/run.py, by hand (README.md, The authors' code).
# What kernels compute that need a GPU is computed again by conformance/kivi.py.
. "$(dirname "$0")/../sh.sh"

for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import numpy' 2>"$tmp/err" || continue
  "$python" "$src/tests/conformance/check.py" "$kvreplay" &&
    "$python" "$src/tests/conformance/kivi.py" "$kvreplay"
  exit
done
echo "check_conformance: no Python with numpy (apt-get install python3-numpy)"
exit 77
