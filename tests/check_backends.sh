#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The device backends against the reference, on the executor, with the threads
# of a warp forwards and backwards: the worked cases of every method, the
# bundled traces through every method and through its variants, and what is
# said where a device is missing. The digests must be equal.
#
# Environment: KV_TEST_BACKEND: another backend than the executor, such as cuda.
# KV_WHOLE=1: every decode step of all traces (half an hour); else the last
# steps of each trace but the longest two.
. "$(dirname "$0")/replays.sh"
cells=0 turn=0
other=${KV_TEST_BACKEND:-emu}

[ "$other" != emu ] || replay_emu || exit 77

# compared TRACE STEPS METHODS [OPTION]...: equal on both backends, all of them
compared() {
  local order=forward last=()
  [ $((turn++ % 2)) = 0 ] || order=reverse
  replay_last "$1" "$2"
  KVREPLAY_EMU_ORDER=$order "$kvreplay" check "$1" -q -m "$3" -b 20% \
    -B "ref,$other" "${last[@]}" "${@:4}" >"$tmp/out" 2>"$tmp/err" || {
    fail "$1, threads $order"
    grep -v ' equal$' "$tmp/out" | cat - "$tmp/err" | sed 's/^/  /' >&2
    exit 1
  }
  cells=$((cells + $(grep -c ' equal$' "$tmp/out")))
}

small=$tiny/retrieval_8_small.f32.safetensors
variants=streamingllm:positions=original,h2o:variant=masked
variants+=,h2o:variant=prefill:group=max,h2o:group=query_head
variants+=,snapkv:group=max:pooling=avg,snapkv:group=query_head:pooling=none
variants+=,snapkv:grow=no,pyramidkv:exact_total=yes
variants+=,adakv:normalise=yes:safeguard=minimum,quest:rule=paper:skip=0
variants+=,quest:share=group_sum:skip=0,quest:share=group_max:skip=0
variants+=,zsmerge:variant=code,kivi:bits=4:variant=paper,kivi:variant=code
variants+=,deltakv:compressor=none:full=0:recent=16:kept=int4
variants+=,tova:variant=prefill,h2o:variant=prefill:recent=0:scale=seen
variants+=,h2o:scale=seen,snapkv:budget=34/9/20/60,quest:budget=34/9/20/60

# Four tiers rank four lists of nearly all tokens.
tiers=leankv:window=8:high=k8v8:middle_1=k8v4:middle_2=k4v4:sparsity=layer
tiers+=:alpha_1=0.9:alpha_2=0.7:alpha_l=0.5:variant=paper

compared "$small" 2 all
compared "$small" 2 "$tiers"
paged=leankv,snapkv+int4,dense+k8v4:residual=32,kivi
paged+=,deltakv:compressor=none:full=0:recent=16
compared "$small" 2 "$paged" --pages
compared "$small" 2 dense,snapkv,hardkv,tova+int4 --indices max
compared "$small" 2 adakv,hardkv --indices joined
compared "$small" 2 window,tova,snapkv,hardkv --indices shared
# The sanitizers make an executor slow: for them that is enough.
if ! replay_little; then
  for trace in "$tiny"/*.safetensors; do
    [ "$trace" != "$small" ] || continue
    # The longest two take a minute.
    [[ $trace != *_1500.* && $trace != *_long.* ]] || [ "${KV_WHOLE-}" = 1 ] ||
      continue
    compared "$trace" 2 all
  done
  compared "$small" 4 "$variants"
  compared "$tiny/retrieval_8_small.safetensors" 4 "$variants"
  for order in forward reverse; do
    KV_TEST_BACKEND=$other KVREPLAY_EMU_ORDER=$order \
      "$top/tests/check_methods" >"$tmp/out" 2>&1 ||
      { fail "worked cases, threads $order" && tail -n 20 "$tmp/out" >&2; }
  done
fi
# Groups that share passes unevenly, heads that fill no stage or several, rows
# that are no multiples of 16 bytes.
shapes() {
  local heads kv dim dtype tokens trace=$tmp/shape.safetensors
  while read -r heads kv dim dtype tokens; do
    "$kvtrace" synth -o "$trace" --layers 1 --heads "$heads" \
      --kv-heads "$kv" --dim "$dim" --dtype "$dtype" -t "$tokens" \
      >"$tmp/err" 2>&1 || fail "synth: $(cat "$tmp/err")"
    compared "$trace" 2 "all,quest:share=group_sum:skip=0"
    rm "$trace"
  done
}
if [ "${KV_QUICK-}" = 1 ]; then
  shapes <<<'11 1 36 F16 150'
elif replay_little; then
  shapes <<'END'
11 1 20 F16 140
5 1 12 F32 140
7 1 256 BF16 70
3 3 8 F16 300
END
else
  shapes <<'END'
11 1 20 F16 290
13 1 64 BF16 270
5 1 12 F32 290
10 2 160 F16 150
16 1 36 BF16 150
7 1 256 BF16 130
3 3 8 F16 2100
END
fi
# A backend that is not there: exit 4 and one line that names it.
KVREPLAY_CUDA_MODULE=$tmp/none.so "$kvreplay" check "$small" -m window \
  -b 20% -B ref,cuda >"$tmp/out" 2>"$tmp/err"
[ $? = 4 ] || fail 'a missing module: not exit 4'
[ "$(wc -l <"$tmp/err")" = 1 ] && grep -q cuda "$tmp/err" ||
  fail "a missing module: $(cat "$tmp/err")"

printf 'check_backends: %d cells equal, %d failed\n' "$cells" "$bad"
[ "$bad" = 0 ] && [ "$cells" -ge 14 ]
