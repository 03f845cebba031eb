# SPDX-License-Identifier: Apache-2.0
"""How unequally heads attend to tokens: a layer's rows, and a trace's summary.
command.py explains the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

import numpy as np

from .arith import F8

if TYPE_CHECKING:
    from ..container import Array
    from ..trace import Trace
    from .command import Row, Rows

FROM, ROWS = 64, 16
SCORES, NORMS = (-36, 0), (-18, 18)  # first and last class
BLOCK = 64  # rows computed at once


def classes(x: Array, first: int, last: int) -> Array:
    edges = 10.0 ** (np.arange(first + 1, last + 1) / 3)
    return np.searchsorted(edges, x, "right") + first


def probabilities(q: Array, k: Array, scale: float, tokens: Array) -> Array:
    """Of queries q[group, rows, d] at these tokens over all tokens in k."""
    s = q @ k.T * scale
    s[:, np.arange(len(k)) > tokens[:, None]] = -np.inf
    e = np.exp(s - s.max(-1, keepdims=True))
    p: Array = e / e.sum(-1, keepdims=True)
    return p


def head(q: Array, k: Array, v: Array, scale: float, tokens: Array) -> tuple[
        list[int], dict[tuple[int, int], int]]:
    """[rows, critical, seen], and tokens by class of score and norm."""
    n, found, sums = len(k), np.zeros(3, np.int64), np.zeros((len(q), len(k)))
    for at in range(0, len(tokens), BLOCK):
        some = tokens[at:at + BLOCK]
        end = some[-1] + 1
        p = probabilities(q[:, at:at + BLOCK], k[:end], scale, some)
        sums[:, :end] += p.sum(1)
        late = some >= FROM
        upto = (-np.sort(-p[:, late], -1)).cumsum(-1)
        few = (upto < 0.95 * upto[..., -1:]).sum(-1) + 1
        found += few.size, few.sum(), len(q) * (some[late] + 1).sum()
    rows = len(tokens) - np.searchsorted(tokens, np.arange(n))
    has = rows >= ROWS
    score = classes(sums.max(0)[has] / rows[has], *SCORES)
    norm = classes(np.sqrt((v * v).sum(-1))[has], *NORMS)
    pairs, counts = np.unique(np.stack([score, norm]), axis=1,
                              return_counts=True)
    return found.tolist(), dict(zip(zip(*pairs.tolist()), counts.tolist()))


def layer(t: Trace, l: int) -> Iterator[Row]:
    q, k, v = (x.astype(F8) for x in (t.q(l), t.k(l), t.v(l)))
    group = t.n_heads // t.n_kv_heads
    for h in range(t.n_kv_heads):
        sums, tokens = head(q[h * group:(h + 1) * group], k[h], v[h], t.scale,
                            t.rows(l))
        for name, x in zip(("rows", "critical", "seen"), sums):
            yield f"attention.{name}", h, "", "", 0, 0, x
        yield "attention.tokens", h, "", "", 0, 0, sum(tokens.values())
        for (a, b), n in tokens.items():
            yield "attention.class", h, "", "", a, b, n


def said(name: str, found: Rows) -> Iterator[str]:
    rows, critical, seen = (sum(found.of(f"attention.{x}").values())
                            for x in ("rows", "critical", "seen"))
    if not rows:
        yield f"{name}: no row sees more than {FROM} tokens"
    else:
        yield (f"{name}: 95 % of the mass of a row needs {critical / rows:.1f} "
               f"of {seen / rows:.1f} tokens")
