# SPDX-License-Identifier: Apache-2.0
"""Checks that a model's attention is what traces and sessions can hold: plain
causal attention of one sequence, with keys rotated once. Anything else is a
ValueError, as early as possible."""

from __future__ import annotations

from typing import Any, Collection, Mapping, Optional

import torch

from .model import LayerCall, decoder_of, layer_of, need

# Arguments of attention functions that change the arithmetic.
OTHERS = (
    "softcap s_aux sinks position_bias indices block_indices cu_seq_lens_q"
).split()
# Layers that are plain if their mask hides nothing.
TYPES = {"attention", "full_attention", "sliding_attention"}
TYPES |= {"chunked_attention"}
# Layers without attention. A trace leaves them out; a session cannot.
STATES = {"linear_attention", "mamba", "mamba2", "conv", "recurrent"}
# The names of a window in calls, modules and configurations.
WINDOWS = "sliding_window", "attention_chunk_size"


def check_ids(ids: Any, prompt_len: int) -> None:
    """ValueError unless ids are [1, T] and prompt_len fits them."""
    shape: Any = getattr(ids, "shape", None)
    need(
        shape is not None,
        f'the tokens are a {type(ids).__name__}, not a tensor [1, T]; use '
        '["input_ids"] of what a tokenizer or chat template returns',
    )
    need(
        len(shape) == 2 and shape[0] == 1 and shape[1],
        f"the tokens have shape {[*shape]}; give one sequence, [1, T], as "
        "ids[None] of one dimension",
    )
    need(
        0 < prompt_len <= shape[1],
        f"prompt_len is {prompt_len}; it must be from 1 to {shape[1]}, and the "
        "tokens after it are decode steps",
    )


def check_layers(model: Any, known: Collection[str] = TYPES) -> None:
    """ValueError if the configuration names layers of other types."""
    config = model.config.get_text_config()
    kinds: Any = getattr(config, "layer_types", None) or ()
    others = sorted({*kinds} - {*known})
    need(not others, f"layers of {', '.join(others)}; use another model")


def stateful(model: Any) -> bool:
    """Does the model have a state besides keys and values?"""
    both = model, decoder_of(model)
    return any(getattr(x, "_is_stateful", False) for x in both)


def check_stateless(model: Any) -> None:
    """ValueError if the model has a state besides keys and values."""
    need(
        not stateful(model),
        f"{type(model).__name__} keeps a recurrent state, which a cache of "
        "keys and values does not hold, so it would generate other tokens; use "
        "another model (`kvreplay record` can record the attention layers of a "
        "hybrid model)",
    )


def original_length(config: Any) -> int:
    """The length beyond which a configuration uses longrope's long factors."""
    said = getattr(config, "rope_parameters", None) or {}
    for x in said, *(y for y in said.values() if isinstance(y, dict)):
        if "original_max_position_embeddings" in x:
            return int(x["original_max_position_embeddings"])
    return int(
        getattr(config, "original_max_position_embeddings", None)
        or config.max_position_embeddings
    )


def turned_otherwise_from(model: Any) -> Optional[tuple[int, bool]]:
    """(number of tokens beyond which a forward pass rotates all keys by other
    frequencies, do these change with every further token?), or None."""
    for rope in decoder_of(model).modules():
        kinds = getattr(rope, "rope_type", "")
        for kind in kinds.values() if isinstance(kinds, dict) else [kinds]:
            if kind == "longrope":
                return original_length(model.config.get_text_config()), False
            if "dynamic" in str(kind):
                return int(rope.original_max_seq_len), True
    return None


def check_turned_once(model: Any, prompt_len: int, n_tokens: int) -> None:
    """ValueError if the prompt's keys would differ from those in n_tokens."""
    limit, each = turned_otherwise_from(model) or (n_tokens, False)
    need(
        n_tokens <= limit
        or prompt_len == n_tokens
        or (prompt_len > limit and not each),
        f"a prompt of {prompt_len} of {n_tokens} tokens, and beyond {limit} the"
        " model turns its keys by other frequencies, so one forward over all "
        f"has other keys than its prompt: give {limit} tokens in all at most"
        + ("" if each else f", or a prompt of more than {limit}"),
    )


def window_of(
    module: Any, kwargs: Mapping[str, Any]
) -> tuple[Optional[int], bool]:
    """(how many tokens a layer sees, is it by chunks?); (None, False) if all.
    Decided by the call, else the module, else the configuration."""
    config = getattr(module, "config", None)
    kinds = getattr(config, "layer_types", None)
    full = kinds and "full" in kinds[layer_of(module)]
    for name in WINDOWS:
        x = getattr(config, name, None) if not full else None
        x = kwargs.get(name, getattr(module, name, x))
        if isinstance(x, int) and x > 0:
            return x, "chunk" in name
    return None, False


def shows(
    mask: torch.Tensor, n: int, n_seen: int, window: Optional[int] = None
) -> bool:
    """Does the mask of the last n of n_seen tokens show exactly the tokens up
    to each one's own, at most `window` of them (None: all)?"""
    sees = mask if mask.dtype == torch.bool else mask == 0
    for first in range(0, n, 1024):  # in parts, because a mask is large
        part = sees[..., first : first + 1024, :n_seen]
        at = torch.arange(part.shape[-2], device=mask.device)[:, None]
        back = at + (n_seen - n + first)
        back = back - torch.arange(n_seen, device=mask.device)
        want = (back >= 0) & (back < (window or n_seen))
        if not (part == want).all():
            return False
    return True


def check_mask(x: LayerCall, n_seen: int, window: Optional[int] = None) -> None:
    """ValueError unless the mask of the last of n_seen tokens is causal, with
    at most the window that the caller supports."""
    window = window if window and window < n_seen else None
    mask, n, layer = x.mask, x.q.shape[2], x.layer
    said, chunks = window_of(x.module, x.more)
    if mask is None:
        need(
            window is None,
            f"layer {layer} has a window of {window} tokens but sees all "
            f"{n_seen}; give at most {window}",
        )
        return
    if shows(mask, n, n_seen, window):
        return
    where = f"the mask of tokens {n_seen - n} to {n_seen - 1} hides"
    what = "chunks" if chunks else "a sliding window"
    need(
        window or not said or said >= n_seen,
        f"layer {layer} sees {said} tokens ({what}), but {n_seen} are given, "
        f"{where} earlier ones; give at most {said} tokens",
    )
    need(
        False,
        f"layer {layer}: {where} earlier ones (padding, chunks), shows later "
        "ones or adds to logits; give one sequence without padding",
    )


def check_plain(
    x: LayerCall,
    n_seen: int,
    sequences: int = 1,
    window: Optional[int] = None,
    known: Collection[str] = (),
) -> None:
    """ValueError unless the last of n_seen tokens attend to all before them, or
    to `window` of them. known: arguments of OTHERS that the caller supports."""
    (batch, _, n, _), kwargs = x.q.shape, x.more
    need(
        batch == sequences,
        f"a batch of {batch}: give one sequence and one beam",
    )
    names = [y for y in OTHERS if y not in known and kwargs.get(y) is not None]
    names += ["dropout"] if kwargs.get("dropout") else []
    causal = kwargs.get("is_causal")  # None: see torch's own attention
    causal = getattr(x.module, "is_causal", True) if causal is None else causal
    if x.mask is None and n > 1 and not causal:
        names += ["is_causal=False, so it sees later tokens"]
    need(
        not names,
        f"the model's attention has {', '.join(names)}, which is not "
        "supported; use another model (for dropout: model.eval())",
    )
    check_mask(x, n_seen, window)


def geometry(x: LayerCall) -> tuple[int, int, int, int, float]:
    """Query heads, KV heads, d, d_v and scale of a layer's attention."""
    scale = x.more.get("scaling")
    scale = x.q.shape[3] ** -0.5 if scale is None else float(scale)
    return x.q.shape[1], *x.k.shape[1::2], x.v.shape[3], scale
