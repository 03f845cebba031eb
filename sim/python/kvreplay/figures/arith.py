# SPDX-License-Identifier: Apache-2.0
"""The canonical arithmetic (ref/ground/arith.h) on numpy arrays, for figures
that need its exact bits: the last bit changes how many tokens pass a threshold,
or which of two neighbors is nearer. A fused multiply-add is computed in
binary64 and rounded again, which differs in one case of 10^8. Needs numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..container import Array

F4, F8 = np.float32, np.float64
_EXP = [float.fromhex(x) for x in (
    "0x1.6a523ap-10", "0x1.12396ep-7", "0x1.5558aap-5", "0x1.555492p-3",
    "0x1.fffffcp-2", "1", "1")]  # fmt: skip
_LOG = [float.fromhex(x) for x in (
    "-0x1.07d518p-3", "0x1.1e699p-3", "-0x1.f32c66p-4", "0x1.1ed606p-3",
    "-0x1.559c8cp-3", "0x1.99d048p-3", "-0x1.fffefap-3", "0x1.555506p-2",
    "-0x1p-1")]  # fmt: skip


def fma(a: Any, b: Any, c: Any) -> Array:
    """a b + c in binary32, rounded once."""
    return (np.multiply(a, b, dtype=F8) + c).astype(F4)


def horner(terms: list[float], x: Array) -> Array:
    y: Any = F4(terms[0])
    for term in terms[1:]:
        y = fma(y, x, F4(term))
    return y


def expm(x: Array) -> Array:
    """exp(x) for x <= 0; +0 below -87."""
    low, x = x < -87, np.maximum(x, F4(-87))
    n = np.rint(fma(x, F4(float.fromhex("0x1.715476p+0")), 0))
    r = fma(n, -F4(float.fromhex("0x1.62e4p-1")), x)
    r = fma(n, -F4(float.fromhex("0x1.7f7d1cp-20")), r)
    return np.where(low, F4(0), np.ldexp(horner(_EXP, r), n.astype(np.int32)))


def log(x: Any) -> Array:
    """log(x) for positive normal numbers."""
    m, e = np.frexp(np.asarray(x, F4))  # m in [1/2, 1)
    low = m < F4(2 / 3)
    m, e = np.where(low, 2 * m, m), e - low
    f = (m - F4(1)).astype(F4)
    q = fma(horner(_LOG, f), (f * f).astype(F4), f)
    return fma(e.astype(F4), F4(float.fromhex("0x1.62e43p-1")), q)


def fix(p: Array, bits: int = 40) -> Array:
    """RN(p 2^bits), integers."""
    return np.rint(np.ldexp(p.astype(F8), bits)).astype(np.int64)


def unfix(s: Any, bits: int = 40) -> Array:
    """RN32(s) 2^-bits."""
    return np.ldexp(np.asarray(s).astype(F4), -bits)


def chain(a: Array, b: Array) -> Array:
    """Dot products of the rows of a and b, each one chain of fma."""
    a, b = (np.ascontiguousarray(np.moveaxis(x, -1, 0), F8) for x in (a, b))
    out: Any = F4(0)
    for x, y in zip(a, b):
        out = (x * y + out).astype(F4)
    return out


def softmax(s: Array) -> Array:
    """Probabilities of each row; 0 where s is -inf (arithmetic 4)."""
    e = expm(s - s.max(-1, keepdims=True))
    return e * (F4(1) / unfix(fix(e).sum(-1, keepdims=True)))
