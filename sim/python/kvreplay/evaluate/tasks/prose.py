# SPDX-License-Identifier: Apache-2.0
"""Prose for perplexity: a passage is the prompt, and the 256 tokens that follow
it in the text are the answer. No chat template."""

from __future__ import annotations

import random

from ..compose import Ask, Draft, Text
from .words import MOST as MOST
from .words import cut, sentences

TITLE = "how prose goes on"
OPTIONS = ("length",)
ANSWER = 256


def NEW(length: int) -> int:
    """Tokens that are generated, too."""
    return 32


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    prose = sentences(r)

    def text(n: int) -> Text:
        whole = "".join(cut(prose, n + ANSWER))  # a word is a token or more
        here = "".join(cut(prose, n)).strip()
        asks = (Ask("", "", whole[len(here) :].strip()),)
        return Text(here, asks, True, ANSWER)

    return text
