# SPDX-License-Identifier: Apache-2.0
"""A method of kvreplay as a press of kvpress.

    from kvreplay.kvpress import Press
    press = Press("snapkv", 0.8, window=64)        # a compression ratio
    press = Press("adakv:window=64", budget="20%") # or a budget, as after -b
    pipe = pipeline("kv-press-text-generation", model=...)
    pipe(context, question=..., press=press)["answer"]
    press.result()       # tokens kept, and the ledger's bytes

The model attends to the prompt itself, exactly. Then the rows of its cache
become what the method stores: some are dropped or merged, or coded and decoded.
The model continues with them, as with any press, so what the method does while
decoding is left out. `Press(.., decode=True)` also feeds decode steps to the
session, which attends instead of the model. So every method runs as published,
but kvpress can only ask one question at a time.

Some methods are impossible with the rows of a cache, and are refused: those
that choose pages at each step, rotate keys to new positions, or keep a lane for
each query head. Batch 1. With decode=True attention runs on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from kvpress import BasePress
from torch import Tensor
from torch.nn.functional import pad
from transformers import Cache, PreTrainedModel, QuantizedCache

from ..hf.model import LayerCall, need, to_numpy
from ..hf.plain import check_layers, check_plain, check_stateless
from ..hf.plain import check_turned_once, geometry
from ..hf.rope import rotation
from ..session import Session, SessionError
from .attention import Attention, attention_modules, watched

DTYPES = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
}
REFUSED = 6  # the code of a SessionError
DECODE = "Press(.., decode=True) runs it"


def specification(method: str, parameters: dict[str, Any]) -> str:
    """A method and parameters as after -m: snapkv:window=64:pooling=avg. Names
    can have underscores for dashes; True and False become yes and no."""
    said = {True: "yes", False: "no"}
    parts = [method]
    for name, x in parameters.items():
        text = said[x] if isinstance(x, bool) else str(x)
        need(
            not set(text) & set(":,+"),
            f"{name} is {x!r}; write it into the method's text, as given to -m",
        )
        parts.append(f"{name}={text}")
    return ":".join(parts)


class Press(BasePress):
    """method: as after -m; parameters by name are possible, too.
    compression_ratio: the share of the prompt's tokens to drop, as in kvpress,
    can be set later; or budget: as after -b, but not in bytes. A method without
    a budget needs neither. decode: see above; room: how many tokens can follow
    the prompt then. library: the path of libkvreplay.so.0, None: as in
    kvreplay.session.

    rows: a dict for each prompt; result() is the last one. kept: {layer: [token
    ids of each KV head's lane, in its order]} after the last prompt. session:
    that of the last prompt with decode=True, for views, LSE and digest()."""

    def __new__(cls, *args: Any, decode: bool = False, **kwargs: Any) -> Press:
        """A SessionPress if decode is True."""
        from .decoding import SessionPress

        made: Press = super().__new__(SessionPress if decode else cls)
        return made

    def __init__(
        self,
        method: str,
        compression_ratio: float | None = None,
        *,
        budget: str | int | None = None,
        decode: bool = False,
        room: int = 1024,
        library: str | None = None,
        **parameters: Any,
    ) -> None:
        need(
            compression_ratio is None or budget is None,
            "give a compression ratio or a budget, not both",
        )
        self.method = specification(method, parameters)
        self.budget = None if budget is None else str(budget)
        if compression_ratio is not None:
            self.compression_ratio = compression_ratio
        self.decode, self.room, self.library = decode, room, library
        self.rows: list[dict[str, Any]] = []
        self.kept: dict[int, list[np.ndarray]] = {}
        self.session: Session | None = None
        self._model: Any = None  # the last model
        self._asked: tuple[Tensor, float] | None = None  # current q and scale

    def __repr__(self) -> str:
        return f"Press({self.method!r}, budget={self.budget!r})"

    __hash__ = object.__hash__

    @property
    def compression_ratio(self) -> float | None:
        """The ratio that was set, or None."""
        ratio = (self.budget or "").removeprefix("ratio:")
        return float(ratio) if ratio != (self.budget or "") else None

    @compression_ratio.setter
    def compression_ratio(self, ratio: float) -> None:
        need(
            0 <= ratio < 1,
            f"the compression ratio is {ratio!r}: give the share of tokens that"
            " goes, from 0 to less than 1",
        )
        self.budget = f"ratio:{float(ratio)!r}"

    def result(self) -> dict[str, Any]:
        """About the last prompt: `method` and `budget` as understood; `prompt`
        and `step`, tokens seen; `kept`, mean entries per lane; `bytes` in the
        ledger, also by kind (`payload`, `metadata`, ..), their `peak` and
        `mean`; `dense`, for the same tokens, and `share` of it; `cache`: bytes
        of the model's cache, where codes are decoded and lanes of unequal
        length padded."""
        need(
            self.rows,
            "no prompt has been compressed yet; run one with this press first",
        )
        return self.rows[-1]

    # ---- what kvpress calls -------------------------------------------------
    @contextlib.contextmanager
    def __call__(self, model: PreTrainedModel) -> Iterator[None]:
        """kvpress's context: compresses the prompts in it."""
        with watched(model, self), BasePress.__call__(self, model):
            yield

    def post_init_from_model(self, model: PreTrainedModel) -> None:
        """ValueError if a session cannot hold the model."""
        if model is self._model:
            return
        check_stateless(model)
        check_layers(model)
        self._rope, self._model = rotation(model), model

    forward_hook = BasePress.forward_hook

    def attend(self, own: Attention, x: LayerCall) -> tuple[Tensor, Any]:
        """Called instead of the model's attention `own`, which it calls."""
        if x.q.shape[2] == x.k.shape[2]:
            self.check(x)
            self._asked = x.q, geometry(x)[-1]
        return own(*x[:5], **x.more)

    def compress(
        self,
        module: Any,
        hidden_states: Tensor,
        keys: Tensor,
        values: Tensor,
        attentions: Tensor | None,
        kwargs: dict[str, Any],
    ) -> tuple[Tensor, Tensor]:
        """A layer's prompt [1, KV heads, tokens, d], as the method holds it."""
        asked, self._asked = self._asked, None
        if asked is None:
            raise ValueError(
                f"{self!r} is a press of its own and cannot be within another "
                "press, which does not show it the queries"
            )
        self.feed(module, *asked, keys, values)
        try:
            held = self.hold(module, keys, values)
        except SessionError as e:
            need(e.code != REFUSED, f"{e} ({DECODE})")
            raise
        if module.layer_idx == self._layers[-1]:
            held = self.level(kwargs["past_key_values"], *held)
            self.close()
        return held

    # ---- the session --------------------------------------------------------
    @property
    def _open(self) -> Session:
        """The current prompt's session."""
        assert self.session is not None, "call open() first"
        return self.session

    def check(self, x: LayerCall) -> None:
        """ValueError unless this is plain causal attention of one prompt."""
        if x.mask is not None and x.mask.dim() == 2:  # flash attention's mask
            need(bool(x.mask.all()), "the prompt is padded; give one without "
                 "padding")
            x = x._replace(mask=None)
        check_plain(x, x.k.shape[2])

    def feed(
        self,
        module: Any,
        query: Tensor,
        scale: float,
        keys: Tensor,
        values: Tensor,
    ) -> None:
        """Feeds the session a layer's prompt. The first layer opens it."""
        need(
            query.shape[2] == keys.shape[2],
            "the cache has tokens from an earlier forward; compress a prompt "
            "that comes at once",
        )
        layers = sorted(attention_modules(self._model))
        if module.layer_idx == layers[0]:
            self.open(layers, query, scale, keys, values)
        self._open.block(
            module.layer_idx, *map(to_numpy, (query, keys, values))
        )

    def open(
        self,
        layers: list[int],
        query: Tensor,
        scale: float,
        keys: Tensor,
        values: Tensor,
    ) -> None:
        n, config = query.shape[2], self._model.config.get_text_config()
        room = n + (self.room if self.decode else 0)
        check_turned_once(self._model, n, room)
        kind = DTYPES.get(keys.dtype)
        need(
            kind,
            f"the cache is {keys.dtype}; load the model in float16, bfloat16 "
            "or float32",
        )
        if self.session is not None:
            self.session.close()
        freq, paired, _ = self._rope
        self._layers, self._prompt, self._cache = layers, n, 0
        self.kept = {}
        self.session = Session(
            self.method, self.budget, n_layers=config.num_hidden_layers,
            fed=layers, n_heads=query.shape[1], n_kv_heads=keys.shape[1],
            d=keys.shape[3], d_v=values.shape[3], n_tokens=room, prompt_len=n,
            dtype=kind or "", scale=scale, inv_freq=freq,
            interleaved=paired, library=self.library,
        )  # fmt: skip
        each = keys.shape[1] * (keys.shape[3] + values.shape[3])
        self._token = each * keys.element_size() * len(layers)  # dense bytes

    def hold(
        self, module: Any, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A layer's lanes [1, KV heads, most entries, d], padded."""
        s, layer, heads = self._open, module.layer_idx, keys.shape[1]
        need(
            s.lanes == heads,
            f"{s.spec} keeps a lane for each of {s.lanes} query heads, but the "
            f"model's cache has one for each of {heads} KV heads ({DECODE})",
        )
        rows = [s.held(layer, g) for g in range(heads)]
        self.kept[layer] = [s.lane(layer, g)[0] for g in range(heads)]
        out, most = [], max(len(k) for k, _ in rows)
        for like, lanes in zip((keys, values), zip(*rows)):
            x = np.zeros((1, heads, most, like.shape[3]), np.float32)
            for g, lane in enumerate(lanes):
                x[0, g, : len(lane)] = lane
            out.append(torch.from_numpy(x).to(like.device, like.dtype))
        return out[0], out[1]

    def level(
        self, cache: Cache, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Pads lanes of unequal length, in all layers alike, because a model
        makes one mask for all. Names the padding rows, so that kvpress's
        attention hides them, as for its head-wise presses. Returns K and V of
        the last layer, which is not in the cache yet."""
        size = {l: [len(x) for x in lanes] for l, lanes in self.kept.items()}
        most = max(map(max, size.values()))
        last: int = self._layers[-1]
        modules: dict[int, Any] = {**attention_modules(self._model)}
        for l, lanes in size.items():
            own: Any = cache.layers[l]
            held: tuple[Tensor, ...] = keys, values
            if l != last:
                held = own.keys, own.values
            if min(lanes) < most:
                need(
                    modules[l].config._attn_implementation != "eager"
                    and not isinstance(cache, QuantizedCache),
                    f"{self._open.spec} keeps lanes of unequal length, but "
                    "kvpress cannot hide rows of a head in eager attention or "
                    "in a quantized cache; load the model with "
                    "attn_implementation='sdpa', and use a DynamicCache "
                    f"({DECODE})",
                )
                held = tuple(pad(x, (0, 0, 0, most - x.shape[2])) for x in held)
                at = [
                    (0, g, i) for g, n in enumerate(lanes)
                    for i in range(n, most)
                ]  # fmt: skip
                modules[l].masked_key_indices = tuple(map(list, zip(*at)))
            self._cache += sum(x.nbytes for x in held)
            if l == last:
                return held[0], held[1]
            own.keys, own.values = held
        raise AssertionError("the last layer is among those kept")

    def close(self) -> None:
        """After the prompt's last layer: makes its row, closes the session."""
        self._open.end_step(self._prompt)
        self.rows.append(self.row())
        self._open.close()
        self.session = None

    def row(self) -> dict[str, Any]:
        """See result()."""
        s, ledger = self._open, self._open.ledger()
        step = ledger.pop("step")
        peak, mean = ledger.pop("peak"), ledger.pop("mean")
        lanes = [
            len(s.lane(l, g)[0]) for l in self._layers for g in range(s.lanes)
        ]
        held = sum(n for kind, n in ledger.items() if "tier_" not in kind)
        dense = step * self._token
        return dict(
            method=s.spec, budget=self.budget, prompt=self._prompt, step=step,
            kept=sum(lanes) / len(lanes), bytes=held, **ledger, peak=peak,
            mean=mean, dense=dense, share=held / dense, cache=self._cache,
        )  # fmt: skip
