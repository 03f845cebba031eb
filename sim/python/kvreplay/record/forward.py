# SPDX-License-Identifier: Apache-2.0
"""One forward pass that hands on each layer's q, k, v and output as soon as
attention has computed them, so that memory holds one layer. Needs torch."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping

import torch

from ..hf.load import ends_of, greedy
from ..hf.model import LayerCall, attending, need, register
from ..hf.plain import check_plain
from .attention import SECOND, own_output, second_of
from .latent import output
from .layers import Layers


def finite(x: torch.Tensor) -> bool:
    """Are all numbers finite? One pass, without a copy."""
    return all(y.isfinite() for y in torch.aminmax(x.detach()))


def bits(x: torch.Tensor) -> Any:
    """A tensor as an array in C order; bfloat16 as uint16."""
    x = x.detach().contiguous().cpu()
    if x.dtype == torch.bfloat16:
        x = x.view(torch.uint16)
    return x.numpy()


def rows_of(
    layers: Layers, call: LayerCall, out: torch.Tensor
) -> Dict[str, torch.Tensor]:
    """{q, k, v, o} of a layer, as in a trace."""
    layer = call.layer
    if not layers.look[layer].nope:
        return dict(q=call.q, k=call.k, v=call.v, o=out)
    x = layers.absorb(call)
    if x is None:
        raise ValueError(
            f"layer {layer}: its keys and values do not follow from its latent "
            "vectors; give --expanded, which records keys and values directly"
        )
    scale = layers.look[layer].alike[4]
    o = output(layer, x, scale, call.mask, out)
    return dict(q=x.q, k=x.k, v=x.v, o=o)


@torch.no_grad()
def forward(
    model: Any,
    layers: Layers,
    ids: torch.Tensor,
    windows: Mapping[int, int],
    take: Callable[..., None],
) -> None:
    """Calls take(layer, {q, k, v, o}, sinks) for the layers in windows {layer:
    tokens that a row sees, 0: all}. The tensors are [sequences, heads, tokens,
    d], o [sequences, heads, tokens, d_v], sinks [heads] or None. layers: the
    model's Layers. ids: [sequences, T] without padding."""
    wanted = {*windows}

    def attend(call: LayerCall) -> torch.Tensor:
        out, layer = own_output(own, call), call.layer
        if layer in wanted:
            wanted.remove(layer)
            check_plain(call, call.k.shape[2], ids.shape[0], windows[layer],
                        known=SECOND)
            x = rows_of(layers, call, out.transpose(1, 2))
            for name in x:
                need(
                    finite(x[name]),
                    f"layer {layer}: {name} holds NaN or Inf, because the "
                    "model's weights do or its type is too narrow (--dtype "
                    "f32)",
                )
            take(layer, x, second_of(call)[1])
        return out

    own = register("kvrecord", attend)
    with attending(model, "kvrecord") as decoder, layers.watching(decoder):
        decoder(input_ids=ids, use_cache=False)
    need(not wanted, f"layers {sorted(wanted)} did not attend")


def generate(model: Any, ids: torch.Tensor, new: int) -> List[List[int]]:
    """Greedy continuations of ids [sequences, P]: a list of `new` tokens each,
    or fewer, up to and including an end token."""
    ends, found = {*ends_of(model)}, []
    for row in greedy(model, ids, new)[:, ids.shape[1] :].tolist():
        stop = [i for i, x in enumerate(row) if x in ends]
        found.append(row[: stop[0] + 1] if stop else row)
    return found
