#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kvtrace slim and kvtrace plan. A smaller trace of either version is sound, as
# large as the plan says to the byte, the same for any number of threads; what
# stayed has its bytes, and h2o and its like decide on it to the bit as on the
# full one, on column sums that kvtrace check recomputes. Methods that need the
# rows are refused and name them. config.json files, what is refused.
. "$(dirname "$0")/../sh.sh"
shows=("$tmp/out" "$tmp/err")
cd "$tmp" || exit 1

worked() { ran 0 "$@"; }
slim() { # FROM OUT OPTIONS..
  rm -f "$2"
  worked "$kvtrace" slim -q "$1" -o "$2" "${@:3}"
}
data() { # FILE: bytes of its tensors
  echo $(($(stat -c %s "$1") - 8 - $(od -An -td8 -N8 "$1")))
}
planned() { # WHICH SOURCE OPTIONS..: bytes in all, "full" or "slim"
  worked "$kvtrace" plan -f json "${@:2}"
  sed -n "/\"$1\": {/,/}/s/.*\"all\": \([0-9]*\).*/\1/p" out
}
same() { # WHAT A B
  checks=$((checks + 1))
  [ -n "$2" ] && [ "$2" = "$3" ] || fail "$1: '$2' is not '$3'"
}

v1=$tiny/haystack_8.safetensors v2=$tmp/v2.safetensors
worked "$kvtrace" synth -q -o "$v2" --like gpt-oss-20b --layers 3 --heads 8 \
  --kv-heads 4 --window 64 --full-every 2 -t 300 --output

# --- bytes ------------------------------------------------------------------

for from in "$v1" "$v2" "$tiny/retrieval_8_small.f32.safetensors"; do
  same "the plan of $from" "$(planned full "$from")" "$(data "$from")"
  while read -r options; do
    # shellcheck disable=SC2086
    slim "$from" s.safetensors $options
    # shellcheck disable=SC2086
    same "$from $options" "$(planned slim "$from" $options)" \
      "$(data s.safetensors)"
    worked "$kvtrace" check s.safetensors
  done <<'END'
--rows last=32,decode
--rows decode --no-o
--rows last=9999,decode --layers 1
--rows last=5,decode --layers 0,2 --drop-tokens --no-sums
--no-o --layers 0-1
--no-sums
END
done
# Query rows that were left out in between are none of the plan's, and layers
# count as each is: a trace with every third row of the prompt in layer 0, and
# no outputs in layer 1. Needs a Python, without numpy.
if python3 -c '' 2>/dev/null; then
  python3 - "$src/tests/python" "$small" gaps.safetensors <<'END'
import json, struct, sys
sys.path.insert(0, sys.argv[1])
from check_pack import read
meta, tensors = read(sys.argv[2])
header, data = {"__metadata__": meta}, b""
tokens, prompt = tensors["layers.0.q"][1][1], int(meta["prompt_len"])
rows = [t for t in range(tokens) if t >= prompt or t % 3 == 0]

def put(name, kind, shape, x):
    global data
    header[name] = {"dtype": kind, "shape": shape,
                    "data_offsets": [len(data), len(data) + len(x)]}
    data += x

for name, (kind, shape, x) in tensors.items():
    gaps = name.startswith("layers.0.")
    if name == "layers.1.o":
        continue
    if gaps and name[-2:] in (".q", ".o"):
        n = len(x) // shape[0] // tokens
        x = b"".join(x[(h * tokens + t) * n:][:n] for h in range(shape[0])
                     for t in rows)
        shape = [shape[0], len(rows), shape[2]]
    put(name, kind, shape, x)
    if gaps and name.endswith(".q"):
        put(name[:-1] + "rows", "I32", [len(rows)],
            struct.pack(f"<{len(rows)}i", *rows))
text = json.dumps(header).encode()
with open(sys.argv[3], "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
END
  same 'a trace with gaps' "$(planned full gaps.safetensors)" \
    "$(data gaps.safetensors)"
  options='--rows last=60,decode --no-sums'
  # shellcheck disable=SC2086
  slim gaps.safetensors s.safetensors $options
  # shellcheck disable=SC2086
  same 'gaps made smaller' "$(planned slim gaps.safetensors $options)" \
    "$(data s.safetensors)"
fi
# A model of the table is as large as its synthetic trace.
worked "$kvtrace" synth -q -o m.safetensors --like gpt-oss-20b --record 3,8 \
  -t 40 --output
same 'a model' "$(planned slim gpt-oss-20b -t 40 --layers 3,8)" \
  "$(data m.safetensors)"

# The bundled model's traces are as large as its config.json says.
same 'the bundled model' "$(data "$v1")" \
  "$(planned slim "$tiny/model" -t 633 --decode 168 --no-o)"

# Made smaller twice it is what it is at once; sums of its own are carried.
slim "$v1" kept.safetensors --rows last=80,decode
slim kept.safetensors again.safetensors --rows last=64,decode --no-o
slim "$v1" once.safetensors --rows last=64,decode --no-o
worked "$kvtrace" info again.safetensors
grep -q 'outputs in 0, column sums in 6' out || fail 'its own sums are gone'
grep -q 'decoding may start at 401' out || fail 'other rows stay'
same twice "$(planned slim kept.safetensors --rows last=64,decode --no-o)" \
  "$(data once.safetensors)"
# Asked of another request, a plan is of all query rows.
same 'recorded anew' "$(planned full kept.safetensors --decode 168)" \
  "$(planned full "$v1")"
for threads in 1 3; do
  rm -f t$threads.safetensors
  OMP_NUM_THREADS=$threads worked "$kvtrace" slim -q "$v2" \
    -o t$threads.safetensors --rows last=8,decode
done
cmp t1.safetensors t3.safetensors || fail 'threads change it'

# --- decisions --------------------------------------------------------------

columns() { # TRACE METHODS: method, status and digests of each cell
  worked "$kvreplay" run -q -f jsonl "$1" -m "$2" -b 20%
  sed 's/.*"method"/"method"/; s/"revision.*"status"/"status"/
    s/, "budget".*//' out
}
for from in "$v1" "$v2"; do
  slim "$from" s.safetensors --rows last=64,decode
  same "decisions on $from" "$(columns s.safetensors h2o,snapkv,knorm,tova)" \
    "$(columns "$from" h2o,snapkv,knorm,tova)"
  same 'all replayed' "$(columns "$from" h2o,snapkv,knorm,tova | grep -c ok)" 4
done
# A copy without token ids is of the same request, and one of that.
slim "$v1" ids.safetensors --drop-tokens --rows last=80,decode
slim ids.safetensors s.safetensors --no-o
worked "$kvreplay" run -q "$v1" {ids,s}.safetensors -m knorm -b 20% --db r.db
same 'a request' "$("$sql" r.db "SELECT count(*) || '|' ||
  count(DISTINCT request) FROM trace")" '3|1'
same 'twice and once' "$(columns again.safetensors h2o)" \
  "$(columns once.safetensors h2o)"
# Methods that need rows which are not there, and h2o without sums.
"$kvreplay" run -q -f jsonl once.safetensors -m zsmerge,expected -b 20% >out \
  2>err
grep -q '"status": "refused", "reason": "[^"]*rows' out || fail 'not refused'
slim "$v1" none.safetensors --rows last=64,decode --no-sums
"$kvreplay" run -q -f jsonl none.safetensors -m h2o -b 20% >out 2>err
grep -q '"status": "refused", "reason": "[^"]*rows' out ||
  fail 'h2o decides on nothing'

# --- refused ----------------------------------------------------------------

out=(-q -o x.safetensors)
refused 2 'nothing to leave out' "$kvtrace" slim "$v1" "${out[@]}"
refused 2 'layer 7 is not recorded' "$kvtrace" slim "$v1" "${out[@]}" --layers 7
refused 2 '--layers must be all, or' "$kvtrace" slim "$v1" "${out[@]}" \
  --layers 3-1
refused 2 '--rows must be all,' "$kvtrace" slim "$v1" "${out[@]}" \
  --rows last=5
refused 2 'decode, not ' "$kvtrace" slim "$v1" "${out[@]}" \
  --rows last=5decode
refused 2 'would overwrite' "$kvtrace" slim s.safetensors -q \
  -o s.safetensors --no-o
refused 3 'layer 0 has neither all of the prompt' \
  "$kvtrace" slim none.safetensors "${out[@]}" --rows decode
worked "$kvtrace" synth -q -o p.safetensors -t 40 -p 40
refused 2 'no query row of layer 0 is left' "$kvtrace" slim p.safetensors \
  "${out[@]}" --rows decode
cp p.safetensors nan.safetensors # F16: an exponent of ones in k
at=$((16 + $(od -An -td8 -N8 p.safetensors)))
printf '\377\377' | dd of=nan.safetensors bs=1 seek=$at conv=notrunc 2>err
refused 3 'holds NaN or Inf' "$kvtrace" slim nan.safetensors "${out[@]}" --no-o
[ ! -e x.safetensors ] || fail 'a refused one is there'

# --- config.json ------------------------------------------------------------

kinds() { # SOURCE OPTIONS..: k v q o sums of 1,000 tokens, 100 of them decoded
  worked "$kvtrace" plan -f json "$@" -t 1000 --decode 100
  sed -n 's/.*"\([kvqo]\|sums\)": \([0-9]*\),$/\2/p' out | head -n 5 | xargs
}
config() { # TEXT
  mkdir -p model
  echo "$1" >model/config.json
}
config '{"num_hidden_layers": 36, "num_attention_heads": 32, "head_dim": 128,
  "num_key_value_heads": 8, "hidden_size": 2560, "torch_dtype": "bfloat16",
  "model_type": "qwen3"}'
same qwen3 "$(kinds model)" "$(kinds qwen3-4b)"
config '{"n_layer": 32, "n_head": 71, "hidden_size": 4544, "multi_query": true,
  "dtype": "torch.bfloat16"}'
same falcon "$(kinds model/config.json)" "$(kinds falcon-7b)"
config '{"torch_dtype": "bfloat16", "text_config": {"num_hidden_layers": 48,
  "model_type": "gemma3_text", "hidden_size": 3840, "num_attention_heads": 16,
  "num_key_value_heads": 8, "sliding_window": 1024}}'
same gemma "$(kinds model)" "$(kinds gemma-3-12b)"
same 'two frequencies' "$(planned full model -t 99)" \
  "$(planned full gemma-3-12b -t 99)"
config '{"num_hidden_layers": 4, "num_attention_heads": 8, "head_dim": 16,
  "layer_types": ["linear_attention", "full_attention", "conv",
  "sliding_attention"]}'
same 'layers that attend' "$(kinds model --dtype f32)" \
  '1024000 1024000 1024000 1024000 0'
while read -r which; do # Jamba, Bamba, LFM2, RecurrentGemma, Gemma 3n
  config "{\"num_attention_heads\": 8, \"head_dim\": 16, $which}"
  same "$which" "$(kinds model --dtype f32)" \
    '1024000 1024000 1024000 1024000 0'
done <<'END'
"num_hidden_layers": 16, "attn_layer_period": 8, "attn_layer_offset": 0
"num_hidden_layers": 9, "attn_layer_indices": [3, 7]
"num_hidden_layers": 9, "full_attn_idxs": [0, 8]
"num_hidden_layers": 8, "block_types": ["recurrent", "recurrent", "attention"]
"num_hidden_layers": 5, "num_kv_shared_layers": 3
END
config '{"num_hidden_layers": 4, "num_attention_heads": 8, "head_dim": 16,
  "layer_types": ["conv", "full_attention", "conv", "sliding_attention"]}'
refused 2 'give --dtype' "$kvtrace" plan model
refused 2 'names layer 2, but only 2 can be recorded, from 1 to 3' \
  "$kvtrace" plan model --dtype f32 --layers 1-2
config '{"num_hidden_layers": 2, "num_attention_heads": 8, "kv_lora_rank": 64,
  "qk_nope_head_dim": 12, "qk_rope_head_dim": 4, "v_head_dim": 8}'
same latent "$(kinds model --dtype f16 --rows last=100,decode)" \
  '512000 256000 512000 256000 0'
config '{"num_attention_heads": 8}'
refused 3 'has no num_hidden_layers' "$kvtrace" plan model
config '{"num_hidden_layers": 2, "n_head": 0}'
refused 3 'n_head must be a whole number from 1 to' "$kvtrace" plan model
config '{"num_hidden_layers": 2, "n_head": 8, "num_key_value_heads": 3}'
refused 3 'do not divide by 3 KV heads' "$kvtrace" plan model
config '{"num_hidden_layers": '
refused 3 'is not valid JSON' "$kvtrace" plan model
refused 2 'did you mean gemma-3-12b?' "$kvtrace" plan gemma
refused 2 'leaves no prompt' "$kvtrace" plan tiny -t 9 --decode 9
echo '{"n_layer": 99999, "n_head": 65536, "head_dim": 65536}' >big.json
refused 2 'exceed 2^62 bytes' "$kvtrace" plan big.json -t 8388608 \
  --dtype f32
concluded
