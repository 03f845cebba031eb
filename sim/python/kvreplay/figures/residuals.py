# SPDX-License-Identifier: Apache-2.0
"""How alike a trace's tokens are: a layer's rows, and a trace's summary.
command.py explains the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

import numpy as np

from ..container import bfloat16, widen
from ..need import need
from .arith import F4, F8, chain, fma

if TYPE_CHECKING:
    from ..container import Array
    from ..trace import Trace
    from .command import Row, Rows
    from .weights import Weights

FROM, SINKS, MOST, FAR = 16, 8, 8, 16
STRIDES, KS, TEN = (1, 5, 10, 20, 40), (1, 2, 4, 8), 2  # STRIDES[TEN] is 10
SPACES = {"kv": "K and V by distance", "k": "K by cosine"}
CODINGS = {"deltas": "anchors and deltas", "tokens": "tokens as they are"}
BLOCK = 256  # tokens compared at once
M64 = 2**64 - 1


def check(t: Trace) -> None:
    n = t.n_tokens
    need(n > FROM, t.path + f" has {n} token" + "s" * (n > 1),
         f"only those from token {FROM + 1} on are compared with earlier ones; "
         "give a longer trace")
    need(t.inv_freq is not None, t.path, "keys before their rotation need "
         "rope.inv_freq, which the trace does not have; record it again with "
         "the model's frequencies")


# --- tokens ---

def flat(x: Array) -> Array:
    """[heads, tokens, d] as [tokens, heads * d]."""
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def turned_back(t: Trace, k: Array) -> Array:
    """Keys before RoPE (ref/ground/rope.h)."""
    at = np.arange(t.n_tokens) if t.positions is None else t.positions
    angle = (at.astype(F4)[:, None] * t.inv_freq).astype(F8)
    s, c = np.sin(angle).astype(F4), np.cos(angle).astype(F4)
    i = np.arange(k.shape[-1] // 2)
    paired = t.metadata.get("rope.layout") == "interleaved"
    i, j = (2 * i, 2 * i + 1) if paired else (i, i + len(i))
    out = np.empty(k.shape, F4)
    out[..., i] = fma(k[..., j], s, k[..., i] * c)
    out[..., j] = fma(-k[..., i], s, k[..., j] * c)
    return out


def is_reference(token: Array, stride: int) -> Array:
    return (token < SINKS) | (token % stride == 0)


def nearest(x: Array, cosine: bool, where: str) -> Array:
    """[strides, tokens, 8]: the nearest earlier references of each stride,
    nearest first, -1 for missing ones. Computed in binary64. Tokens whose
    distances are equal up to rounding are ordered in binary32, like DeltaKV: by
    RN(b.b - 2 a.b), then by position."""
    n, out = len(x), np.full((len(STRIDES), len(x), MOST), -1)
    if cosine:
        norm = np.sqrt((x.astype(F8) ** 2).sum(1))
        x = (x / np.where(norm > 0, norm, 1)[:, None]).astype(F4)
    own = np.zeros(n, F4) if cosine else chain(x, x)
    wide = x.astype(F8)
    square = (wide * wide).sum(1)
    length, b = np.sqrt(square), 0 if cosine else square
    token = np.arange(n)
    takes = [is_reference(token, s) for s in STRIDES]
    for first in range(FROM, n, BLOCK):
        row = token[first:first + BLOCK]
        end = row[-1]
        rank = b - 2 * (wide[row] @ wide.T) + np.where(
            token < row[:, None], 0, np.inf)
        off = 2.0**-17 * (2 * np.outer(length[row], length) + b)
        near = np.zeros(rank.shape, bool)
        for take in takes:
            at = np.flatnonzero(take[:end])
            most = (rank + off)[:, at]
            if len(at) > MOST:
                most = np.partition(most, MOST - 1)[:, MOST - 1:MOST]
            near[:, at] |= (rank - off)[:, at] <= most
        i, j = np.nonzero(near & (rank < np.inf))
        dot = chain(x[row][i], x[j])
        exact = own[j] - 2 * dot
        order = np.lexsort((j, exact, i))
        order = order[np.isfinite(exact[order])]
        i, j = i[order], j[order]
        bad = np.setdiff1d(row, row[i])
        need(not len(bad), where, "no distance of token ", *bad[:1], " to an "
             "earlier one is finite: its keys and values are too large to "
             "compare")
        for s, take in enumerate(takes):
            a, c = i[take[j]], j[take[j]]
            place = np.arange(len(a)) - np.searchsorted(a, a)
            some = place < MOST
            out[s, row[a[some]], place[some]] = c[some]
    return out


def mix(x: int) -> int:
    """One step of splitmix64."""
    x = x + 0x9e3779b97f4a7c15 & M64
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & M64
    x = (x ^ x >> 27) * 0x94d049bb133111eb & M64
    return x ^ x >> 31


def drawn(layer: int, token: int) -> int:
    """A pseudorandom earlier token from 16 on. For token 16: token 0."""
    x = mix(mix(1 + layer) + token & M64)
    return FROM + x % (token - FROM) if token > FROM else 0


def means(x: Array, near: Array) -> Iterator[Array]:
    """For each token, the mean of the first 1, 2, .. entries of its list."""
    total, n = np.zeros((len(near), x.shape[1])), np.zeros((len(near), 1))
    for at in near.T:
        total += np.where(at[:, None] >= 0, x[at], 0)
        n += at[:, None] >= 0
        yield total / np.maximum(n, 1)


# --- numbers ---

def counted(c: Array, first: int, n: int) -> Iterator[tuple[int, int]]:
    """(class, count); the first and the last class include all beyond."""
    found = np.bincount((np.clip(np.floor(c), first, first + n - 1) - first)
                        .astype(np.int64).ravel())
    for i in np.flatnonzero(found).tolist():
        yield first + i, int(found[i])


def spectrum(rows: Array) -> Iterator[tuple[int, float, float]]:
    """How squares spread over uncentered principal directions, largest first:
    (i, share of i, share of the first i); i = 1, 2, 3, 4, 6, 8, .., last."""
    value = np.maximum(np.linalg.eigvalsh(rows.T @ rows)[::-1], 0)
    if not value.sum() > 0:
        return
    value /= value.sum()
    steps = {1, len(value)} | {x for i in range(1, 31)
                               for x in (1 << i, (1 << i) + (1 << i - 1))}
    for i in sorted(x for x in steps if x <= len(value)):
        yield i, float(value[i - 1]), float(value[:i].sum())


def left(space: str, kind: str, rows: Array, raw: float, unit: float,
         spectra: bool = True) -> Iterator[Row]:
    """Statistics of residuals. raw: the sum of squares of their tokens."""
    if not len(rows):
        return
    square = (rows * rows).sum(1)
    norm = np.sqrt(square)
    at = -1, space, kind
    yield "residual.tokens", *at, 0, 0, len(rows)
    yield "residual.norm", *at, 0, 0, float(norm.mean())
    yield "residual.share", *at, 0, 0, float(square.sum() / (raw or np.inf))
    quarter = 4 * np.log2(np.maximum(norm, 1e-300))
    for name, x in (("norm", counted(quarter, -64, 128)),
                    ("value", counted(8 * rows / unit, -40, 80))):
        for c, n in x:
            yield f"class.{name}", *at, c, 0, n
    for i, share, total in spectrum(rows) if spectra else ():
        yield "spectrum.share", *at, i, 0, share
        yield "spectrum.total", *at, i, 0, total


def by_octave(token: Array, missed: Array, raw: Array
              ) -> Iterator[tuple[int, float]]:
    """(octave, share of the squares missed), by a token's position."""
    octave = np.log2(token).astype(np.int64)
    missed, raw = np.bincount(octave, missed), np.bincount(octave, raw)
    for c in np.flatnonzero(raw > 0).tolist():
        yield c, float(missed[c] / raw[c])


def alike(space: str, x: Array, near: Array, layer: int) -> Iterator[Row]:
    """How tokens x relate to their nearest earlier tokens."""
    token = np.arange(FROM, len(x))
    rows, near = x[FROM:], near[:, FROM:]
    first = near[0, :, 0]
    raw = (rows * rows).sum(1)
    length = np.sqrt(raw * (x[first] ** 2).sum(1))
    cosine = (rows * x[first]).sum(1) / np.where(length > 0, length, np.inf)
    for name, value in (
            ("tokens", len(token)), ("far", int((token - first > FAR).sum())),
            ("close", int((cosine > 0.9).sum())),
            ("chance", float(((token - FAR) / token).mean()))):
        yield f"nearest.{name}", -1, space, "", 0, 0, value
    for name, c in (("distance", counted(np.log2(token - first), 0, 31)),
                    ("cosine", counted(20 * cosine, -20, 40))):
        for at, n in c:
            yield f"class.{name}", -1, space, "nearest", at, 0, n
    unit = float(np.sqrt(raw.mean() / x.shape[1])) or 1.0
    lots = [drawn(layer, t) for t in token.tolist()]
    for kind, less in (("raw", 0), ("nearest", x[first]), ("random", x[lots])):
        yield from left(space, kind, rows - less, raw.sum(), unit)
    if space == "k":
        return
    mean = [*means(x, near[TEN])][3]
    plain = ~is_reference(token, 10)
    less = (rows - mean)[plain]
    yield from left(space, "references", less, raw[plain].sum(), unit)
    for c, share in by_octave(token[plain], (less * less).sum(1), raw[plain]):
        yield "missed", -1, "10", "4", c, 0, share
    plain = ~is_reference(token, STRIDES[1])
    all_ = raw[plain].sum()
    for i, stride in enumerate(STRIDES):
        for k, mean in enumerate(means(x, near[i]), 1):
            if k in KS:
                less = (rows - mean)[plain]
                share = (less * less).sum() / all_ if all_ > 0 else 0
                yield "missed", -1, str(stride), str(k), -1, 0, float(share)


def rebuilt(w: Weights, layer: int, x: Array, near: Array, own: bool
            ) -> Iterator[Row]:
    """The error of non-reference tokens rebuilt by a compressor. own: the file
    is beside the trace, so its latent vectors are measured, too."""
    token = np.arange(FROM, len(x))
    token = token[~is_reference(token, 10)]
    if layer not in w.layers or not len(token):
        return
    mean, rows = [*means(x, near[TEN, token])][3], x[token]
    raw = (rows * rows).sum(1)
    code = w.code(layer, rows)
    z = code - w.code(layer, mean)
    if own:
        unit = float(np.sqrt((z * z).mean()))
        yield from left("kv", "z", z, raw.sum(), unit or 1.0, False)
        yield from sizes(token, np.abs(z) / (unit or np.inf))
    for way, made in (("nearest", w.decode(layer, z) + mean),
                      ("none", w.decode(layer, code))):
        missed = ((rows - made) ** 2).sum(1)
        share = missed.sum() / raw.sum() if raw.sum() > 0 else 0
        yield "rebuilt", -1, w.digest, way, -1, 0, float(share)
        for c, share in by_octave(token, missed, raw):
            yield "rebuilt", -1, w.digest, way, c, 0, share


def sizes(token: Array, z: Array) -> Iterator[Row]:
    """The mean of |z| in up to 32 ranges of tokens and 64 of elements, in
    thousandths: figure 4 (a) of DeltaKV's paper."""
    n = [min(z.shape[0], 32), min(z.shape[1], 64)]
    edge = [np.arange(y + 1) * x // y for x, y in zip(z.shape, n)]
    for i in 0, 1:
        z = np.add.reduceat(z, edge[i][:-1], i) / np.expand_dims(
            np.diff(edge[i]), 1 - i)
    for first, row in zip(token[edge[0][:-1]].tolist(), z):
        yield "latent.size", -1, "kv", "z", first, 0, np.floor(
            1000 * row + 0.5).astype("<i4").tobytes()


# --- entropy ---

def quantised(x: Array, bins: int) -> tuple[Array, Array]:
    """Codes, 0 .. 2 C, and the decoded values."""
    c = bins // 2 - 1
    most = np.abs(x).max(-1, keepdims=True)
    scale = widen(bfloat16(most.astype(F4))).astype(F8)
    code = np.clip(np.rint(x * c / np.where(scale > 0, scale, np.inf)), -c, c)
    return (code + c).astype(np.int64), code * scale / c


def bits(code: Array) -> float:
    """Entropies of the channels' codes in bits: n log n - sum of c log c."""
    n, width = code.shape
    count = np.bincount((code + 256 * np.arange(width)).ravel()).astype(F8)
    count = count[count > 0]
    return float((width * n * np.log(max(n, 1)) - (count * np.log(count)).sum())
                 / np.log(2))


def entropy(part: str, x: Array, layer: int, layers: int) -> Iterator[Row]:
    """Entropies of keys or values, with tokens as rows."""
    fine = max(layers // (3 if part == "k" else 16), 1)
    bins, (n, width) = 32 if layer < fine else 16, x.shape
    anchor, base = quantised(x[::10], 256)
    follows, at = np.arange(n) % 10 > 0, np.arange(n) // 10
    for coding in CODINGS:
        if coding == "tokens":
            code, read = quantised(x, bins)
            need_, tables = bits(code), bins
        else:
            code, read = quantised((x - base[at])[follows], bins)
            read, some = base[at], read
            read[follows] += some
            need_, tables = bits(code) + bits(anchor), bins + 256
        whole = (x * x).sum()
        for name, value in (
                ("bins", bins), ("elements", n * width),
                ("bits", need_ / (n * width)), ("scales", 16 / width),
                ("tables", 16 * tables / n),
                ("error", float(((x - read) ** 2).sum() / (whole or np.inf)))):
            yield f"entropy.{name}", -1, part, coding, 0, 0, value


def layer(t: Trace, l: int, files: list[Weights]) -> Iterator[Row]:
    k, v = t.k(l), t.v(l)
    x = np.concatenate([flat(turned_back(t, k)), flat(v)], 1)
    for space in SPACES:
        some = x if space == "kv" else x[:, :k.shape[0] * k.shape[2]]
        near = nearest(some, space == "k", t.path)
        yield from alike(space, some.astype(F8), near, l)
        for w in files if space == "kv" else ():
            yield from rebuilt(w, l, some.astype(F8), near, w.beside)
    for part, y in (("k", k), ("v", v)):
        yield from entropy(part, flat(y).astype(F8), l, t.n_layers)


# --- what is printed ---

def said(name: str, found: Rows, files: Any = ()) -> Iterator[str]:
    """Means over layers."""
    def mean(figure: str, series: str, part: str = "", x: int = 0) -> float:
        of = found.of(figure, series, part, x)
        return float(sum(of.values()) / len(of)) if of else 0

    yield f"{name}:"
    for s, how in SPACES.items():
        n, far, close = (sum(found.of(f"nearest.{x}", s).values())
                         for x in ("tokens", "far", "close"))
        yield (f"  nearest of {how}: {100 * far / n:.1f} % more than {FAR} "
               f"tokens back ({100 * mean('nearest.chance', s):.1f} % of all "
               f"earlier ones are), {100 * close / n:.1f} % with a cosine above"
               f" 0.9, squares left {mean('residual.share', s, 'nearest'):.3f} "
               f"(without a random one "
               f"{mean('residual.share', s, 'random'):.3f})")
    yield ("  mean of 4 references of stride 10: squares left "
           f"{mean('missed', '10', '4', -1):.3f}")
    for coding, what in CODINGS.items():
        k, v = (mean("entropy.bits", x, coding) for x in "kv")
        a, b = (mean("entropy.error", x, coding) for x in "kv")
        yield (f"  entropy of {what}: {k:.2f} bits an element of K, {v:.2f} of "
               f"V (squares missed {a:.2g}, {b:.2g})")
    for w in files:
        a, b = (mean("rebuilt", w.digest, x, -1) for x in ("nearest", "none"))
        of = (f"{b:.4f} (without references, as it learned)" if w.alone else
              f"{a:.4f} (without references, with which it learned, {b:.4f})")
        if found.of("rebuilt", w.digest, "none", -1):
            yield (f"  {w.name}, latent {w.latent}, hidden {w.hidden}: squares "
                   f"left {of}")
