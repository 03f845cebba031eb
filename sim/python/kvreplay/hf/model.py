# SPDX-License-Identifier: Apache-2.0
"""What a Hugging Face model calls its attention function with, as a session or
a trace wants it: rows in numpy, and the rotation. That it is plain attention is
plain.py's. For session.py, capture.py and kvpress.py; traces/README.md says
with which versions they ran."""

import contextlib
import inspect

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface

PROBE = 48  # tokens of the prompt that proves a rotation


def need(true, sentence):
    """ValueError unless true."""
    if not true:
        raise ValueError(sentence)


def register(name, attend):
    """The function, with the masks of torch's own attention: None where there
    is nothing but causality. Without a mask padding would pass unseen. Returns
    torch's own attention."""
    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, AttentionMaskInterface()["sdpa"])
    return AttentionInterface()["sdpa"]


def decoder_of(model):
    """The layers of the model that hold a cache, without what makes logits and
    without what sees or hears."""
    decoder = model.get_decoder()  # some call the head so
    known = hasattr(decoder, "set_attn_implementation")
    return decoder if known else model.base_model


@contextlib.contextmanager
def attending(model, name):
    """That decoder, while it attends by the function of that name."""
    decoder = decoder_of(model)
    own = decoder.config._attn_implementation
    decoder.set_attn_implementation(name)
    try:
        yield decoder
    finally:
        decoder.set_attn_implementation(own)


def to_numpy(x):
    """[1, heads, tokens, d] to [heads, tokens, d]; bfloat16 as its bits."""
    x = x.detach().cpu()[0]
    if x.dtype == torch.bfloat16:
        x = x.contiguous().view(torch.uint16)
    return x.numpy()


def layer_of(module):
    """The number of the layer whose attention this is."""
    layer = getattr(module, "layer_idx", None)
    need(
        isinstance(layer, int),
        f"{type(module).__name__} does not say of which layer it is: take "
        "another model",
    )
    return layer


def with_cache(decoder, cache):
    """What hands a cache to a decoder: the word for it became another one in
    transformers 5.24."""
    known = inspect.signature(getattr(decoder, "forward", decoder)).parameters
    return {"cache" if "cache" in known else "past_key_values": cache}


def keys_of_one_token(model, layers):
    """The keys [tokens, d] of every KV head of the layers (None: of all) where
    all tokens of the prompt are one and the same: values then are the same at
    every token, so attention, a mean of values, is the value, what enters each
    layer is the same, and keys differ by their positions alone."""
    keys = []

    def attend(module, query, key, value, *args, **kwargs):
        if layers is None or layer_of(module) in layers:
            keys.extend(key[0].detach().float().cpu().numpy())
        value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
        return value.transpose(1, 2).contiguous(), None

    register("kvprobe", attend)
    pad = getattr(model.config.get_text_config(), "pad_token_id", None)
    token = 1 + (pad == 1)  # padding may have no embedding
    with attending(model, "kvprobe") as decoder, torch.no_grad():
        ids = torch.full((1, PROBE), token, device=model.device)
        decoder(input_ids=ids, use_cache=False)
    return keys


def turned(keys, freq, paired, by):
    """Keys [tokens, d] turned further by so many positions [tokens]."""
    angle = np.asarray(by)[:, None] * freq.astype(np.float64)
    cos, sin, out = np.cos(angle), np.sin(angle), np.empty(keys.shape)
    half = keys.shape[1] // 2  # the first of each pair, and the second:
    a, b = slice(0, half), slice(half, None)
    if paired:
        a, b = slice(0, None, 2), slice(1, None, 2)
    out[:, a] = keys[:, a] * cos - keys[:, b] * sin
    out[:, b] = keys[:, a] * sin + keys[:, b] * cos
    return out


def turns(keys, freq, paired, near):
    """Is this the rotation of the keys of a prompt of one token?"""
    at = np.arange(len(keys))
    return keys.shape[1] == 2 * len(freq) and (
        abs(turned(keys[:1].repeat(len(keys), 0), freq, paired, at) - keys)
        <= near * abs(keys).max()
    ).all()


def frequencies(module):
    """(frequencies, factor) that a module turns by, if they stand still: one,
    or one for each type of layer (full_attention_inv_freq, ..)."""
    for name in sorted({*vars(module), *getattr(module, "_buffers", ())}):
        x = getattr(module, name, None)
        if not name.endswith("inv_freq") or "original" in name or x is None:
            continue
        of = name.removesuffix("_inv_freq") if name != "inv_freq" else ""
        kind = getattr(module, "rope_type", "")
        kind = kind.get(of, "") if isinstance(kind, dict) else kind
        if kind not in ("dynamic", "longrope"):
            own = (of and of + "_") + "attention_scaling"
            freq = x.detach().float().cpu().numpy()
            yield freq, getattr(module, own, 1.0)


def rotation(model, layers=None):
    """RoPE's d/2 frequencies, whether it pairs 2i with 2i+1, and the factor
    inside q and k; None, False, 1 where a prompt of one token does not prove
    that each of the layers (None: of all) turns whole heads by frequencies that
    stand still: methods that re-index then refuse. A rotation the other way
    round, as some models have it, is one by negative frequencies."""
    ropes = [y for x in decoder_of(model).modules() for y in frequencies(x)]
    keys, found = keys_of_one_token(model, layers) if ropes else [], {}
    near = max(1e-3, 8 * torch.finfo(model.dtype).eps)
    for freq, scale in ropes:
        for sign, paired in ((1, False), (1, True), (-1, False), (-1, True)):
            if keys and all(turns(k, sign * freq, paired, near) for k in keys):
                fits = sign * freq, paired, scale
                found[fits[0].tobytes(), paired, scale] = fits
    # Keys of zeros fit every way to turn them, and prove none.
    return [*found.values()][0] if len(found) == 1 else (None, False, 1.0)
