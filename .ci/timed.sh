#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# timed.sh COMMAND...: and its seconds of processor, as the last line.
"$@"
rc=$?
read -ra stat </proc/self/stat
echo "timed: $(((stat[13] + stat[14] + stat[15] + stat[16]) / 100))"
exit $rc
