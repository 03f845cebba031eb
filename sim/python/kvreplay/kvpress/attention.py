# SPDX-License-Identifier: Apache-2.0
"""What a model's attention is called with, while a press holds it: the model's
own attention function is wrapped, whatever its name, so that masks and kernels
stay its own. Outside of `watched` nothing is changed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gemma3.modeling_gemma3 import Gemma3Attention

from ..hf.model import LayerCall

# An attention function of transformers: (module, query [1, heads, n, d],
# key [1, KV heads, seen, d], value, mask, ..) to ([1, n, heads, d_v], weights).
Attention = Callable[..., tuple[Tensor, Any]]
OWNER = "kvreplay_press"  # attribute of a watched attention module: who watches


def attention_modules(model: PreTrainedModel) -> dict[int, nn.Module]:
    """{layer: its attention} of those that presses compress: as kvpress, all
    but Gemma 3's layers with a sliding window."""
    inner = getattr(model.model, "language_model", model.model)
    own = [x.self_attn for x in inner.layers]
    return {
        x.layer_idx: x
        for x in own
        if not (isinstance(x, Gemma3Attention) and x.is_sliding)
    }


def _wrapped(own: Attention) -> Attention:
    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **kwargs: Any,
    ) -> tuple[Tensor, Any]:
        owner = getattr(module, OWNER, None)
        if owner is None:
            return own(module, query, key, value, attention_mask, **kwargs)
        call = LayerCall(module, query, key, value, attention_mask, kwargs)
        out: tuple[Tensor, Any] = owner.attend(own, call)
        return out

    return attention


@contextlib.contextmanager
def watched(model: PreTrainedModel, owner: Any) -> Iterator[None]:
    """While it lasts owner.attend(own, call) takes the place of the attention
    `own` of the layers that presses compress."""
    modules = attention_modules(model)
    name = model.config.get_text_config()._attn_implementation
    source = sys.modules[type(next(iter(modules.values()))).__module__]
    # Of a table, as kvpress puts its own there, or, eager, of the model's file.
    eager = name == "eager"
    table = vars(source) if eager else ALL_ATTENTION_FUNCTIONS
    key = "eager_attention_forward" if eager else name
    own = table[key]
    table[key] = _wrapped(own)
    for x in modules.values():
        setattr(x, OWNER, owner)
    try:
        yield
    finally:
        for x in modules.values():
            delattr(x, OWNER)
        table[key] = own
