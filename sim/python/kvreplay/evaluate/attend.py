# SPDX-License-Identifier: Apache-2.0
"""Switches a model's attention between its own function (dense.py records it)
and sessions (together.py), and describes the model to both. Needs torch."""

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
    """now.attend(call) replaces the attention of every layer."""

    now: Any = None


torchs = register(NAME, lambda x: Turn.now.attend(x))  # torch's attention


def own(x: LayerCall) -> torch.Tensor:
    """The model's own attention."""
    return own_output(torchs, x)


class Model:
    """A model whose layers all fit a session, alike except for their windows;
    else ValueError. shape: a Session's heads, sizes and dtype."""

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
        """ValueError if a session cannot hold so many tokens."""
        for l in range(self.n):
            why = self.layers.why(l, n_tokens)
            need(not why, f"{why}")

    def shape_of(self, n_tokens: int) -> Dict[str, Any]:
        """The arguments of a Session for so many tokens."""
        return dict(self.shape, n_tokens=n_tokens,
                    **self.layers.session(n_tokens))

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        """A query or key, with channels in the order of the frequencies."""
        x = x.to(self.dtype)
        return x if self.channels is None else x[..., self.channels]

    @contextlib.contextmanager
    def attending(self) -> Iterator[None]:
        """Within this context, forward() computes with its argument `who`."""
        with attending(self.model, NAME), torch.no_grad():
            yield

    def forward(
        self, who: Any, ids: Sequence[Sequence[int]], last: int, **more: Any
    ) -> torch.Tensor:
        """Logits [sequences, last, vocabulary] of the last tokens."""
        if self.last:
            more["logits_to_keep"] = last
        Turn.now = who
        try:
            x = self.model(input_ids=torch.tensor(ids), **more)
        finally:
            Turn.now = None
        logits: torch.Tensor = x.logits[:, -last:].float()
        return logits
