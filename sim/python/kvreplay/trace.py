# SPDX-License-Identifier: Apache-2.0
"""Reads, writes and identifies traces (recorded attention), with results equal
to those of the C programs, to the byte. Needs numpy, no build.

    t = read_trace("chat.safetensors")       # t.q(0), t.k(0): float32
    write_trace("mine.safetensors", {l: t.layer(l) for l in t.layers[:2]},
                t.prompt_len, tokens=t.tokens, inv_freq=t.inv_freq)

Then run `kvtrace check mine.safetensors`. A bad file or argument is a
ValueError: one sentence. In that case nothing is written.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import struct
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional

import numpy as np

from .container import FLOATS, NUMPY, array, bfloat16, open_all, save
from .container import tensor, widen
from .need import need

if TYPE_CHECKING:
    from .container import Array, Tensor

# Metadata on how attention is computed: keys that version 2 has, keys that
# version 1 must not have, and all that need version 2.
_KNOWN = {"attn.scale", "attn.latent", "attn.sliding_window", "attn.softcap",
          "kv.shared", "rope.layout", "rope.scale"}
_ADDED = {"attn.softcap", "attn.sliding_window", "attn.sinks"}
_SECOND = {*_ADDED, "kv.shared"}
# Always float32, whatever the dtype.
_FREE = "inv_freq", "windowed", "sinks", "k_bias"


class Trace:
    """A recorded request: n_layers, n_heads, n_kv_heads, head_dim, value_dim,
    n_tokens, prompt_len, scale, metadata, answers, segments; layers, the
    recorded ones; tokens, positions, inv_freq, windowed_inv_freq or None;
    windows, how many tokens a row of each layer of the model sees, 0: all;
    softcap, 0: none; shared: V is the first numbers of K. Methods take the
    number of a layer."""

    def __init__(self, path: str, metadata: dict[str, str],
                 tensors: dict[str, Tensor]) -> None:
        self.path, self.metadata, self._tensors = path, metadata, tensors
        self.version = metadata.get("version")
        need(metadata.get("format") == "kvtrace" and self.version in ("1", "2"),
             path, "metadata format, version: not kvtrace, 1 or 2")
        for x in metadata:
            bad = x in _ADDED if self.version == "1" else x.startswith(
                ("attn.", "rope.", "kv.")) and x not in _KNOWN
            need(not bad or metadata[x] == "none", path, "metadata ", x,
                 f" is set, but version {self.version} has no arithmetic for "
                 "it")
        self.n_layers, self.n_heads, self.n_kv_heads, self.head_dim = (
            self._number(x, int, y) for x, y in dict(n_layers=10**5, n_heads=
            2**20, n_kv_heads=2**20, head_dim=2**16).items())
        need(self.n_heads % self.n_kv_heads == 0, path, self.n_heads,
             " query heads do not divide by ", self.n_kv_heads, " KV heads")
        self.scale = self._number("attn.scale", float)
        self.softcap = self._number("attn.softcap", float, 2**20) if (
            metadata.get("attn.softcap", "none") != "none") else 0
        self.windows = self._windows(metadata.get("attn.sliding_window"))
        text = metadata.get("layers", "missing")
        self.layers = list(range(self.n_layers)) if text == "all" else [
            int(x) for x in re.findall("[0-9]{1,9}", text)]
        need(self.layers and self.layers == sorted({*self.layers}) and
             self.layers[-1] < self.n_layers, path, "metadata layers is ",
             text[:99], ", n_layers only ", self.n_layers)
        k, v = (tensors.get(f"layers.{self.layers[0]}.{x}") for x in "kv")
        need(k and v and len(k[1]) == len(v[1]) == 3 and k[0] in
             FLOATS.values(), path, "k or v of layer ", self.layers[0],
             " must be F16, BF16 or F32 [n_kv_heads, tokens, d]")
        assert k and v  # need() has checked it
        self.n_tokens, self.value_dim = k[1][1], v[1][2]
        self.prompt_len = self._number("prompt_len", int, self.n_tokens)
        for l in self.layers:
            self._check(f"layers.{l}.", k[0])
        self.tokens = self._get("tokens", ["I32"], self.n_tokens)
        self.positions = self._get("positions", ["I32"], self.n_tokens)
        self.inv_freq = self._get("rope.inv_freq", ["F32"], self.head_dim / 2)
        self.windowed_inv_freq = self._get(
            "rope.inv_freq.windowed", ["F32"], self.head_dim / 2
            ) if self.version == "2" else None
        self.shared = self.version == "2" and metadata.get(
            "kv.shared", "none") != "none"
        need(not self.shared or metadata["kv.shared"] == "first" and
             self.value_dim <= self.head_dim and not any(
                 (x["k"][..., :self.value_dim] != x["v"]).any() for x in
                 map(self.layer, self.layers)), path, "metadata kv.shared is "
             "not first, or v not the first numbers of k")
        self.answers, self.segments = map(self._spans, ("answers", "segments"))

    def layer(self, layer: int) -> dict[str, Array]:
        """What is recorded of a layer, by name, mapped; bfloat16 as uint16."""
        at, parts = f"layers.{layer}.", (
            *"qkvo", "rows", "colsum", "sinks", "k_bias")
        return {x: array(self._tensors[at + x]) for x in parts
                if at + x in self._tensors}

    def q(self, layer: int) -> Array:
        """Queries after RoPE, float32 [n_heads, rows, head_dim]."""
        return widen(self.layer(layer)["q"])

    def k(self, layer: int) -> Array:
        """Keys after RoPE, float32 [n_kv_heads, n_tokens, head_dim]."""
        return widen(self.layer(layer)["k"])

    def v(self, layer: int) -> Array:
        """Values, float32 [n_kv_heads, n_tokens, value_dim]."""
        return widen(self.layer(layer)["v"])

    def o(self, layer: int) -> Optional[Array]:
        """The model's own output, float32 [n_heads, rows, value_dim]."""
        x = self._get(f"layers.{layer}.o")
        return None if x is None else widen(x)

    def rows(self, layer: int) -> Array:
        """The token of each row of q and o, int [rows]."""
        return self.layer(layer).get("rows", np.arange(self.n_tokens))

    def colsum(self, layer: int) -> Optional[Array]:
        """Column sums of the prompt's attention, fixed point, int64 [n_heads,
        prompt_len]."""
        return self._get(f"layers.{layer}.colsum")

    def sinks(self, layer: int) -> Optional[Array]:
        """A logit added to each head's denominator, float32 [n_heads]."""
        second = self.version == "2"  # version 1 ignores the tensor
        return self._get(f"layers.{layer}.sinks") if second else None

    def k_bias(self, layer: int) -> Optional[Array]:
        """What the model adds to each key before RoPE, float32 [n_kv_heads,
        head_dim]."""
        return self._get(f"layers.{layer}.k_bias")

    @functools.cached_property
    def identity(self) -> str:
        """The SHA-256 that `kvtrace info --identity` prints."""
        def text(x: str) -> bytes:
            return struct.pack("<Q", len(x.encode())) + x.encode()
        h = hashlib.sha256(struct.pack("<Q", len(self._tensors)))
        for name, (dtype, shape, data) in sorted(self._tensors.items()):
            h.update(text(name) + text(dtype) + struct.pack(
                f"<{1 + len(shape)}Q", len(shape), *shape))
            h.update(hashlib.sha256(data.data).digest())
        meta = sorted(x for x in self.metadata.items()
                      if x[0] not in ("created", "recorder"))
        h.update(struct.pack("<Q", len(meta)))
        h.update(b"".join(text(y) for x in meta for y in x))
        return h.hexdigest()

    def _number(self, key: str, kind: Callable[[Any], Any],
                most: int = 2**30) -> Any:
        text = self.metadata.get(key, "missing")
        form = "[0-9]{1,18}" if kind is int else "[0-9]*[.]?[0-9]+(e-?[0-9]+)?"
        x = kind(text) if re.fullmatch(form, text) else 0
        need(0 < x <= most, self.path, "metadata ", key, " is ", text[:99],
             ", not a number above zero, at most ", most)
        return x

    def _windows(self, text: Optional[str]) -> list[int]:
        if text in (None, "none"):
            return [0] * self.n_layers
        x = [*map(int, re.findall("[0-9]{1,9}", text))]
        if re.fullmatch(" *[0-9]{1,9} *", text):
            x *= self.n_layers
        need(len(x) == self.n_layers and 1 not in x and re.fullmatch(
            r"\[?( *[0-9]{1,9} *,)* *[0-9]{1,9} *\]?", text), self.path,
            "metadata attn.sliding_window is ", text[:99], ", neither a number"
            " of tokens, at least 2, nor a list of one a layer of the model")
        return x

    def _spans(self, key: str) -> list[dict[str, Any]]:
        try:
            got: list[Any] = [] + json.loads(self.metadata.get(key, "[]"))
            if all(0 <= x["start"] <= x["end"] <= self.n_tokens for x in got):
                return got
            why: object = "a span is outside the tokens"
        except (KeyError, RecursionError, TypeError, ValueError) as e:
            why = e
        need(False, self.path, "metadata ", key, ": ", why)
        return []

    def _get(self, name: str, dtypes: Optional[Iterable[str]] = None,
             *shape: float, needed: bool = False) -> Optional[Array]:
        """An array, None if not recorded. ValueError if of another shape."""
        if not needed and name not in self._tensors:
            return None
        x = self._tensors.get(name, ("missing", (), np.zeros(0)))
        need(not dtypes or x[0] in dtypes and x[1] == shape, self.path,
             f"tensor {name} is {x[:2]}, not {list(dtypes or ())} {shape}")
        return array(x)

    def _check(self, at: str, dtype: str) -> None:
        heads, n, d = self.n_heads, self.n_tokens, self.head_dim
        some = at + "rows" in self._tensors
        of = self._tensors[at + "rows"][1] if some else (n,)
        for x, size in ("k", d), ("v", self.value_dim):
            self._get(at + x, [dtype], self.n_kv_heads, n, size, needed=True)
        self._get(at + "q", FLOATS.values(), heads, *of, d, needed=True)
        self._get(at + "o", FLOATS.values(), heads, *of, self.value_dim)
        self._get(at + "colsum", ["I64"], heads, self.prompt_len)
        self._get(at + "k_bias", ["F32"], self.n_kv_heads, d)
        if self.version == "2":
            self._get(at + "sinks", ["F32"], heads)
        rows = self._get(at + "rows", ["I32"], *of)
        need(rows is None or np.all(np.diff(rows, prepend=-1, append=n) > 0),
             self.path, at, f"rows must rise from 0 to at most {n - 1}")


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Reads a trace: a file, or the shards in a .safetensors.index.json."""
    return Trace(os.fspath(path), *open_all(os.fspath(path)))


def _given(name: str, x: Any, dtype: Optional[str]) -> Tensor:
    """An argument as a tensor, floats rounded to dtype."""
    last, where = name.rpartition(".")[2], "tensor " + name
    whole = "I64" if last == "colsum" else "I32"
    try:
        x = np.asarray(x, "f4" if last in _FREE else None)
    except (TypeError, ValueError):
        need(False, where, "is not an array of numbers")
    if last not in (*_FREE, *"qkvo"):
        need(x.dtype.kind in "iu" and (x.astype(NUMPY[whole]) == x).all(),
             where, x.dtype, " must be whole numbers that fit ", whole)
        return tensor(whole, x)
    want = str(dtype).upper() if dtype and last in "qkvo" else FLOATS.get(
        x.dtype.name)
    need(x.dtype.name in FLOATS and want in FLOATS.values(), where, x.dtype,
         " as ", want, "; make it float32, and dtype 'f16', 'bf16' or 'f32'")
    need(last not in "qkvo" or x.ndim == 3 and x.size, where, x.shape,
         " must be [heads, tokens, d], none of them 0")
    wide = widen(x)
    with np.errstate(over="ignore"):
        x = bfloat16(wide) if want == "BF16" else wide.astype(
            NUMPY[str(want)])
    bad = np.argwhere(~(np.isfinite(wide) & np.isfinite(widen(x))))
    need(not len(bad), where, "holds NaN or Inf at ",
         *bad[:1].tolist(), "; fix it, or write a wider dtype")
    return tensor(str(want), x)


def _texts(path: str, given: Any) -> dict[str, str]:
    """Metadata as in a file: strings as they are, the rest as JSON."""
    try:
        return {str(x): y if isinstance(y, str) else json.dumps(
            y, separators=(",", ":"), default=np.generic.item)
            for x, y in dict(given).items()}
    except (TypeError, ValueError) as e:
        need(False, path, "metadata: ", e, "; it must be a text, number or "
             "list")
        return {}


def write_trace(path: str | os.PathLike[str],
                layers: Mapping[int, Mapping[str, Any]], prompt_len: int,
                dtype: Optional[str] = None, tokens: Any = None,
                positions: Any = None, inv_freq: Any = None,
                metadata: Any = (), windowed_inv_freq: Any = None) -> None:
    """Writes {number: {"q": [heads, tokens, d], "k":, "v":}} as one file. A
    layer can also have "o", "rows", "colsum", "sinks" and "k_bias", as
    t.layer(number) does. dtype: f16, bf16 or f32; None: as the arrays
    (uint16: bfloat16). metadata: attn.scale (default d^-0.5), n_layers of the
    model, rope.layout, answers and so on. The trace is of version 2 only if it
    needs to be, for example for attn.sliding_window or sinks."""
    path = os.fspath(path)
    given: dict[str, Any] = {
        "tokens": tokens, "positions": positions, "rope.inv_freq": inv_freq,
        "rope.inv_freq.windowed": windowed_inv_freq}
    need(isinstance(layers, dict) and layers, path, "layers must be "
         "{number: {name: array}}, at least one layer")
    for l, x in layers.items():
        at = f"{path}: layer {l}"
        need(isinstance(l, (int, np.integer)) and l is not True and l >= 0
             and isinstance(x, dict), at, "must be a number and {name: array}")
        x = {name: y for name, y in x.items() if y is not None}
        need({*"qkv"} <= {*x} <= {*"qkvo", "rows", "colsum", "sinks",
                                       "k_bias"}, at,
             "has ", ", ".join(map(str, x)) or "nothing", "; there are only q, "
             "k and v, and perhaps o, rows, colsum, sinks and k_bias")
        given.update((f"layers.{l}.{name}", y) for name, y in x.items())
    tensors = {name: _given(name, x, dtype) for name, x in given.items()
               if x is not None}
    q, k = (tensors[f"layers.{min(layers)}.{x}"][1] for x in "qk")
    meta = _texts(path, {
        "n_layers": max(layers) + 1, "n_heads": q[0], "n_kv_heads": k[0],
        "head_dim": q[2], "attn.scale": q[2] ** -0.5, **_texts(path, metadata),
        "format": "kvtrace", "prompt_len": prompt_len})
    meta["version"] = "2" if any(x.endswith((".sinks", ".windowed")) for x in
        tensors) or any(meta.get(x, "none") != "none" for x in _SECOND) else "1"
    meta["layers"] = "all" if str(len(layers)) == meta[
        "n_layers"] else ",".join(map(str, sorted(layers)))
    save(Trace(path, meta, tensors).path, meta, tensors)


def partial_rope(head_dim: int, inv_freq: Any) -> tuple[Array, Array]:
    """For a model that rotates only its first r = 2 len(inv_freq) channels, in
    pairs (i, i + r/2). Returns (channels, frequencies): q[..., channels] and
    k[..., channels] have the layout `half` with these frequencies."""
    half, turned = head_dim // 2, len(inv_freq)
    need(head_dim % 2 == 0 and turned <= half, "partial_rope", "head_dim ",
         head_dim, " is odd, or less than the ", 2 * turned, " that turn")
    rest = np.arange(2 * turned, head_dim).reshape(2, -1)
    pairs = np.arange(2 * turned).reshape(2, -1)
    return np.concatenate([pairs, rest], 1).reshape(-1), np.concatenate(
        [np.asarray(inv_freq, "f4"), np.zeros(half - turned, "f4")])
