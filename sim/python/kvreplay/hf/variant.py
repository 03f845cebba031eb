# SPDX-License-Identifier: Apache-2.0
"""What a Hugging Face model's attention has besides causality, as a session is
opened with it: windows, a cap on logits, learned sinks, and the rotation of
both kinds of layers. Seen by one forward of two tokens. Needs torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..record.layers import Layers


def variant_of(model: Any, n_tokens: int) -> dict[str, Any]:
    """Arguments of kvreplay.session.Session for n tokens: softcap, window,
    sinks, inv_freq, interleaved, inv_freq_windowed, as a recorder of these
    tokens would write them. ValueError where a session has no words for it."""
    pad = getattr(model.config.get_text_config(), "pad_token_id", None)
    two = 1 + (pad == 1), 2 + (pad in (1, 2))  # padding may have no embedding
    layers = Layers(model, torch.as_tensor(np.array([two])).to(model.device))
    layers.check_session()
    every = [*range(layers.n)]
    sinks = [layers.sinks[l].numpy() for l in sorted(layers.sinks)]
    turns = layers.rotation(every)
    rope = turns.rope if turns.rope.channels is None else None
    window = layers.windows(every, n_tokens)
    return dict(
        softcap=layers.look[0].alike[-1],
        window=window if any(window) else None,
        sinks=np.stack(sinks) if sinks else None,
        inv_freq=rope.freq if rope else None,
        interleaved=bool(rope and rope.paired),
        inv_freq_windowed=turns.windowed if rope else None,
    )
