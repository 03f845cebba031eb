# SPDX-License-Identifier: Apache-2.0
"""Prepared rows of ref/FORMATS.md again, in numpy, from that page alone.

check_prepared.py FOLDER TINY KVREPLAY. Rows of TINY and of traces made here are
shifted, rotated, coded as int4 and q4_0, or with a scale from the prompt as
fp8_e4m3 and nvfp4, and read back. The results must be those of `kvreplay
vectors`, to the bit, and differ under another specification.
"""

import json
import subprocess
import sys

import numpy as np
from kvreplay import container
from kvreplay.trace import write_trace

FOLDER, TINY, KVREPLAY = sys.argv[1:]
np.seterr(all="ignore")
f4 = np.float32
KINDS = dict(F32="<f4", F16="<f2", U8="u1", I32="<i4")


def fma(a, b, c):
    """a b + c, rounded once: the product is exact in binary64, and the sum is
    rounded to odd there, so that rounding again to binary32 changes nothing."""
    p, c = a.astype("f8") * b.astype("f8"), c.astype("f8")
    s = p + c
    lost = (p - (s - (s - p))) + (c - (s - p))
    bits, away = s.view("i8"), np.where((lost > 0) == (s > 0), 1, -1)
    odd = bits + np.where((lost != 0) & (bits & 1 == 0), away, 0)
    return odd.view("f8").astype(f4)


def half(x):
    return x.astype("f2").astype(f4)


def turn(x, table, back=False):
    s, c, moves, first, second = table
    x1, x2, y = x[:, first], x[:, second], x.copy()
    y[:, first] = fma(x2 if back else -x2, s, x1 * c)
    y[:, second] = fma(-x1, s, x2 * c) if back else fma(x2, c, x1 * s)
    return np.where(moves[:, None], y, x)


def hadamard(x):
    n, h = x.shape[1] & -x.shape[1], 1
    while h < n:
        low, high = np.split(x.reshape(len(x), -1, 2, h), 2, 2)
        x = np.concatenate([low + high, low - high], 2).reshape(x.shape)
        h *= 2
    return x * f4(n**-0.5)


def int4(x, _):
    bits = x.view("i4")
    order = bits ^ (bits >> 31 & 0x7FFFFFFF)  # -0 is below 0
    least = np.take_along_axis(x, order.argmin(1)[:, None], 1)
    r = (x.max(1)[:, None] - least) / f4(15)
    s, m = half(r), half(least)
    codes = np.rint(np.clip((x - least) * (f4(1) / r), f4(0), f4(15)))
    codes = np.where(s == 0, f4(0), codes)
    return dict(codes=codes, scales=s, minima=m, read=fma(codes, s, m))


def q4_0(x, _):
    parts = []
    for at in range(0, x.shape[1], 32):
        b = x[:, at : at + 32]
        most = np.take_along_axis(b, np.abs(b).argmax(1)[:, None], 1)
        d = np.where(most == 0, f4(0), most) / f4(-8)
        i = f4(1) / d
        y = b * np.where(np.isfinite(i), i, f4(0)) + f4(8.5)
        codes = np.minimum(np.trunc(y), f4(15))
        parts.append((codes, half(d), (codes - f4(8)) * half(d)))
    codes, scales, read = (np.concatenate(y, 1) for y in zip(*parts))
    return dict(codes=codes, scales=scales, read=read)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], "f4")
E4M3 = np.array([c / 512 if c < 8 else (1 + c % 8 / 8) * 2.0 ** (c // 8 - 7)
                 for c in range(127)], "f4")


def nearest(y, of):
    """Codes and numbers of a small float, ties to the even code."""
    middle = (of[1:] + of[:-1]) / 2
    below = np.searchsorted(middle, np.abs(y), "left")
    above = np.searchsorted(middle, np.abs(y), "right")
    c = np.where(below % 2, above, below)
    return c + np.signbit(y) * (len(of) + 1 & ~1), np.copysign(of[c], y)


def fp8_e4m3(x, s):
    codes, y = nearest(x / s, E4M3)
    return dict(codes=codes, read=y * s)


def nvfp4(x, s):
    parts, g = [], f4(1) / s
    for at in range(0, x.shape[1], 16):
        b = x[:, at : at + 16]
        most = np.abs(b).max(1)[:, None]
        scale, f = nearest(g * (most * (f4(1) / f4(6))), E4M3)
        o = np.where(f == 0, f4(0), f4(1) / (f * (f4(1) / g)))
        codes, y = nearest(b * o, E2M1)
        parts.append((codes, scale, y * f * s))
    codes, scales, read = (np.concatenate(y, 1) for y in zip(*parts))
    return dict(codes=codes, scales=scales, read=read)


class Trace:
    def __init__(self, path, layers="0"):
        self.path, self.layers = path, layers
        meta, self.x = container.load(path)
        self.prompt = int(meta["prompt_len"])
        _, n, self.d = self.of("layers.0.k").shape
        at = self.of("positions") if "positions" in self.x else np.arange(n)
        angle = at.astype(f4)[:, None] * self.of("rope.inv_freq")[None]
        i, halves = np.arange(self.d // 2), meta["rope.layout"] == "half"
        pairs = (i, i + len(i)) if halves else (2 * i, 2 * i + 1)
        turns = (g(angle.astype("f8")).astype(f4) for g in (np.sin, np.cos))
        self.table = *turns, at != 0, *pairs

    def of(self, name):
        x = container.array(self.x[name])
        return x if x.dtype == "i4" else container.widen(x)

    def rows(self, tokens):
        return (*(y[tokens] for y in self.table[:3]), *self.table[3:])

    def mean(self, k, first):
        y = turn(k[:first], self.rows(np.arange(first)), True).astype("f8")
        total = np.rint(np.clip(y, -65536, 65536) * 2**24).astype("i8").sum(0)
        return total.astype(f4) * f4(2**-24) / f4(first)

    def prepared(self, side, layer, g, tokens, asked):
        """Rows of some tokens before they are coded; what is added to them
        afterwards; are they from before RoPE, and are they rotated?"""
        k = self.of(f"layers.{layer}.{side}")[g]
        x, table, s = k[tokens], self.rows(tokens), None
        before = side == "k" and asked.get("rope") == "before"
        turned = asked.get("rotate", "none")[0] in ("h", side)  # first letter
        x = turn(x, table, True) if before else x
        if side == "k" and "key_bias" in asked:
            u = self.mean(k, int(asked.get("prefill", self.prompt)))
            if asked["key_bias"] == "subtract":
                u = self.of(f"layers.{layer}.k_bias")[g]
            s = np.repeat(u[None], len(x), 0)
            x = x - (s := s if before else turn(s, table))
        return hadamard(x) if turned else x, s, before, turned

    def scale(self, side, layer, g, asked):
        """From the first block of the lane, or of all lanes of its layer."""
        top = dict(fp8_e4m3=448, nvfp4=2688).get(asked[side])
        if not top:
            return None
        first = np.arange(int(asked.get("prefill", self.prompt)))
        lanes = range(len(self.of(f"layers.{layer}.{side}")))
        most = max(np.abs(self.prepared(side, layer, j, first, asked)[0]).max()
                   for j in lanes if asked["scale"] == "tensor" or j == g)
        return max(most / f4(top), f4(2**-100)) if most else f4(1)

    def coded(self, side, layer, g, tokens, asked):
        """What the rows of some tokens become, each in its turn."""
        x, s, before, turned = self.prepared(side, layer, g, tokens, asked)
        out = globals()[asked[side]](x, self.scale(side, layer, g, asked))
        y = hadamard(out["read"]) if turned else out["read"]
        y = y if s is None else y + s
        return dict(out, read=turn(y, self.rows(tokens)) if before else y)


def vectors(trace, spec):
    """By stage, layer and KV head, after the last step."""
    to, out = f"{trace.path}-{spec}", {}
    subprocess.run([KVREPLAY, "vectors", trace.path, "-m", spec, "-s", "last",
                    "-l", trace.layers, "-o", to], check=True)
    with open(f"{to}/manifest.tsv", encoding="ascii") as lines:
        for line in filter(lambda x: x[:2] in ("k_", "v_", "en"), lines):
            stage, l, _, g, _, kind, *sizes, name = line.split()
            n, width, at, _ = map(int, sizes)
            x = np.fromfile(f"{to}/{name}", KINDS[kind], n * width, "", at)
            out[stage, int(l), int(g)] = x.reshape(n, width)
    return out


def differs(trace, have, spec):
    """The first number that is not as this specification says, or None."""
    asked = dict(x.split("=") for x in spec.split("quant:")[1].split(":"))
    for stage, l, g in [x for x in have if x[0].endswith("_page_table")]:
        side, table = stage[0], have[stage, l, g]
        ids = have["entries", l, g][:, 0]
        at = table[:, 0] >= 0  # coded
        for name, y in trace.coded(side, l, g, ids[at], asked).items():
            x = have[f"{side}_{name}", l, g]
            x = x[at] if name == "read" else x[table[at, 0]]
            bits = f"u{x.itemsize}"
            wrong = x.view(bits) != y.astype(x.dtype).view(bits)
            for i, c in np.argwhere(wrong)[:1]:
                return (f"{spec}: layer {l}, lane {g}, {side}_{name}, token "
                        f"{ids[at][i]}, {c}: {x[i, c]}, not {y[i, c]}")


def made(name, kind, d, d_v, layout, size, first=0):
    """Keys about a large bias; some are the bias itself, some are zeros."""
    draw = np.random.default_rng(d)
    b = draw.normal(size=(2, d)).astype(f4) * f4(size)
    sizes = (2, 90, d), (2, 90, d_v), (4, 90, d)
    k, v, q = (draw.normal(size=x).astype(f4) for x in sizes)
    k += b[:, None]
    k[:, :2], k[:, 2], k[:, 3], v[:, 3:5] = b[:, None], 0, -0.0, 0
    b[:, 5:8] = 0, -0.0, 2**-140
    inv = (10000.0 ** (-np.arange(d // 2) * 2 / d)).astype(f4)
    inv[-2:] = 0  # these do not turn
    layers = {0: dict(q=q * f4(2**-12), k=k, v=v, k_bias=b)}
    write_trace(path := f"{FOLDER}/{name}.safetensors", layers, 70, dtype=kind,
                inv_freq=inv, metadata={"rope.layout": layout},
                positions=first + 3 * np.arange(90))
    return Trace(path)


BOTH = "quant:k=int4:v=q4_0:", "quant:k=q4_0:v=int4:"
SHIFTS = ("key_bias=subtract", "key_bias=subtract:rotate=hadamard",
          "key_bias=mean", "key_bias=mean:rotate=keys:residual=5",
          "key_bias=mean:rotate=values", "rotate=values", "rotate=hadamard",
          "key_bias=mean:rotate=hadamard:prefill=32")
SPECS = [BOTH[i % 2] + x + rope for i, x in enumerate(SHIFTS)
         for rope in ("", ":rope=before")]
PAIRS = (("k=fp8_e4m3:v=nvfp4", "key_bias=mean:rotate=hadamard"),
         ("k=nvfp4:v=fp8_e4m3", "rotate=keys:prefill=32"),
         ("k=nvfp4:v=int4", "key_bias=subtract:rope=before:residual=3"))
SCALED = [f"quant:{k}:scale={x}:{more}" for x in ("head", "tensor")
          for k, more in PAIRS]


def compared(trace, specs):
    for i, spec in enumerate(specs):
        have, other = vectors(trace, spec), specs[i - len(specs) // 2]
        same = None if differs(trace, have, other) else f"{spec} is as {other}"
        yield differs(trace, have, spec) or same


meta, x = container.load(TINY)
for name in [y for y in x if y.endswith(".k")]:  # a bias that is a key's
    k = container.widen(container.array(x[name]))
    x[name + "_bias"] = container.tensor("F32", k[:, 0])
container.save(path := f"{FOLDER}/t.safetensors", meta, x)
halves = made("halves", "f32", 96, 40, "half", 3.0, first=11)
pairs = made("pairs", "f16", 64, 33, "interleaved", 8.0)
large = made("large", "f32", 64, 64, "half", 90000.0)
said = [x for trace in (Trace(path, "0,3"), halves, pairs)
        for specs in (SPECS, SCALED) for x in compared(trace, specs)]
said += compared(large, [x for x in SPECS if "k=q4_0" in x and "mean" in x])
mean = BOTH[0] + "key_bias=mean"
kept = "snapkv:budget=32+" + mean
said += [differs(pairs, vectors(pairs, kept), kept)]
for spec, numbers in (mean, 64), (SCALED[0], 64 + 2), (SCALED[3], 64 + 1):
    side = json.loads(subprocess.check_output(
        [KVREPLAY, "run", pairs.path, "-q", "-f", "json", "-m", spec]
    ))[0]["bytes"]["end"]["side"]
    same = side == 4 * 2 * numbers  # of two lanes
    said += [None if same else f"side of {spec}: {side}"]
print(len(said), "comparisons")
sys.exit("\n".join(filter(None, said)) or None)
