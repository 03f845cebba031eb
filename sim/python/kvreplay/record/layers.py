# SPDX-License-Identifier: Apache-2.0
"""Which layers of a model a trace can hold: those whose attention is plain and
of one geometry. Of each other layer, why it is left. Needs torch."""

import torch

from ..hf.model import attending, layer_of, need, register, rotation
from ..hf.plain import check_layers, check_plain, geometry, stateful, window_of
from ..hf.plain import STATES, TYPES


class Layers:
    """What a model's layers attend with, seen once on two tokens: geometry
    {layer: (heads, KV heads, d, d_v, scale)}, window {layer: tokens or None},
    left {layer: why it cannot be recorded}."""

    def __init__(self, model, ids):
        check_layers(model, TYPES | STATES)
        self.model, self.geometry, self.window, self.left = model, {}, {}, {}
        self.n = model.config.get_text_config().num_hidden_layers
        self.turns = {}  # {layers: their rotation}
        self.dtype = None  # that holds all of q, k and v
        self._look(ids)
        name = type(model).__name__
        need(
            self.geometry or self.left or not stateful(model),
            f"{name} remembers by a state and has no attention that could be "
            "seen (mamba, rwkv and their like have none, others attend by "
            "themselves): there is nothing to record; take another model",
        )
        need(
            self.geometry or self.left,
            f"{name}: the model attends by itself, not by transformers' "
            "attention interface, so its attention cannot be seen: take "
            "another model",
        )

    def _look(self, ids):
        def attend(
            module, query, key, value, attention_mask, dropout=0.0, **kwargs
        ):
            mask = attention_mask  # called so by keyword, too
            kwargs["dropout"], layer = dropout, layer_of(module)
            need(
                layer not in self.geometry and key.shape[2] == query.shape[2],
                f"layer {layer} attends twice, or to other tokens than its "
                "own: take a decoder alone",
            )
            try:
                check_plain(module, query, mask, key.shape[2], kwargs)
            except ValueError as e:
                self.left[layer] = str(e)
            self.geometry[layer] = geometry(query, key, value, kwargs)
            for x in query, key, value:
                kind = self.dtype or x.dtype
                self.dtype = torch.promote_types(kind, x.dtype)
            self.window[layer] = window_of(module, kwargs)
            return own(module, query, key, value, mask, **kwargs)

        own = register("kvgeometry", attend)
        with attending(self.model, "kvgeometry") as decoder, torch.no_grad():
            decoder(input_ids=ids[:, :2], use_cache=False)

    def why(self, layer, n_tokens):
        """Why this layer of a sequence of n tokens cannot be recorded; None:
        it can."""
        if layer in self.left:
            return self.left[layer]
        if layer not in self.geometry:
            return f"layer {layer} does not attend"
        window = self.window[layer]
        if window and window < n_tokens:
            return (
                f"layer {layer} sees {window} tokens (a sliding window or "
                f"chunks) and {n_tokens} are given: give {window} at most"
            )
        return None

    def of(self, n_tokens, asked=None):
        """The layers to record of n tokens: those asked for, else the most
        that attend alike."""
        why = {l: self.why(l, n_tokens) for l in range(self.n)}
        for l in asked or ():
            need(l < self.n, f"layer {l}: the model has {self.n}, from 0 on")
            need(not why[l], why[l])
        alike = {}
        for l in asked or why:
            if not why[l]:
                alike.setdefault(self.geometry[l], []).append(l)
        need(alike, *[why[l] for l in sorted(self.geometry)][:1])
        need(
            len(alike) == 1 or not asked,
            "the layers asked for attend by heads of different size or scale, "
            "a trace holds one: ask for "
            + " or ".join(",".join(map(str, x)) for x in alike.values()),
        )
        return max(alike.values(), key=len)

    def rotation(self, layers):
        key = tuple(layers)
        if key not in self.turns:
            self.turns[key] = rotation(self.model, key)
        return self.turns[key]
