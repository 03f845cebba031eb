# SPDX-License-Identifier: Apache-2.0
"""Who computes a model's attention now: its own function, which is watched
(dense.py), or sessions (together.py). What of a model is the same for both.
Needs torch."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Dict, Iterator, Sequence

import torch

from ..binding import NAMES
from ..hf.model import LayerCall, attending, need, register
from ..record.attention import own_output
from ..record.forward import bits
from ..record.layers import Layers

NAME = "kvevaluate"


class Turn:
    """attend(call) is called in place of a layer's attention, by the one whose
    turn it is."""

    now: Any = None


torchs = register(NAME, lambda x: Turn.now.attend(x))  # torch's own attention


def own(x: LayerCall) -> torch.Tensor:
    """The model's own attention."""
    return own_output(torchs, x)


class Model:
    """A model whose every layer a session can hold, all alike but for their
    windows; ValueError of another.
    shape: heads, sizes and type of what a Session is opened with."""

    def __init__(self, model: Any) -> None:
        self.model = model
        ids = torch.full((1, 2), 1, device=model.device)
        self.layers = Layers(model, ids)
        self.n = self.layers.n
        self.layers.check_session()
        self.channels = self.layers.rotation([*range(self.n)]).rope.channels
        heads, kv, d, d_v, scale, _ = self.layers.look[0].alike
        self.dtype = self.layers.dtype
        self.shape = dict(
            n_layers=self.n, n_heads=heads, n_kv_heads=kv, d=d, d_v=d_v,
            scale=scale, dtype=NAMES[bits(torch.ones(1, dtype=self.dtype)
                                          ).dtype.name])
        known = inspect.signature(model.forward).parameters
        self.last = "logits_to_keep" in known

    def check(self, n_tokens: int) -> None:
        """ValueError where a request of so many tokens is none of a session."""
        for l in range(self.n):
            why = self.layers.why(l, n_tokens)
            need(not why, f"{why}")

    def shape_of(self, n_tokens: int) -> Dict[str, Any]:
        """What a Session of so many tokens is opened with."""
        return dict(self.shape, n_tokens=n_tokens,
                    **self.layers.session(n_tokens))

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        """A query or a key, its channels in the order of the frequencies."""
        x = x.to(self.dtype)
        return x if self.channels is None else x[..., self.channels]

    @contextlib.contextmanager
    def attending(self) -> Iterator[None]:
        """While whoever's Turn it is attends."""
        with attending(self.model, NAME), torch.no_grad():
            yield

    def forward(
        self, who: Any, ids: Sequence[Sequence[int]], last: int, **more: Any
    ) -> torch.Tensor:
        """Logits [sequences, last, vocabulary], of the last tokens of each."""
        if self.last:
            more["logits_to_keep"] = last
        Turn.now = who
        try:
            x = self.model(input_ids=torch.tensor(ids), **more)
        finally:
            Turn.now = None
        logits: torch.Tensor = x.logits[:, -last:].float()
        return logits
