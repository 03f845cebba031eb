# SPDX-License-Identifier: Apache-2.0
"""Runs a request once with the model's own attention. Keeps q, k and v of all
tokens, for sessions and for a trace, and returns logits, which answers are
compared with. Needs torch."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

import torch
from transformers import DynamicCache

from ..hf.model import LayerCall, need, with_cache
from ..record.forward import finite
from .attend import Model, own

Rows = Tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # q, k, v


class Piece(NamedTuple):
    """Tokens fed together: {layer: (q, k, v) of [heads, tokens, d]}."""

    first: int
    tokens: List[int]
    rows: Dict[int, Rows]


class Dense:
    """feed() adds tokens, crop() removes them; pieces holds what was fed."""

    def __init__(self, model: Model) -> None:
        self.model, self.cache = model, DynamicCache()
        self.pieces: List[Piece] = []

    def attend(self, call: LayerCall) -> torch.Tensor:
        out, layer, n = own(call), call.layer, call.q.shape[2]
        turned = self.model.turned
        x = (turned(call.q[0]), turned(call.k[0, :, -n:]),
             call.v[0, :, -n:].to(self.model.dtype))  # fmt: skip
        need(all(map(finite, x)), f"layer {layer}: q, k or v hold NaN or Inf, "
             "because the model's weights do or its type is too narrow "
             "(--dtype f32)"
             )  # fmt: skip
        self.pieces[-1].rows[layer] = x
        return out

    def feed(self, tokens: Sequence[int], last: int = 0) -> torch.Tensor:
        """Feeds tokens. Logits [last or all, vocabulary]."""
        first = self.seen
        self.pieces.append(Piece(first, [*tokens], {}))
        model = self.model.model
        x = self.model.forward(
            self, [tokens], last or len(tokens), use_cache=True,
            **with_cache(model, self.cache))  # fmt: skip
        return x[0]

    @property
    def seen(self) -> int:
        """How many tokens were fed."""
        return sum(len(x.tokens) for x in self.pieces)

    @property
    def tokens(self) -> List[int]:
        return [t for x in self.pieces for t in x.tokens]

    def crop(self, n: int) -> None:
        """Keeps only the first n tokens. n must be the end of a piece."""
        gone = self.seen - n
        while self.seen > n:
            self.pieces.pop()
        assert self.seen == n, "a piece ends there"
        if gone:  # before transformers 5.24, crop(0) removes everything
            self.cache.crop(-gone)

    def rows(self, layer: int) -> Rows:
        """q, k and v of all tokens fed."""
        parts = zip(*(x.rows[layer] for x in self.pieces))
        q, k, v = (torch.cat(x, 1) for x in parts)
        return q, k, v

    def go_on(
        self, logits: torch.Tensor, new: int, ends: Sequence[int]
    ) -> Tuple[List[int], torch.Tensor]:
        """Continues greedily from the last token's logits [vocabulary]: at most
        `new` tokens, up to and including one of `ends`, and the logits [tokens,
        vocabulary] that chose them. Feeds all but the last token."""
        found, seen = [int(logits.argmax())], [logits]
        while len(found) < new and found[-1] not in ends:
            seen.append(self.feed(found[-1:])[0])
            found.append(int(seen[-1].argmax()))
        return found, torch.stack(seen)
