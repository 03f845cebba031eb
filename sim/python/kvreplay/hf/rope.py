# SPDX-License-Identifier: Apache-2.0
"""Finds how a Hugging Face model rotates its keys by position (RoPE). For
record/layers.py, session.py and kvpress/. Needs torch.

A rotation counts only if it is proven. The proof runs a prompt of one token,
repeated PROBE times, while every layer gets the same input at all positions. So
keys differ only by position: key t must be key 0 rotated by t times the
frequencies. Channels that do not rotate must be equal at all positions."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional
from typing import Sequence, Tuple

import numpy as np
import torch

from ..trace import partial_rope
from .model import LayerCall, attending, decoder_of, register

PROBE = 48  # tokens in the prompt of the proof


class Rope(NamedTuple):
    """The rotation of some layers, as in a trace (traces/README.md)."""

    freq: Optional[np.ndarray]  # float32 [d / 2]; 0: a pair does not rotate
    paired: bool  # pairs (2i, 2i + 1), `interleaved`; else (i, i + d/2), `half`
    factor: float  # q and k already contain it
    # int [d]: the order of channels that has this layout; None: the model's
    channels: Optional[np.ndarray] = None

    def same(self, other: "Rope") -> bool:
        """Are layout, factor and channels the same?"""
        return (self.paired, self.factor) == (other.paired, other.factor) and (
            np.array_equal(self.channels, other.channels)
            if self.channels is not None and other.channels is not None
            else self.channels is other.channels
        )

    def behind(self, old: int, new: int) -> "Rope":
        """For heads whose first `old` channels do not rotate: the rotation with
        `new` such channels instead. UNPROVEN for other heads."""
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
        """The same layout without any rotation."""
        return self._replace(freq=np.zeros_like(self.freq))


UNPROVEN = Rope(None, False, 1.0)


def frequencies(module: Any) -> Iterator[Tuple[np.ndarray, float]]:
    """A module's fixed (frequencies, factor): one, or one for each type of
    layer (full_attention_inv_freq, ..)."""
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
    """The [(frequencies, factor)] of all modules of a model."""
    return [y for x in decoder_of(model).modules() for y in frequencies(x)]


def one_input(
    module: Any, args: Tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """A hook before a layer's module: copies the first token's input to all
    positions, so that earlier layers' use of positions does not matter."""

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
    """{layer: each KV head's keys, float32 [PROBE, d]} for a prompt that
    repeats one token; {} if no module has frequencies."""
    keys: Dict[int, List[np.ndarray]] = {}
    if not ropes_of(model):
        return keys

    def attend(x: LayerCall) -> torch.Tensor:
        keys[x.layer] = [*x.k[0].detach().float().cpu().numpy()]
        v = x.v.repeat_interleave(x.q.shape[1] // x.v.shape[1], 1)
        return v.transpose(1, 2).contiguous()

    register("kvprobe", attend)
    pad = getattr(model.config.get_text_config(), "pad_token_id", None)
    token = 1 + (pad == 1)  # the padding token may have no embedding
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
    """Keys [tokens, d], each rotated by `by` [tokens] positions."""
    angle = np.asarray(by)[:, None] * freq.astype(np.float64)
    cos, sin, out = np.cos(angle), np.sin(angle), np.empty(keys.shape)
    half = keys.shape[1] // 2  # the first and the second of each pair:
    a, b = slice(0, half), slice(half, None)
    if paired:
        a, b = slice(0, None, 2), slice(1, None, 2)
    out[:, a] = keys[:, a] * cos - keys[:, b] * sin
    out[:, b] = keys[:, a] * sin + keys[:, b] * cos
    return out


def turns(keys: np.ndarray, rope: Rope, near: float) -> bool:
    """Do the keys [PROBE, d] of one token have this rotation?"""
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
    """The possible rotations of heads with d channels by these frequencies: of
    all channels, the first ones (Phi, GLM), or the last ones (DeepSeek)."""
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
    """The only rotation that fits all keys [PROBE, d] of one token, else
    UNPROVEN. Negative frequencies rotate backwards, as some models do."""
    near, found = max(1e-3, 8 * torch.finfo(model.dtype).eps), {}
    for freq, factor in ropes_of(model) if keys else ():
        for sign, paired in ((1, False), (1, True), (-1, False), (-1, True)):
            for x in placed(keys[0].shape[1], sign * freq, paired, factor):
                if x.freq is not None and all(turns(k, x, near) for k in keys):
                    found[x.freq.tobytes(), paired, factor] = x
    # Keys of zeros fit any rotation, so they prove none.
    return [*found.values()][0] if len(found) == 1 else UNPROVEN


def unturned(model: Any, keys: Sequence[np.ndarray]) -> bool:
    """Are keys equal at every position and not zero, as without RoPE?"""
    near = max(1e-3, 8 * torch.finfo(model.dtype).eps)
    return bool(keys) and all(
        0 < abs(k).max() and (abs(k - k[:1]) <= near * abs(k).max()).all()
        for k in keys
    )


def rotation(
    model: Any, layers: Optional[Sequence[int]] = None
) -> Tuple[Optional[np.ndarray], bool, float]:
    """RoPE's d/2 frequencies, whether they pair 2i with 2i+1, and the factor in
    q and k, for the model's order of channels. (None, False, 1) if not proven
    for all `layers` (None: every layer): methods that re-index then refuse."""
    of = keys_of_one_token(model)
    rope = proven(model, [
        k for l in sorted(of) if layers is None or l in layers for k in of[l]
    ])  # fmt: skip
    return (rope if rope.channels is None else UNPROVEN)[:3]
