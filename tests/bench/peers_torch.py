# SPDX-License-Identifier: Apache-2.0
"""The peers of tests/bench/peers.py that are written with PyTorch alone. Each
works on the rows of the trace, widened to float32 or as the bfloat16 that they
are, and reads K and V once for a group of query heads: as PyTorch is fastest.
"""
import tempfile
import time

import numpy as np
import torch
from kvreplay.trace import read_trace
from peers_kvreplay import Replay

WINDOW, KERNEL, SHARE = 32, 7, 10  # of SnapKV; a tenth of the prompt is kept
ROWS = 16, 64, 256  # query rows a tile of the column sums: the fastest counts


def tensor(x, dtype):
    """A tensor of a trace, of bfloat16 as numpy has it."""
    return torch.from_numpy(x.view("i2").copy()).view(torch.bfloat16).to(dtype)


class Rows:
    """Queries [KV heads, group, tokens, d], K and V of a trace's layers."""

    def __init__(self, trace, dtype):
        self.scale, self.layers = trace.scale, {}
        for l in trace.layers:
            x = {n: tensor(y, dtype) for n, y in trace.layer(l).items()}
            q = x["q"].unflatten(0, (trace.n_kv_heads, -1))
            self.layers[l] = q, x["k"], x["v"]


def timed(work, *args):
    def seconds():
        begin = time.process_time()
        work(*args)
        return time.process_time() - begin

    return seconds


# --- decoding ----------------------------------------------------------------


def decode(rows, first, end):
    """Outputs of steps first..end-1, a list a layer; the query heads of a KV
    head go in as rows of a query, which without a mask is the same."""
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return [
        [sdpa(q[None, :, :, t], k[None, :, : t + 1], v[None, :, : t + 1],
              scale=rows.scale) for t in range(first, end)]
        for q, k, v in rows.layers.values()
    ]


def together(rows, first, end):
    """The same in one call a layer, which only a replay can make: it knows the
    queries of later steps. What a step does not see yet is masked."""
    sdpa = torch.nn.functional.scaled_dot_product_attention
    seen = torch.ones(end - first, end, dtype=torch.bool).tril(first)
    return [
        sdpa(q[None, :, :, first:end].flatten(1, 2), k[None, :, :end],
             v[None, :, :end], seen, scale=rows.scale, enable_gqa=True)
        for q, k, v in rows.layers.values()
    ]


def error_of(got, want):
    """The largest difference, as a share of the largest output."""
    want = torch.from_numpy(want.copy())
    return ((got.float() - want).abs().max() / want.abs().max()).item()


def error_of_decoding(rows, first, trace, outputs):
    ends = rows, first, trace.n_tokens
    worst = [0]
    for l, one, all_ in zip(trace.layers, decode(*ends), together(*ends)):
        one = torch.stack([x[0].flatten(0, 1) for x in one], 1)
        worst += [error_of(x, outputs[l]) for x in (one, all_[0])]
    return max(worst)


def bench_decode(table, a, replay):
    tokens = a.tokens + a.steps
    path = replay.synth(a.tokens, tokens)
    trace = read_trace(path)
    outputs = replay.outputs(path, "dense")
    for name, dtype, most in (("fp32", torch.float32, 1e-5),
                              ("bf16", torch.bfloat16, 2e-2)):
        what, rows = f"dense, {a.steps - 1} steps", Rows(trace, dtype)
        error = error_of_decoding(rows, a.tokens, trace, outputs)
        if not table.same(f"{what}, {name}", error, most):
            continue
        for how, work in (("a step a call", decode),
                          ("all steps a call", together)):
            table.line(what, lambda: replay.decoding(path, tokens),
                       f"torch {name}, {how}",
                       timed(work, rows, a.tokens, tokens - 1),
                       f"outputs within {error:.1g}")


# --- column sums -------------------------------------------------------------


def sums_of_head(q, k, scale, rows):
    """Column sums of the causal probabilities of a group's queries over their
    own n tokens; `rows` query rows at a time, each tile over the keys that its
    last row sees."""
    group, n, d = q.shape
    out = torch.zeros(n)
    hidden = torch.full((rows, rows), -torch.inf).triu(1)
    for first in range(0, n, rows):
        end = min(first + rows, n)
        m = end - first
        s = (q[:, first:end].reshape(-1, d) @ k[:end].T).mul_(scale)
        s.view(group, m, end)[:, :, first:] += hidden[:m, :m]
        out[:end] += s.softmax(-1).sum(0)
    return out


def column_sums(rows, n, tile):
    return [[sums_of_head(q[g, :, :n], k[g, :n], rows.scale, tile)
             for g in range(len(k))] for q, k, _ in rows.layers.values()]


def cut(score, kept, count):
    """By how much the worst score that kvreplay kept is below the best that it
    dropped, as a share of that: 0 where both select the same."""
    held = torch.zeros(len(score), dtype=torch.bool)
    held[torch.as_tensor(np.asarray(kept, np.int64))] = True
    if held.sum() != count:
        return 1.0
    worst, best = score[held].min(), score[~held].max()
    return max(0.0, ((best - worst) / best).item())


def bench_sums(table, a, replay):
    n = a.tokens
    path = replay.synth(n, n + 1)
    rows = Rows(read_trace(path), torch.float32)
    budget, what = n // SHARE, f"h2o, column sums of {n} rows"
    kept = replay.kept(path, "h2o:variant=prefill:recent=0", budget)
    error = max(cut(s, x, budget) for sums, lists in
                zip(column_sums(rows, n, ROWS[-1]), kept.values())
                for s, x in zip(sums, lists))
    if not table.same(what, error, 1e-4):
        return
    best = min(ROWS, key=lambda x: timed(column_sums, rows, n, x)())
    table.line(what, lambda: replay.prompt(path, n + 1, "h2o", budget),
               f"torch fp32, tiles of {best} rows",
               timed(column_sums, rows, n, best),
               f"its top {budget} by torch's sums within {error:.1g}")


# --- SnapKV ------------------------------------------------------------------


def votes(q, k, scale):
    """Scores of the tokens before the window, [KV heads, tokens]: the mean over
    the group of what the last queries look at, the largest of neighbours."""
    n, (heads, group) = k.shape[1], q.shape[:2]
    s = q[:, :, n - WINDOW : n].flatten(1, 2) @ k.mT * scale
    s = s.view(heads, group, WINDOW, n)
    s[..., n - WINDOW :] += torch.full((WINDOW, WINDOW), -torch.inf).triu(1)
    vote = s.softmax(-1)[..., : n - WINDOW].sum(2).mean(1)
    return torch.nn.functional.max_pool1d(vote, KERNEL, 1, KERNEL // 2)


def select(rows, n, budget):
    return [votes(q, k[:, :n], rows.scale).topk(budget - WINDOW).indices
            for q, k, _ in rows.layers.values()]


def bench_snapkv(table, a, replay):
    n = a.tokens
    path = replay.synth(n, n + 1)
    rows = Rows(read_trace(path), torch.float32)
    budget, what = n // SHARE, f"snapkv's selection, {n} tokens"
    spec = f"snapkv:window={WINDOW}:kernel={KERNEL}"
    kept, error = replay.kept(path, spec, budget), 0
    for (q, k, _), lists in zip(rows.layers.values(), kept.values()):
        for score, x in zip(votes(q, k[:, :n], rows.scale), lists):
            past = [t for t in x if t < n - WINDOW]
            error = max(error, cut(score, past, budget - WINDOW))
    if table.same(what, error, 1e-4):
        table.line(what, lambda: replay.prompt(path, n + 1, spec, budget),
                   "torch fp32", timed(select, rows, n, budget),
                   f"by torch's scores within {error:.1g}")


@torch.no_grad()
def run(table, a):
    parts = {"decode": bench_decode, "sums": bench_sums, "snapkv": bench_snapkv}
    with tempfile.TemporaryDirectory(prefix="kvpeers.") as folder:
        replay = Replay(a.build, folder)
        for name in parts:
            if name in a.only:
                parts[name](table, a, replay)
