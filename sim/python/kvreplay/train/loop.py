# SPDX-License-Identifier: Apache-2.0
"""The steps of a training, its checkpoints, its progress and its file, for any
trainer. Needs torch and transformers."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ..container import save
from ..hf.identity import model_digest
from ..hf.load import DTYPES, load, name_of
from ..need import need
from ..record.progress import clock
from .frozen import Frozen
from .pieces import Piece, Source, order, read
from .trainer import Kind, Losses, packed

Say = Callable[..., None]
EACH = 5  # seconds between two lines of progress, at least


def digests(model: Any) -> List[str]:
    """Of the model in each type in which it may have been recorded."""
    found = [
        model_digest(model, x)
        for x in DTYPES.values()
        if isinstance(x, torch.dtype)
    ]
    return sorted({x for x in found if x})


def told(losses: Losses) -> str:
    return ", ".join(f"{name} {x:.5g}" for name, x in losses.items())


class Run:
    """Of a command line, a: the model, the pieces, and the trainer."""

    def __init__(self, a: argparse.Namespace, say: Say) -> None:
        self.a, self.say = a, say
        model, tokenizer = load(a.model, "auto", a.device)
        self.digests, self.name = digests(model), a.name or name_of(a.model)
        for x in model.parameters() if a.dtype != "auto" else ():
            x.data = x.data.to(DTYPES[a.dtype])  # not what RoPE turns by
        most = getattr(a, "tokens", None)
        size = model.get_input_embeddings().weight.shape[0]
        config = model.config.get_text_config()
        places = getattr(config, "max_position_embeddings", None) or 2**30
        of = Source(a.model, tokenizer, self.digests, size, places,
                    model.device)  # fmt: skip
        pieces, held = (read(x, most, of) for x in (a.prompts, a.hold_out))
        need(pieces, a.prompts[0], "there is nothing to train on: give "
             "prompts of two tokens or more")  # fmt: skip
        longest = max(x.ids.shape[1] for x in pieces + held)
        own: Any = importlib.import_module("." + a.method, __package__).Trainer
        torch.manual_seed(a.seed)
        try:
            frozen = Frozen(model, longest, a.layers, own.turning)
        except ValueError as e:
            raise ValueError(f"{a.model}: {e}") from None
        self.trainer: Kind = own(frozen, a)
        self.trainer.weights.to(model.device)
        self.pieces = self.trainer.fit(pieces)
        self.held = held and self.trainer.fit(held)

    # --- checkpoints ---------------------------------------------------------

    def command(self) -> str:
        """What a checkpoint must be of: all that numbers depend on."""
        beside = "out", "keep", "quiet", "model", "prompts", "hold_out", "name"
        said = {x: y for x, y in vars(self.a).items() if x not in beside}
        h = hashlib.sha256(repr((sorted(said.items()), self.digests)).encode())
        for x in self.pieces:
            h.update(repr((x.ids.tolist(), x.answers)).encode())
        if self.a.__dict__.get("begin"):
            with open(self.a.begin, "rb") as f:
                h.update(f.read())
        return h.hexdigest()

    def keep(self, done: int, *states: Any) -> None:
        """A kill leaves this checkpoint or the one before, whole."""
        new = f"{self.part}.{os.getpid()}"
        try:
            torch.save(dict(command=self.told, done=done, states=[
                x.state_dict() for x in states]), new)  # fmt: skip
            os.replace(new, self.part)
        finally:
            if os.path.lexists(new):
                os.unlink(new)

    def resume(self, *states: Any) -> int:
        """Steps that were done by an earlier run of the same command."""
        self.part, self.told = self.a.out + ".training", self.command()
        if not os.path.lexists(self.part):
            return 0
        try:
            x = torch.load(self.part, map_location="cpu")
            same = x["command"] == self.told
        except Exception:  # of pickle, zip, torch: none of them says it well
            raise ValueError(f"{self.part}: no checkpoint, or a broken one: "
                             "remove it") from None  # fmt: skip
        need(same, self.part, "is of another command: type that, or remove it")
        for state, there in zip(states, x["states"]):
            state.load_state_dict(there)
        if not self.a.quiet:
            self.say(f"{x['done']} of {self.a.steps} steps were in {self.part}")
        return int(x["done"])

    # --- steps ---------------------------------------------------------------

    def steps(self) -> Losses:
        """All that are left; returns the mean losses of the last tenth."""
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

    def judge(self) -> None:
        """Losses of what was held out: each, and the mean of all."""
        found = []
        with torch.no_grad():
            for x in self.held:
                found.append(self.trainer.losses(x, lambda loss: None))
                n = x.ids.shape[1]
                print(f"held out {x.where}, {n} tokens: {told(found[-1])}")
        if len(found) > 1:
            print(f"held out, all {len(found)}: {told(mean(found))}")

    def write(self) -> None:
        of, a = self.trainer, self.a
        n = sum(x.ids.shape[1] for x in self.pieces)
        meta: Dict[str, Optional[object]] = dict(
            format=of.format,
            trained=f"{len(self.pieces)} pieces, {n} tokens, {a.steps} steps, "
            f"rate {a.rate:g}, seed {a.seed}, with the model",
            trained_length=max(x.ids.shape[1] for x in self.pieces),
            model=self.name, model_digest=" ".join(self.digests) or None,
            **of.tell(),
        )  # fmt: skip
        save(a.out, {x: str(y) for x, y in meta.items() if y is not None},
             {x: packed(x, of.dtype, y) for x, y in of.tensors().items()}
             )  # fmt: skip


def mean(found: List[Losses]) -> Losses:
    """Of each loss, over those who have it."""
    names = {name: None for x in found for name in x}
    return {
        name: sum(x[name] for x in found if name in x)
        / sum(name in x for x in found)
        for name in names
    }


def train(a: argparse.Namespace, say: Say) -> int:
    """The command; returns its exit code."""
    x = Run(a, say)
    began = time.monotonic()
    losses = x.steps()
    took = time.monotonic() - began
    x.write()
    if os.path.lexists(x.part):
        os.unlink(x.part)
    n = len(x.pieces)
    print(f"{a.method}: {n} pieces, {a.steps} steps, {took:.1f} s"
          + (f"; {told(losses)}" if losses else ""))  # fmt: skip
    x.judge()
    sys.stdout.flush()
    return 0
