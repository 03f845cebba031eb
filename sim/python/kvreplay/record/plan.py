# SPDX-License-Identifier: Apache-2.0
"""Plans a request's trace: layers, rows, tensors and metadata, in version 1 of
the format, or 2 if the model needs it (traces/README.md). Needs torch."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np
import torch

from ..container import Writer
from ..hf.model import need
from ..hf.rope import Rope
from .forward import bits
from .layers import Layers
from .request import Request
from .rows import rows_kept
from .sums import column_sums

NAMES = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32"}


def texts(metadata: Mapping[str, Any]) -> Dict[str, str]:
    """Metadata as strings, without None."""
    return {
        x: y if isinstance(y, str) else json.dumps(y, separators=(",", ":"))
        for x, y in metadata.items()
        if y is not None
    }


class Plan:
    """shapes {tensor: (dtype, shape)} and metadata of a request's trace."""

    def __init__(self, layers: Layers, wanted: List[int], request: Request,
                 rows: Optional[int], o: bool, sums: bool) -> None:  # fmt: skip
        """wanted: layers to record. rows: how many of the prompt's last ones,
        None: all. o: outputs? sums: column sums, if rows are left out?"""
        alike = layers.look[wanted[0]].alike
        self.heads, kv, d, d_v, self.scale, self.softcap = alike
        self.layers, self.dtype = wanted, layers.dtype
        self.shared = layers.look[wanted[0]].nope > 0  # V is a part of K
        n, p = len(request.tokens), request.prompt_len
        self.windows = layers.windows(wanted, n)
        self.rows = rows_kept(p, n, rows)
        self.sums = sums and self.rows is not None
        kept = n if self.rows is None else len(self.rows)
        need(
            kept,
            "no query row is left to record, because there are no decode steps "
            "and --rows decode keeps only those; give last=N, or --max-new",
        )
        assert self.dtype is not None, "some layer was seen"
        kind, heads = NAMES[self.dtype], self.heads
        one: Dict[str, Tuple[str, Tuple[int, ...]]]
        one = {"q": (kind, (heads, kept, d)), "k": (kind, (kv, n, d)),
               "v": (kind, (kv, n, d_v))}  # fmt: skip
        if o:
            one["o"] = kind, (heads, kept, d_v)
        if self.rows is not None:
            one["rows"] = "I32", (kept,)
        if self.sums:
            one["colsum"] = "I64", (heads, p)
        self.shapes = {f"layers.{l}.{x}": y for l in wanted
                       for x, y in one.items()}  # fmt: skip
        for l in wanted:
            if layers.look[l].sinks:
                self.shapes[f"layers.{l}.sinks"] = "F32", (heads,)
        self.k_bias = layers.k_bias(wanted)
        for l in self.k_bias:
            self.shapes[f"layers.{l}.k_bias"] = "F32", (kv, d)
        self.shapes["tokens"] = "I32", (n,)
        self.metadata = dict(
            format="kvtrace", version="1", n_layers=layers.n, n_heads=heads,
            n_kv_heads=kv, head_dim=d, prompt_len=p,
            layers="all" if len(wanted) == layers.n else ",".join(
                map(str, wanted)))  # fmt: skip
        self.metadata["attn.scale"] = self.scale
        self._turn(*layers.rotation(wanted))
        self._second()

    def _turn(self, rope: Rope, windowed: Optional[np.ndarray]) -> None:
        """Adds the rotation."""
        self.rope, self.windowed = rope, windowed
        if rope.freq is None:
            return
        self.shapes["rope.inv_freq"] = "F32", rope.freq.shape
        self.metadata["rope.layout"] = (
            "interleaved" if rope.paired else "half")  # fmt: skip
        self.metadata["rope.scale"] = rope.factor
        if windowed is not None:
            self.shapes["rope.inv_freq.windowed"] = "F32", windowed.shape
        if rope.channels is not None:  # to compare with the model's own keys
            self.metadata["channels"] = rope.channels.tolist()

    def _second(self) -> None:
        """Adds what version 1 cannot express."""
        if any(self.windows):
            self.metadata["attn.sliding_window"] = ",".join(
                map(str, self.windows))  # fmt: skip
        if self.softcap:
            self.metadata["attn.softcap"] = self.softcap
        if self.shared:
            self.metadata["kv.shared"] = "first"
        if any(self.windows) or self.softcap or self.shared or any(
            x.endswith(".sinks") for x in self.shapes
        ):
            self.metadata["version"] = "2"

    def put(self, file: Writer, layer: int, x: Dict[str, Any]) -> None:
        """Writes a layer: q, k, v, o [heads, tokens, d]; sinks [heads]."""
        at, sinks = f"layers.{layer}.", x.pop("sinks", None)
        x = {y: z.to(dtype=self.dtype) for y, z in x.items()}
        if self.rope.channels is not None:
            for name in "qk":
                x[name] = x[name][..., self.rope.channels]
        if sinks is not None:
            sinks = bits(sinks.float())
            file.put(at + "sinks", sinks)
        if layer in self.k_bias:
            file.put(at + "k_bias", self.k_bias[layer].astype("<f4"))
        k = bits(x["k"])
        file.put(at + "k", k)
        file.put(at + "v", bits(x["v"]))
        if self.sums:
            p = self.metadata["prompt_len"]
            file.put(at + "colsum", column_sums(
                bits(x["q"]), k, p, self.scale, self.softcap,
                self.windows[layer], sinks))  # fmt: skip
        for name in "qo":
            if f"{at}{name}" in self.shapes:
                y = x[name]
                file.put(at + name, bits(
                    y if self.rows is None else y[:, self.rows[0] :]
                ))  # fmt: skip
        if self.rows is not None:
            file.put(at + "rows", np.array(self.rows, "<i4"))

    def finish(self, file: Writer, request: Request) -> None:
        """Writes the tensors that belong to no layer."""
        file.put("tokens", np.array(request.tokens, "<i4"))
        for name, x in ("rope.inv_freq", self.rope.freq), (
            "rope.inv_freq.windowed", self.windowed
        ):  # fmt: skip
            if x is not None:
                file.put(name, x.astype("<f4"))
