# SPDX-License-Identifier: Apache-2.0
"""RULER's niah_single_2: one number in prose. Differs: the prose."""

from __future__ import annotations

import random

from ..compose import Ask, Draft, Text
from .words import MOST as MOST
from .words import among, cut, keys, numbers, sentences

TITLE = "a number in prose"
OPTIONS = "question", "depth", "length"
HEAD = (
    "A special magic number is hidden within the following text. Make sure to "
    "memorize it. I will quiz you about the number afterwards.\n"
)
NEEDLE = "One of the special magic numbers for {} is: {}. "


def ask(key: str, value: str) -> Ask:
    """The question after one number."""
    about = f"special magic number for {key} mentioned in the provided text"
    return Ask(
        f"What is the {about}?", f"The {about} is", value, (value,), (value,)
    )


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    (key,), (value,), prose = keys(r, 1), numbers(r, 1, 7), sentences(r)
    line = NEEDLE.format(key, value)

    def text(n: int) -> Text:
        return Text(HEAD + among(cut(prose, n), [line], [depth]),
                    (ask(key, value),))  # fmt: skip

    return text
