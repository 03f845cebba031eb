#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `kvreplay capacity`, from the command line: the worked example of ten users,
# the bytes of a run on a synthetic trace of the shape, rows of a database where
# data decides, what each format has, and what cannot be, in one sentence each.
# Bytes of every method are in sim/check_lengths.c, models and the arithmetic in
# python/check_capacity.py.
. "$(dirname "$0")/sh.sh"

# node ARGUMENT...: of eight devices of 80e9 bytes.
node() {
  ran "$1" "$kvreplay" capacity --model llama-3.1-70b --gpu made-80g --gpus 8 \
    --tp 8 "${@:2}"
}
# field NAME: of the first row of csv in $tmp/out.
field() {
  python3 -c 'import csv, sys
print(next(csv.DictReader(open(sys.argv[1])))[sys.argv[2]])' "$tmp/out" "$1"
}
# is NAME VALUE
is() {
  [ "$(field "$1")" = "$2" ] || fail "$1 is $(field "$1"), not $2"
}
# wrong CODE TEXT ARGUMENT...
wrong() {
  refused "$1" "$2" "$kvreplay" capacity --context 64 --output 4 "${@:3}"
}

command -v python3 >/dev/null || {
  echo 'check_capacity: no python3 here'
  exit 77
}

KVREPLAY=$kvreplay python3 "$src/tests/python/check_capacity.py" ||
  fail 'check_capacity.py'

# --- the worked example, on fewer tokens as many bytes a token ---
node 0 --context 131072 --output 1024 -m dense -f csv
is bytes 43285217280
is users 10
is codes_users 10
is weights 141107412992
# 80 layers of 8 KV heads, 132,096 tokens in pages of 32: 4,128 entries a lane.
is page_tables $((4 * 80 * 8 * 4128))
node 0 --context 131072 --output 1024 -m dense
grep -q '^dense .* 10 .*cache *lengths$' "$tmp/out" || fail "$(cat "$tmp/out")"

# --- a run on a trace of that shape, two of its layers ---
"$kvtrace" synth --like llama-3.1-70b --record 0,41 -t 320 -p 300 \
  -o "$tmp/t.safetensors" >"$tmp/log" 2>&1 || fail "$(cat "$tmp/log")"
ran 0 "$kvreplay" run "$tmp/t.safetensors" -q -m streamingllm -b 20% -f json
two=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))[0]["bytes"]["end"]["total"])' "$tmp/out")
node 0 --context 300 --output 20 -m streamingllm -b 20% -f csv
is bytes $((40 * two))

# A budget in bytes finds the value that a run finds: the same bytes.
for method in streamingllm snapkv h2o; do
  ran 0 "$kvreplay" run "$tmp/t.safetensors" -q -m "$method" -b mean:40% \
    -f json
  end=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))[0]["bytes"]["end"]["total"])' "$tmp/out")
  node 0 --context 300 --output 20 -m "$method" -b mean:40% -f csv
  is bytes $((40 * end))
done
node 3 --context 300 --output 20 -m dense,snapkv -b mean:.1%
grep -q '^snapkv .* the smallest budget ' "$tmp/out" ||
  fail "$(cat "$tmp/out")"
node 3 --context 300 --output 20 -m dense,quest -b read:20%
grep -q '^quest .*needs traces: what quest reads depends on them$' \
  "$tmp/out" || fail "$(cat "$tmp/out")"

# --- where data decides ---
db=$tmp/r.db
for t in retrieval_8_small.f32 retrieval_8_small; do
  ran 0 "$kvreplay" run "$tiny/$t.safetensors" -q -m adakv,h2o -b 20% -d "$db"
done
node 0 --context 8192 -m adakv -b 20% -d "$db" -f json
python3 - "$tmp/out" <<'END' || fail 'adakv of a database'
import json, sys
row, = json.load(open(sys.argv[1]))
low, at, high = row["p10"], row["at"], row["p90"]
dense = (8192 + 1024) * 327680
assert row["traces"] == 2 and row["why"] is None, row
assert low["bytes"] == at["bytes"] <= high["bytes"], row
assert .15 * dense < at["bytes"] < .5 * dense, (at, dense)
assert low["users"] >= high["users"] > 0 and at["read"] > 0, row
assert 1 / 8 <= at["fullest_rank"] <= 1 / 4, at  # its four heads: 4 ranks
END
node 0 --context 8192 -m h2o -b 20% -d "$db"
grep -q 'lengths, reads of 2 traces$' "$tmp/out" || fail "$(cat "$tmp/out")"
# Entries, 27 of 137 tokens, are no share; and other parameters are others.
for asked in 'adakv -b 27' 'adakv:window=16 -b 20%'; do
  node 2 --context 8192 -m $asked -d "$db"
  grep -q 'needs traces: .* has no row with this budget' "$tmp/out" ||
    fail "$asked: $(cat "$tmp/out")"
done
ran 0 "$kvreplay" capacity --model llama-3.1-8b --gpu l40 -d "$db" \
  -m adakv -b 27 --context 140
node 3 --context 64 --output 4 -m dense,adakv -b 20%
grep -q '^adakv .*needs traces: what adakv stores depends on them$' \
  "$tmp/out" || fail "$(cat "$tmp/out")"
node 0 --context 64 --output 4 -m all -b 20%

# --- a model by its config.json ---
cat >"$tmp/config.json" <<'END'
{"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192,
 "intermediate_size": 28672, "num_attention_heads": 64, "vocab_size": 128256,
 "num_key_value_heads": 8, "torch_dtype": "bfloat16", "rope_theta": 500000.0}
END
ran 0 "$kvreplay" capacity --model "$tmp/config.json" --gpu made-80g --gpus 8 \
  --context 300 --output 20 -m streamingllm -b 20% -f csv
is bytes $((40 * two))
is weights 141107412992
is tp 8

# --- models that are no lanes of KV heads, DeepSeek-V2-Lite and Qwen3-Next ---
cat >"$tmp/config.json" <<'END'
{"model_type": "deepseek_v2", "num_hidden_layers": 27, "hidden_size": 2048,
 "num_attention_heads": 16, "num_key_value_heads": 16, "kv_lora_rank": 512,
 "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
 "n_routed_experts": 64, "torch_dtype": "bfloat16"}
END
m=("$kvreplay" capacity -M "$tmp/config.json" -g h100-80g -w 31.4e9 -c 32768)
ran 0 "${m[@]}" -m dense -f csv
is bytes $((27 * 576 * 2 * 33792))
is users 43
is tokens_per_s '' # of 64 experts nothing says how many weigh what
ran 3 "${m[@]}" -m dense,snapkv -b 20%
grep -q '^snapkv  *20%  *snapkv works by KV heads, but this model keeps one' \
  "$tmp/out" || fail "$(cat "$tmp/out")"
ran 2 "${m[@]}" -m snapkv -b 20%
ran 0 "${m[@]}" -m all -b 20%
[ "$(grep -c 'works by KV heads' "$tmp/out")" = 1 ] || fail "$(cat "$tmp/out")"
ran 0 "${m[@]}" --gpus 4 -m dense -f json
grep -q '"fullest_rank": 1.0, ' "$tmp/out" || fail "$(cat "$tmp/out")"
cat >"$tmp/config.json" <<'END'
{"model_type": "qwen3_next", "num_hidden_layers": 48, "hidden_size": 2048,
 "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
 "linear_num_key_heads": 16, "linear_num_value_heads": 32,
 "linear_key_head_dim": 128, "linear_value_head_dim": 128,
 "linear_conv_kernel_dim": 4, "full_attention_interval": 4}
END
m=("$kvreplay" capacity -M "$tmp/config.json" -g h200 -w 1e9 -c 8192 -o 2)
ran 0 "${m[@]}" -m dense,window -b 20% -f csv
is bytes $((12 * 2 * 512 * 2 * 8194))
is state $((36 * (32 * 128 * 128 * 4 + 8192 * 4 * 2)))
ran 0 "${m[@]}" -m dense,window -b 20%
grep -q '^dense  *-  *0.201  *0.201  *0.078 ' "$tmp/out" ||
  fail "$(cat "$tmp/out")"

# --- what cannot be ---
m='--model llama-3.1-70b --gpus 8 -m dense'
wrong 2 'no GPU h100; did you mean h100-80g?' $m --gpu h100
wrong 2 'no model or config.json llama-3.1-80b; did you mean' \
  --model llama-3.1-80b --gpu l40 -m dense
wrong 2 '--tp 16 must divide the 8 KV heads of llama-3.1-70b' \
  --model llama-3.1-70b --gpus 16 --tp 16 --gpu l40 -m dense
wrong 2 '--gpus 8 must be a multiple of --tp 3' $m --tp 3 --gpu l40
wrong 2 'the weights of llama-3.1-70b, 141.1 GB over --tp 1, leave nothing' \
  $m --tp 1 --gpu h100-80g
wrong 2 '--weights must be bf16, fp16' $m --weights fp3 --gpu l40
wrong 2 'the number of weights of tiny is unknown' --model tiny --gpu l40 \
  -m dense
wrong 2 'snapkv needs a budget' --model llama-3.1-8b --gpu l40 -m snapkv
printf '{"model_type": "x", "sliding_window": 8, "num_hidden_layers": 2,
 "hidden_size": 64, "num_attention_heads": 2}' >"$tmp/w.json"
wrong 3 'has a sliding_window but no layer_types' --model "$tmp/w.json" \
  --gpu l40 -m dense
printf '{"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 4,
 "kv_mirror": 3}' >"$tmp/w.json"
wrong 3 'kv_mirror may change what a cache holds' --model "$tmp/w.json" \
  --gpu l40 -m dense
wrong 2 'argument --tp: must be a whole number from 1 to 4096, not 0' $m \
  --gpu l40 --tp 0
wrong 2 'argument --tp: must be a whole number' $m --gpu l40 --tp x
wrong 2 'the following arguments are required: -g/--gpu' $m
sed "s,^python=.*,python=$tmp/none," "$top/sim/kvreplay-capacity" >"$tmp/moved"
chmod +x "$tmp/moved"
refused 4 'needs python3 and the package kvreplay in' "$tmp/moved" --help
wrong 3 'is not a kvreplay database' --model llama-3.1-8b --gpu l40 \
  -m adakv -b 20% -d "$small"
concluded
