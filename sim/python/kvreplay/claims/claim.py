# SPDX-License-Identifier: Apache-2.0
"""What a claim is, as data, and how numbers become its verdict. The claims are
in one module a paper; nothing of them is code. Needs Python alone.

A claim has looks: a query whose rows are the numbers, a sentence that shows
one row, and two conditions in SQL over the columns of that row. Where `holds`
is true the row's verdict is that the claim holds, else where `direction` is
true that the direction holds and the size does not, else that it does not
hold. A bound has a size and no direction. A row without a number that `holds`
asks for is no row: a query returns none where it found nothing.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Sequence, Tuple

HOLDS = "holds"
SIZE = "direction holds, size not"
NOT = "does not hold"
UNASKED = "not asked"
UNCHECKED = "cannot be checked here"
VERDICTS = HOLDS, SIZE, NOT, UNASKED, UNCHECKED
# What looks are of, and what has to be given for the last two.
GIVEN = {"arithmetic": "", "replay": "TRACE", "device": "--device",
         "answers": "--answers"}  # fmt: skip
Row = Dict[str, Any]


@dataclass(frozen=True)
class Look:
    kind: str  # of GIVEN
    sql: str  # a row a model, whose column `of` is its name, or one row
    shows: str  # str.format of a row; {x:.0%} and the like, - where it is null
    holds: str
    direction: str = "0"
    runs: Tuple[str, ...] = ()  # commands; runs.py says what {..} in them is
    beside: bool = False  # shown, but decides nothing


@dataclass(frozen=True)
class Claim:
    number: str
    paper: str
    where: str  # in the paper
    says: str  # in our words
    looks: Tuple[Look, ...] = ()
    why: str = ""  # not "": it cannot be checked here, because
    unasked: str = ""  # not "": nothing here asks for it, because
    shown: bool = False  # its rows stand beside its verdict, too


class _Shown(float):
    """A number that is missing: "-" in any format."""

    def __format__(self, spec: str) -> str:
        return "-"


@dataclass(frozen=True)
class Found:
    """One row of a look, judged."""

    look: Look
    row: Row
    verdict: str

    @property
    def of(self) -> str:
        return str(self.row.get("of") or "")

    def sentence(self) -> str:
        shown = {k: _Shown() if x is None else x for k, x in self.row.items()}
        return self.look.shows.format(**shown)


def is_true(condition: str, row: Row) -> bool:
    """A condition in SQL over the columns of one row."""
    db = sqlite3.connect(":memory:")
    try:
        columns = ", ".join(f'? AS "{k}"' for k in row)
        asked = f"SELECT ({condition}) FROM (SELECT {columns})"
        return bool(db.execute(asked, list(row.values())).fetchone()[0])
    finally:
        db.close()


def judge(look: Look, row: Row) -> Found:
    if is_true(look.holds, row):
        return Found(look, row, HOLDS)
    return Found(look, row, SIZE if is_true(look.direction, row) else NOT)


def verdict(claim: Claim, found: Sequence[Found]) -> str:
    """Of the claim: the weakest of its rows that decide."""
    deciding = [x for x in found if not x.look.beside]
    if claim.why:
        return UNCHECKED
    if not deciding:
        return UNASKED
    return max((x.verdict for x in deciding), key=VERDICTS.index)


def reason(claim: Claim, found: Sequence[Found]) -> str:
    """Why a claim is unchecked or not asked; "" of another."""
    if verdict(claim, found) not in (UNASKED, UNCHECKED):
        return ""
    if claim.why or claim.unasked:
        return claim.why or claim.unasked
    needs = sorted({GIVEN[x.kind] for x in claim.looks if not x.beside} - {""})
    return "needs " + " or ".join(needs or ["its command"]) + \
        ", which was not given, or found nothing"  # fmt: skip


def choose(claims: Iterable[Claim], only: str) -> List[Claim]:
    """Those of a list of numbers; ValueError of one that is none."""
    claims = list(claims)
    asked = [x.strip() for x in only.split(",")]
    known = {x.number for x in claims}
    for x in asked:
        if x not in known:
            raise ValueError(f"there is no claim {x}: `kvreplay claims --list` "
                             "has their numbers")
    return [x for x in claims if x.number in asked]
