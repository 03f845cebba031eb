# SPDX-License-Identifier: Apache-2.0
"""What a Hugging Face model calls its attention function with, as a session or
a trace wants it. The rotation is rope.py's, that it is plain attention is
plain.py's. For session.py, record/ and kvpress/; traces/README.md says by which
versions they ran."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Callable, Iterator, NamedTuple, Optional

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def need(true: object, sentence: str) -> None:
    """ValueError of that sentence unless true."""
    if not true:
        raise ValueError(sentence)


class LayerCall(NamedTuple):
    """What a layer calls its attention function with. more: the arguments that
    only some models have, and dropout."""

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
        """What an attention function of transformers makes of the call."""
        return function(*self[:5], **self.more)[0]


def register(
    name: str, attend: Callable[[LayerCall], torch.Tensor]
) -> Callable[..., Any]:
    """attend() becomes the attention function of that name. It gets the masks
    of torch's own attention: None where there is nothing but causality. Without
    a mask padding would pass unseen. Returns torch's own attention."""
    def go(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: Optional[torch.Tensor],
        dropout: float = 0.0,  # by its place, where kvpress wraps this
        **more: Any,
    ) -> tuple[torch.Tensor, None]:
        more["dropout"] = dropout
        call = LayerCall(module, query, key, value, attention_mask, more)
        return attend(call), None

    masks: Any = AttentionMaskInterface
    masks.register(name, masks()["sdpa"])
    attentions: Any = AttentionInterface
    attentions.register(name, go)
    # Most models read this table first: kvpress, once imported, has put a
    # wrapper of every function there, also of the one that this name had.
    ALL_ATTENTION_FUNCTIONS[name] = go
    torchs: Callable[..., Any] = attentions()["sdpa"]
    return torchs


def decoder_of(model: Any) -> Any:
    """The layers of the model that hold a cache, without what makes logits and
    without what sees or hears."""
    decoder = model.get_decoder()  # some call the head so
    known = hasattr(decoder, "set_attn_implementation")
    return decoder if known else model.base_model


@contextlib.contextmanager
def attending(model: Any, name: str) -> Iterator[Any]:
    """That decoder, while it attends by the function of that name."""
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
    """The number of the layer whose attention this is."""
    layer = getattr(module, "layer_idx", None)
    if isinstance(layer, int):
        return layer
    raise ValueError(
        f"{type(module).__name__} does not say which layer it is; use another "
        "model"
    )


def with_cache(decoder: Any, cache: Any) -> dict[str, Any]:
    """What hands a cache to a decoder: the word for it became another one in
    transformers 5.24."""
    known = inspect.signature(getattr(decoder, "forward", decoder)).parameters
    return {"cache" if "cache" in known else "past_key_values": cache}
