# SPDX-License-Identifier: Apache-2.0
"""Groups prompts for recording, and shows progress. Needs only Python."""

from __future__ import annotations

import time
from typing import Callable, Dict, Iterable, Iterator, List

from .request import Request
from .tokens import Asked


def spans(numbers: Iterable[int]) -> str:
    """0,1,2,5 as 0-2,5."""
    found: List[List[int]] = []
    for n in numbers:
        if found and found[-1][1] == n - 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return ",".join(f"{x}-{y}" if x < y else str(x) for x, y in found)


class Progress:
    """Prints a line per trace to standard error: its tokens, tokens per second,
    and the estimated time left."""

    def __init__(
        self, say: Callable[..., None], quiet: bool, total: int, count: int
    ) -> None:
        self.say, self.quiet, self.left = say, quiet, total
        self.count, self.done, self.seen = count, 0, 0
        self.begin = time.monotonic()

    def add(self, name: str, request: Request) -> None:
        """Prints the line of a trace. total counts only the prompts' tokens,
        because how many follow is not known beforehand."""
        self.done += 1
        self.seen += len(request.asked.ids)
        self.left -= len(request.asked.ids)
        took = max(1e-9, time.monotonic() - self.begin)
        p, n = request.prompt_len, len(request.tokens)
        if not self.quiet:
            self.say(
                f"{name}: {p:,} + {n - p} tokens, {self.seen / took:,.0f} "
                f"prompt tokens a second, {self.done} of {self.count}, "
                f"{clock(took / self.seen * self.left)} left"
            )


def clock(seconds: float) -> str:
    """42 s, 3 min 7 s, 2 h 5 min."""
    n = round(seconds)
    if n < 60:
        return f"{n} s"
    return f"{n // 60} min {n % 60} s" if n < 3600 else (
        f"{n // 3600} h {n // 60 % 60} min")  # fmt: skip


def groups(asked: Iterable[Asked], most: int) -> Iterator[List[Asked]]:
    """Prompts of equal length, in order, at most so many at once."""
    open_groups: Dict[int, List[Asked]] = {}
    for x in asked:
        group = open_groups.setdefault(len(x.ids), [])
        group.append(x)
        if len(group) == most:
            yield open_groups.pop(len(x.ids))
    yield from open_groups.values()
