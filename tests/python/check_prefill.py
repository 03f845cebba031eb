# SPDX-License-Identifier: Apache-2.0
"""kvtrace prefill, recomputed in binary64 from a trace's q and k by numpy, in
other words than the program's: whole matrices of probabilities and masks.

    check_prefill.py TRACE BLOCK SHARE FIGURES MAP LAYER

FIGURES: of `kvtrace prefill -b BLOCK -s SHARE -f csv TRACE`; MAP: of the same
with --map LAYER. The fewest pairs are the same number, or one more or less
where the share falls between two that rounding cannot tell apart; masses are
within 1e-5, and a pattern's within 1e-5 of the one of a number of pairs that is
the program's. Exit 1, with the first place, where they are not."""

import csv
import sys

import numpy as np
from kvreplay.trace import read_trace

path, block, share, figures, maps, shown = sys.argv[1:]
block, share, shown = int(block), int(share), int(shown)
trace = read_trace(path)
n, group = trace.prompt_len, trace.n_heads // trace.n_kv_heads
blocks = -(-n // block)
of_block = np.arange(n) // block
near = np.arange(n)[:, None] - np.arange(n)[None, :]


def probabilities(q, k, window, cap, sink):
    s = q @ k.T * np.float64(np.float32(trace.scale))
    if cap:
        s = cap * np.tanh(s / cap)
    seen = near >= 0 if not window else (near >= 0) & (near < window)
    s = np.where(seen, s, -np.inf)
    top = np.maximum(s.max(1), sink)
    e = np.exp(s - top[:, None])
    return e / (e.sum(1) + np.exp(sink - top))[:, None], seen


def by_blocks(rows):
    """Sums of [n, n] over pairs of blocks."""
    ends = np.arange(0, n, block)
    return np.add.reduceat(np.add.reduceat(rows, ends, 0), ends, 1)


def means(x):
    return np.stack([x[b:b + block].mean(0) for b in range(0, n, block)])


def lines(sums):
    """Which lines of a kind come first, and from which gamma on."""
    mass = np.add.reduceat(sums, np.arange(0, n, block))
    mass[0] = np.inf
    largest = np.concatenate([[0], np.cumsum(np.sort(sums)[::-1])])
    gate = [largest[max(0, r * block - 1)] for r in range(blocks)]
    return list(zip(gate, np.argsort(-mass, kind="stable")))


def downwards(*masks):
    """Pairs of masks in turn, the last query block's first, each once."""
    order = {}
    for mask in masks:
        for i in range(blocks - 1, -1, -1):
            for j in np.flatnonzero(mask[i]):
                order[i, int(j)] = None
    return list(order)


def vertical_slash(p, q, k, visible):
    last = p[max(0, n - block):]
    distance = near[max(0, n - block):]
    slash = np.zeros(n)
    np.add.at(slash, distance[distance >= 0], last[distance >= 0])
    # at the same gamma columns come first
    ways = sorted([(g, 1, r, i) for r, (g, i) in enumerate(lines(slash))]
                  + [(g, 0, r, i) for r, (g, i) in
                     enumerate(lines(last.sum(0)))])
    row, column = np.indices((blocks, blocks))
    return downwards(*[visible & ((row - column if kind else column) == i)
                       for g, kind, r, i in ways])


def a_shape(p, q, k, visible):
    row, column = np.indices((blocks, blocks))
    return downwards(visible & (column == 0),
                     *[visible & (row - column == d) for d in range(blocks)])


def block_topk(p, q, k, visible):
    score = np.where(visible, means(q) @ means(k).T, -np.inf)
    rank = np.argsort(np.argsort(-score, 1, kind="stable"), 1)
    return downwards(*[visible & (rank == r) for r in range(blocks)])


def close(what, ours, theirs, by=1e-5):
    if abs(ours - theirs) > by:
        sys.exit(f"{path}: {what}: {theirs}, recomputed {ours}")


drawn = {}
with open(maps) as file:
    for r in csv.DictReader(file):
        drawn[int(r["head"]), int(r["query_block"]), int(r["key_block"])] = \
            float(r["mass"])
        assert int(r["layer"]) == shown
rows = np.array([(of_block == b).sum() for b in range(blocks)])
looked = 0
with open(figures) as file:
    for r in csv.DictReader(file):
        layer, h = int(r["layer"]), int(r["head"])
        where = f"layer {layer}, head {h}"
        q = trace.q(layer)[h, :n].astype(np.float64)
        k = trace.k(layer)[h // group, :n].astype(np.float64)
        sinks = trace.sinks(layer)
        p, seen = probabilities(q, k, trace.windows[layer], trace.softcap,
                                -np.inf if sinks is None else float(sinks[h]))
        mass = by_blocks(p)
        visible = by_blocks(seen) > 0
        if int(r["pairs"]) != visible.sum():
            sys.exit(f"{path}: {where}: {visible.sum()} pairs: {r}")
        needed = int(r["needed"])
        largest = np.cumsum(np.sort(mass[visible])[::-1]) / mass.sum()
        assert largest[needed - 1] >= share / 100 - 1e-6, (where, r)
        assert needed == 1 or largest[needed - 2] < share / 100 + 1e-6, (
            where, r)
        for pattern in vertical_slash, a_shape, block_topk:
            order = pattern(p, q, k, visible)
            assert len(order) == visible.sum(), (where, pattern)
            kept = sum(mass[at] for at in order[:needed]) / mass.sum()
            close(f"{where}, {pattern.__name__}", kept,
                  float(r[pattern.__name__]))
        if layer == shown:
            for i, j in zip(*np.nonzero(visible)):
                close(f"{where}, pair {i} {j}", mass[i, j] / rows[i],
                      drawn.pop((h, int(i), int(j))))
        looked += 1
assert looked and not drawn, (looked, len(drawn))
