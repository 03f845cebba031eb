# SPDX-License-Identifier: Apache-2.0
"""Intercepts the attention calls of a model while a press is active. Wraps the
model's attention function, whatever its name, so that it keeps its masks and
kernels. Changes nothing outside of `watched`."""

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

# transformers' attention functions: (module, query [1, heads, n, d],
# key [1, KV heads, seen, d], value, mask, ..) to ([1, n, heads, d_v], weights).
Attention = Callable[..., tuple[Tensor, Any]]
OWNER = "kvreplay_press"  # attribute of an attention module: its press


def attention_modules(model: PreTrainedModel) -> dict[int, nn.Module]:
    """{layer: attention module} that presses compress. Like kvpress, leaves out
    Gemma 3's layers with a sliding window."""
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
    """Within this context owner.attend(own, call) replaces the attention `own`
    of the layers that presses compress."""
    modules = attention_modules(model)
    name = model.config.get_text_config()._attn_implementation
    source = sys.modules[type(next(iter(modules.values()))).__module__]
    # Eager attention is in the model's file; all others, and kvpress's wrapper,
    # are in the table.
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
