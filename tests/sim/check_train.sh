#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `kvreplay train`: a method reads what the command made, and check_train.py.
# By the first Python that has numpy (PYTHON names another); what needs torch is
# skipped where it is missing, unless KV_TORCH is set. 77 without numpy.
. "$(dirname "$0")/../sh.sh"

for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import numpy' 2>/dev/null || continue
  "$python" "$src/tests/sim/check_train.py" "$tmp" ${KV_TORCH:+torch} \
    2>"$tmp/said" || {
    tail -n 20 "$tmp/said"
    fail 'check_train.py'
  }
  mkdir "$tmp/bin"
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$python")" \
    >"$tmp/bin/python3"
  chmod +x "$tmp/bin/python3"
  PATH=$tmp/bin:$PATH ran 0 "$kvreplay" train palu -q "$small" \
    -o "$tmp/w.safetensors"
  ran 0 "$kvreplay" run -q "$small" -m "palu:bases=$tmp/w.safetensors"
  echo "check_train: $(grep -c '\.\.\. ok$' "$tmp/said") tests," \
    "$(grep -c '\.\.\. skipped' "$tmp/said") without torch"
  concluded
  exit
done
echo 'check_train: no Python with numpy here (apt-get install python3-numpy)'
exit 77
