#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# evidence.sh FOLDER: computes the tables of this folder again from its rows,
# without a model or network: FOLDER/means.csv, tests.csv, kvpress.csv,
# answers.csv, ranks.csv and ranked.txt. PYTHON has numpy and finds the package
# kvreplay; kvreport is on the path.
set -eu
folder=$1
cd "$(dirname "$0")"
python=${PYTHON:-python3}
"$python" evidence.py means rows_*.csv.xz >"$folder/means.csv"
"$python" evidence.py tests rows_*.csv.xz >"$folder/tests.csv"
"$python" evidence.py beside kvpress_rows.csv.xz >"$folder/kvpress.csv"
"$python" rows.py read "$folder/all.db" rows_*.csv.xz
kvreport table "$folder/all.db" --answers -f csv >"$folder/answers.csv"
rank() { # rank NAME OPTION...: of all models, as rows that begin with NAME
  local name=$1
  shift
  "$python" rank.py "$folder/all.db" --families "$@" |
    sed "s/^/$name,/; 1s/^[^,]*/asked/"
}
some=output_abs.max,output_abs.p99,output_abs,output_error.p99,output_error
some+=,kl.max,kl.p99,kl,tv.max,lse_error,mass.max,mass,recall_1,recall_16
some+=,needle_share,needle_stored,needle_kept,needle_worst,bytes.mean
{
  rank 'one half' --by right --half 0
  rank 'other half' --by right --half 1 --slices --only $some | sed 1d
  rank 'log-likelihood' --by loglik --half 1 --slices --only $some | sed 1d
  rank 'at least 90 %' --by right --half 1 --kept .9 --only $some | sed 1d
} >"$folder/ranks.csv"
"$python" evidence.py said "$folder/ranks.csv" >"$folder/ranked.txt"
