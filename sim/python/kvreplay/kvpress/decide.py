# SPDX-License-Identifier: Apache-2.0
"""Writes what a press of kvpress keeps as a decisions file. The press runs in
its own code on a Hugging Face model. kvreplay then measures it like its own
methods, on the same trace.

    press = make_press("SnapKVPress(0.8, 32, 7)")
    from_press(model, press, trace, "d.safetensors")

The prompt is one forward pass with the press. The rows that remain are looked
up, bit for bit, among those that entered the cache. Presses that compress while
decoding then see the trace's tokens, one by one. If keys were rotated to new
positions, rows are found by their values, and the rotation is checked
(`reindex` in the file). A press that merges, rewrites or adds rows is refused,
because a decisions file only says which tokens stay.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import DynamicCache

from ..container import widen
from ..decisions import write_decisions
from ..hf.model import decoder_of, need, to_numpy, with_cache
from ..hf.plain import check_stateless, check_turned_once
from ..hf.rope import rotation, turned
from ..trace import Trace
from .expression import tried

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

Rows = Sequence[np.ndarray]  # a head's k [tokens, d] and v [tokens, d_v]
Rope = tuple[np.ndarray | None, bool]  # rotation()'s frequencies and pairing
Lists = dict[int, dict[int, list[list[int]]]]
# Presses that can compress at any step. The others do so after the prompt.
DECODING = "DecodingPress", "PrefillDecodingPress", "DMSPress"
NEAR = 0.01  # tolerance of rotated keys, as a share of their largest number


class Seen(DynamicCache):
    """A cache that remembers the rows of the first `end` tokens: {layer: [k [KV
    heads, tokens, d], v [KV heads, tokens, d_v]]}, bfloat16 as uint16."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[int, list[np.ndarray]] = {}
        self.end = 0

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        layer_idx: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor]:
        new = [to_numpy(x) for x in (key_states, value_states)]
        old = self.rows.get(layer_idx, [x[:, :0] for x in new])
        n = self.end - old[0].shape[1]  # a press can compute extra rows
        self.rows[layer_idx] = [
            np.concatenate([x, y[:, :n]], 1) for x, y in zip(old, new)
        ]
        return super().update(
            key_states, value_states, layer_idx, *args, **kwargs
        )


def look_up(kept: np.ndarray, given: np.ndarray) -> list[int]:
    """The index in `given` [tokens, d] of each row of `kept` [n, d], bit for
    bit; -1: none. Equal rows are assigned in order."""
    places: dict[bytes, list[int]] = {}
    for t, row in enumerate(given):
        places.setdefault(row.tobytes(), []).append(t)
    at = {x: iter(y) for x, y in places.items()}
    return [next(at.get(x.tobytes(), iter(())), -1) for x in kept]


def turned_from(
    kept: Rows, given: Rows, freq: np.ndarray | None, paired: bool
) -> list[int] | None:
    """The tokens of rows [k, v] whose keys were rotated to positions 0, 1, ..,
    or None if they are not among the given ones."""
    found = look_up(kept[1], given[1])
    if freq is None or -1 in found:
        return None
    keys, by = widen(kept[0]), np.arange(len(found)) - found
    want = turned(widen(given[0][found]), freq, paired, by)
    near = NEAR * abs(keys).max(1, keepdims=True)
    return found if (abs(keys - want) <= near).all() else None


def lane(
    kept: Rows, given: Rows, rope: Rope
) -> tuple[list[int] | None, bool | None]:
    """The tokens of a lane's rows [k, v], or None if they are not among the
    given ones; and whether keys were rotated, None if both give the same."""
    found = look_up(*(np.concatenate(x, 1) for x in (kept, given)))
    if -1 not in found:
        found = sorted(found)
        return found, None if found == [*range(len(found))] else False
    return turned_from(kept, given, *rope), True


def masked(module: Any) -> list[np.ndarray]:
    """The KV heads and rows that a press keeps but hides."""
    _, heads, rows = getattr(module, "masked_key_indices", None) or [()] * 3
    return [np.array([int(y) for y in x], int) for x in (heads, rows)]


def lanes(
    press: Any, cache: Seen, layer: int, module: Any, rope: Rope
) -> tuple[list[list[int]], set[bool | None]]:
    """One list of tokens per KV head, and whether keys were rotated."""
    held: Any = cache.layers[layer]
    old = cache.rows[layer]
    new = [to_numpy(x) for x in (held.keys, held.values)]
    (heads, rows), lists, turns = masked(module), [], set()
    for h in range(len(new[0])):
        live = np.setdiff1d(np.arange(new[0].shape[1]), rows[heads == h])
        found, turn = lane([x[h][live] for x in new], [x[h] for x in old], rope)
        if found is None:
            raise ValueError(
                f"{type(press).__name__} leaves rows that the cache was not "
                f"given (layer {layer}, KV head {h}): it merges, rewrites or "
                "adds some, but a decisions file can only say which tokens are "
                "kept"
            )
        lists.append(found)
        turns.add(turn)
    return lists, turns


class Watch:
    """Observes what a press does to a model's cache. lists: {layer: {step: one
    list per KV head}} for the steps that changed it."""

    def __init__(
        self,
        model: PreTrainedModel,
        press: Any,
        rope: Rope,
        layers: Sequence[int],
    ) -> None:
        self.decoder, self.cache, self.press = decoder_of(model), Seen(), press
        own = {x.self_attn.layer_idx: x.self_attn for x in self.decoder.layers}
        self.attention = {l: own[l] for l in layers if l in own}
        self.rope, self.turns = rope, set[bool | None]()
        self.sizes: dict[int, tuple[int, int]] = {}
        self.lists: Lists = {l: {} for l in self.attention}

    def feed(self, ids: Tensor, first: int, end: int) -> None:
        """Feeds the decoder tokens first to end - 1 of ids [1, T]."""
        self.cache.end = end
        self.decoder(
            input_ids=ids[:, first:end],
            position_ids=torch.arange(first, end, device=ids.device)[None],
            **with_cache(self.decoder, self.cache),
        )

    def look(self, step: int) -> None:
        """Records layers that changed, after `step` tokens."""
        for l, module in self.attention.items():
            held: Any = self.cache.layers[l]
            size = held.keys.shape[2], len(masked(module)[0])
            if size != self.sizes.get(l):
                self.lists[l][step], turns = lanes(
                    self.press, self.cache, l, module, self.rope
                )
                self.turns |= turns
            self.sizes[l] = size[0] + 1, size[1]  # expected next

    def forget(self) -> None:
        """Hides nothing any more."""
        for module in self.attention.values():
            module.masked_key_indices = None


@contextlib.contextmanager
def watching(model: PreTrainedModel, watch: Watch, name: str) -> Iterator[None]:
    """Within this context the model uses the named attention function. Nothing
    is hidden at its start and its end."""
    own = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        watch.forget()
        yield
    finally:
        model.set_attn_implementation(own)
        watch.forget()


@torch.no_grad()
def decide(
    model: PreTrainedModel, press: Any, trace: Trace, name: str, rope: Rope
) -> Watch:
    """Runs the press on a trace's tokens, with the named attention function."""
    tokens = np.asarray(trace.tokens, np.int64)[None]
    ids, p = torch.as_tensor(tokens).to(model.device), trace.prompt_len
    decodes = {x.__name__ for x in type(press).__mro__} & {*DECODING}
    watch = Watch(model, press, rope, trace.layers)
    end = len(tokens[0]) if decodes else p
    with watching(model, watch, name):
        with press(model):
            watch.feed(ids, 0, p)
            for t in range(p, end):
                watch.look(t)
                watch.feed(ids, t, t + 1)
        watch.look(end)
    return watch


def check_same(
    model: PreTrainedModel, trace: Trace, rows: Mapping[int, Rows]
) -> None:
    """ValueError unless the trace is of this model: the prompt's keys must
    agree with those that entered the cache, up to rounding."""
    p = trace.prompt_len
    channels = json.loads(trace.metadata.get("channels", "[]"))
    need(
        {*trace.layers} <= {*rows},
        f"{trace.path}: its layers are {trace.layers}, but the model's are "
        f"{[*rows]}",
    )
    for l in trace.layers:
        want, keys = trace.k(l)[:, :p], widen(rows[l][0])[:, :p]
        if channels:  # the trace has them in another order
            keys = keys[..., channels]
        if keys.shape == want.shape and (
            np.linalg.norm(keys - want) <= 0.05 * np.linalg.norm(want)
        ):
            continue
        check_turned_once(model, p, trace.n_tokens)  # perhaps explains it
        need(
            False,
            f"{trace.path}: layer {l} has other keys than the model; give a "
            "trace of this model, or a TEXT to record one",
        )


def check_run(model: Any, press: Any, trace: Trace, name: str | None) -> str:
    """The press's name. ValueError if the trace has no token ids, the model a
    state, or no file of decisions can express the press."""
    need(
        trace.tokens is not None,
        f"{trace.path} has no tokens to run the press on; give a TEXT to "
        "record a trace with tokens",
    )
    name = name or type(press).__name__
    check_stateless(model)
    need(
        not hasattr(press, "delimiter_token_id"),
        f"{name} removes a delimiter from the model's tokens, so its rows "
        "match no trace, and no decisions can be made of it",
    )
    return name


def from_press(
    model: PreTrainedModel,
    press: Any,
    trace: Trace,
    path: str,
    name: str | None = None,
) -> Lists:
    """Writes a press's decisions on a trace's tokens to path and returns them,
    {layer: {tokens seen: [token ids, by KV head]}}. name: for the file."""
    name = check_run(model, press, trace, name)
    rope = rotation(model, trace.layers)[:2]
    watch = tried(name, lambda own: decide(model, press, trace, own, rope))
    check_same(model, trace, watch.cache.rows)
    need(
        not {True, False} <= watch.turns,
        f"{name} rotates the keys of some lanes to new positions but not "
        "others; a decisions file can only say one for all",
    )
    turned_all = True in watch.turns
    write_decisions(path, trace, name, watch.lists, reindex=turned_all)
    return watch.lists
