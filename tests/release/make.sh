#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# make.sh KVREPLAY DATABASE: what a database of a release has, written by its
# kvreplay: rows of several methods, budgets and searches, layouts, a run that
# was refused. check_release.sh beside it does the same with today's kvreplay;
# VERSION.db.gz are the results of releases, of which none is ever changed.
# Made for a new release by
#
#   tests/release/make.sh build/sim/kvreplay /tmp/X.db &&
#     sqlite3 /tmp/X.db VACUUM && gzip -9n </tmp/X.db >tests/release/X.db.gz
set -euo pipefail
trace=$(dirname "$0")/../../traces/tiny/retrieval_8_small.safetensors
run() { "$1" run "$trace" -q -d "$2" "${@:3}" >/dev/null || [ $? = 3 ]; }
run "$@" -m dense,h2o,kivi,quest,streamingllm -b '20%,mean:40%'
run "$@" -m snapkv,leankv -b 32 --layout slots,pages:16:layer
