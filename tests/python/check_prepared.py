# SPDX-License-Identifier: Apache-2.0
"""Prepared rows of ref/FORMATS.md again, in numpy, from that page alone.

check_prepared.py FOLDER TINY, with KVREPLAY in the environment. Rows of TINY
and of three traces that are made here get a shift and a rotation, are coded as
int4 and q4_0, and are read back. Codes, scales, minima and rows read must be
those of `kvreplay vectors`, to the bit. Every result is also compared with the
rule of the next specification, and must differ.
"""

import json
import math
import os
import subprocess
import sys
from typing import Any, Optional

import numpy as np
from kvreplay import container

Array = Any  # of numpy
Coded = dict[str, Array]
FOLDER, TINY = sys.argv[1:]
KVREPLAY = os.environ["KVREPLAY"]
np.seterr(all="ignore")
f4 = np.float32

# --- arithmetic -------------------------------------------------------------


def fma(a: Array, b: Array, c: Array) -> Array:
    """a b + c, rounded once: the product is exact in binary64, and the sum is
    rounded to odd there, so that rounding again to binary32 changes nothing."""
    p, c = a.astype("f8") * b.astype("f8"), c.astype("f8")
    s = p + c
    t = s - p
    lost = (p - (s - t)) + (c - t)
    bits = s.copy().view("i8")
    bits += np.where(
        (lost != 0) & (bits & 1 == 0), np.where((lost > 0) == (s > 0), 1, -1), 0
    )
    return bits.view("f8").astype(f4)


def half(x: Array) -> Array:
    return x.astype("f2").astype(f4)


def turn(x: Array, table: tuple[Array, ...], back: bool) -> Array:
    """Rows x by the sines and cosines of their positions."""
    sine, cosine, moves, first, second = table
    x1, x2 = x[:, first], x[:, second]
    y = x.copy()
    a, b = (x2, -x1) if back else (-x2, x1)
    y[:, first] = fma(a, sine, x1 * cosine)
    if back:
        y[:, second] = fma(b, sine, x2 * cosine)
    else:
        y[:, second] = fma(x2, cosine, x1 * sine)
    return np.where(moves[:, None], y, x)


def hadamard(x: Array) -> Array:
    width = x.shape[1]
    n = width & -width
    h = 1
    while h < n:
        pairs = x.reshape(len(x), -1, 2, h)
        low, high = pairs[:, :, :1], pairs[:, :, 1:]
        x = np.concatenate([low + high, low - high], 2).reshape(len(x), width)
        h *= 2
    return x * f4(1 / math.sqrt(n)) if n > 1 else x


# --- formats ----------------------------------------------------------------


def key(x: Array) -> Array:
    """The order of arithmetic 2, in which -0 is below 0."""
    bits = x.view("i4").astype("i8")
    return np.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)


def int4(x: Array) -> Coded:
    least = np.take_along_axis(x, key(x).argmin(1)[:, None], 1)
    r = (x.max(1)[:, None] - least) / f4(15)
    s, m = half(r), half(least)
    codes = np.rint(np.clip((x - least) * (f4(1) / r), f4(0), f4(15)))
    codes = np.where(s == 0, f4(0), codes)
    return dict(codes=codes, scales=s, minima=m, read=fma(codes, s, m))


def q4_0(x: Array) -> Coded:
    codes, scales, read = [], [], []
    for at in range(0, x.shape[1], 32):
        b = x[:, at : at + 32]
        most = np.take_along_axis(b, np.abs(b).argmax(1)[:, None], 1)
        d = np.where(most == 0, f4(0), most) / f4(-8)
        i = f4(1) / d
        i = np.where(np.isfinite(i), i, f4(0))
        c = np.minimum(np.trunc(b * i + f4(8.5)), f4(15))
        codes.append(c)
        scales.append(half(d))
        read.append((c - f4(8)) * half(d))
    return {
        name: np.concatenate(y, 1)
        for name, y in dict(codes=codes, scales=scales, read=read).items()
    }


# --- prepared rows ----------------------------------------------------------


class Trace:
    def __init__(self, path: str, layers: str, *more: str) -> None:
        self.path, self.layers, self.more = path, layers, more
        meta, self.x = container.load(path)
        self.prompt = int(meta["prompt_len"])
        k = self.of("layers.0.k")
        self.lanes, n, self.d = k.shape
        at = self.of("positions") if "positions" in self.x else np.arange(n)
        angle = at.astype(f4)[:, None] * self.of("rope.inv_freq")[None]
        first = np.arange(self.d // 2)
        second = first + self.d // 2
        if meta["rope.layout"] == "interleaved":
            first, second = 2 * first, 2 * first + 1
        sine, cosine = (g(angle.astype("f8")) for g in (np.sin, np.cos))
        self.table = sine.astype(f4), cosine.astype(f4), at != 0, first, second

    def of(self, name: str) -> Array:
        x = container.array(self.x[name])
        return x if x.dtype == "i4" else container.widen(x)

    def rows(self, tokens: Array) -> tuple[Array, ...]:
        sine, cosine, moves, first, second = self.table
        return sine[tokens], cosine[tokens], moves[tokens], first, second

    def shift(self, layer: int, g: int, bias: str, first: int) -> Array:
        """u of a lane; `first` tokens enter first."""
        if bias == "subtract":
            return self.of(f"layers.{layer}.k_bias")[g]
        tokens = np.arange(first)
        k = self.of(f"layers.{layer}.k")[g, tokens]
        x = np.clip(turn(k, self.rows(tokens), True), f4(-65536), f4(65536))
        total = np.rint(x.astype("f8") * 2.0**24).astype("i8").sum(0)
        return total.astype(f4) * f4(2.0**-24) / f4(first)

    def coded(self, side: str, layer: int, g: int, tokens: Array,
              first: int, asked: dict[str, str]) -> Coded:
        """What the rows of some tokens become, each in its turn."""
        x = self.of(f"layers.{layer}.{side}")[g, tokens]
        table, shift = self.rows(tokens), None
        before = side == "k" and asked.get("rope") == "before"
        turned = asked.get("rotate") in (
            "hadamard", {"k": "keys", "v": "values"}[side])
        if before:
            x = turn(x, table, True)
        if side == "k" and asked.get("key_bias", "keep") != "keep":
            u = self.shift(layer, g, asked["key_bias"], first)
            shift = np.repeat(u[None], len(x), 0)
            shift = shift if before else turn(shift, table, False)
            x = x - shift
        x = hadamard(x) if turned else x
        out = dict(int4=int4, q4_0=q4_0)[asked[side]](np.ascontiguousarray(x))
        y = hadamard(out["read"]) if turned else out["read"]
        y = y if shift is None else y + shift
        out["read"] = turn(y, table, False) if before else y
        return out


# --- what kvreplay stores and reads -----------------------------------------

KINDS = {"F32": "<f4", "F16": "<f2", "U8": "u1", "I32": "<i4", "BF16": "<u2"}


def vectors(trace: Trace, spec: str) -> dict[tuple[str, int, int], Array]:
    """By stage, layer and KV head, after the last step."""
    to = os.path.join(FOLDER, f"vectors{len(os.listdir(FOLDER))}")
    subprocess.run([KVREPLAY, "vectors", trace.path, "-m", spec, "-s", "last",
                    "-l", trace.layers, "-f", "raw", "-o", to, *trace.more],
                   check=True)
    out = {}
    with open(f"{to}/manifest.tsv", encoding="ascii") as lines:
        for line in lines:
            if line[0] != "#":
                stage, l, _, g, _, kind, n, width, *_, name = line.split()
                x = np.fromfile(f"{to}/{name}", KINDS[kind])
                out[stage, int(l), int(g)] = x.reshape(int(n), int(width))
    return out


def asked_of(spec: str) -> tuple[dict[str, str], int]:
    """Settings of quant, and prefill or 0."""
    words = dict(x.split("=") for x in spec.split("quant:")[1].split(":"))
    return words, int(spec.partition("prefill=")[2].partition("+")[0] or 0)


def differs(trace: Trace, have: dict[tuple[str, int, int], Array],
            spec: str) -> Optional[str]:
    """The first row that is not as this specification says."""
    asked, first = asked_of(spec)
    rows = 0
    for (stage, l, g), table in have.items():
        if not stage.endswith("_page_table"):
            continue
        side, ids = stage[0], have["entries", l, g][:, 0]
        at = table[:, 0] >= 0  # coded
        want = trace.coded(side, l, g, ids[at], first or trace.prompt, asked)
        for name, y in want.items():
            x = have[f"{side}_{name}", l, g]
            x = x[at] if name == "read" else x[table[at, 0]]
            y = y.astype(x.dtype)
            bad = (x.view(f"u{x.itemsize}") != y.view(f"u{x.itemsize}")).any(1)
            if bad.any():
                i = bad.nonzero()[0][0]
                c = (x[i] != y[i]).nonzero()[0][:1]
                return (f"{spec}: layer {l}, lane {g}, {side}_{name}, token "
                        f"{ids[at][i]} of {bad.sum()}: {x[i][c]}, not {y[i][c]}")
        rows += at.sum()
    return None if rows else f"{spec}: no coded row"


# --- traces and specifications ----------------------------------------------


def save(name: str, x: dict[str, Array], kind: str, prompt: int,
         **meta: str) -> str:
    """A trace of k, v, k_bias .. of layer 0; queries are small."""
    lanes, n, d = x["k"].shape
    draw = np.random.default_rng(5)
    x = dict(q=draw.normal(size=(2 * lanes, n, d)) * 2.0**-12, **x)
    tensors = {
        y if y[0] in "pr" else f"layers.0.{y}": container.tensor(
            {"p": "I32", "r": "F32"}.get(y[0], "F32" if "_" in y else kind), z)
        for y, z in x.items()
    }
    said = dict(format="kvtrace", version="1", n_layers="1", layers="all",
                n_heads=str(2 * lanes), n_kv_heads=str(lanes), **meta,
                head_dim=str(d), prompt_len=str(prompt))
    said["attn.scale"] = "0.125"
    path = os.path.join(FOLDER, name + ".safetensors")
    container.save(path, said, tensors)
    return path


def made(name: str, kind: str, d: int, d_v: int, layout: str, size: float,
         **more: Array) -> str:
    """Keys about a large bias; some are the bias itself, some are zeros."""
    draw = np.random.default_rng(d)
    lanes, n = 2, 90
    b = draw.normal(size=(lanes, d)).astype(f4) * f4(size)
    k = draw.normal(size=(lanes, n, d)).astype(f4) + b[:, None]
    v = draw.normal(size=(lanes, n, d_v)).astype(f4)
    k[:, :2], k[:, 2], k[:, 3], v[:, 3:5] = b[:, None], 0.0, -0.0, 0.0
    b[:, 5:8] = 0.0, -0.0, 2.0**-140
    inv = (10000.0 ** (-np.arange(d // 2) * 2 / d)).astype(f4)
    inv[-2:] = 0  # does not turn
    x = dict(k=k, v=v, k_bias=b, **{"rope.inv_freq": inv}, **more)
    return save(name, x, kind, 70, **{"rope.layout": layout})


def biased() -> str:
    """TINY with a bias that is a key's."""
    meta, tensors = container.load(TINY)
    for l in map(int, range(int(meta["n_layers"]))):
        k = container.widen(container.array(tensors[f"layers.{l}.k"]))
        tensors[f"layers.{l}.k_bias"] = container.tensor("F32", k[:, 0])
    path = os.path.join(FOLDER, "tiny.safetensors")
    container.save(path, meta, tensors)
    return path


BOTH = "quant:k=int4:v=q4_0", "quant:k=q4_0:v=int4"
