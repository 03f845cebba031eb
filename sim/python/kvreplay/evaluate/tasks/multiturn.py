# SPDX-License-Identifier: Apache-2.0
"""A conversation of three turns on one context, keys and values in prose; the
first question comes when the context was compressed, and each follows those
before it with their right answers."""

from __future__ import annotations

import random

from ..compose import Ask, Draft, Text
from .kv import ask
from .words import MOST as MOST
from .words import among, codes, cut, numbers, sentences

TITLE = "three turns about values of keys in prose"
OPTIONS = ("length",)
TURNS, N = 3, 6


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    names, values, prose = codes(r, N), numbers(r, N, 5), sentences(r)
    lines = [f"\nkey {x}: {y};\n" for x, y in zip(names, values)]
    depths = [r.random() for _ in lines]
    asks: list[Ask] = []
    turns: tuple[tuple[str, str], ...] = ()
    for x in map(ask, names[:TURNS], values, [chat] * TURNS):
        asks.append(x._replace(earlier=turns))
        turns += ((x.question, f"{x.begin} {x.answer}".strip()),)

    def text(n: int) -> Text:
        return Text(among(cut(prose, n), lines, depths), tuple(asks))

    return text
