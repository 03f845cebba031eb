# SPDX-License-Identifier: Apache-2.0
"""One forward, each layer's q, k, v and output handed on as torch's own
attention is done with it: no more than one layer is held. Needs torch."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import torch

from ..hf.load import ends_of, greedy
from ..hf.model import attending, layer_of, need, register
from ..hf.plain import check_plain
from .attention import SECOND, own_output, second_of
from .latent import output
from .layers import Layers


def finite(x: torch.Tensor) -> bool:
    """Is no number of a tensor NaN or Inf? In one pass, without a copy."""
    return all(y.isfinite() for y in torch.aminmax(x.detach()))


def bits(x: torch.Tensor) -> Any:
    """A tensor as an array in C order; bfloat16 as its bits."""
    x = x.detach().contiguous().cpu()
    if x.dtype == torch.bfloat16:
        x = x.view(torch.uint16)
    return x.numpy()


def rows_of(
    layers: Layers,
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: Optional[torch.Tensor],
    out: torch.Tensor,
    kwargs: Mapping[str, Any],
) -> Dict[str, torch.Tensor]:
    """What a trace holds of a layer's attention, {q, k, v, o}."""
    layer = layer_of(module)
    if not layers.look[layer].nope:
        return dict(q=query, k=key, v=value, o=out)
    x = layers.absorb(module, query, key, value, kwargs)
    if x is None:
        raise ValueError(
            f"layer {layer}: its keys and values are not those of its latent "
            "vectors: give --expanded, which records them as they are"
        )
    scale = layers.look[layer].alike[4]
    o = output(layer, x, scale, mask, out)
    return dict(q=x.q, k=x.k, v=x.v, o=o)


@torch.no_grad()
def forward(
    model: Any,
    layers: Layers,
    ids: torch.Tensor,
    windows: Mapping[int, int],
    take: Callable[..., None],
) -> None:
    """take(layer, {q, k, v, o}, sinks) for each layer of windows {layer: tokens
    that a row sees, 0: all}: tensors [sequences, heads, tokens, d], o
    [sequences, heads, tokens, d_v], sinks [heads] or None. layers: a Layers of
    the model; ids: [sequences, T], nothing padded."""
    wanted = {*windows}

    def attend(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: Optional[torch.Tensor],
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> Tuple[torch.Tensor, None]:
        out = own_output(
            own, module, query, key, value, attention_mask, **kwargs
        )
        layer = layer_of(module)
        if layer in wanted:
            wanted.remove(layer)
            check_plain(
                module, query, attention_mask, key.shape[2],
                {**kwargs, "dropout": dropout}, ids.shape[0], windows[layer],
                known=SECOND,
            )  # fmt: skip
            x = rows_of(
                layers, module, query, key, value, attention_mask,
                out.transpose(1, 2), kwargs)  # fmt: skip
            for name in x:
                need(
                    finite(x[name]),
                    f"layer {layer}: {name} holds NaN or Inf: the model's "
                    "weights do, or its type is too narrow (--dtype f32)",
                )
            take(layer, x, second_of(kwargs)[1])
        return out, None

    own = register("kvrecord", attend)
    with attending(model, "kvrecord") as decoder, layers.watching(decoder):
        decoder(input_ids=ids, use_cache=False)
    need(not wanted, f"layers {sorted(wanted)} did not attend")


def generate(model: Any, ids: torch.Tensor, new: int) -> List[List[int]]:
    """Of ids [sequences, P] what the model adds greedily to each, a list: new
    tokens, or fewer where it ended, that token included."""
    ends, found = {*ends_of(model)}, []
    for row in greedy(model, ids, new)[:, ids.shape[1] :].tolist():
        stop = [i for i, x in enumerate(row) if x in ends]
        found.append(row[: stop[0] + 1] if stop else row)
    return found
