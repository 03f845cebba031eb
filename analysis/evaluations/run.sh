#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh MODEL FOLDER [PART...]: what the tables beside it come from. MODEL is
# SmolLM2-135M-Instruct, a folder or a .gguf file; databases go to FOLDER, and a
# command that was stopped goes on when it is repeated. PART: smollm2 (two hours
# on two cores), reads, statements, generate, tiny; all by default, but long (an
# hour and a half), kvpress, which needs that, and trained, which needs weights
# (kvreplay train), and plan. Needs
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

# --- plan: the rows of PLAN.md, of MODEL in FOLDER/plan.[12]-of-2.db ----------
# ITEMS: the folder of items.py. JOBS: 1 (default) or 2 shards side by side.
# SIZE: all (default), qwen or gemma. A call of kvreplay evaluate is a piece:
# one task, place and group of methods. One that takes over 100 minutes is
# stopped, and goes on when all is repeated. plan.pieces has a line for each,
# and the processor seconds a cell.

# piece TASK.PLACE OPTION...: both shards of it.
piece() {
  local of=$1 shard pids=()
  shift
  case $of in
  prose) set -- --tasks prose:length=760 --items 20 "$@" ;;
  *) set -- --prompts "$ITEMS/$of.jsonl" "$@" ;;
  esac
  for shard in 1 2; do
    timeout 6000 "${PYTHON:-python3}" -m kvreplay.evaluate "$model" \
      "$@" --name "$(basename "$model")" --dtype bf16 --threads 1 \
      --shard "$shard/2" --db "$folder/plan.%.db" \
      >>"$folder/plan.$shard.out" 2>>"$folder/plan.$shard.log" &
    pids+=($!)
    [ "${JOBS:-1}" = 2 ] || wait $! || ended $? "$of"
  done
  [ "${JOBS:-1}" = 1 ] || for shard in 0 1; do
    wait "${pids[shard]}" || ended $? "$of"
  done
  echo "$(date +%FT%H:%M) $of $*" >>"$folder/plan.pieces"
  seconds
}

# ended CODE TASK: 3 is a method without a row, which the log explains.
ended() {
  [ "$1" = 3 ] || echo "run.sh: $2 ended with code $1" >>"$folder/plan.log"
}

# main TASK.PLACE...: the methods of every table.
main() {
  local of
  for of; do piece "$of" -m "$(with "$every")" -b mean:50%,mean:25%; done
}

# with METHODS: the same; for Gemma its layers with windows are compressed, too.
with() {
  [ "${SIZE:-all}" = gemma ] || { echo "$1" && return; }
  sed "s/,/:windowed=compress,/g; s/$/:windowed=compress/" <<<"$1"
}

curves() {
  local of sizes=mean:75%,mean:37.5%,mean:12.5%
  for of; do
    piece "$of" -m "$(with "$curved")" -b $sizes
    piece "$of" -m leankv -b mean:27%,mean:26%,mean:12.5%
    piece "$of" -m kivi:bits=4,kivi:residual=64,kivi:residual=32,"$(
    )"kivi:residual=32:group=64,leankv,int8,int4,quant:k=int4:v=int2,int2
  done
}

# reads BUDGETS TASK.PLACE...
reads() {
  local of sizes=$1
  shift
  for of; do piece "$of" -m "$(with "$reading")" -b "$sizes"; done
}

# first N TASK.PLACE...: their first N items, as TASK.PLACE of a folder.
first() {
  local n=$1 of
  shift
  mkdir -p "$folder/first"
  for of; do
    head -n "$n" "$ITEMS/$of.jsonl" >"$folder/first/$of.jsonl"
  done
}

# seconds: processor seconds a cell since this command began.
seconds() {
  local rows=$(($(rows) - before))
  times >"$folder/plan.times"
  awk -v rows=$rows 'NR == 2 && rows { gsub(/[ms]/, " ")
      n = $1 * 60 + $2 + $3 * 60 + $4
      printf "%d rows, %.2f s a cell\n", rows, n / rows
    }' \
    "$folder/plan.times" >>"$folder/plan.pieces"
}

# rows: how many the logs say were computed.
rows() {
  cat "$folder"/plan.?.log 2>/dev/null |
    awk -F'tokens, ' 'NF == 2 { n += $2 } END { print n + 0 }'
}

plan() {
  local other=() of place before reading=quest,omnikv,oracle-topk
  every=random,window,streamingllm,h2o,tova,snapkv,pyramidkv
  every+=,adakv,keydiff,lagkv,expected,chunkkv,rkv,zsmerge,kivi,leankv,k8v4
  curved=keydiff,snapkv,h2o
  for of in few-shot conversation documentation instructions variables \
    paraphrase; do
    for place in after before; do other+=("$of.$place"); done
  done
  echo 19 >/proc/self/autogroup 2>/dev/null || true
  export OMP_NUM_THREADS=1
  before=$(rows)
  case ${SIZE:-all} in
  all)
    main needle.after needle.before key-value.after key-value.before
    main "${other[@]}" prose
    curves needle.after key-value.after
    reads read:75%,read:50%,read:37.5%,read:25%,read:12.5% needle.after \
      key-value.after
    reads read:50%,read:25% needle.before key-value.before "${other[@]}" prose
    ;;
  qwen)
    every=${every/pyramidkv,/} every=${every/expected,chunkkv,/}
    curved=keydiff,snapkv
    main needle.after needle.before key-value.after
    curves needle.after key-value.after
    reads read:50%,read:25% needle.after needle.before key-value.after
    reading=quest
    reads read:75%,read:37.5%,read:12.5% needle.after key-value.after
    reading=quest,omnikv,oracle-topk
    first 10 few-shot.after conversation.after documentation.after \
      instructions.after variables.after paraphrase.after
    ITEMS=$folder/first
    for of in "$ITEMS"/*; do main "$(basename "$of" .jsonl)"; done
    for of in "$ITEMS"/*; do reads read:50%,read:25% "$(basename "$of" .jsonl)"
    done
    ;;
  gemma)
    every=random,window,h2o,snapkv,adakv,keydiff
    every+=,lagkv,kivi,leankv,k8v4
    reading=quest
    main needle.after needle.before
    reads read:50%,read:25% needle.after needle.before
    every=${every//,k8v4/}
    for of in needle.after needle.before; do
      piece $of -m "$every" -b mean:75%
    done
    ;;
  esac
}

for part; do
  case $part in
  plan) plan ;;
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
