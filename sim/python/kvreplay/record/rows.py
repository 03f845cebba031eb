# SPDX-License-Identifier: Apache-2.0
"""Parses which layers and query rows to record. Needs only Python."""

from __future__ import annotations

from typing import List, Optional, Set


def read_layers(text: str) -> Optional[List[int]]:
    """`all` gives None; `0,3,8-11` gives the numbers, ascending."""
    if text == "all":
        return None
    found: Set[int] = set()
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            span = range(int(first), int(last if dash else first) + 1)
            if not span or not 0 <= span[0] <= span[-1] < 10**5:
                raise ValueError
            found.update(span)
    except ValueError:
        raise ValueError(
            "--layers must be all, or numbers and spans such as 0,3,8-11, not "
            f"{text}"
        ) from None
    return sorted(found)


def read_rows(text: str) -> Optional[int]:
    """`all` gives None; `last=256,decode` gives how many of the prompt's last
    rows. Decode steps are always recorded, because methods need them."""
    if text == "all":
        return None
    last, parts = 0, text.split(",")
    for part in parts:
        name, _, n = part.partition("=")
        if name == "last" and n.isascii() and n.isdigit() and len(n) < 10:
            last = int(n)
        elif part != "decode":
            parts = []
    if "decode" not in parts:
        raise ValueError(
            "--rows must be all, last=256,decode (the prompt's last 256 rows "
            f"and those of all decode steps), or decode, not {text}"
        )
    return last


def rows_kept(
    prompt_len: int, n_tokens: int, last: Optional[int]
) -> Optional[range]:
    """The tokens whose query rows are recorded; None: all."""
    first = 0 if last is None else max(0, prompt_len - last)
    return None if first == 0 else range(first, n_tokens)
