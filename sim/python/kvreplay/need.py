# SPDX-License-Identifier: Apache-2.0
"""need() refuses bad input in one sentence. Needs only Python."""

from __future__ import annotations


def need(true: object, where: object, *sentence: object) -> None:
    """ValueError "where: sentence" unless true. The message is one printable
    line of at most 500 characters, whatever the input contains."""
    if not true:
        text = f"{where}: " + "".join(map(str, sentence))
        raise ValueError("".join(x if x.isprintable() else ascii(x)[1:-1]
                                 for x in text[:500]))  # fmt: skip
