# SPDX-License-Identifier: Apache-2.0
"""RULER's cwe: the most common words of a list."""

from __future__ import annotations

import random

from ..compose import Ask, Draft, Text
from .words import ADJECTIVES, NOUNS, listed

TITLE = "the most common words of a list"
OPTIONS = "question", "length"
MOST = 5000
COMMON, OFTEN, SELDOM = 3, 10, 1
HEAD = (
    "Below is a numbered list of words. In these words, some appear more often "
    "than others. Memorize the ones that appear most often.\n"
)


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    words = r.sample(NOUNS + ADJECTIVES, len(NOUNS + ADJECTIVES))
    common, others = words[:COMMON], words[COMMON:]
    pool: list[str] = []
    while len(pool) < MOST:
        pool += r.sample(common * 2 + r.sample(others, 4), 2 * COMMON + 4)
    asks = (Ask(
        f"What are the {COMMON} most common words in the above list?",
        f"The top {COMMON} words that appear most often in the list are:",
        listed(common), tuple(common)),)  # fmt: skip

    def text(n: int) -> Text:
        return Text(HEAD + " ".join(
            f"{i + 1}. {x}" for i, x in enumerate(pool[:n])), asks)  # fmt: skip

    return text
