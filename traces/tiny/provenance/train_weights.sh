#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# train_weights.sh KVREPLAY RECORDINGS: the files of ../assets, from recordings
# that record_training.py made:
#
#   python record_training.py ../model TEXTS RECORDINGS    (TEXTS: prepare.sh's)
#   ./train_weights.sh ../../../build/sim/kvreplay RECORDINGS
#
# Prints losses on what was held out, and on the bundled traces, none of which
# is trained on. Resumes where it was killed.
set -e
cd "$(dirname "$0")"
kvreplay=$1 recordings=$2
model=kvtiny-6l
held=
for t in "$recordings"/held_*.safetensors ../generated_1500.safetensors \
  ../haystack_*.safetensors ../multiturn_11.safetensors \
  ../retrieval_16.safetensors ../text_400.safetensors; do
  held="$held --hold-out $t"
done
mkdir -p ../assets
for method in deltakv:hidden=256 duoattention headkv palu; do
  "$kvreplay" train $method "$recordings"/train_*.safetensors $held \
    -o "../assets/${method%%:*}.$model.safetensors"
done
# deltakv without its references, an ablation; the method does not look for it.
"$kvreplay" train deltakv:references=none:hidden=256 \
  "$recordings"/train_*.safetensors $held \
  -o "../assets/deltakv-alone.$model.safetensors"
"$kvreplay" train less:hidden=64 --steps 300 --rate 3e-3 \
  "$recordings"/train_*.safetensors $held -o "../assets/less.$model.safetensors"
