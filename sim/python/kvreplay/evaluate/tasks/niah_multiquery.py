# SPDX-License-Identifier: Apache-2.0
"""RULER's niah_multiquery: four numbers of four keys, all are asked for.
Differs: the prose; and each is asked for by itself, on the same context."""

from __future__ import annotations

import random

from ..compose import Draft, Text
from .niah_multivalue import HEAD, N
from .niah_single_2 import NEEDLE, ask
from .words import MOST as MOST
from .words import among, cut, keys, numbers, sentences

TITLE = "four numbers in prose, a question each"
OPTIONS = ("length",)


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    names, values, prose = keys(r, N), numbers(r, N, 7), sentences(r)
    lines = [NEEDLE.format(*x) for x in zip(names, values)]
    depths = [r.random() for _ in values]
    asks = tuple(map(ask, names, values))

    def text(n: int) -> Text:
        return Text(HEAD + among(cut(prose, n), lines, depths), asks)

    return text
