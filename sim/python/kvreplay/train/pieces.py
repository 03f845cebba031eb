# SPDX-License-Identifier: Apache-2.0
"""Reads training data as tokens: prompts, by the model's tokenizer, or traces
of the same model. Needs torch and transformers."""

from __future__ import annotations

from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

import torch

from ..need import need
from ..record.prompts import read_prompts
from ..record.tokens import tokens_of
from ..trace import read_trace


class Piece(NamedTuple):
    """One sequence, from position 0. answers: spans [start, end) in ids."""

    where: str
    ids: torch.Tensor  # [1, n]
    answers: Tuple[Tuple[int, int], ...] = ()


class Source(NamedTuple):
    """The model that tokens must belong to."""

    name: str
    tokenizer: Any
    digests: List[str]  # in all number types that it could compute in
    size: int  # vocabulary
    places: int  # longest sequence
    device: Any


def of_trace(path: str, of: Source) -> List[Piece]:
    t = read_trace(path)
    said = t.metadata.get("model_digest")
    need(not said or not of.digests or said in of.digests, path,
         "is of another model; give traces of this one")  # fmt: skip
    need(t.tokens is not None, path, "has no tokens; give a trace that has")
    assert t.tokens is not None  # need() has checked it
    ids = torch.tensor(t.tokens.tolist())[None]
    need(ids.max() < of.size, path, f"has token {ids.max()}, but the model has "
         f"{of.size} tokens; give traces of this model")  # fmt: skip
    spans = tuple((x["start"], x["end"]) for x in t.answers)
    return [Piece(path, ids, spans)]


def of_prompts(path: str, of: Source) -> List[Piece]:
    """Each prompt, followed by its answer."""
    found = []
    for x in read_prompts(path):
        asked = tokens_of(of.name, of.tokenizer, x, of.size)
        ids = torch.tensor([asked.ids + asked.answer])
        n, end = len(asked.ids), ids.shape[1]
        found.append(Piece(x.where, ids, ((n, end),) if end > n else ()))
    return found


def cut(piece: Piece, most: Optional[int], of: Source) -> Iterator[Piece]:
    """Cuts a piece into sequences of at most `most` tokens; None: whole."""
    n = piece.ids.shape[1]
    need(most or n <= of.places, piece.where, f"{n} tokens exceed the model's "
         f"limit of {of.places}; shorten the prompt")  # fmt: skip
    step = min(most or n, of.places)
    for first in range(0, n, step):
        ids = piece.ids[:, first : first + step].to(of.device)
        if ids.shape[1] > 1:  # a single token has no next one
            yield Piece(piece.where, ids, piece.answers if not first else ())


def read(paths: List[str], most: Optional[int], of: Source) -> List[Piece]:
    """The pieces of these files, in order."""
    found: List[Piece] = []
    for path in paths:
        trace = path.endswith((".safetensors", ".index.json"))
        for whole in (of_trace if trace else of_prompts)(path, of):
            found += cut(whole, most, of)
    return found
