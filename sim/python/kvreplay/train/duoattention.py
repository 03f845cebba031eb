# SPDX-License-Identifier: Apache-2.0
"""Trains DuoAttention's gates, one per KV head and layer, with the model in the
loop:

    full    the head's output from all tokens; stream: from the first `sink`
            and the last `recent` tokens and its own
    the model continues with gate * full + (1 - gate) * stream in every head
    loss    mean of (h - h^)^2 over the rows that predict answers, h the last
            hidden state of the original model; plus penalty * the mean gate

Xiao et al. 2024, DuoAttention: AdamW with rate 0.02, which rises in the first
fifth of the steps and falls in the last; gates start at 1 and stay in [0, 1].
The authors train with streams of 128 and 256 tokens and evaluate with 64 and
256, the method's defaults, which are used here. `kvreplay train duoattention`
measures each head's output instead. Leaves out prompts without an answer, and
prompts so short that a stream sees all of them. Needs torch."""

from __future__ import annotations

import argparse
from typing import List

import torch

from ..need import need
from .frozen import Call, Frozen
from .pieces import Piece
from .trainer import Back, Kind, Losses


class Gates(torch.nn.Module):
    """[trained layers, KV heads]."""

    def __init__(self, frozen: Frozen) -> None:
        super().__init__()
        self.at = {l: i for i, l in enumerate(frozen.layers)}
        size = len(self.at), frozen.kv_heads
        self.value = torch.nn.Parameter(torch.ones(size))

    def __call__(self, l: int) -> torch.Tensor:
        return self.value[self.at[l]]


class Trainer(Kind):
    format, dtype = "kvreplay-duoattention", "F32"

    def __init__(self, frozen: Frozen, a: argparse.Namespace) -> None:
        super().__init__(frozen, a)
        self.weights: Gates = Gates(frozen)

    def pace(self, done: float) -> float:
        return min(1.0, 5 * done, 5 * (1 - done))

    def bound(self) -> None:
        self.weights.value.data.clamp_(0, 1)

    def fit(self, pieces: List[Piece]) -> List[Piece]:
        least = self.a.sink + self.a.recent + 1
        long = [x for x in pieces if x.ids.shape[1] > least]
        need(long, pieces[0].where, f"no prompt has more than {least} tokens, "
             "and a stream sees all of fewer tokens; give longer ones, or a "
             "smaller --sink and --recent")  # fmt: skip
        found = [x for x in long if x.answers]
        need(found, long[0].where, "no prompt of that length has an answer, "
             "from which gates are learned; give each its answer"
             )  # fmt: skip
        return found

    def stream(self, n: int, device: torch.device) -> torch.Tensor:
        """Which tokens a stream sees, bool [1, 1, rows, tokens]."""
        at = torch.arange(n, device=device)
        back = at[:, None] - at
        near = (at < self.a.sink) | (back <= self.a.recent)
        sees: torch.Tensor = near & (back >= 0)
        return sees[None, None]

    def losses(self, piece: Piece, back: Back) -> Losses:
        n, frozen = piece.ids.shape[1], self.frozen
        rows = [t for x, y in piece.answers for t in range(x - 1, y - 1)]
        sees = self.stream(n, piece.ids.device)
        group = frozen.heads // frozen.kv_heads

        def as_it_is(call: Call) -> torch.Tensor:
            return call.plain(call.k, call.v)

        def mixed(call: Call, gates: torch.Tensor) -> torch.Tensor:
            full = call.plain(call.k, call.v).float()
            stream = call.plain(call.k, call.v, sees).float()
            gate = gates.repeat_interleave(group)[:, None]
            return stream + gate * (full - stream)

        def apart(gates: torch.nn.Module) -> torch.Tensor:
            last = frozen.run(piece.ids, lambda call: mixed(
                call, gates(call.layer)), head=False)  # fmt: skip
            error: torch.Tensor = (last[rows] - clean).pow(2).mean()
            return error

        with torch.no_grad():
            clean = frozen.run(piece.ids, as_it_is, head=False)[rows]
        error, gate = apart(self.weights), self.weights.value.mean()
        back(error + self.a.penalty * gate)
        return {"squared error": error.item(), "mean gate": gate.item()}

    def tensors(self) -> dict[str, torch.Tensor]:
        """Gates of all layers of the model, 0 for layers not trained."""
        all_ = torch.zeros(self.frozen.n_layers, self.frozen.kv_heads)
        all_[self.frozen.layers] = self.weights.value.detach().cpu()
        return {"gates": all_}

    def tell(self) -> dict[str, object]:
        return dict(trained_sink=self.a.sink, trained_recent=self.a.recent,
                    trained_penalty=self.a.penalty)  # fmt: skip
