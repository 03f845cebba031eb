# SPDX-License-Identifier: Apache-2.0
"""Presses of kvpress, as once.py: .score and .compress of kvpress/presses/*.py
in the checkout, run on recorded keys and values. In the place of a model's
layer stands one that says the same: the rows' attention, as an eager forward
hands it on, queries before their rotation, turned back by the trace's
frequencies, and an output projection that leaves values as they are, as no
trace holds the model's.

    tova        TOVAPress
    observed    ObservedAttentionPress
    streaming   StreamingLLMPress
    keydiff     KeyDiffPress
    lagkv       LagKVPress
    expected    ExpectedAttentionPress
    chunkkv     ChunkKVPress, of the score of SnapKVPress
    criticalkv  CriticalKVPress, of the same"""

import importlib
import os
import sys
import types

import torch

from checkout import attention, kept, places, prompt


def press(folder, trace, budget, module, name, **options):
    """A press that keeps `budget` tokens of the prompt."""
    sys.path.insert(0, folder)
    theirs = importlib.import_module("kvpress.presses." + module)
    assert os.path.realpath(theirs.__file__).startswith(
        os.path.realpath(folder)), f"kvpress is not that of {folder}"
    return getattr(theirs, name)(
        compression_ratio=1 - (budget + .5) / trace.prompt_len, **options)


def layer_of(trace):
    """What a press asks of a model's layer."""
    angle = torch.from_numpy(trace.inv_freq.copy()).double().repeat(2)
    width = trace.n_heads * trace.head_dim

    def turn(_, position_ids):
        a = position_ids[..., None].double() * angle
        return a.cos().float(), a.sin().float()

    return types.SimpleNamespace(
        head_dim=trace.head_dim, rotary_emb=turn,
        num_key_value_groups=trace.n_heads // trace.n_kv_heads,
        o_proj=types.SimpleNamespace(weight=torch.eye(width)),
        config=types.SimpleNamespace(
            num_attention_heads=trace.n_heads, head_dim=trace.head_dim,
            hidden_size=width))


def run(trace, made, scorer=None):
    """What a press keeps. Scores look at values: so it scores the recorded
    ones, and then compresses some that say where they are from, its scorer
    (another press within it, or itself) repeating what it said."""
    layer, out = layer_of(trace), {}
    scorer = scorer or made
    score = scorer.score
    for l, q, k in prompt(trace):
        v = torch.from_numpy(trace.v(l)[None, :, :trace.prompt_len].copy())
        x = score(layer, q.transpose(1, 2), k, v,
                  attention(q, k, trace.scale), {})
        scorer.score = lambda *_: x
        out[l] = kept(made.compress(layer, None, k, places(k), None, {})[1])
    return out


def tova(folder, trace, budget, p):
    return run(trace, press(folder, trace, budget, "tova_press", "TOVAPress"))


def observed(folder, trace, budget, p):
    return run(trace, press(folder, trace, budget, "observed_attention_press",
                            "ObservedAttentionPress"))


def streaming(folder, trace, budget, p):
    return run(trace, press(folder, trace, budget, "streaming_llm_press",
                            "StreamingLLMPress", n_sink=int(p["sink"])))


def keydiff(folder, trace, budget, p):
    return run(trace, press(folder, trace, budget, "keydiff_press",
                            "KeyDiffPress"))


def lagkv(folder, trace, budget, p):
    return run(trace, press(
        folder, trace, budget, "lagkv_press", "LagKVPress",
        n_sink=int(p["sinks"]), lag_size=int(p["lag"]),
        cross_scoring=p.get("cross") == "yes"))


def expected(folder, trace, budget, p):
    made = press(folder, trace, budget, "expected_attention_press",
                 "ExpectedAttentionPress")

    def back(layer, h):
        q = h.transpose(1, 2)
        n, half = trace.prompt_len, trace.head_dim // 2
        cos, sin = layer.rotary_emb(q, torch.arange(n - q.shape[2], n))
        return q * cos - torch.cat([-q[..., half:], q[..., :half]], -1) * sin

    sys.modules[type(made).__module__].get_prerope_query_states = back
    return run(trace, made)


def snapkv(folder, trace, budget, p):
    return press(folder, trace, budget, "snapkv_press", "SnapKVPress",
                 window_size=int(p["window"]), kernel_size=int(p["kernel"]))


def chunkkv(folder, trace, budget, p):
    """As many chunks as `count=share` has of the same budget; the window is
    whole chunks and the last, short one: no chunk is cut by it."""
    size, window, n = int(p["chunk"]), int(p["window"]), trace.prompt_len
    assert (n - window) % size == 0
    own = -(-window // size)
    chunks = own + (n - window) // size * (budget - window) // (n - window)
    snap = snapkv(folder, trace, budget, p)  # which finds the checkout, too
    snap.compression_ratio = 1 - (chunks + .5) / -(-n // size)
    theirs = importlib.import_module("kvpress.presses.chunkkv_press")
    return run(trace, theirs.ChunkKVPress(snap, size), snap)


def criticalkv(folder, trace, budget, p):
    snap = snapkv(folder, trace, budget, p)
    theirs = importlib.import_module("kvpress.presses.criticalkv_press")
    return run(trace, theirs.CriticalKVPress(
        snap, first_stage_ratio=float(p["first"])))
