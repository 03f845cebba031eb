# SPDX-License-Identifier: Apache-2.0
"""RULER's niah_multivalue: four numbers of one key, all are asked for.
Differs: the prose."""

from __future__ import annotations

import random

from ..compose import Ask, Draft, Text
from .niah_single_2 import NEEDLE
from .words import MOST as MOST
from .words import among, cut, keys, listed, numbers, sentences

TITLE = "all four numbers of a key, in prose"
OPTIONS = "question", "length"
N = 4
HEAD = (
    "Some special magic numbers are hidden within the following text. Make "
    "sure to memorize it. I will quiz you about the numbers afterwards.\n"
)


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    (key,), values, prose = keys(r, 1), numbers(r, N, 7), sentences(r)
    lines = [NEEDLE.format(key, x) for x in values]
    depths = sorted(r.random() for _ in values)
    about = f"special magic numbers for {key} mentioned in the provided text"
    asks = (Ask(f"What are all the {about}?", f"The {about} are",
                listed(values), tuple(values), tuple(values)),)  # fmt: skip

    def text(n: int) -> Text:
        return Text(HEAD + among(cut(prose, n), lines, depths), asks)

    return text
