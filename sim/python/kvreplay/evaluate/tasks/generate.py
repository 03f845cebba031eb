# SPDX-License-Identifier: Apache-2.0
"""Long generation from a short prompt: `length` counts what is generated, which
nothing ends before. No answer is right; it is compared with dense's own."""

from __future__ import annotations

import random

from ..compose import Ask, Draft, Text
from .words import keys

TITLE = "a long text from a short prompt"
OPTIONS = ("length",)
MOST, ENDS = 1, "inside"
ABOUT = "journey quarrel secret friendship storm discovery letter house".split()


def NEW(length: int) -> int:
    return length


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    (one, two), about = (x.replace("-", " ") for x in keys(r, 2)), r.choice(
        ABOUT)  # fmt: skip
    ask = Ask(
        f"Write a long story of many chapters about a {one}, a {two} and a "
        f"{about}. Describe every place and every person, and what they say.",
        "", "")  # fmt: skip
    return lambda n: Text("", (ask,))
