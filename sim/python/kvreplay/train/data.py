# SPDX-License-Identifier: Apache-2.0
"""Training data for `kvreplay train`: traces of one model, cut into pieces of
consecutive tokens; a token's K and V as one vector; the attention rows that
predict answers. Needs numpy."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Sequence
from typing import Tuple

import numpy as np

from ..container import array, bfloat16, tensor, widen
from ..need import need
from ..trace import Trace, read_trace

if TYPE_CHECKING:
    from ..container import Array


class Piece(NamedTuple):
    """Tokens first .. end - 1 of a trace."""

    trace: Trace
    first: int
    end: int


class Data:
    """The traces at `paths`, to learn from, and at `held`, held out. ValueError
    if a trace has NaN or Inf, a different model or fewer layers than the first
    one, or attention that trainers do not support. turning: keys are rotated
    back, so frequencies are required. answers: at least one trace must have
    answers. layers, heads, kv_heads, d, d_v, n_layers: of the first trace."""

    def __init__(self, method: str, paths: Sequence[str], held: Sequence[str],
                 most: int, turning: bool, answers: bool) -> None:  # fmt: skip
        traces = [read_trace(x) for x in [*paths, *held]]
        self.most, first = most, traces[0]
        self.traces, self.held = traces[: len(paths)], traces[len(paths) :]
        self.layers, self.n_layers = first.layers, first.n_layers
        self.heads, self.kv_heads = first.n_heads, first.n_kv_heads
        self.d, self.d_v = first.head_dim, first.value_dim
        for t in traces:
            check_like(t, first)
            check_plain(t)
            need(not turning or t.inv_freq is not None, t.path, "has no RoPE "
                 "frequencies (rope.inv_freq), so keys cannot be rotated back "
                 f"for {method}; record them, or train on another "
                 "trace")  # fmt: skip
        for t in self.traces:
            lacks = [x for x in self.layers if x not in t.layers]
            need(not lacks, t.path, f"does not record layer {lacks[:1]}, but "
                 f"{first.path} does; train on traces with the same layers"
                 )  # fmt: skip
        need(not answers or any(t.answers for t in self.traces), method,
             "learns from recorded answers, but no trace has any (metadata "
             "answers)")  # fmt: skip
        self.pieces = [x for t in self.traces for x in self.cut(t)]
        self.tokens = sum(t.n_tokens for t in self.traces)

    def cut(self, t: Trace) -> List[Piece]:
        """A trace in pieces of at most `most` tokens."""
        n, most = t.n_tokens, self.most
        return [Piece(t, x, min(n, x + most)) for x in range(0, n, most)]

    def width(self) -> int:
        """The length of a token's K and V together."""
        return self.kv_heads * (self.d + self.d_v)

    def common(self, t: Trace) -> List[int]:
        """The trained layers that this trace records."""
        return [x for x in self.layers if x in t.layers]


def check_like(t: Trace, first: Trace) -> None:
    a, b = ((x.n_layers, x.n_heads, x.n_kv_heads, x.head_dim, x.value_dim)
            for x in (t, first))  # fmt: skip
    said = "{} layers of {} query and {} KV heads of {} and {}"
    need(a == b, t.path, f"has {said.format(*a)}, but {first.path} "
         f"{said.format(*b)}; one file of weights is for one model"
         )  # fmt: skip
    key = "model_digest"
    if not (key in t.metadata and key in first.metadata):
        key = "model"
    x, y = (of.metadata.get(key) for of in (t, first))
    need(None in (x, y) or x == y, t.path, f"is of the {key} {x}, but "
         f"{first.path} of {y}; one file of weights is for one model"
         )  # fmt: skip


def check_plain(t: Trace) -> None:
    odd = [what for what, there in (
        ("V is a part of K (kv.shared)", t.shared),
        ("logits have a cap (attn.softcap)", t.softcap),
        ("a layer has learned sinks",
         any(t.sinks(x) is not None for x in t.layers)),
        ("a layer has a sliding window", any(t.windows[x] for x in t.layers)),
    ) if there]  # fmt: skip
    need(not odd, t.path, *odd[:1], ", which kvreplay train cannot handle; "
         "give a trace without")  # fmt: skip
    for layer in t.layers:
        for name, x in t.layer(layer).items():
            need(name not in "qkv" or np.isfinite(widen(x)).all(), t.path,
                 f"{name} of layer {layer} holds NaN or Inf")  # fmt: skip


def order(count: int, seed: int, done: int) -> Iterator[int]:
    """Endlessly, the index of each step's piece: every pass has all pieces in
    random order. done: steps already taken."""
    r, left = random.Random(f"pieces {seed}"), done
    while True:
        one = list(range(count))
        r.shuffle(one)
        yield from one[left:]
        left = max(0, left - count)


# --- numbers ------------------------------------------------------------------


def part(t: Trace, layer: int, name: str, first: int, end: int) -> Array:
    """float32 [heads, end - first, ..] of a layer's q, k or v."""
    return widen(t.layer(layer)[name][:, first:end])


def vectors(t: Trace, layer: int, end: int, first: int = 0) -> Array:
    """float32 [end - first, width] for tokens first .. end - 1: K of all KV
    heads before RoPE, then V."""
    k, v = (part(t, layer, x, first, end) for x in "kv")
    at = np.arange(end) if t.positions is None else t.positions
    angle = at[first:end, None].astype("f4") * t.inv_freq
    cos, sin = (x(angle.astype("f8")).astype("f4") for x in (np.cos, np.sin))
    paired = t.metadata.get("rope.layout") == "interleaved"
    half = k.reshape(*k.shape[:2], *((-1, 2) if paired else (2, -1)))
    a, b = np.moveaxis(half, -1 if paired else -2, 0)
    k = np.stack([a * cos + b * sin, b * cos - a * sin], -1 if paired else -2)
    both = k.reshape(*v.shape[:2], -1), v
    return np.concatenate(
        [x.swapaxes(0, 1).reshape(end - first, -1) for x in both], 1)


def answers(piece: Piece, layer: int) -> Iterator[Tuple[Any, int, Array]]:
    """For each recorded row of the piece that predicts a token of an answer:
    the answer, the row's token, float64 probabilities [query heads, token + 1].
    Tokens start - 1 .. end - 2 predict an answer from `start` to `end`."""
    t = piece.trace
    rows = t.rows(layer)
    q, k = (x.astype("f8") for x in (t.q(layer), t.k(layer)))
    q = q.reshape(t.n_kv_heads, -1, len(rows), t.head_dim)
    for answer in t.answers:
        for at in range(answer["start"] - 1, answer["end"] - 1):
            i = int(np.searchsorted(rows, at))
            if piece.first <= at < piece.end and rows[i : i + 1] == at:
                s = q[:, :, i] @ k[:, : at + 1].swapaxes(1, 2) * t.scale
                p = np.exp(s - s.max(-1, keepdims=True))
                p /= p.sum(-1, keepdims=True)
                yield answer, at, p.reshape(t.n_heads, -1)


# --- the file -----------------------------------------------------------------


def packed(name: str, dtype: str, x: Any) -> Any:
    """A tensor for container.py. ValueError if it is not finite."""
    y = np.asarray(x, "f4")
    with np.errstate(over="ignore"):  # checked below
        made = tensor(dtype, bfloat16(y) if dtype == "BF16" else y)
    there = array(made)
    there = widen(there) if dtype == "BF16" else there
    need(np.isfinite(there).all(), name, "a weight is not finite; use a lower "
         "--rate")  # fmt: skip
    return made
