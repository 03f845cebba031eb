#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A sweep on the ranks of MPI, in the folder of the traces: sh mpi.sh
# Where one rank fails, mpirun ends all; the same line again goes on from there.
set -eu
mpirun -n 8 --map-by slot:PE=4 \
  kvreplay run ./*.safetensors -m all -b 10%,20%,40% \
  --jobs 4 --shards 8 --db sweep.%.db
kvreport merge sweep.db sweep.*-of-8.db
