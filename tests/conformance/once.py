# SPDX-License-Identifier: Apache-2.0
"""Methods that select once, after the prompt: each function runs the authors'
on the prompt's rows of a trace. It is called with the checkout, the trace, the
budget and the parameters of the specification, as texts, and returns
{layer: a list of positions a head}.

    snapkv             SnapKV: snapkv/monkeypatch/snapkv_utils.py,
                       SnapKVCluster.update_kv, each query head on its own
    factory_snapkv     KVCache-Factory: pyramidkv/pyramidkv_utils.py,
    factory_pyramidkv  SnapKVCluster, PyramidKVCluster and H2OKVCluster,
    factory_h2o        .update_kv, whose kv_head mode selects for a KV head
    adakv              AdaKV: adaptive_snapkv/monkeypatch/snapkv_utils.py,
                       AdaptiveSnapKVCluster.update_kv with gqa_support
    headkv             HeadKV: headkv/snapkv_utils.py,
                       ReasonSnapKVCluster.update_kv; its file of scores is
                       made up
    l2_compress        l2compress: cache.py, l2_compress
    lag                LagKV: lag_kv.py, LagKV.update"""

import io
import json
import math

import torch

from checkout import kept, load, places, prompt, repeated
from vectors import made_up

POOLS = {"max": "maxpool", "avg": "avgpool"}


def settings(p):
    """Window, kernel and pooling of SnapKV and those that follow it."""
    return dict(window_size=int(p["window"]), kernel_size=int(p.get(
        "kernel", 7)), pooling=POOLS[p.get("pooling", "max")])


def snapkv(folder, trace, budget, p):
    theirs = load(folder, "snapkv/monkeypatch/snapkv_utils.py")
    cluster = theirs.SnapKVCluster(max_capacity_prompt=budget, **settings(p))
    out = {}
    for layer, q, k in prompt(trace):
        k = theirs.repeat_kv(k, trace.n_heads // trace.n_kv_heads)
        out[layer] = kept(cluster.update_kv(k, q, places(k), None, None)[1])
    return out


def factory(name, folder, trace, budget, p):
    theirs = load(folder, "pyramidkv/pyramidkv_utils.py", ["transformers"])
    out = {}
    for layer, q, k in prompt(trace):
        more = dict(num_hidden_layers=trace.n_layers, layer_idx=layer
                    ) if name == "PyramidKVCluster" else {}
        cluster = getattr(theirs, name)(
            max_capacity_prompt=budget, **more, **settings(p))
        out[layer] = kept(cluster.update_kv(k, q, places(k), None, None)[1])
    return out


def factory_snapkv(*given):
    return factory("SnapKVCluster", *given)


def factory_pyramidkv(*given):
    return factory("PyramidKVCluster", *given)


def factory_h2o(folder, trace, budget, p):
    return factory("H2OKVCluster", folder, trace, budget,
                   {"window": p["recent"]})


def ragged(lengths, values):
    """Positions of heads of unequal length that lie behind one another."""
    x = values[:, 0].int().tolist()
    ends = torch.cumsum(lengths, 0).tolist()
    return [x[a:b] for a, b in zip([0, *ends], ends)]


def adakv(folder, trace, budget, p):
    theirs = load(folder, "adaptive_snapkv/monkeypatch/snapkv_utils.py",
                  ["flash_attn", "transformers"])
    out = {}
    for layer, q, k in prompt(trace):
        cluster = theirs.AdaptiveSnapKVCluster(
            base_capacity=budget, floor_alpha=float(p["alpha"]), skip=0,
            layer_idx=layer, num_hidden_layers=trace.n_layers,
            normalize=p.get("normalise") == "yes", gqa_support=True,
            num_key_value_groups=trace.n_heads // trace.n_kv_heads,
            gqa_func=p.get("group", "mean"), **settings(p))
        values = cluster.update_kv(k, q, places(k))[1]
        out[layer] = ragged(cluster.head_lens, values)
    return out


def headkv(folder, trace, budget, p):
    flat = made_up(trace, "scores").reshape(-1).tolist()
    text = json.dumps({f"{i}": [x] for i, x in enumerate(flat)})
    theirs = load(folder, "headkv/snapkv_utils.py",
                  ["flash_attn", "transformers"],
                  open=lambda *_: io.StringIO(text))
    out = {}
    for layer, q, k in prompt(trace):
        cluster = theirs.ReasonSnapKVCluster(
            base_capacity=budget, head_choice="reason", model="llama",
            beta=float(p["beta"]), temp=1, layer_idx=layer,
            num_hidden_layers=trace.n_layers,
            num_attention_heads=trace.n_heads, **settings(p))
        k = repeated(k, trace.n_heads)
        values = cluster.update_kv(k, q, places(k))[1]
        out[layer] = ragged(cluster.head_lens, values)
    return out


def l2_compress(folder, trace, budget, p):
    theirs = load(folder, "cache.py", ["transformers"])
    pairs = [(k, places(k)) for _, _, k in prompt(trace)]
    # Least ratio of which their ceiling makes the budget.
    n = trace.prompt_len
    ratio = budget / n
    if math.ceil(ratio * n) > budget:
        ratio = math.nextafter(ratio, 0)
    skipped = [i for i, l in enumerate(trace.layers) if l < int(p["skip"])]
    found = theirs.l2_compress(pairs, ratio, 0, skipped)
    return {l: kept(x[1]) for i, (l, x) in enumerate(zip(trace.layers, found))
            if i not in skipped}


def lag(folder, trace, budget, p):
    """Their values decide, too: who stayed is told by the keys, no two of
    which are alike after their rotation."""
    theirs = load(folder, "lag_kv.py", ["transformers"])
    sinks, size, n = int(p["sinks"]), int(p["lag"]), trace.prompt_len
    parts = (n - sinks) // size
    each, rest = divmod(budget - sinks - size - (n - sinks) % size, parts - 1)
    assert rest == 0, "the budget is not as much of each partition"
    out = {}
    for layer, _, k in prompt(trace):
        v = torch.from_numpy(trace.v(layer)[None, :, :n].copy())
        cache = theirs.LagKV(ratio=(each + .5) / size, sink_size=sinks,
                             lag_size=size)
        cache.key_cache, cache.value_cache, cache._seen_tokens = [], [], 0
        cache.update(k.clone(), v.clone(), 0)
        out[layer] = matched(k, cache.key_cache[0])
    return out


def matched(k, those):
    """Which rows of k [1, heads, tokens, d] those are."""
    at = [{x.tobytes(): i for i, x in enumerate(h)} for h in k[0].numpy()]
    return [[at[h][x.tobytes()] for x in those[0, h].contiguous().numpy()]
            for h in range(len(at))]
