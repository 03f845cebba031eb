# SPDX-License-Identifier: Apache-2.0
"""Presses of kvpress on a recorded prompt of traces/tiny, for
tests/bench/peers.py: the seconds of their own `compress` of all layers, which
scores, ranks and gathers K and V; beside a session of kvreplay fed with the
same rows, less a dense session, which copies them and selects nothing. Both run
in this process. A press makes its queries from hidden states itself; a session
is given them, and gathers nothing: what stays is named, not moved.
"""
import os
import tempfile
import time

import numpy as np
import torch
from kvreplay.hf.text import load
from kvreplay.kvpress import from_press, make_press
from kvreplay.session import Session
from kvreplay.trace import read_trace

TINY = os.path.join(os.path.dirname(__file__), "../../traces/tiny")
MOST_OTHER = 0.02  # share of tokens: scores in bfloat16 tie
SESSIONS = 8  # of one run: some take less than the clock's noise
TRACE, RATIO = "haystack_20_long.safetensors", 0.8
PRESSES = (
    (f"SnapKVPress({RATIO}, 32, 7)", "snapkv:window=32:kernel=7:pooling=avg"),
    (f"TOVAPress({RATIO})", "tova:variant=prefill:protect_newest=yes"),
    (f"StreamingLLMPress({RATIO})",
     "streamingllm:variant=prefill:positions=original"),
    (f"KnormPress({RATIO})", "knorm:variant=prefill:skip=0"),
)


def prompt_of(trace):
    """q, k, v of each layer's prompt. Query rows that the trace has not got are
    zero: no press here looks at them, nor the method beside it."""
    p, out = trace.prompt_len, {}
    for l in trace.layers:
        x, at = trace.layer(l), trace.rows(l)
        q = np.zeros((trace.n_heads, p, trace.head_dim), x["q"].dtype)
        q[:, at[at < p]] = x["q"][:, at < p]
        out[l] = q, x["k"][:, :p].copy(), x["v"][:, :p].copy()
    return out


def open_session(spec, budget, trace, library):
    return Session(
        spec, budget, n_layers=trace.n_layers, n_heads=trace.n_heads,
        n_kv_heads=trace.n_kv_heads, d=trace.head_dim, d_v=trace.value_dim,
        n_tokens=trace.prompt_len + 1, prompt_len=trace.prompt_len,
        dtype="bf16", scale=trace.scale, inv_freq=trace.inv_freq,
        library=library)


def session(spec, budget, trace, rows, library, held=None):
    """Seconds that the prompt takes; held: {layer: [tokens a KV head]}."""
    with open_session(spec, budget, trace, library) as s:
        begin = time.process_time()
        for l, x in rows.items():
            s.block(l, *x)
        took = time.process_time() - begin
        for l in rows if held is not None else ():
            held[l] = [s.lane(l, g)[0] for g in range(trace.n_kv_heads)]
    return took


class Timed:
    """A press whose compress is timed, over the layers of a prompt."""

    def __init__(self, press):
        self.press, self.own, self.took = press, press.compress, 0.0
        press.compress = self.compress

    def compress(self, *args, **kwargs):
        begin = time.process_time()
        out = self.own(*args, **kwargs)
        self.took += time.process_time() - begin
        return out

    def seconds(self, model, ids):
        self.took = 0.0
        with torch.no_grad(), self.press(model):
            model(ids, use_cache=True)
        return self.took


def other(held, lists):
    """The share of the tokens that kvreplay holds and the press does not."""
    pairs = [(x, y) for l in held for x, y in zip(held[l], lists[l])]
    return 1 - (sum(np.isin(x, y).sum() for x, y in pairs) /
                sum(max(len(x), len(y)) for x, y in pairs))


def bench(table, model, trace, rows, folder, text, spec, library):
    p, held = trace.prompt_len, {}
    budget = int(p * (1 - RATIO))
    lists = from_press(model, make_press(text), trace,
                       os.path.join(folder, "press.safetensors"))
    session(spec, budget, trace, rows, library, held)
    error = other(held, {l: x[p] for l, x in lists.items()})
    what = f"{spec.split(':')[0]}, {p} tokens of {os.path.basename(trace.path)}"
    if not table.same(what, error, MOST_OTHER):
        return
    press = Timed(make_press(text))
    ids = torch.as_tensor(np.asarray(trace.tokens[:p], np.int64)[None])
    def ours():
        return sum(session(spec, budget, trace, rows, library)
                   - session("dense", None, trace, rows, library)
                   for _ in range(SESSIONS)) / SESSIONS

    table.line(
        what, ours,
        f"kvpress {text}", lambda: press.seconds(model, ids),
        f"{error:.1%} other tokens" if error else "the same tokens")


def run(table, a):
    trace = read_trace(os.path.join(TINY, TRACE))
    library = os.path.join(a.build, "sim/.libs/libkvreplay.so.0")
    model, _, _ = load(os.path.join(TINY, "model"), None, dtype=torch.bfloat16)
    rows = prompt_of(trace)
    with tempfile.TemporaryDirectory(prefix="kvpeers.") as folder:
        for text, spec in PRESSES:
            bench(table, model, trace, rows, folder, text, spec, library)
