# SPDX-License-Identifier: Apache-2.0
"""The table of claims (claims.sql) in a database in memory, with the numbers
for its queries; turns numbers into verdicts. Needs only Python."""

from __future__ import annotations

import csv
import math
import os
import sqlite3
import urllib.parse
from typing import Any, Dict, Iterable, List, Sequence

from ..need import need

HOLDS = "holds"
SIZE = "direction holds, size not"
NOT = "does not hold"
UNASKED = "not asked"
UNCHECKED = "cannot be checked here"
VERDICTS = HOLDS, SIZE, NOT, UNASKED, UNCHECKED
# Kinds of looks, and what a user must give for each.
GIVEN = {"arithmetic": "", "replay": "TRACE", "device": "--device",
         "answers": "--answers"}  # fmt: skip
Row = Dict[str, Any]
# A row of the table `claim`, with `looks`, rows of the table `look` with their
# `runs` as a list, and `found`, stored as {look: its index, verdict, row: the
# numbers}.
Claim = Row


class _Shown(float):
    """A missing number: "-" in any format."""

    def __format__(self, spec: str) -> str:
        return "-"


def number(text: str) -> Any:
    """A CSV field as an int, a float, a string, or None."""
    for kind in int, float:
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None


class Table:
    """The claims. fill() adds numbers, ask() evaluates a look."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", uri=True)
        self.db.create_function("log10", 1, math.log10)
        self.db.create_function("power", 2, lambda x, y: float(x) ** y)
        path = os.path.join(os.path.dirname(__file__), "claims.sql")
        with open(path, encoding="utf-8") as f:
            self.db.executescript(f.read())

    def rows(self, query: str, *values: Any) -> List[Row]:
        """A query's rows. Line ends in the table's texts become blanks."""
        found = self.db.execute(query, values)
        names = [x[0] for x in found.description]
        return [{name: " ".join(x.split()) if isinstance(x, str) else x
                 for name, x in zip(names, row)} for row in found]

    def claims(self) -> List[Claim]:
        found = self.rows("SELECT * FROM claim")
        for claim in found:
            claim["looks"] = self.rows(
                "SELECT * FROM look WHERE number = ?", claim["number"])
            for look in claim["looks"]:
                look["runs"] = [*filter(None, look["runs"].split("; "))]
        return found

    def fill(self, name: str, rows: Iterable[Row],
             columns: Sequence[str] = ()) -> None:
        """Adds rows to a table, which is created with these columns if missing.
        Drops values without a column."""
        have = [x["name"] for x in self.rows(f"PRAGMA table_info({name})")]
        if not have:
            have = list(columns)
            names = ", ".join(f'"{x}"' for x in have)
            self.db.execute(f"CREATE TABLE {name}({names})")
        self.db.executemany(
            f"INSERT INTO {name} VALUES ({', '.join('?' * len(have))})",
            ([row.get(x) for x in have] for row in rows))  # fmt: skip

    def fill_csv(self, name: str, lines: Iterable[str], of: str = "",
                 columns: Sequence[str] = ()) -> None:
        """Adds rows of CSV. of: the user's file; it must have these columns."""
        read = csv.DictReader(lines, restval="")
        lacks = [x for x in columns if x not in (read.fieldnames or ())]
        need(not lacks, of, "has no column ", ", ".join(lacks), ": is it what "
             "`kvreplay claims --help` asks for?")  # fmt: skip
        rows = [{k: number(x) for k, x in row.items() if k} for row in read]
        self.fill(name, rows, read.fieldnames or ())

    def attach(self, path: str, exported: Iterable[str]) -> None:
        """Attaches a database read-only, and adds its rows, exported as CSV."""
        uri = f"file:{urllib.parse.quote(os.path.abspath(path))}?mode=ro"
        self.db.execute("ATTACH ? AS r", [uri])
        self.fill_csv("exported", exported)

    def ask(self, look: Row) -> List[Row]:
        """A look's rows; none if a table is missing."""
        try:
            return self.rows(f"SELECT * FROM {look['query']}")
        except sqlite3.OperationalError as e:
            if "no such table" in str(e):
                return []
            raise

    def judged(self, claim: Claim, at: int, row: Row) -> Row:
        """A row of the claim's look `at`, with its verdict. KeyError or
        sqlite3.Error: the row lacks a value that the look needs."""
        look = claim["looks"][at]
        columns = ", ".join(f'? AS "{k}"' for k in row)
        holds, size = self.db.execute(
            f"SELECT {look['holds']}, {look['direction']} "
            f"FROM (SELECT {columns})", [*row.values()]).fetchone()
        sentence(look, row)
        return dict(look=at, verdict=HOLDS if holds else SIZE if size else NOT,
                    row=row)


def sentence(look: Row, row: Row) -> str:
    shown = {k: _Shown() if x is None else x for k, x in row.items()}
    text: str = look["shows"].format(**shown)
    return text


def deciding(claim: Claim) -> List[Row]:
    return [x for x in claim["found"]
            if not claim["looks"][x["look"]]["beside"]]  # fmt: skip


def verdict(claim: Claim) -> str:
    """A claim's verdict: the verdict of its weakest deciding row."""
    found = [x["verdict"] for x in deciding(claim)]
    if claim["why"]:
        return UNCHECKED
    return max(found, key=VERDICTS.index) if found else UNASKED


def reason(claim: Claim) -> str:
    """Why a claim is unchecked or not asked, else ""."""
    if verdict(claim) not in (UNASKED, UNCHECKED):
        return ""
    if claim["why"] or claim["unasked"]:
        return str(claim["why"] or claim["unasked"])
    needs = {GIVEN[x["kind"]] for x in claim["looks"] if not x["beside"]}
    return "needs " + (" or ".join(sorted(needs - {""})) or "its command") + \
        ", which was not given, or found nothing"  # fmt: skip
