# SPDX-License-Identifier: Apache-2.0
"""Trains by gradients on traces, for `kvreplay train`: DeltaKV's compressors
and LESS's perceptrons. Each layer learns by itself; losses add up. Needs torch.

deltakv: kv^_t of deltakv.py for all tokens of a piece but sinks. References are
    earlier tokens of the whole trace, as recorded, because the method keeps
    them exactly. A token is never its own reference, unlike in the authors'
    code. Sinks are never coded, so they are not learned; tokens at multiples of
    the stride are. references=none is an ablation: z encodes only the token,
    with latents 1.5 times as wide for as many bytes (the paper's Table 5).
less: o^ of less.py for the first `context` tokens of a piece. The error is
    that of the head's output, because traces have no projection. Leaves out
    traces that record only some query rows."""

from __future__ import annotations

import argparse
from typing import Any, Callable, Dict, Tuple

import numpy as np
import torch

from ..evaluate.asks import Usage
from . import deltakv, less
from .data import Data, Piece, part, vectors
from .trainer import Back, Call, Losses


class DeltaKV(deltakv.Trainer):
    """DeltaKV with `own` options, including steps."""

    passes, rate, answers = 12, 2e-4, False

    def __init__(self, data: Data, own: argparse.Namespace) -> None:
        self.data, self.own = data, own
        alone, gelu = own.references == "none", own.compressor == "gelu"
        for word, default in ("stride", 10), ("k", 4):
            if alone and getattr(own, word) is not None:
                raise Usage(f"{word}={getattr(own, word)} has no effect with "
                            "references=none")
            if not alone and getattr(own, word) is None:
                setattr(own, word, default)
        if own.back is not None and not gelu:
            raise Usage(f"back={own.back} only applies to compressor=gelu; "
                        "swiglu's decoder is one layer")
        width = data.width()
        latent = own.latent or max(1, width * 3 // 8 if alone else width // 4)
        hidden = own.hidden or (2 * width if gelu else width * 3 // 2)
        self.weights = deltakv.Compressor(
            data.layers, width, hidden, latent,
            (own.back or hidden) if gelu else 0, alone)

    def weight(self, piece: Piece) -> int:
        """The number of tokens that a loss averages."""
        return max(0, piece.end - max(piece.first, self.own.sinks))

    def losses(self, piece: Any, back: Back) -> Losses:
        own, net = self.own, self.weights
        first, said = max(piece.first, own.sinks), []
        layers = self.data.common(piece.trace) if first < piece.end else []
        for layer in layers:
            x = torch.from_numpy(vectors(piece.trace, layer, piece.end))
            row, mean = x[first:], torch.zeros(())
            if not net.alone:
                where = torch.tensor(
                    deltakv.places(piece.end, own.sinks, own.stride))
                mean = deltakv.means(row, torch.arange(first, piece.end),
                                     x[where], where, own.k)  # fmt: skip
            error = (net.rebuild(layer, row, mean) - row).pow(2).mean()
            back(error)
            said.append((error.item(), (mean - row).pow(2).mean().item()))
        return named(said, "squared error", "of the mean alone")

    def tell(self) -> Dict[str, object]:
        own, net = self.own, self.weights
        said = dict(compressor=own.compressor, latent=net.latent,
                    hidden=net.hidden, trained_sinks=own.sinks)  # fmt: skip
        more = dict(trained_references="none") if net.alone else dict(
            trained_stride=own.stride, trained_k=own.k)  # fmt: skip
        return {**said, **more}


class LESS(less.Trainer):
    """LESS with `own` options, including steps."""

    passes, rate, answers = 40, 1e-3, False

    def __init__(self, data: Data, own: argparse.Namespace) -> None:
        if own.context <= own.budget:
            raise Usage(f"context={own.context} leaves nothing to drop with "
                        f"budget={own.budget}; choose a longer context")
        self.data, self.own = data, own
        self.a = argparse.Namespace(loss="mse", budget=own.budget)
        self.weights = less.Perceptrons(data, own.hidden, own.rank)

    def pace(self, done: float) -> float:
        """Halves the rate after each ten passes."""
        passes = done * self.own.steps / len(self.data.pieces)
        return 0.5 ** int(passes / 10)

    def weight(self, piece: Piece) -> int:
        whole = "rows" not in piece.trace.layer(piece.trace.layers[0])
        n = min(piece.end - piece.first, self.own.context)
        return max(0, n - self.own.budget) * whole

    def each(self, piece: Any, attend: Callable[[Call], torch.Tensor]) -> None:
        t, end = piece.trace, min(piece.end, piece.first + self.own.context)
        for layer in self.data.common(t) if self.weight(piece) else ():
            q, k, v = (torch.from_numpy(np.array(part(
                t, layer, x, piece.first, end)))[None] for x in "qkv")
            attend(Call(layer, None, q, k, v, t.scale, attend))

    def apart(
        self, call: Call, a: torch.Tensor, b: torch.Tensor
    ) -> torch.Tensor:
        return (a - b)[:, self.own.budget :].pow(2).mean()

    def losses(self, piece: Any, back: Back) -> Losses:
        return super().losses(piece, back) if self.weight(piece) else {}

    def tell(self) -> Dict[str, object]:
        return dict(trained_budget=self.own.budget)


def named(said: "list[Tuple[float, ...]]", *names: str) -> Losses:
    """Means over layers, by name; {} without layers."""
    return {x: sum(y) / len(y) for x, y in zip(names, zip(*said))}
