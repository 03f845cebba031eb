# SPDX-License-Identifier: Apache-2.0
"""Methods that decide at every decode step, as once.py: the recorded rows are
fed one by one to the authors' selection, whose own state goes on from step to
step. A function returns {layer: {tokens seen: a list a head}}: positions that
are stored or, of quest, pages and, of omnikv, positions that are attended.

    h2o             H2O: h2o_hf/utils_real_drop/modify_llama.py,
                    H2OKVCache_LayerWise, each query head on its own
    tova            TOVA: src/tova_cache.py, TOVACache.reduce
    streaming       streaming-llm: streaming_llm/kv_cache.py, StartRecentKVCache
    rkv             R-KV: rkv/compression/r1_kv.py, R1KV.update_kv
    quest           Quest: evaluation/quest_attention.py, forward
    twilight_quest  Twilight: twilight/pyimpl/quest.py, quest_selector
    omnikv          OmniKV: modeling/omnikv.py, select_tokens_by_attn_universal
    duo             duo-attention: duo_attn/utils.py, sparsify_attention_heads,
                    and duo_attn/patch/static_kv_cache.py,
                    .compress_and_replace_streaming_kv; gates are made up"""

import math
import types
from typing import List, Optional, Tuple, Union

import torch

from checkout import StandIn, attention, kept, load, places, repeated, rows
from vectors import made_up

SELECTORS = {"prob": "softmax_before_last", "logit": "last"}


def walk(trace, heads):
    """Layer, and what arrives, of each layer: (tokens seen, q, k, places) of
    the prompt at once, then of each step. k has as many heads as asked for."""
    for layer in trace.layers:
        q, k = rows(trace, layer)
        k = repeated(k, heads)
        ends = [trace.prompt_len, *range(trace.prompt_len + 1,
                                         trace.n_tokens + 1)]
        yield layer, [(b, q[:, :, a:b], k[:, :, a:b], places(
            k[:, :, a:b], a)) for a, b in zip([0, *ends], ends)]


def joined(held, *arrived):
    """A store and what arrives behind it, keys and values apart."""
    return [torch.cat([a, b], 2) for a, b in zip(held, arrived)
            ] if held else list(arrived)


def h2o(folder, trace, budget, p):
    theirs = load(folder, "h2o_hf/utils_real_drop/modify_llama.py",
                  ["transformers"])
    out, recent = {}, int(p["recent"])
    for layer, blocks in walk(trace, trace.n_heads):
        cache, held = theirs.H2OKVCache_LayerWise(budget - recent, recent), None
        for t, q, k, v in blocks:
            held = joined(held, k, v)
            held = cache(held, attention(q, held[0], trace.scale))
            out.setdefault(layer, {})[t] = kept(held[1])
    return out


def tova(folder, trace, budget, p):
    theirs = load(folder, "src/tova_cache.py", ["transformers"])
    out = {}
    for layer, blocks in walk(trace, trace.n_kv_heads):
        cache, held = theirs.TOVACache(budget), None
        for t, q, k, v in blocks:
            held = joined(held, k, v)
            cache.key_cache, cache.value_cache = [held[0]], [held[1]]
            cache.reduce(0, attention(q, held[0], trace.scale))
            held = [cache.key_cache[0], cache.value_cache[0]]
            out.setdefault(layer, {})[t] = kept(held[1])
    return out


def streaming(folder, trace, budget, p):
    theirs = load(folder, "streaming_llm/kv_cache.py")
    out, sink = {}, int(p["sink"])
    for layer, blocks in walk(trace, trace.n_kv_heads):
        cache, held = theirs.StartRecentKVCache(sink, budget - sink), None
        for t, q, k, v in blocks:
            held, = cache([joined(held, k, v)])
            out.setdefault(layer, {})[t] = kept(held[1])
    return out


def rkv(folder, trace, budget, p):
    """When to compress is the model's code there, ours here: after the prompt,
    and then each `every` steps."""
    utils = load(folder, "rkv/utils.py")
    theirs = load(folder, "rkv/compression/r1_kv.py", made={"theirs": utils})
    out, window = {}, int(p["window"])
    for layer, blocks in walk(trace, trace.n_kv_heads):
        cache = theirs.R1KV(budget, window, int(p["kernel"]),
                            float(p["lambda"]))
        held, q_seen = None, None
        for t, q, k, v in blocks:
            held, q_seen = joined(held, k, v), joined(q_seen, q)
            q_seen = [q_seen[0][:, :, -window:]]
            if (t - trace.prompt_len) % int(p["every"]) == 0:
                held = cache.update_kv(held[0], q_seen[0], held[1])
                out.setdefault(layer, {})[t] = kept(held[1])
    return out


def quest(folder, trace, budget, p):
    """Their forward, by a layer whose projections give the recorded rows, and
    which are not rotated again; the mask is what their function returned."""
    theirs = load(folder, "evaluation/quest_attention.py", ["transformers"],
                  repeat_kv=lambda k, n: k.repeat_interleave(n, 1),
                  apply_rotary_pos_emb=lambda q, k, *_: (q, k))
    chosen, select = [], theirs.local_heavy_hitter_mask
    theirs.local_heavy_hitter_mask = lambda *x: chosen.append(
        select(*x)) or chosen[-1]
    out, d, page = {}, trace.head_dim, int(p["page"])
    for layer, blocks in walk(trace, trace.n_kv_heads):
        if layer < int(p["skip"]):
            continue
        held = None
        for t, q, k, v in blocks:
            flat = {x: y.transpose(1, 2).reshape(1, y.shape[2], -1)
                    for x, y in (("q", q), ("k", k), ("v", v))}
            if held:
                theirs.forward(types.SimpleNamespace(
                    layer_id=layer, num_heads=trace.n_heads, head_dim=d,
                    num_key_value_heads=trace.n_kv_heads, layer_idx=layer,
                    num_key_value_groups=trace.n_heads // trace.n_kv_heads,
                    chunk_size=page, token_budget=budget,
                    hidden_size=trace.n_heads * d,
                    q_proj=lambda _: flat["q"], k_proj=lambda _: flat["k"],
                    v_proj=lambda _: flat["v"], o_proj=lambda x: x,
                    rotary_emb=lambda *_: (None, None),
                ), torch.zeros(1, 1, 1), None, torch.tensor([[t - 1]]),
                    tuple(held))
                out.setdefault(layer, {})[t] = pages(chosen.pop(), page)
            held = joined(held, k, v)
    return out


def pages(mask, page):
    """Pages whose tokens a mask [1, heads, 1, tokens] has."""
    return [[i for i in range(-(-len(x) // page)) if x[i * page]]
            for x in mask[0, :, 0].tolist()]


def twilight_quest(folder, trace, budget, p):
    theirs = load(folder, "twilight/pyimpl/quest.py")
    out, page = {}, int(p["page"])
    for layer, blocks in walk(trace, trace.n_heads):
        if layer < int(p["skip"]):
            continue
        held = None
        for t, q, k, v in blocks:
            decode, held = held, joined(held, k, v)
            if decode:
                mask = theirs.quest_selector(types.SimpleNamespace(
                    num_heads=trace.n_heads), q, held[0], page, budget)
                out.setdefault(layer, {})[t] = pages(mask, page)
    return out


def omnikv(folder, trace, budget, p):
    """The layers below the filter attend what it chose of the prompt, and all
    that was generated; a projection gives the recorded query."""
    llama = StandIn("modeling.offload_select_once")
    vars(llama).update(
        torch=torch, math=math, Tuple=Tuple, Cache=object,
        Optional=Optional, Union=Union, List=List,
        LlamaConfig=object, repeat_kv=lambda k, n: k.repeat_interleave(n, 1),
        apply_rotary_pos_emb=lambda q, k, *_: (q, k), **dict.fromkeys((
            "LlamaDecoderLayer", "LlamaModel", "LlamaForCausalLM",
            "BaseModelOutputWithPast", "CausalLMOutputWithPast"),
            torch.nn.Module))
    llama.__all__ = [x for x in vars(llama) if not x.startswith("__")]
    theirs = load(folder, "modeling/omnikv.py", ["modeling"], {
        "modeling.offload_select_once": llama})
    filters, out = [int(x) for x in p["layers"].split("/")], {}
    every = {layer: blocks for layer, blocks in walk(trace, trace.n_kv_heads)}
    for layer in trace.layers:
        above = [x for x in filters if x < layer]
        if layer in filters or not above:
            continue
        k = every[above[-1]][0][2]
        for t, q, _, _ in every[above[-1]][1:]:
            idx = theirs.select_tokens_by_attn_universal(types.SimpleNamespace(
                config={}, num_heads=trace.n_heads, head_dim=trace.head_dim,
                num_key_value_heads=trace.n_kv_heads, layer_idx=0,
                num_key_value_groups=trace.n_heads // trace.n_kv_heads,
                q_proj=lambda _: q.transpose(1, 2),
                rotary_emb=lambda *_: (0, 0),
                k_proj=lambda _: torch.zeros(1, 1, k.shape[1], k.shape[3])),
                torch.zeros(1, 1, 1), None, types.SimpleNamespace(key_cache=[
                    k]), budget, trace.prompt_len, 0, SELECTORS[p["score"]])
            out.setdefault(layer, {})[t] = [
                [*idx[0].tolist(), *range(trace.prompt_len, t)]] * trace.n_heads
    return out


def duo(folder, trace, budget, p):
    """Which heads stream, then what a stream keeps, fed as its model does."""
    which = load(folder, "duo_attn/utils.py", [
        "accelerate", "matplotlib", "tensor_parallel", "transformers"])
    theirs = load(folder, "duo_attn/patch/static_kv_cache.py",
                  ["transformers"])
    full, _ = which.sparsify_attention_heads(
        made_up(trace, "gates").astype(float), sparsity=float(p["sparsity"]))
    config = types.SimpleNamespace(
        num_hidden_layers=trace.n_layers, num_attention_heads=trace.n_heads,
        num_key_value_heads=trace.n_kv_heads,
        hidden_size=trace.n_heads * trace.head_dim)
    model = types.SimpleNamespace(
        config=config, parameters=lambda: iter([torch.zeros(1)]))
    cache = theirs.DuoAttentionStaticKVCache(
        model, full.tolist(), 1, trace.n_tokens, int(p["sink"]),
        int(p["recent"]))
    out = {}
    for layer, blocks in walk(trace, trace.n_kv_heads):
        streams = [h for h, x in enumerate(full[layer]) if x <= .5]
        held = None
        for t, _, k, v in blocks:
            held = joined(held, k[:, streams], v[:, streams])
            cache.compress_and_replace_streaming_kv(
                layer, *(x.transpose(1, 2) for x in held))
            n = cache.streaming_kv_seq_len_list[layer]
            held = [x[layer][:, :n].transpose(1, 2) for x in (
                cache.streaming_key_states_list,
                cache.streaming_value_states_list)]
            lists = iter(kept(held[1]))
            out.setdefault(layer, {})[t] = [
                next(lists) if h in streams else [*range(t)]
                for h in range(trace.n_kv_heads)]
    return out
