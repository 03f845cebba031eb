# SPDX-License-Identifier: Apache-2.0
"""Finds the layers that a trace can hold: those with supported attention, of
one geometry. Says why each other layer is left out. Needs torch."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager, Dict, List, Mapping, NamedTuple
from typing import Optional, Tuple

import numpy as np
import torch

from ..hf.model import LayerCall, attending, need, register
from ..hf.plain import check_layers, check_plain, geometry, stateful, window_of
from ..hf.plain import STATES, TYPES
from ..hf.rope import UNPROVEN, Rope, keys_of_one_token, proven, unturned
from .attention import SECOND, own_output, second_of
from .latent import Absorbed, Latents
from .progress import spans


class Look(NamedTuple):
    """How a layer attends. A trace holds layers of one `alike`."""

    # Query heads, KV heads, d, d_v, scale, softcap (0: none).
    alike: Tuple[Any, ...]
    window: Optional[int]  # tokens that a row sees; None: all
    chunks: bool  # the window consists of chunks, which are not supported
    sinks: bool  # has each query head a learned sink?
    nope: int  # in latent form: channels of the expanded key that do not
    #            rotate; else 0


class Turns(NamedTuple):
    """The rotation of a trace's layers. windowed: the frequencies [d / 2] of
    layers with a window, if different."""

    rope: Rope
    windowed: Optional[np.ndarray] = None


def owner_of(
    module: Any, key: torch.Tensor, keys: Mapping[int, torch.Tensor]
) -> Optional[str]:
    """The earlier layer whose K and V this layer reads, or None. keys: of
    earlier layers. Without a cache, transformers before 5.24 does not give such
    a layer the K and V, but names their layer."""
    for layer, x in keys.items():
        if x.data_ptr() == key.data_ptr():
            return f"layer {layer}"
    if not getattr(module, "is_kv_shared_layer", False):
        return None
    owner = getattr(module, "kv_shared_layer_index", None)
    return "an earlier layer" if owner is None else f"layer {owner}"


def key_bias(x: LayerCall) -> Optional[torch.Tensor]:
    """What the layer adds to each key before RoPE, [KV heads, d]; None:
    nothing, or it normalises keys afterwards."""
    bias = getattr(getattr(x.module, "k_proj", None), "bias", None)
    heads, d = x.k.shape[1], x.k.shape[3]
    if bias is None or bias.numel() != heads * d:
        return None
    if any("norm" in name for name, _ in x.module.named_children()):
        return None
    return bias.detach().float().cpu().view(heads, d)


class Layers:
    """A model's attention, observed on two tokens: look {layer: Look}, left
    {layer: why it cannot be recorded}, dtype, which holds all q, k and v.
    latent: record multi-head latent attention in latent form."""

    def __init__(
        self, model: Any, ids: torch.Tensor, latent: bool = False
    ) -> None:
        check_layers(model, TYPES | STATES)
        self.model, self.latents = model, Latents() if latent else None
        self.look: Dict[int, Look] = {}
        self.left: Dict[int, str] = {}
        self.n = model.config.get_text_config().num_hidden_layers
        # {layers: their rotation}
        self.turns: Dict[Tuple[int, ...], Turns] = {}
        # From keys_of_one_token(), once needed.
        self.keys: Optional[Dict[int, List[np.ndarray]]] = None
        self.sinks: Dict[int, torch.Tensor] = {}  # {layer: [heads]}
        self.biases: Dict[int, torch.Tensor] = {}  # {layer: key_bias()}
        self.dtype: Optional[torch.dtype] = None
        self._look(ids)
        name = type(model).__name__
        need(
            self.look or self.left or not stateful(model),
            f"{name} keeps a recurrent state and has no visible attention "
            "(mamba, rwkv and their like have none, others compute it "
            "themselves), so there is nothing to record; use another model",
        )
        need(
            self.look or self.left,
            f"{name}: the model computes attention itself, not through "
            "transformers' attention interface, so it cannot be recorded; use "
            "another model",
        )

    def _look(self, ids: torch.Tensor) -> None:
        keys: Dict[int, torch.Tensor] = {}

        def attend(x: LayerCall) -> torch.Tensor:
            layer = x.layer
            need(
                layer not in self.look and x.k.shape[2] == x.q.shape[2],
                f"layer {layer} attends twice, or to other tokens than its "
                "own; use a decoder-only model",
            )
            try:
                check_plain(x, x.k.shape[2], known=SECOND)
            except ValueError as e:
                self.left[layer] = str(e)
            owner = owner_of(x.module, x.k, keys)
            if owner:
                self.left[layer] = f"layer {layer} reads the K and V of {owner}"
            keys[layer] = x.k
            self.look[layer] = self._one(x)
            for y in x.q, x.k, x.v:
                kind = self.dtype or y.dtype
                self.dtype = torch.promote_types(kind, y.dtype)
            return own_output(own, x)

        own = register("kvgeometry", attend)
        with attending(self.model, "kvgeometry") as decoder, torch.no_grad():
            with self.watching(decoder):
                decoder(input_ids=ids[:, :2], use_cache=False)

    def watching(self, decoder: Any) -> ContextManager[None]:
        """A context that collects latent vectors, if wanted."""
        if self.latents is None:
            return contextlib.nullcontext()
        return self.latents.watching(decoder)

    def absorb(self, x: LayerCall) -> Optional[Absorbed]:
        """An attention call in latent form; None: as it is."""
        return None if self.latents is None else self.latents.absorb(x)

    def _one(self, x: LayerCall) -> Look:
        shape, nope = geometry(x), 0
        y = self.absorb(x)
        if y:
            nope = x.k.shape[3] - x.module.qk_rope_head_dim
            shape = shape[0], 1, y.k.shape[3], y.v.shape[3], shape[4]
        softcap, sinks = second_of(x)
        if sinks is not None:
            self.sinks[x.layer] = sinks.detach().float().cpu()
        bias = None if y else key_bias(x)
        if bias is not None:
            self.biases[x.layer] = bias
        window = window_of(x.module, x.more)
        return Look((*shape, softcap), *window, sinks is not None, nope)

    def why(self, layer: int, n_tokens: int) -> Optional[str]:
        """Why this layer of n tokens cannot be recorded, or None."""
        if layer in self.left:
            return self.left[layer]
        if layer not in self.look:
            return f"layer {layer} does not attend"
        x = self.look[layer]
        if x.chunks and x.window and x.window < n_tokens:
            return (
                f"layer {layer} sees chunks of {x.window} tokens but "
                f"{n_tokens} are given; give at most {x.window}"
            )
        return None

    def left_out(
        self, wanted: List[int], n_tokens: int, asked: bool = False
    ) -> str:
        """Which layers are not wanted, and why. asked: the user chose `wanted`;
        then layers that could be recorded are not mentioned."""
        found: Dict[str, List[int]] = {}
        for l in sorted({*range(self.n)} - {*wanted}):
            why = self.why(l, n_tokens)
            if why or not asked:
                why = why or "heads of another size or scale"
                found.setdefault(why.removeprefix(f"layer {l} "), []).append(l)
        return "; ".join(f"{spans(x)}: {why}" for why, x in found.items())

    def check_session(self) -> None:
        """ValueError unless a session can hold it: all layers, all alike."""
        of = {l: x.alike for l, x in sorted(self.look.items())}
        one, *more = dict.fromkeys(of.values())
        others = [l for l in of if of[l] != one]
        need(
            not others,
            f"layers {spans(others)} have heads, KV heads, d, d_v, scale and "
            f"softcap {', '.join(map(str, more))}, but the others {one}; a "
            "session needs the same in all layers, so use another model",
        )
        for l in range(self.n):
            why = self.why(l, 1)
            need(not why, f"{why}, but a session needs K and V of its own for "
                 "every layer; use another model")  # fmt: skip
        need(
            len(self.sinks) in (0, self.n),
            "some layers have learned sinks and others do not, but a session "
            "needs them in all; use another model",
        )

    def session(self, n_tokens: int) -> Dict[str, Any]:
        """The arguments of a Session of n tokens for what attention has besides
        causality. ValueError if a session cannot have it."""
        self.check_session()
        every = [*range(self.n)]
        sinks = [x.numpy() for _, x in sorted(self.sinks.items())]
        bias = [x for _, x in sorted(self.k_bias(every).items())]
        (freq, paired, *_), windowed = self.rotation(every)
        windows = self.windows(every, n_tokens)
        return dict(
            softcap=self.look[0].alike[-1],
            window=windows if any(windows) else None,
            sinks=np.stack(sinks) if sinks else None, inv_freq=freq,
            interleaved=paired, inv_freq_windowed=windowed,
            k_bias=np.stack(bias) if bias else None)

    def k_bias(self, layers: List[int]) -> Dict[int, np.ndarray]:
        """{layer: the bias in its recorded keys, [KV heads, d]}: with RoPE's
        factor, in the order of channels of rotation(). {} unless all have one
        and rotate by fixed frequencies."""
        rope = self.rotation(layers).rope
        if rope.freq is None or not {*layers} <= {*self.biases}:
            return {}
        of = {l: self.biases[l].numpy() * np.float32(rope.factor)
              for l in layers}  # fmt: skip
        if rope.channels is None:
            return of
        return {l: x[:, rope.channels] for l, x in of.items()}

    def window(self, layer: int, n_tokens: int) -> Optional[int]:
        """How many tokens a row of this layer sees; None: all n."""
        window = self.look[layer].window
        return window if window and window < n_tokens else None

    def windows(self, layers: List[int], n_tokens: int) -> List[int]:
        """The window of each layer of the model, 0: none. All are 0 if no
        window hides a token and all layers rotate alike."""
        needed = self.rotation(layers).windowed is not None
        if not needed and not any(self.window(l, n_tokens) for l in layers):
            return [0] * self.n
        of = {l: x.window for l, x in self.look.items() if not x.chunks}
        return [of.get(l) or 0 for l in range(self.n)]

    def of(
        self, n_tokens: int, asked: Optional[List[int]] = None
    ) -> List[int]:
        """The layers to record: those asked for, else the group of equal layers
        with the most layers without a window (ties: the largest group)."""
        why = {l: self.why(l, n_tokens) for l in range(self.n)}
        for l in asked or ():
            need(l < self.n, f"layer {l}: the model has {self.n} layers, from "
                 "0 on")
            need(not why[l], f"{why[l]}; leave it out")
        alike: Dict[Tuple[Any, ...], List[int]] = {}
        for l in asked or why:
            if not why[l]:
                alike.setdefault(self.look[l].alike, []).append(l)
        need(alike, *[why[l] or "" for l in sorted(self.look)][:1])
        need(
            len(alike) == 1 or not asked,
            "the layers asked for attend by heads of different size or scale, "
            "a trace holds one: ask for "
            + " or ".join(",".join(map(str, x)) for x in alike.values()),
        )

        def worth(layers: List[int]) -> Tuple[int, int]:
            full = [l for l in layers if not self.window(l, n_tokens)]
            return len(full), len(layers)

        return max(alike.values(), key=worth)

    def rotation(self, layers: List[int]) -> Turns:
        """The proven rotation of these layers."""
        key = tuple(layers)
        if key not in self.turns:
            self.turns[key] = self._rotation(layers)
        return self.turns[key]

    def _rotation(self, layers: List[int]) -> Turns:
        if self.keys is None:
            self.keys = keys_of_one_token(self.model)
        kinds: Dict[bool, List[np.ndarray]] = {}
        for l in layers:
            of = kinds.setdefault(bool(self.look[l].window), [])
            of.extend(self.keys.get(l, ()))
        both = {x: proven(self.model, y) for x, y in kinds.items()}
        if len(both) == 1:
            rope, x = *both.values(), self.look[layers[0]]
            return Turns(rope.behind(x.nope, x.alike[3]) if x.nope else rope)
        for kind in both:  # some layers have no RoPE, others have
            if both[kind].freq is None and both[not kind].freq is not None:
                if unturned(self.model, kinds[kind]):
                    both[kind] = both[not kind].still()
        full, windowed = both[False], both[True]
        if full.freq is None or windowed.freq is None:
            return Turns(UNPROVEN)
        if not full.same(windowed):
            return Turns(UNPROVEN)
        if any(self.look[l].nope for l in layers):
            return Turns(UNPROVEN)
        if np.array_equal(full.freq, windowed.freq):
            return Turns(full)
        return Turns(full, windowed.freq)
