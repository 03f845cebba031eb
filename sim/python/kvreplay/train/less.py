# SPDX-License-Identifier: Apache-2.0
"""Trains LESS's perceptrons, a pair per head, with the model in the loop:

    rows t >= budget of a piece, over its tokens 0 .. t:
      kept: the last `recent` tokens before t, t itself, and the budget - recent
        earlier ones with the most probability in all rows so far (summed over
        the group's heads; a token that is dropped starts again from 0)
      o^ = (sum kept e^s v + sum rest phi(q) psi(k) v) /
           (sum kept e^s   + sum rest phi(q) psi(k))
      phi(q) = |g(g(q A1') A2')|, psi(k) = |kappa + b (kappa B')|,
      kappa = |a| g(g(k C1') C2'), g = GELU
    loss  mean of ((o^ - o) W_o')^2; layers add up

As in the code of Dong et al. 2024 (LESS): the error is measured after the
layer's output projection; Adam with rate 1e-3, halved after each quarter of the
steps; the initial values. --loss mse is theirs: each layer learns from its
input in a clean pass. --loss both is ours: the model continues with o^, so that
a layer learns from its input after earlier approximations, and the loss of the
next token is added. Unlike here, they drop out .3 of the hidden units, and keep
the best epoch. `kvreplay train less` uses traces, which have no projection
(recorded.py). Needs torch."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Callable, List, Tuple

import torch
import torch.nn.functional as F

from ..need import need
from .trainer import Back, Begin, Call, Kind, Losses, Weights

if TYPE_CHECKING:
    from .frozen import Frozen
    from .pieces import Piece


class Perceptrons(Weights):
    """For all heads of a layer at once: [heads, ...]."""

    def __init__(self, frozen: Frozen, hidden: int, rank: int) -> None:
        super().__init__(frozen.layers)
        heads, kv, d = frozen.heads, frozen.kv_heads, frozen.d
        for part, *size in (
            ("query.in.weight", heads, hidden, d),
            ("query.out.weight", heads, rank, hidden),
            ("key.in.weight", kv, hidden, d),
            ("key.out.weight", kv, rank, hidden),
            ("key.mix.weight", kv, rank, rank),
        ):
            most = math.sqrt(6 / (size[1] + size[2]))
            self.declare(part, lambda: (torch.rand(size) * 2 - 1) * most)
        for part in "key.scale", "key.mix.scale":
            self.declare(part, lambda: torch.full((kv, rank), 1e-4))

    def low(self, l: int, of: str, x: torch.Tensor) -> torch.Tensor:
        """[heads, tokens, d] to [heads, tokens, rank]."""
        x = F.gelu(x @ self(l, of + ".in.weight").mT)
        return F.gelu(x @ self(l, of + ".out.weight").mT)

    def phi(self, l: int, q: torch.Tensor) -> torch.Tensor:
        """Features of queries, not negative."""
        return self.low(l, "query", q).abs()

    def psi(self, l: int, k: torch.Tensor) -> torch.Tensor:
        """Features of keys, not negative."""
        scale, mix = (self(l, x)[:, None] for x in
                      ("key.scale", "key.mix.scale"))  # fmt: skip
        kappa = scale.abs() * self.low(l, "key", k)
        return (kappa + mix * (kappa @ self(l, "key.mix.weight").mT)).abs()


@torch.no_grad()
def kept(p: torch.Tensor, budget: int) -> torch.Tensor:
    """Which tokens each row still has, bool [KV heads, rows, tokens]; rows
    before `budget`: all. p: probabilities, summed over a group's heads."""
    recent, n = budget // 2, p.shape[1]
    out = torch.ones_like(p, dtype=torch.bool).tril()
    total = p[:, :budget].sum(1)
    for t in range(budget, n):
        best = total[:, : t - recent].topk(budget - recent).indices
        out[:, t, : t - recent] = False
        out[:, t].scatter_(1, best, True)
        total = (total + p[:, t]) * out[:, t]
    return out


class Trainer(Kind):
    format = "kvreplay-less"

    def __init__(self, frozen: Frozen, a: argparse.Namespace) -> None:
        super().__init__(frozen, a)
        begin = Begin(a.begin, self.format)
        rank = begin.size(a.rank, "query.out.weight", 1, 8)
        hidden = begin.size(a.hidden, "query.out.weight", 2, 512)
        self.weights: Perceptrons = Perceptrons(frozen, hidden, rank)
        begin.fill(self.weights)

    def pace(self, done: float) -> float:
        return 0.5 ** int(4 * done)

    def fit(self, pieces: List[Piece]) -> List[Piece]:
        found = [x for x in pieces if x.ids.shape[1] > self.a.budget + 1]
        need(found, pieces[0].where, f"no piece has more than {self.a.budget} "
             "+ 1 tokens, so nothing is dropped; give longer prompts, or a "
             "smaller --budget")  # fmt: skip
        return found

    def outputs(
        self, call: Call
    ) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Three outputs [query heads, tokens, d_v]: from all tokens; from the
        kept ones with the perceptrons for the rest; from the kept ones only."""
        q, k, v = (x[0].float() for x in (call.q, call.k, call.v))
        group = len(q) // len(k)
        each = [x.repeat_interleave(group, 0) for x in (k, v)]
        n = q.shape[1]
        sees = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
        s = (q @ each[0].mT) * call.scale
        s = s.masked_fill(~sees, float("-inf"))
        top = s.amax(-1, keepdim=True)
        e = (s - top).exp()
        p = e / e.sum(-1, keepdim=True)
        has = kept(torch.unflatten(p, 0, (-1, group)).sum(1),
                   self.a.budget)  # fmt: skip
        has = has.repeat_interleave(group, 0)
        full, few = p @ each[1], e * has
        alone = few.sum(-1, keepdim=True)
        l, net = call.layer, self.weights
        psi = net.psi(l, k).repeat_interleave(group, 0)
        rest = (net.phi(l, q) @ psi.mT) * (sees & ~has) * (-top).exp()
        is_ = (few + rest) @ each[1] / (alone + rest.sum(-1, keepdim=True))
        return full, is_, few @ each[1] / alone

    def losses(self, piece: Piece, back: Back) -> Losses:
        runs_on = self.a.loss == "both"
        errors: List[torch.Tensor] = []
        without: List[torch.Tensor] = []

        def attend(call: Call) -> torch.Tensor:
            if not runs_on:
                call = call._replace(
                    **{x: getattr(call, x).detach() for x in "qkv"}
                )
            with torch.set_grad_enabled(wanted):
                full, is_, alone = self.outputs(call)
                error = self.apart(call, is_, full.detach())
            with torch.no_grad():
                without.append(self.apart(call, alone, full))
            if not runs_on:  # now, to hold the graph of only one layer
                back(error)
                error = error.detach()
            errors.append(error)
            out = is_ if runs_on else full.detach()
            return out.transpose(0, 1)[None]

        wanted, said = torch.is_grad_enabled(), {}
        if runs_on:
            next_token = self.frozen.next_token(piece.ids, attend)
            back(torch.stack(errors).sum() + next_token)
            said["next token"] = next_token.item()
        else:
            with torch.no_grad():
                self.each(piece, attend)
        return {"squared error": torch.stack(errors).mean().item(),
                "of what is kept alone": torch.stack(without).mean().item(),
                **said}  # fmt: skip

    def each(
        self, piece: Piece, attend: Callable[[Call], torch.Tensor]
    ) -> None:
        """Calls attend() for each layer in a clean pass."""
        self.frozen.run(piece.ids, attend, head=False)

    def apart(
        self, call: Call, a: torch.Tensor, b: torch.Tensor
    ) -> torch.Tensor:
        """The mean squared difference of rows after the output projection."""
        out = getattr(call.module, "o_proj", None)
        need(out is not None, call.layer, "the layer has no o_proj, after "
             "which outputs are compared; use a model like Llama"
             )  # fmt: skip
        assert out is not None  # need() has checked it
        rows = (a - b)[:, self.a.budget :].transpose(0, 1).flatten(1)
        return F.linear(rows, out.weight.float()).pow(2).mean()

    def tell(self) -> dict[str, object]:
        return dict(trained_budget=self.a.budget, trained_loss=self.a.loss)
