# SPDX-License-Identifier: Apache-2.0
"""Computes a layer's output, to record it and to continue with it: by torch's
attention, or by the model's eager function if logits have a cap or a learned
sink, because torch's ignores both. Needs torch."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional, Tuple

import torch

from ..hf.model import LayerCall

# Arguments of attention functions that torch's attention lacks and a trace of
# version 2 has: the cap on logits, and the sinks, [heads].
SECOND = "softcap", "s_aux"
ROWS = 256  # query rows computed at once


def second_of(x: LayerCall) -> Tuple[float, Optional[torch.Tensor]]:
    """A call's cap (0: none) and sinks, [heads] or None."""
    softcap, sinks = (x.more.get(y) for y in SECOND)
    return float(softcap or 0), sinks


def added(
    mask: Optional[torch.Tensor],
    first: int,
    end: int,
    device: torch.device,
    cached: int = 0,
) -> torch.Tensor:
    """What to add to the logits of rows first..end, [.., end - first, cached +
    end]: 0, or binary32's lowest number for tokens that a row does not see.
    mask: None (causal), boolean (True: seen) or such numbers, [.., T, cached +
    T]. cached: tokens before the first row."""
    if mask is None:
        shape = end - first, cached + end
        sees = torch.ones(shape, dtype=torch.bool, device=device)
        sees = sees.tril(cached + first)
    else:
        sees = mask[..., first:end, : cached + end]
        sees = sees if sees.dtype == torch.bool else sees == 0
    zero = torch.zeros((), device=device)
    out = zero.where(sees, torch.finfo(torch.float32).min)
    return out if out.dim() == 4 else out[None, None]


def eager(x: LayerCall) -> torch.Tensor:
    """The model's own attention function in binary32, some rows at a time:
    [sequences, T, heads, d_v] in query's type. Some models compute 16-bit
    logits, whose error would exceed the rounding of the softmax."""
    home = sys.modules[type(x.module).__module__]
    function = getattr(home, "eager_attention_forward", None)
    if function is None:
        raise ValueError(
            f"layer {x.layer}: {home.__name__} has a cap on logits or learned "
            "sinks but no eager_attention_forward to compute them; use another "
            "model"
        )
    q, k, v = (y.float() for y in x[1:4])
    out, n = [], q.shape[2]
    cached = k.shape[2] - n
    for first in range(0, n, ROWS):
        end = min(n, first + ROWS)
        seen = slice(0, cached + end)
        part = x._replace(q=q[:, :, first:end], k=k[:, :, seen],
                          v=v[:, :, seen],
                          mask=added(x.mask, first, end, q.device, cached))
        out.append(part.by(function))
    return torch.cat(out, 1).to(x.q.dtype)


def own_output(torchs: Callable[..., Any], x: LayerCall) -> torch.Tensor:
    """Attention of the last tokens, [sequences, T, heads, d_v]. torchs: torch's
    attention, from register()."""
    if second_of(x) == (0, None):
        out: torch.Tensor = x.by(torchs)
        return out
    return eager(x)
