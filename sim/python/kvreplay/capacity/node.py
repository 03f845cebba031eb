# SPDX-License-Identifier: Apache-2.0
"""From bytes per user to users per node, and to an upper bound of tokens/s."""

from __future__ import annotations

import csv
import os
from typing import NamedTuple

from .model import Model, Stored


class Gpu(NamedTuple):
    name: str
    bytes: int
    bandwidth: float  # bytes/s
    flops: float  # BF16 operations/s, dense


def gpus() -> dict[str, Gpu]:
    """The devices in gpus.csv, which has the source of each number."""
    path = os.path.join(os.path.dirname(__file__), "gpus.csv")
    with open(path, encoding="utf-8", newline="") as f:
        return {x["name"]: Gpu(x["name"], int(x["bytes"]),
                               float(x["bandwidth"]), float(x["flops"]))
                for x in csv.DictReader(f)}  # fmt: skip


def part(x: int, a: int, b: int) -> int:
    """x a / b, rounded up."""
    return -(-x * a // b)


class Node(NamedTuple):
    """`gpus` devices, in groups of tp that share a copy of the model."""

    gpu: Gpu
    gpus: int
    tp: int
    percent: int  # share of a device's memory for weights and caches
    weights: int  # bytes; a rank holds 1 / tp of them
    users: int  # decoding together; 0: as many as fit
    model: Model
    context: int
    output: int

    def room(self) -> int:
        """Bytes of a device that caches can use."""
        return part(self.gpu.bytes, self.percent, 100) - part(
            self.weights, 1, self.tp)  # fmt: skip

    def fit(self, x: Stored, steady: int, peak: int) -> int:
        """How many users the node serves if the fullest rank decides, with one
        user in its prefill (peak) and the others after it (steady)."""
        steady = part(steady, x.fullest, x.of)
        peak = part(peak, x.fullest, x.of)
        room = self.room() - max(0, peak - steady)
        each = steady + part(self.model.state, 1, self.tp)
        return room // each * (self.gpus // self.tp) if room > 0 else 0

    def read(self, users: float) -> float | None:
        """Bytes of weights that a step of so many users of a group reads,
        without looked-up embeddings. None: unknown."""
        w = self.model.weights
        if w.all:
            return self.weights * w.read(users) / w.all
        if self.model.experts:
            return None
        return max(0, self.weights - 2 * self.model.looked_up)

    def speed(self, x: Stored, users: int) -> tuple[float | None, str]:
        """An upper bound of tokens/s with so many users, and what limits it. A
        step takes as long as reading weights, caches and states, or as its
        arithmetic, whichever is longer."""
        if users == 0:
            return 0.0, "-"
        each = users / min(users, self.gpus // self.tp)
        weights = self.read(each)
        if x.read is None or x.attended is None or weights is None:
            return None, "-"
        w = self.model.weights
        active = w.active if w.all else self.weights / 2
        macs = self.model.macs(x.attended, self.context, self.output)
        weights /= self.tp
        caches = each * (x.read * x.fullest / x.of +
                         self.model.state / self.tp)
        moves = (weights + caches) / self.gpu.bandwidth
        sums = 2 * each * (active + macs) / self.tp / self.gpu.flops
        return users / max(sums, moves), (
            "arithmetic" if sums > moves else
            "cache" if caches > weights else "weights")  # fmt: skip


class At(NamedTuple):
    """Bytes, and what they mean on a node."""

    stored: Stored
    users: int
    codes_users: int
    decoding: int
    speed: float | None
    binds: str


def take(node: Node, x: Stored) -> At:
    users = node.fit(x, x.bytes, x.peak)
    decoding = node.users or users
    return At(x, users, node.fit(x, x.codes, x.codes_peak), decoding,
              *node.speed(x, decoding))
