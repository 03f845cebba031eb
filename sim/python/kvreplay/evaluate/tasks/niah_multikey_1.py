# SPDX-License-Identifier: Apache-2.0
"""RULER's niah_multikey_1: four numbers of four keys, one is asked for.
Differs: the prose."""

from __future__ import annotations

import random

from ..compose import Draft, Text
from .niah_single_2 import HEAD, NEEDLE, ask
from .words import MOST as MOST
from .words import among, cut, keys, numbers, sentences

TITLE = "one of four numbers in prose"
OPTIONS = "question", "depth", "length"


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    names, values, prose = keys(r, 4), numbers(r, 4, 7), sentences(r)
    lines = [NEEDLE.format(*x) for x in zip(names, values)]
    depths = [depth, *(r.random() for _ in range(3))]

    def text(n: int) -> Text:
        return Text(HEAD + among(cut(prose, n), lines, depths),
                    (ask(names[0], values[0]),))  # fmt: skip

    return text
