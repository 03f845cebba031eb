# SPDX-License-Identifier: Apache-2.0
"""What a trainer is: one of deltakv.py, less.py, duoattention.py, each a class
`Trainer` of this kind, used by steps.py. Needs torch."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List
from typing import NamedTuple, Optional

import torch

from ..container import array, load, widen
from ..need import need

if TYPE_CHECKING:
    from .frozen import Frozen
    from .pieces import Piece

Losses = Dict[str, float]
Back = Callable[[torch.Tensor], Any]  # of a loss: its gradient, if wanted


class Call(NamedTuple):
    """One layer's attention, as it is called. plain(k, v, mask): the output
    [1, tokens, query heads, d_v] of torch's own attention; without a mask it is
    causal."""

    layer: int
    module: Any
    q: torch.Tensor  # [1, query heads, tokens, d], turned, as k
    k: torch.Tensor  # [1, KV heads, tokens, d]
    v: torch.Tensor
    scale: float
    plain: Callable[..., torch.Tensor]


class Weights(torch.nn.Module):
    """Named float32 weights, `layers.L.PART` for each layer: x(l, part)."""

    def __init__(self, layers: Iterable[int]) -> None:
        super().__init__()
        self.layers = [*layers]
        self.names: List[str] = []
        self.at: Dict[str, int] = {}
        self.values = torch.nn.ParameterList()

    def declare(self, part: str, make: Callable[[], torch.Tensor]) -> None:
        """Every layer has it; make() gives its first value."""
        for l in self.layers:
            self.names.append(f"layers.{l}.{part}")
            self.values.append(torch.nn.Parameter(make()))
        self.at = {x: i for i, x in enumerate(self.names)}

    def __call__(self, l: int, part: str) -> torch.Tensor:
        x: torch.Tensor = self.values[self.at[f"layers.{l}.{part}"]]
        return x


class Kind:
    """A trainer, which makes `weights`: what is learned. format: the metadata
    of its file. turning: it turns keys back. dtype: of the numbers in the
    file."""

    format, turning, dtype = "", False, "F16"
    weights: torch.nn.Module

    def __init__(self, frozen: Frozen, a: argparse.Namespace) -> None:
        self.frozen, self.a = frozen, a

    def fit(self, pieces: List[Piece]) -> List[Piece]:
        """Those that teach something; ValueError where none does."""
        return pieces

    def losses(self, piece: Piece, back: Back) -> Losses:
        """Each loss by its name, of one piece; back() is called with what is
        to become smaller, once or part by part."""
        raise NotImplementedError

    def pace(self, done: float) -> float:
        """By what the rate is multiplied when this share of steps is done."""
        return 1.0

    def bound(self) -> None:
        """After each step: weights come back to where they may be."""

    def tensors(self) -> Dict[str, torch.Tensor]:
        """The tensors of the file."""
        assert isinstance(self.weights, Weights)
        return dict(zip(self.weights.names, self.weights.values))

    def tell(self) -> Dict[str, object]:
        """Metadata of its own."""
        return {}


class Begin:
    """The file of --from: its metadata, and its tensors as float32."""

    def __init__(self, path: Optional[str], format: str) -> None:
        self.path = path
        self.meta, self.tensors = load(path) if path else ({}, {})
        need(not path or self.meta.get("format") == format, path, "is not a "
             f"{format} file; give one, or leave --from out")  # fmt: skip

    def size(self, asked: Optional[int], part: str, dim: int, own: int) -> int:
        """That was asked for, or that of this dimension of the file's first
        tensor of this part, or its own default."""
        for name, x in self.tensors.items():
            if name.endswith("." + part) and asked is None:
                need(len(x[1]) > dim, self.path, f"{name} has {len(x[1])} "
                     "dimensions; give a file of this command")  # fmt: skip
                return x[1][dim]
        return own if asked is None else asked

    @torch.no_grad()
    def fill(self, weights: Weights) -> None:
        """Weights become the file's, where there is one."""
        for name, x in zip(weights.names, weights.values) if self.path else ():
            there = self.tensors.get(name)
            need(there and there[0] in ("F16", "BF16", "F32") and
                 there[1] == tuple(x.shape), self.path, f"{name} must have "
                 f"shape [{', '.join(map(str, x.shape))}]; give a file of "
                 "these layers and options")  # fmt: skip
            assert there is not None  # as need() has just seen
            x.copy_(torch.from_numpy(widen(array(there)).copy()))


def fallen(done: float, rise: float) -> float:
    """A rise to 1 in that share of the steps, then a straight fall to 0."""
    return min(done / rise, (1 - done) / (1 - rise))
