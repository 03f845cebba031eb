# SPDX-License-Identifier: Apache-2.0
"""Key-value retrieval: as many keys and values as fit, four are asked for."""

from __future__ import annotations

import random

from ..compose import Ask, Draft, Text
from .words import codes, numbers

TITLE = "values of keys, among many"
OPTIONS = "question", "depth", "length"
MOST = 5000
N = 4


def ask(key: str, value: str, chat: bool) -> Ask:
    """The question after one key. Without a chat template it is one line."""
    return Ask(f"what is {key}?", f"key {key}:" if chat else "", value,
               (value,), (value,))  # fmt: skip


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    names, values = codes(r, MOST), numbers(r, MOST, 5)
    lines = [f"key {x}: {y};\n" for x, y in zip(names, values)]
    others = [r.random() for _ in range(N - 1)]

    def text(n: int) -> Text:
        places = dict.fromkeys(int(x * (n - 1)) for x in [depth, *others])
        return Text(
            "".join(lines[:n]).strip(),
            tuple(ask(names[i], values[i], chat) for i in places),
        )

    return text
