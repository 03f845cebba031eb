# SPDX-License-Identifier: Apache-2.0
"""Building blocks of tasks: the book's sentences, keys, numbers, and a function
that inserts lines between sentences."""

from __future__ import annotations

import functools
import itertools
import random
import re
import string

from . import book

ADJECTIVES = """
    able brave calm clever curious eager early famous fancy fierce gentle
    golden happy honest humble jolly kind lively lucky modest noble polite
    proud quick quiet silent simple steady tender tidy wise young""".split()
NOUNS = """
    actor artist baker banker barber builder butcher captain carpenter dancer
    doctor driver farmer fisher gardener guard hunter judge lawyer miner nurse
    painter pilot poet porter potter printer sailor singer smith soldier tailor
    teacher trader waiter weaver writer""".split()
# A period after one of these does not end a sentence.
SHORT = r"(?<!Mr\.)(?<!Mrs\.)(?<!Dr\.)(?<!St\.)"
END = re.compile(rf"(?<=[.!?]){SHORT} +|(?<=[.!?][\"']) +")


@functools.lru_cache(1)
def text() -> tuple[str, ...]:
    """The book's sentences in order, each with the blank or line end after."""
    paragraphs = [END.split(x) for x in book.read().splitlines()]
    return tuple(
        y + (" " if i + 1 < len(x) else "\n\n")
        for x in paragraphs
        for i, y in enumerate(x)
    )


MOST = 80000  # slightly above the book's number of words


def sentences(r: random.Random) -> list[str]:
    """The book's sentences, rotated to start at a random one."""
    first = r.randrange(len(text()))
    return [*text()[first:], *text()[:first]]


def cut(prose: list[str], n: int) -> list[str]:
    """The first n words of the sentences; this may cut the last sentence."""
    found: list[str] = []
    for x in prose:
        words = x.split()
        if len(words) >= n:
            return [*found, " ".join(words[:n]) + " "]
        found.append(x)
        n -= len(words)
    return found


def keys(r: random.Random, n: int) -> list[str]:
    """n different keys, such as brave-potter."""
    found: dict[str, None] = {}
    while len(found) < n:
        found[f"{r.choice(ADJECTIVES)}-{r.choice(NOUNS)}"] = None
    return [*found]


def numbers(r: random.Random, n: int, digits: int) -> list[str]:
    """n different numbers with so many digits."""
    low = 10 ** (digits - 1)
    return [str(x) for x in r.sample(range(low, 10 * low), n)]


def codes(r: random.Random, n: int) -> list[str]:
    """n different codes of four letters and digits, the first a letter."""
    found: dict[str, None] = {}
    while len(found) < n:
        x = r.choice(string.ascii_uppercase)
        found[x + "".join(r.choices(string.ascii_uppercase + string.digits,
                                    k=3))] = None  # fmt: skip
    return [*found]


def among(units: list[str], lines: list[str], depths: list[float]) -> str:
    """Inserts each line between two sentences, nearest to its depth."""
    ends = [0, *itertools.accumulate(map(len, units))]
    places = []
    for i, depth in enumerate(depths):
        near = [abs(x - depth * ends[-1]) for x in ends]
        places.append((near.index(min(near)), i))
    out, at = [], 0
    for place, i in sorted(places):
        out += [*units[at:place], lines[i]]
        at = place
    return "".join([*out, *units[at:]]).strip()


def listed(x: list[str]) -> str:
    """a, b, and c."""
    return ", ".join(x[:-1]) + (", and " if len(x) > 1 else "") + x[-1]
