# SPDX-License-Identifier: Apache-2.0
"""Reads DeltaKV's compressors, files of perceptrons by `kvreplay train`
(ref/parts/latents.h), and finds the file for a trace."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from typing import TYPE_CHECKING, Any, Iterator, Optional

import numpy as np

from ..container import array, load, widen
from ..evaluate.asks import kvreplay
from ..evaluate.assets import folders
from ..need import need

if TYPE_CHECKING:
    from ..container import Array
    from ..trace import Trace

METHOD = "deltakv"


class Weights:
    """A file for a trace. code() and decode() are f_c and f_d of a layer in
    `layers`. ValueError: a bad file, or one of another model."""

    def __init__(self, path: str, t: Trace, beside: bool) -> None:
        meta, tensors = load(path)
        kind = meta.get("format", "missing")
        need(kind == f"kvreplay-{METHOD}", path, f"metadata format is {kind}, "
             f"not kvreplay-{METHOD}")
        self.kind = meta.get("compressor", "nothing")
        need(self.kind in ("swiglu", "gelu"), path, "metadata compressor is ",
             self.kind, ", not swiglu or gelu")
        need(meta.get("trace", t.identity) == t.identity, path,
             "belongs to another trace, by its metadata")
        self.name, self.beside = os.path.basename(path), beside
        self.alone = meta.get("trained_references") == "none"
        digits = re.match("[0-9]+", meta.get("trained_length", ""))
        self.length = int(digits[0]) if digits else None
        with open(path, "rb") as f:
            self.digest = hashlib.sha256(f.read()).hexdigest()
        self._of = {x: widen(array(y)) for x, y in tensors.items()}
        self.layers = [l for l in t.layers
                       if f"layers.{l}.compress.in.weight" in self._of]
        self.width = t.n_kv_heads * (t.head_dim + t.value_dim)
        self.hidden = self.latent = 0
        for l in self.layers:
            self._check(path, l)

    def run_code(self) -> Optional[str]:
        """The run.code that runs with this file have (sim/ask/door.h)."""
        known = json.loads(kvreplay("methods", "-f", "json", METHOD).stdout)
        revision = known[0]["revision"]
        text = f"revision {revision}\nfile {self.digest}\n".encode()
        return self.digest if revision == 1 else hashlib.sha256(
            text).hexdigest()

    def _check(self, path: str, l: int) -> None:
        """Checks a layer against the widths of the first."""
        gated, at = self.kind == "swiglu", f"layers.{l}."
        inner = self._rows(path, at + "compress.in.weight")
        latent = self._rows(path, at + "compress.out.weight")
        back = latent if gated else self._rows(path,
                                               at + "decompress.in.weight")
        self.latent = self.latent or latent
        self.hidden = self.hidden or (inner // 2 if gated else inner)
        want = {"compress.in": (self.hidden * (1 + gated), self.width),
                "compress.out": (self.latent, self.hidden),
                "decompress.in": (back, self.latent),
                "decompress.out": (self.width, back)}
        for name, shape in want.items():
            if gated and name == "decompress.in":
                continue
            for part, dims in ("weight", shape), ("bias", shape[:1]):
                x = self._of.get(at + f"{name}.{part}")
                need(gated and part == "bias" or x is not None and
                     x.shape == dims and np.isfinite(x).all(), path,
                     f"{name}.{part} of layer {l} must be {[*dims]} finite "
                     "numbers for this model and the other tensors")

    def _rows(self, path: str, name: str) -> int:
        need(name in self._of, path, "has no tensor ", name)
        return len(self._of[name])

    def _linear(self, name: str, x: Array) -> Array:
        y: Array = x @ self._of[name + ".weight"].T.astype(float)
        return y + self._of.get(name + ".bias", 0) if (
            self.kind == "gelu") else y

    def code(self, l: int, x: Array) -> Array:
        y = self._linear(f"layers.{l}.compress.in", x)
        if self.kind == "gelu":
            y = gelu(y)
        else:
            gate, y = np.split(y, 2, 1)
            y = y * gate / (1 + np.exp(-gate))
        return self._linear(f"layers.{l}.compress.out", y)

    def decode(self, l: int, z: Array) -> Array:
        if self.kind == "gelu":
            z = gelu(self._linear(f"layers.{l}.decompress.in", z))
        return self._linear(f"layers.{l}.decompress.out", z)


def gelu(x: Array) -> Array:
    erf: Any = np.vectorize(math.erf, otypes=[float])
    y: Array = x / 2 * (1 + erf(x / math.sqrt(2)))
    return y


def files(folder: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The method's files in a folder, with metadata."""
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if re.fullmatch(rf"{METHOD}\..*\.safetensors", name):
            path = os.path.join(folder, name)
            try:
                yield path, load(path)[0]
            except (OSError, ValueError):
                continue


def beside(t: Trace) -> Optional[str]:
    """The file that `kvreplay run` reads for this trace
    (traces/decisions/asset.h), or None."""
    model, digest = (t.metadata.get(x, "") for x in ("model", "model_digest"))
    if not model and not digest:
        return None
    found = [*files(os.path.join(os.path.dirname(t.path), "assets"))]
    found_by_digest = [x for x, y in found if digest and
                       digest in y.get("model_digest", "").split()]
    called = f"{METHOD}.{re.sub('[^A-Za-z0-9_.-]', '_', model or digest)}"
    named = [x for x, y in found if not (digest and y.get("model_digest")) and
             (os.path.basename(x) == called + ".safetensors" or
              model and y.get("model") == model)]
    other = [x for folder in folders() for x, y in files(folder)
             if digest and digest in y.get("model_digest", "").split()]
    return next(iter([*found_by_digest, *other, *named]), None)
