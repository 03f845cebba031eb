#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh MODEL FOLDER PART...: what the tables of this folder come from. MODEL
# is a folder of models.py; databases go to FOLDER, and a command that was
# stopped goes on when it is repeated. PART: plan, tuned, bits, layers,
# generate, kvpress (in an environment that has it), trained (needs weights,
# kvreplay train), tiny. Needs kvreplay and kvreport on the path, and PYTHON,
# which has torch and transformers and finds the package kvreplay.
set -eu
model=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)
shift 2
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

# extra TASK.PLACE...: leankv's curve near 26 %, and LeanKV's K4V8.
extra() {
  local of
  for of; do
    piece "$of" -m leankv -b mean:27%
    piece "$of" -m k4v8
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

# tuned: six methods with parameters from 20 contexts of seed 54, whose folder
# is TUNING, at 25 % of the bytes. The rows of all that was tried are in
# FOLDER/tuning.db. BEST: then, the six with the best log-likelihood there.
tuned() {
  local of tried=snapkv,snapkv:window=16,snapkv:window=64,snapkv:kernel=1
  tried+=,snapkv:kernel=15,snapkv:pooling=avg,snapkv:group=max,snapkv:sinks=4
  tried+=,h2o,h2o:recent=16,h2o:recent=64,h2o:variant=prefill:group=max
  tried+=,h2o:variant=prefill:scale=seen,h2o:variant=prefill
  tried+=,keydiff,keydiff:block=0,keydiff:block=64,keydiff:last=32
  tried+=,keydiff:sinks=4,lagkv,lagkv:lag=16,lagkv:lag=32,lagkv:lag=64
  tried+=,lagkv:cross=yes,chunkkv,chunkkv:chunk=5,chunkkv:chunk=20
  tried+=,chunkkv:group=max,chunkkv:kernel=1,chunkkv:score=keydiff
  tried+=,chunkkv:score=lagkv,zsmerge,zsmerge:residual=0,zsmerge:proximity=16
  tried+=,zsmerge:decay=1,zsmerge:decay=0.9,zsmerge:variant=code
  for of in needle.after key-value.after; do
    head -n 10 "$TUNING/$of.jsonl" >"$folder/$of.jsonl"
    "${PYTHON:-python3}" -m kvreplay.evaluate "$model" --prompts \
      "$folder/$of.jsonl" -m "$tried" -b mean:25% --dtype bf16 --threads 1 \
      --name "$(basename "$model")" --db "$folder/tuning.db"
  done
  [ -n "${BEST:-}" ] || { echo 'run.sh: choose BEST from tuning.db' && return; }
  before=$(rows)
  for of in needle.after key-value.after; do
    piece "$of" -m "$BEST" -b mean:25%
  done
}

# bits: the rows of BITS.md, in FOLDER/bits.db; SIZE=qwen for a model with a key
# bias. layers: its rows of one coded layer and side at a time.
bits() {
  local of x bias=mean all=int8,int2,q8_0,q5_1,q5_0 four=() rows=() both=()
  local fitted=fp8_e4m3:scale=head narrow=(q5_1 q4_0 nvfp4:scale=head)
  [ "${SIZE:-all}" != qwen ] || bias=subtract
  all+=,fp8_e4m3,$fitted,fp8_e5m2,nvfp4,nvfp4_4over6
  for x in int4 q4_1 q4_0 iq4_nl mxfp4 fp4_e2m1 nvfp4:scale=head \
    nvfp4_4over6:scale=head; do
    four+=("$x" "$x:rotate=hadamard" "$x:key_bias=$bias"
      "$x:rotate=hadamard:key_bias=$bias")
  done
  [ $bias = mean ] || narrow=("${narrow[@]/%/:key_bias=subtract}")
  for x in q8_0 $fitted "${narrow[@]}"; do rows+=("$x"); done
  for x in keydiff snapkv; do both+=("$x" "${rows[@]/#/$x+}"); done
  first 30 needle.after key-value.after
  for of in needle.after key-value.after; do
    coded "$of" -m "$all,$(listed "${four[@]}")"
    coded "$of" -m "$(listed "${both[@]}")" -b mean:25%,mean:12.5%
    coded "$of" -m "$(listed quest "${rows[@]/#/quest+}")" -b read:25%
  done
}

listed() {
  (IFS=, && echo "$*")
}

coded() {
  local of=$1
  shift
  timeout 6000 "${PYTHON:-python3}" -m kvreplay.evaluate "$model" --prompts \
    "$folder/first/$of.jsonl" "$@" --name "$(basename "$model")" --dtype bf16 \
    --threads 1 --db "$folder/bits.db" \
    >>"$folder/bits.out" 2>>"$folder/bits.log" || ended $? "$of"
}

# layers: the first 4 of both tasks, so 8 items.
layers() {
  local of side layer layers cells=()
  layers=$("${PYTHON:-python3}" -c 'import json, sys
print(json.load(open(sys.argv[1] + "/config.json"))["num_hidden_layers"])' \
    "$model")
  first 4 needle.after key-value.after
  cd "$folder" # rows name files as they are given
  mkdir -p layers
  for side in 'q4_0 raw' 'raw q4_0'; do
    for ((layer = 0; layer < layers; layer++)); do
      of=layers/${side/ /_}_$layer
      echo "$layer $side" >"$of"
      cells+=("quant:k=raw:v=raw:formats=$of")
    done
  done
  for of in needle.after key-value.after; do
    coded "$of" -m "$(listed "${cells[@]}")"
  done
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
    main needle.after needle.before key-value.after
    reads read:50%,read:25% needle.after key-value.after
    extra needle.after key-value.after
    main key-value.before
    reads read:50%,read:25% needle.before
    main few-shot.after few-shot.before conversation.after conversation.before
    curves needle.after key-value.after
    main documentation.after documentation.before
    main paraphrase.after instructions.after variables.after prose
    main "${other[@]}" prose
    reads read:75%,read:50%,read:37.5%,read:25%,read:12.5% needle.after \
      key-value.after
    reads read:50%,read:25% needle.before key-value.before "${other[@]}" prose
    ;;
  qwen)
    every=${every/pyramidkv,/} every=${every/expected,chunkkv,/}
    curved=keydiff,snapkv
    main needle.after
    reads read:50%,read:25% needle.after
    main needle.before key-value.after
    extra needle.after key-value.after
    curves needle.after key-value.after
    reads read:50%,read:25% needle.before key-value.after
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
  tuned) tuned ;;
  bits) bits ;;
  layers) layers ;;
  trained) # weights of these names in FOLDER/assets
    KVREPLAY_ASSETS=$folder/assets evaluate e "$model" --items 12 --dtype bf16 \
      --tasks niah_single_2:length=1024,fewshot:length=1500,prose:length=1024 \
      -m deltakv,less,palu -b mean:50%,mean:25% ;;
  generate) # and hardkv at its published size, once
    evaluate d "$model" --tasks generate:length=512 --items 8 --new 1000 \
      -m hardkv,rkv,h2o,tova,streamingllm,zsmerge -b mean:25% --dtype bf16 \
      --name "$(basename "$model")"
    evaluate d "$model" --tasks generate:length=2048 --items 1 --new 1000 \
      -m hardkv:upper=2048 --dtype bf16 --name "$(basename "$model")" ;;
  kvpress) # methods as they are, kvpress's, then those that decide as these
    press=snapkv,tova,streamingllm,knorm,keydiff,expected,lagkv,chunkkv
    press+=,pyramidkv,adakv
    alike=snapkv:pooling=avg,tova:variant=prefill:protect_newest=yes
    alike+=,streamingllm:variant=prefill:positions=original,knorm:skip=0
    alike+=,keydiff:block=0,chunkkv:pooling=avg:count=share
    alike+=,adakv:pooling=avg:safeguard=minimum
    for of in needle.after key-value.after needle.before; do
      head -n 15 "$ITEMS/$of.jsonl" >"$folder/$of.jsonl"
      for how in "--kvpress -m $press" "-m $alike"; do
        # shellcheck disable=SC2086 # two options
        evaluate p "$model" --prompts "$folder/$of.jsonl" $how -b 25%,50% \
          --dtype f32
      done
    done
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
