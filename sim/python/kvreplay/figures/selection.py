# SPDX-License-Identifier: Apache-2.0
"""How many tokens hold a share of the probability: a layer's rows, and a
trace's summary. command.py explains the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

import numpy as np

from .arith import F4, F8, chain, expm, fix, fma, log, softmax, unfix

if TYPE_CHECKING:
    from ..container import Array
    from ..trace import Trace
    from .command import Row, Rows

ROWS, FROM, BINS = 16, 64, 64
ADAPTERS = "vanilla", "snapkv", "rkv"
SHARES = {60: 629146, 90: 943718}  # percent: RN(share * 2^20)
LAMBDA = F4(0.07)


def chosen(tokens: Array) -> Array:
    """At most 16 rows, evenly spaced from token 64 to the last one."""
    late = tokens[tokens >= FROM]
    n = min(ROWS, len(late))
    return late[(np.arange(n) + 1) * len(late) // max(n, 1) - 1]


def repeated(key: Array, ends: Array) -> Iterator[Array]:
    """R-KV's redundancy of the first n keys, for each n in ends."""
    norm = np.sqrt(chain(key, key))
    u = (key / (norm + F4(1e-8))[:, None]).astype(F8)
    s = u @ u.T
    np.fill_diagonal(s, 0)
    near, s = s > 0.5, np.rint(np.ldexp(s, 24))
    for n in ends:
        rows, sums = np.arange(n), s[:n, :n].sum(1)
        last = n - 1 - near[:n, n - 1::-1].argmax(1) if n else rows
        has = near[rows, last]
        np.subtract.at(sums, last[has], s[rows[has], last[has]])
        yield softmax((np.ldexp(sums.astype(F4), -24) / F4(n))[None])[0]


def prefix(weight: Array, share: Array) -> Array:
    """How many of each row's weights, sorted descending, have the share."""
    sums = weight.cumsum(-1)
    all_ = sums[:, -1]
    target = (all_ >> 20) * share + ((all_ & 0xfffff) * share >> 20)
    return np.minimum((sums < target[:, None]).sum(-1) + 1, len(sums.T))


def weights(less: Array, t: Array) -> Array:
    return fix(expm((less / t[:, None]).astype(F4)))


def mass(weight: Array, first: Array) -> Array:
    part = np.where(first, weight, 0).sum(-1)
    return unfix(part) / unfix(weight.sum(-1))


def temperatures(less: Array, k: Array, want: Array) -> Array:
    """Temperatures at which each row's first k have mass `want` (bisection)."""
    n = np.isfinite(less).sum(-1)
    t = np.ones(len(less), F4)
    at = np.flatnonzero((k < n) & (less.min(-1, where=np.isfinite(less),
                                            initial=0) < 0))
    low, high = np.full((2, len(at)), [[0.001], [1000]], F4)
    t[at] = np.sqrt(low * high)
    first = np.arange(less.shape[1]) < k[:, None]
    for _ in range(59):
        if not len(at):
            break
        over = mass(weights(less[at], t[at]), first[at]) - want[at]
        low = np.where(over > 0, t[at], low)
        high = np.where(over > 0, high, t[at])
        middle = np.sqrt(low * high)
        go = (np.abs(over) > F4(1e-6)) & (middle > low) & (middle < high)
        at, low, high, middle = at[go], low[go], high[go], middle[go]
        t[at] = middle
    return t


def adapted(name: str, z: Array, seen: Array, again: Array) -> Array:
    """An adapter's scores for each row, -inf for tokens that the row does not
    see. again: R-KV's redundancy, 0 for those."""
    if name == "vanilla":
        return z
    if name == "snapkv":
        wide = np.pad(z, ((0, 0), (3, 3)), constant_values=-np.inf)
        g = np.max([wide[:, i:i + z.shape[1]] for i in range(7)], 0)
    else:
        g = fma(LAMBDA - F4(1), again, LAMBDA * softmax(z))
        g -= g.min(-1, where=seen, initial=np.inf, keepdims=True)
        all_ = unfix(np.where(seen, fix(g), 0).sum(-1, keepdims=True))
        g = log(g / np.where(all_ > 0, all_, F4(1)) + F4(1e-10))
    return np.where(seen, g, F4(-np.inf))


def head(q: Array, k: Array, scale: float, tokens: Array) -> tuple[
        Array, dict[tuple[str, int], tuple[Array, ...]]]:
    """For one KV head with queries q[group, rows, d]: each row's log-sum-exp,
    and by adapter and percent the number of tokens before and after
    calibration, the temperatures, and the selected tokens [rows, n]."""
    n, rows = tokens.max() + 1, len(tokens)
    seen = np.arange(n) <= tokens[:, None]
    s = chain(q[..., None, :], k[:n]) * F4(scale) + F4(0)
    s = np.where(np.isfinite(s), s, F4(0)).max(0)
    z = np.where(seen, s, F4(-np.inf))
    again = np.zeros(z.shape, F4)
    for r, x in enumerate(repeated(k, tokens + 1)):
        again[r, :len(x)] = x
    most = z.max(-1, keepdims=True)
    lse = most[:, 0] + log(unfix(fix(expm(z - most)).sum(-1)))
    own = -np.sort(-(z - most), -1)  # descending
    one, out = np.ones(rows, F4), {}
    for name in ADAPTERS:
        g = adapted(name, z, seen, again)
        order = np.argsort(-g, -1, kind="stable")
        less = np.take_along_axis(g - g.max(-1, keepdims=True), order, -1)
        for percent, share in SHARES.items():
            before = prefix(weights(less, one), share)
            t, after = one, before
            if name != "vanilla":
                w = weights(own, one)
                size = prefix(w, share)
                want = mass(w, np.arange(n) < size[:, None])
                t = temperatures(less, size, want)
                after = prefix(weights(less, t), share)
            votes = np.zeros(z.shape, bool)
            np.put_along_axis(votes, order, np.arange(n) < after[:, None], -1)
            out[name, percent] = before, after, t, votes
    return lse, out


def layer(t: Trace, l: int) -> Iterator[Row]:
    q, k, recorded = t.q(l), t.k(l), t.rows(l)
    tokens = chosen(recorded)
    if not len(tokens):
        return
    q, group = q[:, np.searchsorted(recorded, tokens)], t.n_heads // len(k)
    map_ = {}
    for h in range(len(k)):
        lse, found = head(q[h * group:(h + 1) * group], k[h], t.scale, tokens)
        for token, x in zip(tokens.tolist(), lse.tolist()):
            yield "selection.lse", h, "", "", token, 0, x
        for (name, p), (*numbers, votes) in found.items():
            for what, x in zip(("before", "after", "temperature"), numbers):
                for token, y in zip(tokens.tolist(), x.tolist()):
                    yield f"selection.{what}", h, name, "", token, p, y
            map_[name, p] = map_.get((name, p), 0) + votes.astype("<i4")
    bins = np.arange(tokens.max() + 1) * BINS // t.n_tokens
    for (name, p), votes in map_.items():
        for token, x in zip(tokens.tolist(), votes):
            x = np.bincount(bins, x, BINS).astype("<i4")
            yield "selection.map", -1, name, "", token, p, x.tobytes()


def said(name: str, found: Rows) -> Iterator[str]:
    """Means over rows of all heads, at 90 %."""
    yield f"{name}: 90 % of the probability of a row select"
    for adapter in ADAPTERS:
        before, after = (
            found.of(f"selection.{x}", adapter, y=90).values()
            for x in ("before", "after"))
        if before:
            yield (f"  {adapter:8} {sum(before) / len(before):.1f} tokens, "
                   f"calibrated {sum(after) / len(after):.1f}")
