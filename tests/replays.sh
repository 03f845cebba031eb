# SPDX-License-Identifier: Apache-2.0
#
# What the scripts about digests share; sourced, never run.
#
#   replay_traces   makes and lists the traces of digest tests
#   replay_windows  makes and names one of version 2, for $replay_windowed
#   replay_methods  every method of the registry
#   replay_specs    every method, and variants that decide otherwise
#   replay_little   is a small part enough?
#   replay_last TRACE STEPS
#                   sets the array $last to the options for so many decode
#                   steps at the end, to none where a trace has no more, or
#                   KV_WHOLE=1 asks for all
#   replay_emu      is backend emu here? Says why it is not
#   digests         JSON lines of rows to lines of words: trace spec budget
#                   revision journal state output
. "$(dirname "${BASH_SOURCE[0]}")/sh.sh"

# F32 with full mantissas first: on F16 data products are exact and many
# faults of arithmetic cannot be seen. 300 tokens: more than two chunks.
replay_traces() {
  local f32=$tmp/full_f32.safetensors bf16=$tmp/full_bf16.safetensors
  [ -e "$f32" ] ||
    "$kvtrace" synth -o "$f32" --layers 2 --heads 6 --kv-heads 2 --dim 40 \
      --dtype F32 -t 300 -p 260 -s 7 >"$tmp/said" 2>&1 || cat "$tmp/said" >&2
  [ -e "$bf16" ] ||
    "$kvtrace" synth -o "$bf16" --layers 1 --heads 4 --kv-heads 4 --dim 64 \
      --dtype BF16 -t 200 -p 150 -s 8 >"$tmp/said" 2>&1 || cat "$tmp/said" >&2
  echo "$f32"
  echo "$bf16"
  echo "$src/traces/tiny/retrieval_8_small.f32.safetensors"
}

# Two layers, one of which has a sliding window, with learned sinks.
replay_windows() {
  local f32=$tmp/windows_f32.safetensors
  [ -e "$f32" ] ||
    "$kvtrace" synth -o "$f32" --layers 2 --heads 4 --kv-heads 2 --dim 32 \
      --dtype F32 -t 200 -p 160 -s 9 --window 48 --full-every 2 --sinks \
      >"$tmp/said" 2>&1 || cat "$tmp/said" >&2
  echo "$f32"
}

# The registry, a line each.
replay_methods() {
  "$kvreplay" methods --format json |
    sed -n 's/^.*{"name": "\([a-z0-9-]*\)", "title".*$/\1/p'
}

# One line, for -m: the registry, then variants of it. Of deltakv, palu and less
# there are weights of the bundled model alone: these traces go without them.
replay_specs() {
  local all
  all=$(replay_methods | grep -vxE 'deltakv|palu|less' | paste -s -d ,)
  echo "$all,$replay_variants"
}

# Is little enough? KV_QUICK=1 says so, and a build for the sanitizers, which
# see in a small trace what they would in a large one.
replay_little() {
  [ "${KV_QUICK-}" = 1 ] ||
    nm "$kvreplay" 2>/dev/null | grep -qE '__[at]san_init'
}

replay_last() {
  local tokens prompt
  read -r _ tokens _ prompt _ < <("$kvtrace" info "$1" | grep '^request')
  last=()
  [ "${KV_WHOLE-}" = 1 ] || [ $((tokens - prompt)) -le "$2" ] ||
    last=(--prompt-len $((tokens - $2)))
}

# A check of one step finds out.
replay_emu() {
  "$kvreplay" check "$src/traces/tiny/retrieval_8_small.safetensors" \
    -m window -b 20% -q -B ref,emu --prompt-len 304 >/dev/null 2>"$tmp/said"
  [ $? = 4 ] || return 0
  echo "skipped: $(cat "$tmp/said")"
  return 1
}

replay_variants=quest:page=8:skip=0
replay_variants+=,quest:page=8:skip=0:share=group_sum:rule=paper
replay_variants+=,twilight:skip=0,twilight:skip=0:bits=2:p=0.5
replay_variants+=,omnikv:layers=0:recent=3
replay_variants+=,omnikv:layers=0:score=logit:sink=2:recent=7
replay_variants+=,omnikv:layers=0:selector=uniform:window=5
replay_variants+=,omnikv:layers=0:selector=exp
replay_variants+=,omnikv:layers=0:roles=sparse-vllm:sink=3:recent=5
replay_variants+=,snapkv:group=query_head:pooling=avg
replay_variants+=,snapkv:group=max:pooling=avg:grow=no:every=40
replay_variants+=,snapkv:grow=past_more:voters=1:sinks=1
replay_variants+=,adakv:normalise=yes:safeguard=minimum
replay_variants+=,pyramidkv:exact_total=yes:beta=3
replay_variants+=,pyramidkv:grow=twice_past:voters=1:schedule=ratio
replay_variants+=,pyramidkv:schedule=printed
replay_variants+=,adakv:grow=no:every=40
replay_variants+=,h2o:variant=masked,h2o:variant=prefill:group=max
replay_variants+=,h2o:group=query_head,h2o:recent=0:scale=seen
replay_variants+=,h2o:variant=prefill:recent=0:scale=seen
replay_variants+=,tova:protect_newest=yes,streamingllm:positions=original
replay_variants+=,tova:variant=prefill:protect_newest=yes
replay_variants+=,tova:variant=prefill,window:variant=prefill
replay_variants+=,streamingllm:variant=prefill
replay_variants+=,streamingllm:variant=prefill:positions=original
replay_variants+=,random:variant=prefill:recent=0
replay_variants+=,duoattention:sink=2:recent=6
replay_variants+=,duoattention:sink=1:recent=3:threshold=0.5
replay_variants+=,duoattention:sink=2:recent=6+kivi:group=8:residual=16
replay_variants+=,rkv:every=16:redundancy=paper:group=mean_prob
replay_variants+=,rkv:every=16:fallback=none:slots=position:trigger=global
replay_variants+=,rkv:every=16+kivi:group=8:residual=16
replay_variants+=,hardkv:window=3:every=16:adapter=vanilla:p=0.6
replay_variants+=,hardkv:window=3:every=9:calibrate=gradient:temperatures=every
replay_variants+=,hardkv:window=3:every=16:adapter=rkv
replay_variants+=,hardkv:window=3:every=16:adapter=rkv:redundant=read:p=0.6
replay_variants+=,hardkv:window=3:every=16:p=0.6:condensed=merge
replay_variants+=,hardkv:window=3:every=16:p=0.6:condensed=merge:merged=fp32
replay_variants+=,hardkv:window=3:every=16:variant=code
replay_variants+=,hardkv:window=3:every=16:variant=code:calibrate=bisect
replay_variants+=,hardkv:window=3:every=16:adapter=score:score=tova
replay_variants+=,hardkv:window=3:every=16:adapter=score:score=keydiff
replay_variants+=,zsmerge:variant=code:residual=2
replay_variants+=,zsmerge:metric=l2:residual=3
replay_variants+=,zsmerge:variant=code:residual=2:merged=fp32
replay_variants+=,kivi:group=8:residual=16:variant=code
replay_variants+=,kivi:bits=4:group=16:residual=32:variant=paper
replay_variants+=,kivi:group=8:residual=16:rope=before
replay_variants+=,int8:rope=before,int1:residual=5,k4v2:groups=2
replay_variants+=,e4m3:groups=2,quant:k=e5m2:v=sym4,sym8:rope=before
replay_variants+=,qserve8:groups=2,quant:k=qserve4:v=atom4,atom4:rope=before
replay_variants+=,q8_0-q4_0,q5_1-q4_1:residual=5,q5_0-iq4_nl:rope=before
replay_variants+=,mxfp4-nvfp4:v_scale=0.01,fp4_e2m1-nvfp4_4over6
replay_variants+=,fp8_e4m3-fp8_e5m2:k_scale=0.1,snapkv+q4_0
replay_variants+=,int4:rotate=hadamard:key_bias=mean
replay_variants+=,q4_0-nvfp4:rotate=keys:rope=before
replay_variants+=,fp8_e4m3-nvfp4:scale=head:key_bias=mean:rotate=keys
replay_variants+=,snapkv+nvfp4_4over6-fp8_e5m2:scale=head
replay_variants+=,nvfp4-fp8_e4m3:scale=tensor:key_bias=mean
replay_variants+=,snapkv+int8-int2:key_bias=mean:rotate=values
replay_variants+=,snapkv+int4,h2o+k8v2:residual=9
replay_variants+=,leankv:window=8:alpha_l=0.5:alpha_h=1.5
replay_variants+=,leankv:window=8:alpha_l=0.5:variant=paper:sparsity=layer
replay_variants+=,leankv:window=8:sparsity=static:low_share=0.25:low=k8v2
replay_variants+=,leankv:window=8:high=k16v16:low=k16v16:alpha_l=0.7
replay_variants+=,leankv:window=8:high=k8v8:middle_1=k8v4:alpha_1=0.9
replay_variants+=:middle_2=k4v4:alpha_2=0.7:alpha_l=0.5
replay_variants+=,leankv:window=8:middle_1=k8v2:alpha_1=0.8:alpha_l=0.5
replay_variants+=:variant=paper:sparsity=layer
replay_variants+=,keydiff:block=0:sinks=2:last=3:reindex=yes
replay_variants+=,lagkv:cross=yes:form=both:every=16
replay_variants+=,expected:covariance=no:vnorm=no:form=decode:every=9
replay_variants+=,adakv:score=keydiff,adakv:score=expected,adakv:score=tova
replay_variants+=,chunkkv:score=lagkv:form=both:every=16:count=share
replay_variants+=,oracle-topp:p=0.5,oracle-evict:group=query_head
replay_variants+=,snapkv+kivi:group=8:residual=16
replay_variants+=,h2o+kivi:bits=4:group=8:residual=16
replay_variants+=,quest:page=8:skip=0:rule=twilight+twilight:skip=0
replay_variants+=,h2o+twilight:skip=0
replay_variants+=,omnikv:layers=0+kivi:group=8:residual=16
replay_variants+=,quest:page=8:skip=0+kivi:group=8:residual=16
replay_variants+=,deltakv:compressor=none:full=0:recent=16
replay_variants+=,deltakv:compressor=none:full=0:recent=16:refs=recon:score=prob
replay_variants+=,deltakv:compressor=none:recent=16:retrieve=all:full=0:self=yes
replay_variants+=,deltakv:compressor=none:full=0:recent=16:kept=int4

# What a window changes, for replay_windows.
replay_windowed=
for replay_one in dense window random strided h2o \
  h2o:variant=prefill:group=max tova \
  snapkv snapkv:group=max:window=4:grow=no:every=8 pyramidkv headkv \
  pyramidkv:window=4:grow=no:every=8:exact_total=yes adakv adakv:score=keydiff \
  knorm:skip=0 rkv:every=16 rkv:every=16:slots=position keydiff lagkv \
  expected chunkkv criticalkv duoattention:sink=2:recent=6 \
  kivi:group=8:residual=16 int4 leankv:window=8:alpha_l=0.5:alpha_h=1.5 \
  oracle-topk oracle-topp:p=0.5 oracle-evict snapkv+kivi:group=8:residual=16; do
  replay_windowed+=${replay_windowed:+,}$replay_one:windowed=compress
done
unset replay_one

# JSON lines to words; values of these keys hold no escapes.
digests() {
  awk -v keys='trace spec budget revision journal state output' '
    function value(key,   at, text) {
      at = index($0, "\"" key "\": ")
      if (!at) return "?"
      text = substr($0, at + length(key) + 4)
      if (substr(text, 1, 1) == "\"") {
        text = substr(text, 2)
        return substr(text, 1, index(text, "\"") - 1)
      }
      if (text ~ /^\[/) {
        text = substr(text, 1, index(text, "]"))
        gsub(/ /, "", text)
        return text
      }
      match(text, /[,}]/)
      return substr(text, 1, RSTART - 1)
    }
    { n = split(keys, key, " ")
      for (i = 1; i <= n; i++) printf "%s%s", value(key[i]), i < n ? " " : "\n"
    }'
}
# Of methods that need weights, for a trace that has them.
replay_weighted=less,less:policy=lambda:recent=20,deltakv:latent=int4:recent=32
replay_weighted+=,deltakv:latent=int4:recent=32:kept=int4
replay_weighted+=,palu,palu:share=0.25:allocation=energy:unit=8
replay_weighted+=,palu:share=0.75:latent=int4
# One of each family, for the trace of SmolLM2.
replay_known=h2o,snapkv,adakv,keydiff,rkv:every=16,zsmerge,quest:page=8:skip=0
replay_known+=,omnikv,kivi,leankv,oracle-topk,oracle-evict
