# SPDX-License-Identifier: Apache-2.0
"""Trains with a Hugging Face model in the loop, prints held-out losses, writes
the file. Needs torch and transformers."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import sys
import time
from typing import Any, Dict, List, Optional

import torch

from ..container import save
from ..hf.identity import model_digest
from ..hf.load import DTYPES, load, name_of
from ..need import need
from .data import packed
from .frozen import Frozen
from .pieces import Source, read
from .steps import Run, Say, mean, told
from .trainer import Kind


def digests(model: Any) -> List[str]:
    """The model's digests in all number types that traces of it could have."""
    found = [
        model_digest(model, x)
        for x in DTYPES.values()
        if isinstance(x, torch.dtype)
    ]
    return sorted({x for x in found if x})


class WithModel(Run):
    """A command line's model, pieces and trainer."""

    def __init__(self, a: argparse.Namespace, say: Say) -> None:
        self.a = a
        model, tokenizer = load(a.model, "auto", a.device)
        self.digests, self.name = digests(model), a.name or name_of(a.model)
        for x in model.parameters() if a.dtype != "auto" else ():
            x.data = x.data.to(DTYPES[a.dtype])  # leaves RoPE's frequencies
        most = getattr(a, "tokens", None)
        size = model.get_input_embeddings().weight.shape[0]
        config = model.config.get_text_config()
        places = getattr(config, "max_position_embeddings", None) or 2**30
        of = Source(a.model, tokenizer, self.digests, size, places,
                    model.device)  # fmt: skip
        pieces, held = (read(x, most, of) for x in (a.prompts, a.hold_out))
        need(pieces, a.prompts[0], "there is nothing to train on; give prompts "
             "of two tokens or more")  # fmt: skip
        longest = max(x.ids.shape[1] for x in pieces + held)
        own: Any = importlib.import_module("." + a.method, __package__).Trainer
        torch.manual_seed(a.seed)
        try:
            frozen = Frozen(model, longest, a.layers, own.turning)
        except ValueError as e:
            raise ValueError(f"{a.model}: {e}") from None
        trainer: Kind = own(frozen, a)
        trainer.weights.to(model.device)
        self.pieces = trainer.fit(pieces)
        self.held = held and trainer.fit(held)
        super().__init__(a, say, trainer, self.pieces, self.command())

    def command(self) -> str:
        """Identifies the command: a hash of all that affects the numbers."""
        beside = "out", "keep", "quiet", "model", "prompts", "hold_out", "name"
        said = {x: y for x, y in vars(self.a).items() if x not in beside}
        h = hashlib.sha256(repr((sorted(said.items()), self.digests)).encode())
        for x in self.pieces:
            h.update(repr((x.ids.tolist(), x.answers)).encode())
        if self.a.__dict__.get("begin"):
            with open(self.a.begin, "rb") as f:
                h.update(f.read())
        return h.hexdigest()

    def judge(self) -> None:
        """Prints the losses of each held-out piece, and their mean."""
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
             {x: packed(x, of.dtype, y.detach().float().cpu().numpy())
              for x, y in of.tensors().items()}
             )  # fmt: skip


def train(a: argparse.Namespace, say: Say) -> int:
    """Trains, writes and prints; returns the exit code."""
    x = WithModel(a, say)
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
