# SPDX-License-Identifier: Apache-2.0
"""Press(.., decode=True): a press whose session attends at decode steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from kvpress import PrefillDecodingPress
from torch import Tensor

from ..hf.model import LayerCall, need, to_numpy
from ..hf.plain import geometry
from .attention import Attention
from .press import Press


class SessionPress(Press, PrefillDecodingPress):
    """Press(.., decode=True): the session attends at decode steps. kvpress's
    pipeline keeps presses of this class active while it decodes. The model's
    cache grows as without a press, but nothing reads it, and rows omit it."""

    def attend(self, own: Attention, call: LayerCall) -> tuple[Tensor, Any]:
        """The model attends for the prompt, the session for later tokens."""
        module, query, key, value = call[:4]
        n, seen = query.shape[2], key.shape[2]
        self.check(call)
        if n == seen:
            self.feed(module, query, geometry(call)[-1], key, value)
            self.end(module)
            return own(*call[:5], **call.more)
        layer, s = module.layer_idx, self.session
        had = s.seen.get(layer) if s is not None else None
        need(
            had == seen - n,
            f"layer {layer} continues from {seen - n} tokens but the session "
            f"from {had}; the prompt must come at once, and later tokens "
            "cannot be undone (kvpress asks one question a prompt)",
        )
        need(
            seen <= self._prompt + self.room,
            f"{seen} tokens after a prompt of {self._prompt}; make "
            "Press(room=) as large as question and answer",
        )
        q, k, v = (to_numpy(x[:, :, -n:]) for x in (query, key, value))
        out = [
            self._open.block(layer, q[:, t:end], k[:, t:end], v[:, t:end], True)
            for t, end in ((t, t + 1) for t in range(n))
        ]
        self.end(module)
        x = np.ascontiguousarray(np.concatenate(out, 1).transpose(1, 0, 2))
        return torch.from_numpy(x)[None].to(query.device, query.dtype), None

    def compress(self, module: Any, hidden_states: Tensor, keys: Tensor,
                 values: Tensor, attentions: Tensor | None,
                 kwargs: dict[str, Any]) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Leaves the model's cache unchanged."""
        return keys, values

    def end(self, module: Any) -> None:
        """After the last layer: counts the step's bytes, updates the row."""
        if module.layer_idx != self._layers[-1]:
            return
        s = self._open
        step = s.seen[module.layer_idx]
        if step == self._prompt:
            self.rows.append({})
            self.kept = {
                l: [s.lane(l, g)[0] for g in range(s.lanes)]
                for l in self._layers
            }
        s.end_step(step)
        self.rows[-1] = self.row()
