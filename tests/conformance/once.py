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
    lag                LagKV: lag_kv.py, LagKV.update
    press_keydiff      kvpress: kvpress/presses/*_press.py, .score and
    press_lagkv        .compress of KeyDiffPress, LagKVPress,
    press_expected     ExpectedAttentionPress, ChunkKVPress and
    press_chunkkv      CriticalKVPress, the last two of SnapKVPress's score
    press_criticalkv"""

import importlib
import io
import json
import math
import os
import sys
import types

import torch

from checkout import attention, kept, load, places, repeated, rows
from vectors import made_up

POOLS = {"max": "maxpool", "avg": "avgpool"}


def settings(p):
    """Window, kernel and pooling of SnapKV and those that follow it."""
    return dict(window_size=int(p["window"]), kernel_size=int(p.get(
        "kernel", 7)), pooling=POOLS[p.get("pooling", "max")])


def prompt(trace):
    """Layer, q and k of the prompt's rows, for each recorded layer."""
    for layer in trace.layers:
        yield (layer, *(x[:, :, :trace.prompt_len] for x in rows(trace, layer)))


def snapkv(folder, trace, budget, p):
    theirs = load(folder, "snapkv/monkeypatch/snapkv_utils.py")
    cluster = theirs.SnapKVCluster(max_capacity_prompt=budget, **settings(p))
    out = {}
    for layer, q, k in prompt(trace):
        k = theirs.repeat_kv(k, trace.n_heads // trace.n_kv_heads)
        out[layer] = kept(cluster.update_kv(k, q, places(k), None, None)[1])
    return out


def factory(name, folder, trace, budget, p, **more):
    theirs = load(folder, "pyramidkv/pyramidkv_utils.py", ["transformers"])
    out = {}
    for layer, q, k in prompt(trace):
        if name == "PyramidKVCluster":
            more = dict(num_hidden_layers=trace.n_layers, layer_idx=layer)
        cluster = getattr(theirs, name)(
            max_capacity_prompt=budget, **(more or {}), **settings(p))
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


def press(module, name, folder, trace, budget, **options):
    """A press of kvpress: (layer, keys, values, what it makes of them given a
    module, hidden states and attention) of each layer."""
    sys.path.insert(0, folder)
    theirs = importlib.import_module("kvpress.presses." + module)
    assert os.path.realpath(theirs.__file__).startswith(
        os.path.realpath(folder)), f"kvpress is not that of {folder}"
    return theirs, getattr(theirs, name)(
        1 - (budget + .5) / trace.prompt_len, **options)


def by_score(trace, made, module=None):
    """What a press keeps whose score looks at values: it scores the recorded
    ones, and compresses those that say where they are from."""
    out, n, score = {}, trace.prompt_len, made.score
    given = types.SimpleNamespace(head_dim=trace.head_dim)
    for layer, q, k in prompt(trace):
        v = torch.from_numpy(trace.v(layer)[None, :, :n].copy())
        x = score(module(q) if module else given, q.transpose(1, 2), k, v,
                  None, {})
        made.score = lambda *_: x
        out[layer] = kept(made.compress(given, None, k, places(k), None, {})[1])
    return out


def press_keydiff(folder, trace, budget, p):
    _, made = press("keydiff_press", "KeyDiffPress", folder, trace, budget)
    return by_score(trace, made)


def press_lagkv(folder, trace, budget, p):
    _, made = press(
        "lagkv_press", "LagKVPress", folder, trace, budget,
        n_sink=int(p["sinks"]), lag_size=int(p["lag"]),
        cross_scoring=p.get("cross") == "yes")
    return by_score(trace, made)


def press_expected(folder, trace, budget, p):
    """Queries as before their rotation are the recorded ones, turned back; the
    rotation is the trace's frequencies."""
    theirs, made = press("expected_attention_press", "ExpectedAttentionPress",
                         folder, trace, budget)
    angle = torch.from_numpy(trace.inv_freq.copy()).double().repeat(2)

    def turn(x, position_ids):
        a = position_ids[..., None].double() * angle
        return a.cos().float(), a.sin().float()

    def back(_, h):
        q = h.transpose(1, 2)
        at = torch.arange(trace.prompt_len - q.shape[2], trace.prompt_len)
        cos, sin = turn(q, at)
        half = q.shape[3] // 2
        return q * cos - torch.cat([-q[..., half:], q[..., :half]], -1) * sin

    theirs.get_prerope_query_states = back
    config = types.SimpleNamespace(num_attention_heads=trace.n_heads)
    return by_score(trace, made, lambda _: types.SimpleNamespace(
        head_dim=trace.head_dim, config=config, rotary_emb=turn))


def votes(folder, trace, p):
    """The score of SnapKV's press, by layer: (k, score), of the rows' attention
    as a model's forward would hand it to the press."""
    _, made = press("snapkv_press", "SnapKVPress", folder, trace, 1,
                    window_size=int(p["window"]), kernel_size=int(p["kernel"]))
    given = types.SimpleNamespace(config=types.SimpleNamespace(
        num_attention_heads=trace.n_heads))
    for layer, q, k in prompt(trace):
        yield layer, k, made.score(given, q.transpose(1, 2), k, None,
                                   attention(q, k, trace.scale), {})


def press_chunkkv(folder, trace, budget, p):
    """As many chunks as `count=share` has of the same budget, the window being
    chunks of its own: it is not cut by one."""
    size, window = int(p["chunk"]), int(p["window"])
    chunks, own = -(-trace.prompt_len // size), -(-window // size)
    assert (trace.prompt_len - window) % size == 0
    kept_chunks = own + (chunks - own) * (budget - window) // (
        trace.prompt_len - window)
    theirs, snap = press("chunkkv_press", "ScorerPress", folder, trace, 1)
    snap.compression_ratio = 1 - (kept_chunks + .5) / chunks
    made = theirs.ChunkKVPress(snap, size)
    given = types.SimpleNamespace(head_dim=trace.head_dim)
    out = {}
    for layer, k, x in votes(folder, trace, p):
        snap.score = lambda *_: x
        out[layer] = kept(made.compress(given, None, k, places(k), None, {})[1])
    return out


def press_criticalkv(folder, trace, budget, p):
    """With an output projection that leaves values as they are: no trace holds
    the model's."""
    theirs, snap = press("criticalkv_press", "ScorerPress", folder, trace,
                         budget)
    made = theirs.CriticalKVPress(snap, first_stage_ratio=float(p["first"]))
    width = trace.n_heads * trace.head_dim
    groups = trace.n_heads // trace.n_kv_heads
    given = types.SimpleNamespace(
        head_dim=trace.head_dim, num_key_value_groups=groups,
        o_proj=types.SimpleNamespace(weight=torch.eye(width)),
        config=types.SimpleNamespace(
            num_attention_heads=trace.n_heads, head_dim=trace.head_dim,
            hidden_size=width))
    out, score = {}, made.score
    for layer, k, x in votes(folder, trace, p):
        n = trace.prompt_len
        v = torch.from_numpy(trace.v(layer)[None, :, :n].copy())
        snap.score = lambda *_: x
        merged = score(given, None, k, v, None, {})
        made.score = lambda *_: merged
        out[layer] = kept(made.compress(given, None, k, places(k), None, {})[1])
    return out
