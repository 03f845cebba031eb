#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh MODEL FOLDER [PART...]: what the tables beside it come from. MODEL is
# SmolLM2-135M-Instruct, a folder or a .gguf file; databases go to FOLDER, and a
# command that was stopped goes on when it is repeated. PART: smollm2 (two hours
# on two cores), reads, statements, generate, tiny; all by default, but long (an
# hour and a half), kvpress, which needs that, and trained, which needs weights
# (kvreplay train). Needs
# kvreplay and kvreport on the path, and PYTHON, which has torch and
# transformers and finds the package kvreplay.
set -eu
model=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)
shift 2
[ $# -gt 0 ] || set -- smollm2 reads statements generate tiny
tasks=niah_single_2:length=1024,niah_multikey_1:length=1024
tasks+=,fewshot:length=1500,prose:length=1024,multiturn:length=1500
methods=h2o,snapkv,adakv,pyramidkv,streamingllm,tova,keydiff,chunkkv,rkv,hardkv
methods+=,zsmerge,kivi,k8v4,leankv,lagkv,expected
export OMP_WAIT_POLICY=passive

# evaluate DATABASE OPTION...: in two shards, a thread each, side by side.
evaluate() {
  local db=$1 shard pids=()
  shift
  for shard in 1 2; do
    "${PYTHON:-python3}" -m kvreplay.evaluate "$@" --threads 1 \
      --shard "$shard/2" --db "$folder/$db.%.db" &
    pids+=($!)
  done
  wait "${pids[0]}" && wait "${pids[1]}"
}

smol() {
  local db=$1
  shift
  evaluate "$db" "$model" --name SmolLM2-135M-Instruct.Q4_1 --dtype bf16 \
    --seed 1 "$@"
}

for part; do
  case $part in
  smollm2) smol a --tasks "$tasks" --items 12 -m "$methods" \
    -b mean:50%,mean:25%,mean:12.5% ;;
  long) smol l --tasks niah_single_2:length=4096,prose:length=4096 --items 4 \
    -m "$methods" -b mean:50%,mean:25%,mean:12.5% ;;
  reads) smol b --tasks "$tasks" --items 12 -m quest,omnikv,oracle-topk \
    -b read:50%,read:25%,read:12.5% ;;
  statements) smol s --tasks "$tasks" --items 12 -b mean:25% \
    -m window,k4v8,zsmerge:residual=0,headkv,criticalkv,duoattention ;;
  trained) # weights of these names in FOLDER/assets
    KVREPLAY_ASSETS=$folder/assets smol e -m deltakv,less,palu --items 12 \
      --tasks "${tasks%,multiturn*}" -b mean:50%,mean:25% ;;
  generate) smol d --tasks generate:length=512 --items 6 --new 512 \
    -m h2o,tova,streamingllm,rkv -b mean:50%,mean:25% ;;
  kvpress) # methods as they are, kvpress's, then those that decide as these
    beside=(--tasks niah_single_2:length=1024,multiturn:length=1024 --items 6
      --dtype f32 -b 25%,50%)
    press=snapkv,tova,streamingllm,knorm,keydiff,expected,lagkv,chunkkv
    press+=,pyramidkv,adakv
    alike=snapkv:pooling=avg,tova:variant=prefill:protect_newest=yes
    alike+=,streamingllm:variant=prefill:positions=original,knorm:skip=0
    alike+=,keydiff:block=0,chunkkv:pooling=avg:count=share
    alike+=,adakv:pooling=avg:safeguard=minimum
    smol p "${beside[@]}" --kvpress -m "$press"
    smol p "${beside[@]}" -m "$alike"
    ;;
  tiny)
    python3 "$here/tiny.py" >"$folder/tiny.jsonl"
    export KVREPLAY_ASSETS=$here/../../traces/tiny/assets
    tiny=("$here/../../traces/tiny/model" --prompts "$folder/tiny.jsonl"
      --dtype f32 --name kvtiny-6l)
    evaluate f "${tiny[@]}" -m all -b mean:50%,mean:25%
    evaluate f "${tiny[@]}" -b read:50%,read:25% \
      -m quest,twilight,omnikv,oracle-topk,oracle-topp,duoattention,deltakv
    ;;
  *) echo "run.sh: no part is called $part" >&2 && exit 2 ;;
  esac
done
