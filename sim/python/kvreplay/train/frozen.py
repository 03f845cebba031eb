# SPDX-License-Identifier: Apache-2.0
"""Runs a frozen model with other attention in the trained layers, and makes one
vector of a token's K and V before RoPE. Needs torch and transformers."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

import torch
import torch.nn.functional as F

from ..hf.model import LayerCall, attending, need, register
from ..hf.plain import check_plain
from ..record.attention import SECOND, own_output
from ..record.layers import Layers
from .trainer import Call


Attend = Callable[[Call], torch.Tensor]


class Frozen:
    """A model and its trained `layers`: those asked for, or all with the same
    attention to every token, without a cap, sinks or window. inv_freq, paired:
    their rotation, only if `turning`."""

    def __init__(
        self,
        model: Any,
        n_tokens: int,
        asked: Optional[List[int]],
        turning: bool,
    ) -> None:
        for x in model.parameters():
            x.requires_grad_(False)
        self.model = model
        at = Layers(model, torch.full((1, 2), 1, device=model.device))
        layers = at.of(n_tokens, asked)
        windowed = [l for l in layers if at.look[l].window]
        if not asked and len(windowed) < len(layers):
            layers = [l for l in layers if l not in windowed]
        alike = at.look[layers[0]].alike
        self.heads, self.kv_heads, self.d, self.d_v, self.scale, cap = alike
        bad = [l for l in layers if at.look[l].sinks or at.window(l, n_tokens)]
        need(not cap and not bad, f"layer {[*bad, layers[0]][0]} has a logit "
             "cap, sinks or a window; train on other layers, or another model"
             )  # fmt: skip
        self.layers, self.n_layers = layers, at.n
        if turning:
            rope = at.rotation(layers).rope
            need(rope.freq is not None and rope.channels is None,
                 "its keys are not all rotated by plain RoPE, so they cannot "
                 "be rotated back; use another model")  # fmt: skip
            self.inv_freq = torch.tensor(rope.freq, dtype=torch.float64)
            self.paired = rope.paired

    def run(
        self, ids: torch.Tensor, attend: Attend, head: bool = True
    ) -> torch.Tensor:
        """The logits, float32 [tokens, vocabulary], of ids [1, tokens]. With
        head=False the last hidden state."""

        def go(x: LayerCall) -> torch.Tensor:
            def plain(
                k: torch.Tensor,
                v: torch.Tensor,
                other: Optional[torch.Tensor] = None,
            ) -> torch.Tensor:
                use = x.mask if other is None else other
                return own_output(own, x._replace(k=k, v=v, mask=use))

            if x.layer not in wanted:
                return plain(x.k, x.v)
            check_plain(x, x.k.shape[2], known=SECOND)
            call = Call(x.layer, *x[:4], self.scale, plain)
            return attend(call).to(x.q.dtype)

        wanted = {*self.layers}
        own = register("kvtrain", go)
        with attending(self.model, "kvtrain") as decoder:
            of = self.model if head else decoder
            out = of(input_ids=ids, use_cache=False)
        x = out.logits if head else out.last_hidden_state
        last: torch.Tensor = x[0].float()
        return last

    def next_token(self, ids: torch.Tensor, attend: Attend) -> torch.Tensor:
        """The mean loss of the next token, in nats."""
        return F.cross_entropy(self.run(ids, attend)[:-1], ids[0, 1:])

    # --- vectors -------------------------------------------------------------

    def width(self) -> int:
        """The length of a token's K and V together."""
        return int(self.kv_heads * (self.d + self.d_v))

    def turned(self, k: torch.Tensor, sign: int) -> torch.Tensor:
        """Rotates k [KV heads, tokens, d] by its positions, or back (-1)."""
        at = torch.arange(k.shape[-2], dtype=torch.float64)[:, None]
        angle = (sign * at * self.inv_freq).to(k.device)
        cos, sin = angle.cos().float(), angle.sin().float()
        half = self.d // 2
        pairs = torch.unflatten(
            k, -1, (half, 2) if self.paired else (2, half))  # fmt: skip
        of = -1 if self.paired else -2
        a, b = pairs.unbind(of)
        return torch.stack([a * cos - b * sin, a * sin + b * cos], of).flatten(
            -2
        )

    def vectors(self, call: Call) -> torch.Tensor:
        """float32 [tokens, width]: K of all KV heads before RoPE, then V."""
        both = self.turned(call.k[0].float(), -1), call.v[0].float()
        return torch.cat([x.transpose(0, 1).flatten(1) for x in both], 1)

    def attended(self, call: Call, x: torch.Tensor) -> torch.Tensor:
        """The attention's output with K and V from these vectors."""
        k, v = torch.split(
            x, [self.kv_heads * y for y in (self.d, self.d_v)], 1)  # fmt: skip
        k, v = (torch.unflatten(y, 1, (self.kv_heads, -1)).transpose(0, 1)
                for y in (k, v))  # fmt: skip
        k = self.turned(k, 1)[None].to(call.k.dtype)
        return call.plain(k, v[None].to(call.v.dtype))
