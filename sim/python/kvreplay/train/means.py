# SPDX-License-Identifier: Apache-2.0
"""Learns in one pass, without gradients: Palu's directions, and the tables of
heads for DuoAttention and HeadKV. Needs numpy.

palu: for keys and for values of each group of a layer's KV heads
    M = sum of x x^T over all tokens; x: the group's keys before RoPE, or its
        values; not centered
    directions: eigenvectors of M by descending eigenvalue, with the sign that
        makes the number of largest magnitude positive. They are the left
        singular vectors of the matrix of all x, and of the paper's whitened
        weights where x = W h (ref/methods/palu.c). All are written
    energy: the eigenvalue, as a share of the sum over all groups
    turn=t: multiplies each t consecutive directions by Sylvester's Hadamard
        matrix / sqrt(t); their energies become their mean
    loss: mean of (x^ - x)^2 over tokens and channels, with the same share of
        each part's directions; with no directions x^ = 0

duoattention: a gate for each KV head (Xiao et al. 2024)
    D[g]  the mean of (full - stream)^2 over rows that predict answers, query
          heads of the group and channels, as a share of the layer's mean of
          full^2; full: the head's output, stream: its output from the first
          `sink` and the last `recent` tokens and its own
    minimize over gates in [0, 1] the mean of (1 - gate)^2 D[g] + penalty * gate
    gate = max(0, 1 - penalty / (2 D[g]))
  The authors minimize the difference of the last hidden state, by AdamW, as
  `kvreplay train-hf` does. A trace has no hidden states. So heads are compared
  by their own outputs, each independently, and the best gates have a closed
  form. The authors train with 128 and 256 tokens and evaluate with 64 and 256,
  the method's defaults, which are used here.

headkv: a score for each query head (Fu et al. 2024; authors' code 0862a09)
    for a row that predicts a token of an answer whose source has N tokens: the
    sum of the probabilities of source tokens among the row's N largest (ties:
    the earlier token first), divided by N. The score is the mean over answers
    of the sum over an answer's rows
  The authors also test that the answer was right; the recorder did that."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Dict, Iterator, Tuple

import numpy as np

from ..evaluate.asks import Usage
from .data import Data, Piece, answers, part, vectors

if TYPE_CHECKING:
    from ..container import Array

Loss = Tuple[float, float, float]  # loss, its weight, loss untrained


class Means:
    """A trainer with `own` options. Call learn() for each piece, then finish().
    judge() sums the loss over a piece. rate is unused."""

    format, turning, answers, dtype = "", False, True, "F32"
    passes, rate = 1, 0.0

    def __init__(self, data: Data, own: argparse.Namespace) -> None:
        self.data, self.own = data, own
        self.sums: Dict[Any, Any] = {}

    def add(self, key: Any, x: Any) -> None:
        self.sums[key] = self.sums.get(key, 0) + x

    def learn(self, piece: Piece) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Call it after the last piece."""

    def judge(self, piece: Piece) -> Loss:
        """Zeros: a table of scores has no loss."""
        return 0, 0, 0

    def table(self, heads: int, of: Any) -> Array:
        """[layers of the model, heads], 0 for layers not trained."""
        x = np.zeros((self.data.n_layers, heads), "f4")
        for layer in self.data.layers:
            x[layer] = of(layer)
        return x

    def tensors(self) -> Dict[str, Any]:
        raise NotImplementedError

    def tell(self) -> Dict[str, object]:
        """The method's own metadata."""
        return {}


class HeadKV(Means):
    format = "kvreplay-headkv"

    def learn(self, piece: Piece) -> None:
        for layer in self.data.common(piece.trace):
            for answer, at, p in answers(piece, layer):
                first, end = answer["source_start"], answer["source_end"]
                best = np.argsort(-p, axis=1, kind="stable")[:, : end - first]
                found = (first <= best) & (best < end)
                score = np.take_along_axis(p, best, 1) * found
                self.add(layer, score.sum(1) / max(1, end - first))
                self.add((layer, "answers"), at == answer["start"] - 1)

    def tensors(self) -> Dict[str, Any]:
        return {"scores": self.table(self.data.heads, lambda layer: (
            self.sums.get(layer, 0) / max(1, self.sums.get(
                (layer, "answers"), 0))))}  # fmt: skip


class DuoAttention(Means):
    format = "kvreplay-duoattention"

    def apart(self, piece: Piece) -> Iterator[Tuple[int, Array, float]]:
        """For each row that predicts an answer: the layer, the squared
        differences by KV head, and the square of all outputs."""
        n, sink, recent = piece.trace.n_tokens, self.own.sink, self.own.recent
        for layer in self.data.common(piece.trace):
            v = part(piece.trace, layer, "v", 0, n).astype("f8")
            for _, at, p in answers(piece, layer):
                token, p = np.arange(at + 1), p.reshape(len(v), -1, at + 1)
                seen = p * ((token < sink) | (token >= at - recent))
                full = p @ v[:, : at + 1]
                stream = seen @ v[:, : at + 1] / seen.sum(-1, keepdims=True)
                yield (layer, ((full - stream) ** 2).sum((1, 2)),
                       (full**2).sum())  # fmt: skip

    def learn(self, piece: Piece) -> None:
        for layer, difference, square in self.apart(piece):
            self.add(layer, difference)
            self.add((layer, "square"), square)

    def gates(self, layer: int) -> Array:
        square = self.sums.get((layer, "square"), 0)
        share = self.sums.get(layer, np.zeros(self.data.kv_heads))
        share = share * self.data.kv_heads / (square or 1)
        with np.errstate(divide="ignore"):
            gate = 1 - self.own.penalty / (2 * share)
        return np.where(share > 0, np.maximum(gate, 0), 0)

    def judge(self, piece: Piece) -> Loss:
        loss = weight = without = 0.0
        for layer, difference, square in self.apart(piece):
            left = 1 - self.gates(layer).astype("f4").astype("f8")
            loss += (left**2 * difference).sum()
            without += difference.sum()
            weight += square
        return loss, weight, without

    def tensors(self) -> Dict[str, Any]:
        return {"gates": self.table(self.data.kv_heads, self.gates)}


class Palu(Means):
    format, turning, answers, dtype = "kvreplay-palu", True, False, "F16"

    def __init__(self, data: Data, own: argparse.Namespace) -> None:
        super().__init__(data, own)
        if own.heads is None:
            own.heads = min(4, data.kv_heads)
        if data.kv_heads % own.heads:
            raise Usage(f"palu: groups of {own.heads} KV heads do not divide "
                        f"these traces' {data.kv_heads}; choose a divisor for "
                        "heads")
        k, v = (own.heads * x for x in (data.d, data.d_v))
        if own.turn & (own.turn - 1) or k % own.turn or v % own.turn:
            raise Usage(f"palu: turn={own.turn} must be a power of two that "
                        f"divides the {k} numbers of a group's keys and the "
                        f"{v} of its values")
        # Directions and energies [groups, ..], by layer and side.
        self.basis: Dict[Any, Array] = {}
        self.energy: Dict[Any, Array] = {}

    def parts(self, piece: Piece) -> Iterator[Tuple[Any, Array]]:
        """By layer and side (key, value), float64 [groups, tokens, width]."""
        d = self.data
        for layer in d.common(piece.trace):
            x = vectors(piece.trace, layer, piece.end, piece.first).astype("f8")
            k, v = np.split(x, [d.kv_heads * d.d], 1)
            for side, y in ("key", k), ("value", v):
                groups = d.kv_heads // self.own.heads
                parts = y.reshape(len(y), groups, -1).swapaxes(0, 1)
                yield (layer, side), parts

    def learn(self, piece: Piece) -> None:
        for key, x in self.parts(piece):
            self.add(key, x.swapaxes(1, 2) @ x)

    def finish(self) -> None:
        turn = self.own.turn
        hadamard = np.ones((1, 1))
        while len(hadamard) < turn:
            hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
        for key, m in self.sums.items():
            energy, basis = np.linalg.eigh(m)
            energy = np.maximum(energy[:, ::-1], 0)
            basis = basis.swapaxes(1, 2)[:, ::-1]
            most = np.abs(basis).argmax(2, keepdims=True)
            basis = basis * np.sign(np.take_along_axis(basis, most, 2))
            blocks = basis.reshape(len(m), -1, turn, m.shape[1])
            self.basis[key] = (hadamard / turn**0.5 @ blocks).reshape(m.shape)
            even = energy.reshape(len(m), -1, turn).mean(2)
            even /= energy.sum() or 1
            self.energy[key] = np.repeat(even, turn, 1)

    def judge(self, piece: Piece) -> Loss:
        loss = weight = without = 0.0
        for key, x in self.parts(piece):
            rank = int(self.own.share * x.shape[2] + 0.5)
            b = self.basis[key].astype("f4").astype("f8")[:, :rank]
            loss += ((x - x @ b.swapaxes(1, 2) @ b) ** 2).sum()
            without += (x**2).sum()
            weight += x.size
        return loss, weight, without

    def tensors(self) -> Dict[str, Any]:
        return {f"layers.{layer}.{side}.{what}": x
                for what, of in (("basis", self.basis), ("energy", self.energy))
                for (layer, side), x in sorted(of.items())}  # fmt: skip

    def tell(self) -> Dict[str, object]:
        return dict(heads=self.own.heads, turn=self.own.turn)
