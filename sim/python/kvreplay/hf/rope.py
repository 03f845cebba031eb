# SPDX-License-Identifier: Apache-2.0
"""How a Hugging Face model turns its keys by their position (RoPE): found in
its modules, and proven by what its keys do. For recording (record/layers.py),
session.py and kvpress/. Needs torch.

A rotation is taken only where it is proven. A prompt of one token, PROBE times
over, goes through the model while every attention is given the same input at
every position. Its keys then differ by their positions alone, so key t must be
key 0 turned by t times the frequencies. A head may be turned in part: the other
channels must then be the same at every position.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional
from typing import Sequence, Tuple

import numpy as np
import torch

from ..trace import partial_rope
from .model import LayerCall, attending, decoder_of, register

PROBE = 48  # tokens of the prompt that proves a rotation


class Rope(NamedTuple):
    """The rotation of some layers, as a trace says it (traces/README.md)."""

    freq: Optional[np.ndarray]  # float32 [d / 2], 0 of a pair that stands still
    paired: bool  # turns (2i, 2i + 1), `interleaved`; else (i, i + d/2), `half`
    factor: float  # that is inside q and k already
    # int [d]: q[..., channels] and k[..., channels] are turned so; None: as is
    channels: Optional[np.ndarray] = None

    def same(self, other: "Rope") -> bool:
        """But for the frequencies: the same layout, factor and channels?"""
        return (self.paired, self.factor) == (other.paired, other.factor) and (
            np.array_equal(self.channels, other.channels)
            if self.channels is not None and other.channels is not None
            else self.channels is other.channels
        )

    def behind(self, old: int, new: int) -> "Rope":
        """Of heads whose first `old` channels do not turn, the rotation of
        heads with `new` others in their place; UNPROVEN of any other heads."""
        freq, channels = self.freq, self.channels
        if freq is None or not self.paired or old % 2 or new % 2:
            return UNPROVEN
        if freq[: old // 2].any():
            return UNPROVEN
        none = np.zeros(new // 2, np.float32)
        if channels is not None:
            last = channels[old:] + (new - old)
            channels = np.concatenate([np.arange(new), last])
        freq = np.concatenate([none, freq[old // 2 :]])
        return self._replace(freq=freq, channels=channels)

    def still(self) -> "Rope":
        """The rotation that turns nothing, in the same layout."""
        return self._replace(freq=np.zeros_like(self.freq))


UNPROVEN = Rope(None, False, 1.0)


def frequencies(module: Any) -> Iterator[Tuple[np.ndarray, float]]:
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


def ropes_of(model: Any) -> List[Tuple[np.ndarray, float]]:
    """What all modules of a model turn by: [(frequencies, factor)]."""
    return [y for x in decoder_of(model).modules() for y in frequencies(x)]


def one_input(
    module: Any, args: Tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """A hook before a module of a layer: what comes in is the first token's at
    every position, whatever the layers before it made of positions."""

    def constant(x: Any) -> Any:
        known = torch.is_tensor(x) and x.dim() == 3 and x.is_floating_point()
        known = known and x.shape[1] == PROBE
        return x[:, :1].expand_as(x) if known else x

    kwargs = {
        name: constant(x) if name == "hidden_states" else x
        for name, x in kwargs.items()
    }
    return tuple(map(constant, args[:1])) + args[1:], kwargs


def keys_of_one_token(model: Any) -> Dict[int, List[np.ndarray]]:
    """{layer: the keys float32 [PROBE, d] of each KV head} of a prompt that is
    one token over and over; {} where no module has frequencies to turn by."""
    keys: Dict[int, List[np.ndarray]] = {}
    if not ropes_of(model):
        return keys

    def attend(x: LayerCall) -> torch.Tensor:
        keys[x.layer] = [*x.k[0].detach().float().cpu().numpy()]
        v = x.v.repeat_interleave(x.q.shape[1] // x.v.shape[1], 1)
        return v.transpose(1, 2).contiguous()

    register("kvprobe", attend)
    pad = getattr(model.config.get_text_config(), "pad_token_id", None)
    token = 1 + (pad == 1)  # padding may have no embedding
    with attending(model, "kvprobe") as decoder, torch.no_grad():
        hooks = [
            x.register_forward_pre_hook(one_input, with_kwargs=True)
            for x in decoder.modules()
            if isinstance(getattr(x, "layer_idx", None), int)
        ]
        try:
            ids = torch.full((1, PROBE), token, device=model.device)
            decoder(input_ids=ids, use_cache=False)
        finally:
            for hook in hooks:
                hook.remove()
    return keys


def turned(
    keys: np.ndarray, freq: np.ndarray, paired: bool, by: Any
) -> np.ndarray:
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


def turns(keys: np.ndarray, rope: Rope, near: float) -> bool:
    """Is this the rotation of the keys [PROBE, d] of a prompt of one token?"""
    if rope.freq is None or keys.shape[1] != 2 * len(rope.freq):
        return False
    if rope.channels is not None:
        keys = keys[:, rope.channels]
    first, at = keys[:1].repeat(len(keys), 0), np.arange(len(keys))
    apart = abs(turned(first, rope.freq, rope.paired, at) - keys)
    return bool((apart <= near * abs(keys).max()).all())


def placed(
    d: int, freq: np.ndarray, paired: bool, factor: float
) -> Iterator[Rope]:
    """The ways in which these frequencies can turn heads of d channels: all of
    a head, its first channels (Phi, GLM) or its last (DeepSeek)."""
    rest = d - 2 * len(freq)
    if rest < 0 or d % 2:
        return
    none = np.zeros(rest // 2, np.float32)
    behind, before = (np.concatenate(x) for x in ((freq, none), (none, freq)))
    if paired:
        yield Rope(behind, True, factor)
        if rest:
            yield Rope(before, True, factor)
        return
    if not rest:
        yield Rope(freq, False, factor)
        return
    channels, _ = partial_rope(d, freq)
    yield Rope(behind, False, factor, channels)
    last = np.arange(rest, d).reshape(2, -1).T.reshape(-1)
    yield Rope(before, True, factor, np.concatenate([np.arange(rest), last]))


def proven(model: Any, keys: Sequence[np.ndarray]) -> Rope:
    """The one rotation that all keys [PROBE, d] of a prompt of one token have;
    UNPROVEN where there is none. A rotation the other way round, as some models
    have it, is one by negative frequencies."""
    near, found = max(1e-3, 8 * torch.finfo(model.dtype).eps), {}
    for freq, factor in ropes_of(model) if keys else ():
        for sign, paired in ((1, False), (1, True), (-1, False), (-1, True)):
            for x in placed(keys[0].shape[1], sign * freq, paired, factor):
                if x.freq is not None and all(turns(k, x, near) for k in keys):
                    found[x.freq.tobytes(), paired, factor] = x
    # Keys of zeros fit every way to turn them, and prove none.
    return [*found.values()][0] if len(found) == 1 else UNPROVEN


def unturned(model: Any, keys: Sequence[np.ndarray]) -> bool:
    """Are keys the same at every position, and not zero: without RoPE?"""
    near = max(1e-3, 8 * torch.finfo(model.dtype).eps)
    return bool(keys) and all(
        0 < abs(k).max() and (abs(k - k[:1]) <= near * abs(k).max()).all()
        for k in keys
    )


def rotation(
    model: Any, layers: Optional[Sequence[int]] = None
) -> Tuple[Optional[np.ndarray], bool, float]:
    """RoPE's d/2 frequencies, whether it pairs 2i with 2i+1, and the factor
    inside q and k, for those who take q and k with their channels in the
    model's order; None, False, 1 where that is not proven of each of the layers
    (None: of all). Methods that re-index then refuse."""
    of = keys_of_one_token(model)
    rope = proven(model, [
        k for l in sorted(of) if layers is None or l in layers for k in of[l]
    ])  # fmt: skip
    return (rope if rope.channels is None else UNPROVEN)[:3]
