# SPDX-License-Identifier: Apache-2.0
"""RULER's vt: variables that have one value by a chain of assignments."""

from __future__ import annotations

import random

from ..compose import Ask, Draft, Text
from .words import MOST as MOST
from .words import among, codes, cut, listed, numbers, sentences

TITLE = "variables of one value, by assignments in prose"
OPTIONS = "question", "length"
HOPS = 2
HEAD = (
    "Memorize and track the chain(s) of variable assignment hidden in the "
    "following text.\n\n"
)


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    names, (value,), prose = codes(r, HOPS + 1), numbers(r, 1, 5), sentences(r)
    said = [f"VAR {names[0]} = {value}"]
    said += [f"VAR {y} = VAR {x}" for x, y in zip(names, names[1:])]
    depths = sorted(r.random() for _ in said)
    lines = [x + ". " for x in said]
    asks = (Ask(
        f"Find all variables that are assigned the value {value} in the text "
        "above.", "According to the chain(s) of variable assignment in the "
        f"text above, {len(names)} variables are assigned the value {value}, "
        "they are:", listed(names), tuple(names), tuple(said)),)  # fmt: skip

    def text(n: int) -> Text:
        return Text(HEAD + among(cut(prose, n), lines, depths), asks)

    return text
