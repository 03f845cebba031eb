# SPDX-License-Identifier: Apache-2.0
"""The attention calls of a Hugging Face model, for session.py, record/ and
kvpress/. rope.py finds the rotation; plain.py checks that attention is plain.
traces/README.md has the tested versions."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Callable, Iterator, NamedTuple, Optional

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def need(true: object, sentence: str) -> None:
    """ValueError with this sentence unless true."""
    if not true:
        raise ValueError(sentence)


class LayerCall(NamedTuple):
    """Arguments of attention. more: dropout, and those of some models only."""

    module: Any
    q: torch.Tensor  # [sequences, query heads, tokens, d]
    k: torch.Tensor  # [sequences, KV heads, tokens seen, d]
    v: torch.Tensor
    mask: Optional[torch.Tensor]
    more: dict[str, Any]

    @property
    def layer(self) -> int:
        return layer_of(self.module)

    def by(self, function: Callable[..., Any]) -> Any:
        """Calls an attention function of transformers with these arguments."""
        return function(*self[:5], **self.more)[0]


def register(
    name: str, attend: Callable[[LayerCall], torch.Tensor]
) -> Callable[..., Any]:
    """Registers attend() as the attention function with this name. It gets the
    masks of torch's attention, None for plain causality, so that padding is
    noticed. Returns torch's attention."""
    def go(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: Optional[torch.Tensor],
        dropout: float = 0.0,  # positional when kvpress wraps this
        **more: Any,
    ) -> tuple[torch.Tensor, None]:
        more["dropout"] = dropout
        call = LayerCall(module, query, key, value, attention_mask, more)
        return attend(call), None

    masks: Any = AttentionMaskInterface
    masks.register(name, masks()["sdpa"])
    attentions: Any = AttentionInterface
    attentions.register(name, go)
    # Most models read this table first. Once imported, kvpress has wrapped all
    # functions in it, also an earlier one with this name.
    ALL_ATTENTION_FUNCTIONS[name] = go
    torchs: Callable[..., Any] = attentions()["sdpa"]
    return torchs


def decoder_of(model: Any) -> Any:
    """The decoder layers, which use a cache, without the output layer and
    without encoders for images or sound."""
    decoder = model.get_decoder()  # some models return the output layer
    known = hasattr(decoder, "set_attn_implementation")
    return decoder if known else model.base_model


@contextlib.contextmanager
def attending(model: Any, name: str) -> Iterator[Any]:
    """The decoder. Within this context it attends by the named function."""
    decoder = decoder_of(model)
    own = decoder.config._attn_implementation
    decoder.set_attn_implementation(name)
    try:
        yield decoder
    finally:
        decoder.set_attn_implementation(own)


def to_numpy(x: torch.Tensor) -> Any:
    """[1, heads, tokens, d] to [heads, tokens, d]; bfloat16 as its bits."""
    x = x.detach().cpu()[0]
    if x.dtype == torch.bfloat16:
        x = x.contiguous().view(torch.uint16)
    return x.numpy()


def layer_of(module: Any) -> int:
    """The number of the layer that an attention module belongs to."""
    layer = getattr(module, "layer_idx", None)
    if isinstance(layer, int):
        return layer
    raise ValueError(
        f"{type(module).__name__} does not say which layer it is; use another "
        "model"
    )


def with_cache(decoder: Any, cache: Any) -> dict[str, Any]:
    """The keyword argument for a cache. transformers 5.24 renamed it."""
    known = inspect.signature(getattr(decoder, "forward", decoder)).parameters
    return {"cache" if "cache" in known else "past_key_values": cache}
