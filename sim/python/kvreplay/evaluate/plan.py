# SPDX-License-Identifier: Apache-2.0
"""What an evaluation can show, before it runs: the smallest difference in right
answers that `kvreport compare` would find, by the formulas that it uses
(analysis/database/paired.h). Needs only Python."""

from __future__ import annotations

import math
from collections import Counter
from itertools import count
from statistics import NormalDist
from typing import Iterator, Sequence

from .asks import Ask
from .item import Item

# Of verdicts, after Holm's correction; what counts as no worse; of a find.
LEVEL, MARGIN, POWER = 0.05, 0.05, 0.8
VERDICT, INTERVAL = 8, 5  # fewer contexts have no verdict; no interval


def flips(m: int) -> int:
    """The fewest contexts that one of m tests finds, if all differ one way."""
    return next(j for j in count() if 2 / 2**j * m < LEVEL)


def fewer(n: int, p: float, j: int) -> float:
    """The probability that fewer than j of n, each of probability p, happen."""
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(j))


def detectable(n: int, m: int, square: float) -> float:
    """kv_paired_detectable: the difference that n contexts find in one of m
    tests, if exactly one of two methods answers this share of questions."""
    normal, j = NormalDist(), flips(m)
    k = normal.inv_cdf(1 - LEVEL / 2 / m) + normal.inv_cdf(POWER)
    low, high = 0.0, 1.0
    for _ in range(50 if n >= j else 0):
        d = (low + high) / 2
        low, high = (d, high) if fewer(n, d, j) > 1 - POWER else (low, d)
    least = min(k * math.sqrt(square / (n + k * k)), 1)
    return max(least, high) if n >= j else math.inf


def contexts(items: Sequence[Item]) -> tuple[int, int, int]:
    """How many questions have a right answer, about how many contexts, and how
    many contexts of equal weight these are worth. Tasks count equally, and
    those about the same contexts as one."""
    tasks: dict[str, Counter[str]] = {}
    for x in items:
        own = [x.context or f"{x.task} {x.id}" for y in x.questions if y.accept]
        tasks.setdefault(x.task, Counter()).update(own)
    each: list[Counter[str]] = []
    for some in tasks.values():
        alike = [x for x in each if x.keys() & some.keys()]
        each = [x for x in each if x not in alike] + [sum(alike, some)]
    sizes = [[*x.values()] for x in each if x]
    weights = sum((n / sum(x)) ** 2 for x in sizes for n in x)
    return (sum(map(sum, sizes)), sum(map(len, sizes)),
            int(len(sizes) ** 2 / (weights or 1) + 1e-6))  # fmt: skip


def tests(asks: Sequence[Ask], n: int) -> int:
    """How many tests `compare` makes of one method against all others at a
    budget: two for each, if n contexts can show a difference below MARGIN."""
    at = Counter(x.target for x in asks if x.target)
    others = max([2, *at.values()]) - 1
    return others * (1 + ((1 - MARGIN) ** n < LEVEL))


def plan(items: Sequence[Item], asks: Sequence[Ask]) -> Iterator[str]:
    """Sentences."""
    judged, n, equal = contexts(items)
    if not n:
        yield "no question has a right answer, so none is counted"
        return
    m = tests(asks, equal)
    low, high = (100 * detectable(equal, m, x) for x in (0.2, 0.5))
    about = f"{n} contexts ({judged} questions with a right answer)"
    if low == math.inf:
        yield f"{about} are too few for {m} tests; {flips(m)} are enough"
    else:
        yield (f"{about} detect a difference of {math.ceil(low)} points "
               "between two methods if exactly one of them answers 20 % of the "
               f"questions, of {math.ceil(high)} points if 50 % (80 % power, p "
               f"< .05 after Holm's correction for {m} tests)")  # fmt: skip
    if n < VERDICT:
        yield (f"below {VERDICT} contexts `kvreplay compare` gives no verdict" +
               f", below {INTERVAL} no interval" * (n < INTERVAL))  # fmt: skip
