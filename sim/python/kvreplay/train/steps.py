# SPDX-License-Identifier: Apache-2.0
"""Trains by gradients, with checkpoints and progress. Needs torch."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any, Callable, List, Sequence

import torch

from ..need import need
from ..record.progress import clock
from .data import order
from .trainer import Kind, Losses

Say = Callable[..., None]
EACH = 5  # minimum seconds between lines of progress


def told(losses: Losses) -> str:
    return ", ".join(f"{name} {x:.5g}" for name, x in losses.items())


class Run:
    """A command line's trainer and training pieces. told: identifies the
    command in a checkpoint, by all that affects the numbers."""

    def __init__(self, a: argparse.Namespace, say: Say, trainer: Kind,
                 pieces: Sequence[Any], told: str) -> None:  # fmt: skip
        self.a, self.say, self.trainer = a, say, trainer
        self.pieces, self.told, self.resumed = pieces, told, 0
        self.part = a.out + ".training"

    # --- checkpoints ---------------------------------------------------------

    def keep(self, done: int, *states: Any) -> None:
        """Writes a checkpoint; if killed, the previous one stays."""
        new = f"{self.part}.{os.getpid()}"
        try:
            torch.save(dict(command=self.told, done=done, states=[
                x.state_dict() for x in states]), new)  # fmt: skip
            os.replace(new, self.part)
        finally:
            if os.path.lexists(new):
                os.unlink(new)

    def resume(self, *states: Any) -> int:
        """Steps done by an earlier run of the same command."""
        if not os.path.lexists(self.part):
            return 0
        try:
            x = torch.load(self.part, map_location="cpu")
            same = x["command"] == self.told
        except Exception:  # of pickle, zip or torch, none of them clear
            raise ValueError(f"{self.part}: not a checkpoint, or a damaged "
                             "one; remove it") from None  # fmt: skip
        need(same, self.part, "is of another command; repeat that command, or "
             "remove the file")
        for state, there in zip(states, x["states"]):
            state.load_state_dict(there)
        if not self.a.quiet:
            self.say(f"{x['done']} of {self.a.steps} steps were in {self.part}")
        self.resumed = int(x["done"])
        return self.resumed

    # --- steps ---------------------------------------------------------------

    def steps(self) -> Losses:
        """Takes all remaining steps. Mean losses of the last tenth."""
        a, of = self.a, self.trainer
        adam = torch.optim.AdamW(of.weights.parameters(), a.rate,
                                 weight_decay=0)  # fmt: skip
        done = self.resume(of.weights, adam)
        todo = order(len(self.pieces), a.seed, done)
        began = kept = said = time.monotonic()
        last: List[Losses] = []
        for i in range(done, a.steps):
            for group in adam.param_groups:
                group["lr"] = a.rate * of.pace((i + 0.5) / a.steps)
            adam.zero_grad()
            losses = of.losses(self.pieces[next(todo)], torch.Tensor.backward)
            torch.nn.utils.clip_grad_norm_(of.weights.parameters(), 1.0)
            adam.step()
            of.bound()
            last = [*last, losses][-max(1, a.steps // 10) :]
            now = time.monotonic()
            if now - kept >= a.keep:
                self.keep(i + 1, of.weights, adam)
                kept = now
            if now - said >= EACH and not a.quiet:
                left = (now - began) / (i + 1 - done) * (a.steps - i - 1)
                self.say(f"{i + 1} of {a.steps}: {told(mean(last[-20:]))}, "
                         f"{clock(left)} left")  # fmt: skip
                said = now
        return mean(last)


def mean(found: List[Losses]) -> Losses:
    """The mean of each loss, over those that have it."""
    names = {name: None for x in found for name in x}
    return {
        name: sum(x[name] for x in found if name in x)
        / sum(name in x for x in found)
        for name in names
    }
