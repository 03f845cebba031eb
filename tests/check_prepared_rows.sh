#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prepared rows, recomputed to the bit (python/check_prepared.py). Needs numpy.
. "$(dirname "$0")/sh.sh"
for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import numpy' 2>"$tmp/err" || continue
  "$python" "$src/tests/python/check_prepared.py" "$tmp" \
    "$tiny/text_400.safetensors" "$kvreplay"
  exit
done
echo "check_prepared_rows: no Python with numpy here" && exit 77
