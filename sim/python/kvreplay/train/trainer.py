# SPDX-License-Identifier: Apache-2.0
"""The interface of trainers for steps.py: the class `Trainer` in deltakv.py,
less.py and duoattention.py is a Kind. Needs torch."""

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
Back = Callable[[torch.Tensor], Any]  # backward(), or nothing


class Call(NamedTuple):
    """A call of a layer's attention. plain(k, v, mask): the output [1, tokens,
    query heads, d_v] of torch's attention, causal without a mask."""

    layer: int
    module: Any
    q: torch.Tensor  # [1, query heads, tokens, d], after RoPE, as k
    k: torch.Tensor  # [1, KV heads, tokens, d]
    v: torch.Tensor
    scale: float
    plain: Callable[..., torch.Tensor]


class Weights(torch.nn.Module):
    """Named float32 weights `layers.L.PART`, as x(l, part)."""

    def __init__(self, layers: Iterable[int]) -> None:
        super().__init__()
        self.layers = [*layers]
        self.names: List[str] = []
        self.at: Dict[str, int] = {}
        self.values = torch.nn.ParameterList()

    def declare(self, part: str, make: Callable[[], torch.Tensor]) -> None:
        """Adds a part to every layer; make() gives its initial value."""
        for l in self.layers:
            self.names.append(f"layers.{l}.{part}")
            self.values.append(torch.nn.Parameter(make()))
        self.at = {x: i for i, x in enumerate(self.names)}

    def __call__(self, l: int, part: str) -> torch.Tensor:
        x: torch.Tensor = self.values[self.at[f"layers.{l}.{part}"]]
        return x


class Kind:
    """A trainer; `weights` is what it learns. format: metadata of its file.
    turning: does it rotate keys back? dtype: number type of its file."""

    format, turning, dtype = "", False, "F16"
    weights: torch.nn.Module

    def __init__(self, frozen: Frozen, a: argparse.Namespace) -> None:
        self.frozen, self.a = frozen, a

    def fit(self, pieces: List[Piece]) -> List[Piece]:
        """The pieces to learn from. ValueError if there are none."""
        return pieces

    def losses(self, piece: Piece, back: Back) -> Losses:
        """A piece's losses by name. Calls back() with what to minimize, once or
        in parts."""
        raise NotImplementedError

    def pace(self, done: float) -> float:
        """Factor for the learning rate after this share of the steps."""
        return 1.0

    def bound(self) -> None:
        """Called after each step: puts weights back into their range."""

    def tensors(self) -> Dict[str, torch.Tensor]:
        """The tensors of the file."""
        assert isinstance(self.weights, Weights)
        return dict(zip(self.weights.names, self.weights.values))

    def tell(self) -> Dict[str, object]:
        """The method's own metadata."""
        return {}


class Begin:
    """The file given by --from: metadata, and tensors as float32."""

    def __init__(self, path: Optional[str], format: str) -> None:
        self.path = path
        self.meta, self.tensors = load(path) if path else ({}, {})
        need(not path or self.meta.get("format") == format, path, "is not a "
             f"{format} file; give one, or leave --from out")  # fmt: skip

    def size(self, asked: Optional[int], part: str, dim: int, own: int) -> int:
        """`asked`; else this dimension of the file's first tensor of this part;
        else the default `own`."""
        for name, x in self.tensors.items():
            if name.endswith("." + part) and asked is None:
                need(len(x[1]) > dim, self.path, f"{name} has {len(x[1])} "
                     "dimensions; give a file of this command")  # fmt: skip
                return x[1][dim]
        return own if asked is None else asked

    @torch.no_grad()
    def fill(self, weights: Weights) -> None:
        """Copies the file's tensors, if any, to the weights."""
        for name, x in zip(weights.names, weights.values) if self.path else ():
            there = self.tensors.get(name)
            need(there and there[0] in ("F16", "BF16", "F32") and
                 there[1] == tuple(x.shape), self.path, f"{name} must have "
                 f"shape [{', '.join(map(str, x.shape))}]; give a file of "
                 "these layers and options")  # fmt: skip
            assert there is not None  # need() has checked it
            x.copy_(torch.from_numpy(widen(array(there)).copy()))


def fallen(done: float, rise: float) -> float:
    """Rises to 1 in the share `rise` of the steps, then falls to 0."""
    return min(done / rise, (1 - done) / (1 - rise))
