# SPDX-License-Identifier: Apache-2.0
"""Multi-head latent attention (DeepSeek-V2, -V3 and the like) in the form that
engines store: one KV head, whose K is the latent vector followed by the rotated
channels, and whose V is the latent vector (`kv.shared` in a trace).
transformers expands it to a key and a value per query head. With kv_b_proj, the
matrix of this expansion,

    q' = [q_nope W_K, q_rope], k' = [latent, k_rope],
    o = (softmax(q' k') latent) W_V

is the same attention. This is proven for every layer: kv_b_proj must turn the
latent into its keys and values, and o must be its output. Needs torch."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, NamedTuple, Optional

import torch

from ..hf.model import LayerCall, need
from .attention import ROWS, added, second_of


class Absorbed(NamedTuple):
    """Tensors [sequences, heads (of k, v: 1), T, rank + rope (of v: rank)], and
    W_V [heads, d_v, rank] in binary32."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    up: torch.Tensor


def near(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Equal up to the rounding of x's type?"""
    most = 1e-4 if x.dtype == torch.float32 else 2e-2
    x, y = x.float(), y.float()
    return bool((x - y).norm() <= most * x.norm())


class Latents:
    """Collects the input of each kv_b_proj of a decoder."""

    def __init__(self) -> None:
        self.seen: Dict[int, torch.Tensor] = {}  # {id(attention): latent}

    @contextlib.contextmanager
    def watching(self, decoder: Any) -> Iterator[None]:
        """Collects within this context."""
        def look(module: Any) -> Any:
            def hook(_: Any, args: Any) -> None:
                self.seen[id(module)] = args[0]

            return module.kv_b_proj.register_forward_pre_hook(hook)

        hooks = [look(x) for x in decoder.modules() if hasattr(x, "kv_b_proj")]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            self.seen.clear()

    def absorb(self, x: LayerCall) -> Optional[Absorbed]:
        """A call in latent form, or None if it is not latent attention."""
        module, query, key, value = x[:4]
        latent = self.seen.pop(id(module), None)
        if latent is None or second_of(x) != (0, None):
            return None
        heads, d, d_v = query.shape[1], key.shape[3], value.shape[3]
        weight, rank = module.kv_b_proj.weight, latent.shape[-1]
        rope = getattr(module, "qk_rope_head_dim", 0)
        plain = weight.is_floating_point() and module.kv_b_proj.bias is None
        if not plain or weight.shape != (heads * (d - rope + d_v), rank):
            return None
        latent = latent.reshape(len(query), 1, -1, rank).to(key.dtype)
        up_k, up_v = weight.float().view(heads, -1, rank).split(
            [d - rope, d_v], 1)  # fmt: skip
        turns, wide = key[:, :1, :, d - rope :], latent.float()
        if not (
            (rank + rope) % 2 == 0
            and (key[..., d - rope :] == turns).all()
            and near(key[..., : d - rope], wide @ up_k.mT)
            and near(value, wide @ up_v.mT)
        ):
            return None
        still = (query[..., : d - rope].float() @ up_k).to(query.dtype)
        q = torch.cat([still, query[..., d - rope :]], -1)
        return Absorbed(q, torch.cat([latent, turns], -1), latent, up_v)


def output(
    layer: int,
    x: Absorbed,
    scale: float,
    mask: Optional[torch.Tensor],
    own: torch.Tensor,
) -> torch.Tensor:
    """softmax(q' k') latent, [sequences, heads, T, rank]. ValueError unless W_V
    turns it into `own`, the layer's output [sequences, heads, T, d_v]."""
    out, n, k = [], x.q.shape[2], x.k.float()
    for first in range(0, n, ROWS):
        end = min(n, first + ROWS)
        logits = x.q[:, :, first:end].float() @ k[:, :, :end].mT * scale
        logits += added(mask, first, end, k.device)
        out.append(logits.softmax(-1) @ k[:, :, :end, : x.v.shape[3]])
    of_latents = torch.cat(out, 2)
    need(
        near(own, of_latents @ x.up.mT),
        f"layer {layer}: attention to its latent vectors gives another output "
        "than the model's; give --expanded, which records the keys and values "
        "computed from them",
    )
    return of_latents.to(own.dtype)
