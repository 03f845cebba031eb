# SPDX-License-Identifier: Apache-2.0
"""What a Hugging Face model's attention has besides causality, as a session is
opened with it: windows, a cap on logits, learned sinks, and the rotation of
both kinds of layers. Seen by one forward of two tokens. Needs torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..record.layers import Layers
from .model import need


def variant_of(model: Any, n_tokens: int) -> dict[str, Any]:
    """Arguments of kvreplay.session.Session for n tokens: softcap, window,
    sinks, inv_freq, interleaved, inv_freq_windowed, as a recorder of these
    tokens would write them. ValueError where a session has no words for it."""
    pad = getattr(model.config.get_text_config(), "pad_token_id", None)
    two = 1 + (pad == 1), 2 + (pad in (1, 2))  # padding may have no embedding
    layers = Layers(model, torch.as_tensor(np.array([two])).to(model.device))
    look, seen = layers.look, sorted(layers.look)
    caps = {x.alike[-1] for x in look.values()}
    sinks = [layers.sinks[l].numpy() for l in sorted(layers.sinks)]
    need(
        len(caps) < 2 and len(sinks) in (0, layers.n),
        "some layers have a cap on their logits, or sinks, and others have "
        "not: a session has them in all; take another model",
    )
    turns = layers.rotation(seen)
    rope = turns.rope if turns.rope.channels is None else None
    window = layers.windows(seen, n_tokens)
    return dict(
        softcap=min(caps, default=0.0),
        window=window if any(window) else None,
        sinks=np.stack(sinks) if sinks else None,
        inv_freq=rope.freq if rope else None,
        interleaved=bool(rope and rope.paired),
        inv_freq_windowed=turns.windowed if rope else None,
    )
