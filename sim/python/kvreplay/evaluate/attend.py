# SPDX-License-Identifier: Apache-2.0
"""Who computes a model's attention now: its own function, which is watched
(dense.py), or sessions (together.py). What of a model is the same for both.
Needs torch."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Iterator, Optional, Sequence

import torch

from ..binding import NAMES
from ..hf.model import attending, need, register
from ..record.forward import bits
from ..record.layers import Layers

NAME = "kvevaluate"


class Turn:
    """attend(layer's module, query, key, value, mask, arguments) is called in
    place of a layer's attention, by the one whose turn it is."""

    now: Any = None


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Optional[torch.Tensor],
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    out = Turn.now.attend(module, query, key, value, attention_mask, kwargs)
    return out, None


own = register(NAME, _attend)  # torch's own attention


class Model:
    """A model whose every layer a session can hold, all alike, without a cap on
    logits or learned sinks; ValueError of another.
    shape: what a Session is opened with, but for its tokens."""

    def __init__(self, model: Any) -> None:
        self.model = model
        ids = torch.full((1, 2), 1, device=model.device)
        self.layers = Layers(model, ids)
        self.n = self.layers.n
        look = self.layers.look
        for l in range(self.n):
            why = self.layers.why(l, 1)
            need(not why, f"{why}: a session holds every layer; take another "
                 "model")  # fmt: skip
            softcap = look[l].alike[5]
            need(not (softcap or look[l].sinks), f"layer {l} has a cap on "
                 "logits or learned sinks, which no evaluation computes yet: "
                 "take another model")  # fmt: skip
            need(look[l].alike == look[0].alike, f"layer {l} has heads of "
                 "another size or scale than layer 0, a session one: take "
                 "another model")  # fmt: skip
        rope = self.layers.rotation([*range(self.n)]).rope
        heads, kv, d, d_v, scale, _ = look[0].alike
        self.channels = rope.channels
        self.dtype = self.layers.dtype
        self.shape = dict(
            n_layers=self.n, n_heads=heads, n_kv_heads=kv, d=d, d_v=d_v,
            scale=scale, dtype=NAMES[bits(torch.ones(1, dtype=self.dtype)
                                          ).dtype.name],
            inv_freq=rope.freq, interleaved=rope.paired)  # fmt: skip
        known = inspect.signature(model.forward).parameters
        self.last = "logits_to_keep" in known

    def check(self, n_tokens: int) -> None:
        """ValueError where a request of so many tokens is none of a session."""
        for l in range(self.n):
            window = self.layers.window(l, n_tokens)
            need(not window, f"layer {l} sees {window} tokens and {n_tokens} "
                 f"are given: give {window} at most")  # fmt: skip

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
