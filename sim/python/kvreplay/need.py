# SPDX-License-Identifier: Apache-2.0
"""How bad input is refused: need(), a ValueError of one sentence. Needs Python
alone."""

from __future__ import annotations


def need(true: object, where: object, *sentence: object) -> None:
    """ValueError "where: sentence" unless true, in one printable line of at
    most 500 characters, whatever names and numbers stand in it."""
    if not true:
        text = f"{where}: " + "".join(map(str, sentence))
        raise ValueError("".join(x if x.isprintable() else ascii(x)[1:-1]
                                 for x in text[:500]))  # fmt: skip
