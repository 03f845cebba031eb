# SPDX-License-Identifier: Apache-2.0
"""Trains DeltaKV's compressor with the model in the loop (Algorithm 1 of the
paper): the frozen model continues, layer by layer, with K and V rebuilt from
their latents. The loss is their squared error against a clean pass plus the
loss of the next token.

    kv_t  K of all KV heads before RoPE, then V, of token t
    m_t   mean of the k nearest earlier references: sinks, and the tokens at
          multiples of the stride
    z = f_c(kv_t) - f_c(m_t)     kv^_t = z W4' + m_t
    f_c(x) = (SiLU(x W1') * x W2') W3', the light one; initial weights are
             N(0, 0.02^2)

Hao et al. 2026, DeltaKV. AdamW with rate 2e-4, which rises in the first 2 % of
the steps and then falls to 0. The paper sums squared norms; the authors' code
takes means over tokens and channels and adds up layers, as here. recorded.py
trains without the model, on traces, with only the squared error
(`kvreplay train`). Needs torch."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, List, Optional

import torch
import torch.nn.functional as F

from ..need import need
from .trainer import Back, Begin, Call, Kind, Losses, Weights, fallen

if TYPE_CHECKING:
    from .frozen import Frozen
    from .pieces import Piece

IN, OUT, BACK = (
    "compress.in.weight",  # [2 hidden, width]: W1', then W2'; gelu: [hidden, ..
    "compress.out.weight",  # [latent, hidden]: W3'
    "decompress.out.weight",  # [width, latent]: W4'; gelu: [width, back]
)
BACK_IN = "decompress.in.weight"  # only gelu: [back, latent]


class Compressor(Weights):
    """For every layer. back: units of f_d; 0: the light one; else f_c and f_d
    are two layers each, with biases and GELU in between. alone: without means
    of references: z = f_c(kv_t), kv^_t = f_d(z), an ablation."""

    def __init__(
        self,
        layers: List[int],
        width: int,
        hidden: int,
        latent: int,
        back: int = 0,
        alone: bool = False,
    ) -> None:
        super().__init__(layers)
        self.hidden, self.latent = hidden, latent
        self.back, self.alone = back, alone
        for part, *size in (
            (IN, hidden if back else 2 * hidden, width),
            (OUT, latent, hidden),
            (BACK, width, back or latent),
            *([(BACK_IN, back, latent)] if back else []),
        ):
            self.declare(part, lambda: torch.randn(size) * 0.02)
            if back:
                self.declare(bias_of(part), lambda: torch.zeros(size[0]))

    def layer(self, l: int, part: str, x: torch.Tensor) -> torch.Tensor:
        bias = self(l, bias_of(part)) if self.back else None
        return F.linear(x, self(l, part), bias)

    def down(self, l: int, x: torch.Tensor) -> torch.Tensor:
        """f_c of rows [tokens, width]."""
        if self.back:
            return self.layer(l, OUT, F.gelu(self.layer(l, IN, x)))
        gate, up = self.layer(l, IN, x).chunk(2, -1)
        return self.layer(l, OUT, F.silu(gate) * up)

    def rebuild(
        self, l: int, x: torch.Tensor, mean: torch.Tensor
    ) -> torch.Tensor:
        """Rows, from their latents and the means of their references."""
        z = self.down(l, x) if self.alone else (
            self.down(l, x) - self.down(l, mean))  # fmt: skip
        if self.back:
            z = F.gelu(self.layer(l, BACK_IN, z))
        y = self.layer(l, BACK, z)
        return y if self.alone else y + mean


def bias_of(part: str) -> str:
    return part.replace("weight", "bias")


def means(
    x: torch.Tensor,
    at: torch.Tensor,
    refs: torch.Tensor,
    places: torch.Tensor,
    k: int,
) -> torch.Tensor:
    """For tokens `at`: the mean of the k nearest earlier ones of the references
    `refs` at `places`, or of fewer if there are fewer."""
    far = (refs * refs).sum(-1) - 2 * x.detach() @ refs.detach().T
    seen = places[None, :] < at[:, None]
    far = far.detach().masked_fill(~seen, float("inf"))
    value, which = far.topk(min(k, len(places)), -1, largest=False)
    near = value.isfinite()
    total = (refs[which] * near[..., None]).sum(1)
    return total / near.sum(-1, keepdim=True).clamp(min=1)


def places(n: int, sinks: int, stride: int) -> List[int]:
    """Which of n tokens are references."""
    return [t for t in range(n) if t < sinks or t % stride == 0]


class Rebuilding:
    """Attention for Frozen.run that rebuilds K and V of all tokens except sinks
    and, if refs is raw, references. Without a compressor it uses the means of
    references. Afterwards, by layer, for all tokens after the sinks: new, the
    rebuilt vectors, also of references that are used raw; mean, each token's
    mean of references."""

    def __init__(
        self,
        frozen: Frozen,
        net: Optional[Compressor],
        refs: str = "raw",
        stride: int = 10,
        k: int = 4,
        sinks: int = 8,
    ) -> None:
        self.frozen, self.net, self.refs = frozen, net, refs
        self.stride, self.k, self.sinks = stride, k, sinks
        self.new: dict[int, torch.Tensor] = {}
        self.mean: dict[int, torch.Tensor] = {}

    def coded(
        self, l: int, x: torch.Tensor, mean: torch.Tensor
    ) -> torch.Tensor:
        return self.net.rebuild(l, x, mean) if self.net else mean

    def rebuilt_references(
        self, l: int, x: torch.Tensor, where: torch.Tensor
    ) -> torch.Tensor:
        """One by one, because each can use the earlier ones."""
        refs: List[torch.Tensor] = []
        for i, t in enumerate(where.tolist()):
            row = x[t : t + 1]
            if t >= self.sinks:
                mean = means(row, where[i : i + 1], torch.cat(refs), where[:i],
                             self.k)  # fmt: skip
                row = self.coded(l, row, mean)
            refs.append(row)
        return torch.cat(refs)

    def rebuild(self, l: int, x: torch.Tensor) -> torch.Tensor:
        """Vectors [tokens, width] for the attention."""
        n = len(x)
        if n <= self.sinks:
            return x
        where = torch.tensor(places(n, self.sinks, self.stride),
                             device=x.device)  # fmt: skip
        refs = (
            x[where]
            if self.refs == "raw"
            else self.rebuilt_references(l, x, where)
        )
        at = torch.arange(self.sinks, n, device=x.device)
        self.mean[l] = means(x[self.sinks :], at, refs, where, self.k)
        self.new[l] = self.coded(l, x[self.sinks :], self.mean[l])
        out = torch.cat([x[: self.sinks], self.new[l]])
        return out.index_copy(0, where, refs)

    def __call__(self, call: Call) -> torch.Tensor:
        x = self.frozen.vectors(call)
        return self.frozen.attended(call, self.rebuild(call.layer, x))


FORMAT = "kvreplay-deltakv"


def compressor(
    frozen: Frozen,
    path: Optional[str],
    hidden: Optional[int] = None,
    latent: Optional[int] = None,
) -> Compressor:
    """The compressor in a file; without a path, one with random weights."""
    begin, width = Begin(path, FORMAT), frozen.width()
    kind = begin.meta.get("compressor", "swiglu")
    if "trained_references" in begin.meta:
        kind += " without references"
    need(kind == "swiglu", path, f"its compressor is {kind}, but --from needs "
         "swiglu with references, the default of `kvreplay train "
         "deltakv`")  # fmt: skip
    latent = begin.size(latent, OUT, 0, max(1, width // 4))
    hidden = begin.size(hidden, OUT, 1, width * 3 // 2)
    net = Compressor(frozen.layers, width, hidden, latent)
    begin.fill(net)
    return net


class Trainer(Kind):
    format, turning = FORMAT, True

    def __init__(self, frozen: Frozen, a: argparse.Namespace) -> None:
        super().__init__(frozen, a)
        self.weights: Compressor = compressor(
            frozen, a.begin, a.hidden, a.latent
        )

    def pace(self, done: float) -> float:
        return fallen(done, 0.02)

    def fit(self, pieces: List[Piece]) -> List[Piece]:
        least = self.a.sinks + 1
        found = [x for x in pieces if x.ids.shape[1] > least]
        need(found, pieces[0].where, f"no piece has more than {least} tokens, "
             f"and the first {self.a.sinks} are never coded; give longer "
             "prompts")  # fmt: skip
        return found

    def losses(self, piece: Piece, back: Back) -> Losses:
        a = self.a
        clean: dict[int, torch.Tensor] = {}

        def keep(call: Call) -> torch.Tensor:
            clean[call.layer] = self.frozen.vectors(call)[a.sinks :]
            return call.plain(call.k, call.v)

        delta = Rebuilding(self.frozen, self.weights, a.refs, a.stride, a.k,
                           a.sinks)  # fmt: skip
        with torch.no_grad():
            self.frozen.run(piece.ids, keep, head=False)
        if a.loss == "mse":
            self.frozen.run(piece.ids, delta, head=False)
            next_token = torch.zeros(())
        else:
            next_token = self.frozen.next_token(piece.ids, delta)
        error, without = (
            torch.stack([(y[l] - x).pow(2).mean() for l, x in clean.items()])
            for y in (delta.new, delta.mean)
        )
        back(error.sum() * (a.loss != "ntp") + next_token)
        said = {"squared error": error.mean().item(),
                "of the mean alone": without.mean().item()}  # fmt: skip
        if a.loss != "mse":
            said["next token"] = next_token.item()
        return said

    def tell(self) -> dict[str, object]:
        a, net = self.a, self.weights
        return dict(
            compressor="swiglu", latent=net.latent, hidden=net.hidden,
            trained_stride=a.stride, trained_k=a.k, trained_sinks=a.sinks,
            trained_loss=a.loss, trained_on=f"{a.refs} references",
        )  # fmt: skip
