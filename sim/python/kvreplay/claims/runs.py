# SPDX-License-Identifier: Apache-2.0
"""The commands that claims need, each run once, and what they found as tables
of one database in memory. Needs Python and the programs.

A command is what a user would type, but that

    {traces}   is every trace, {trace} one after another: the command is run for
               each
    {quarter}  is a quarter of that trace's tokens, {tokens} all of them
    {start}    is where decoding begins so that much is decoded: at a quarter of
               the tokens, of a trace without all query rows at its prompt's end

and that the database, and the format of what is printed, are added here. Every
number of the queries is from one of these tables:

    source     a row a trace: trace, path, model, n_tokens, prompt_len, start,
               quarter
    cell       `kvreport export`: a row a run, with the model beside it (`of`)
    r.*        the tables that `kvreplay run` and its like write
               (analysis/README.md), read only
    found      its table figure, with trace and model (`of`)
    capacity   rows of `kvreplay capacity`
    heads      rows of `kvtrace info --attention`, and the layer's (head null)
    device     what the benchmark of a device printed
    answers    rows of `kvreport table --answers`; likely is the same with x,
               the log-likelihood a token, or of older rows the sum, and which
"""

from __future__ import annotations

import csv
import json
import math
import os
import sqlite3
import subprocess
import sys
import tempfile
import urllib.parse
from typing import (Any, Callable, Dict, Iterable, Iterator, List, Sequence,
                    Tuple)  # fmt: skip

from ..need import need
from ..programs import program
from .claim import Claim, Look, Row
from .page import typed

# Of tables that may stay empty: the columns that queries name.
EMPTY = {
    "source": "trace, path, model, n_tokens, prompt_len, start, quarter",
    "capacity": "model, context, output, gpu, method, budget, bytes, weights, "
                "users, decoding, tokens_per_s, page_tables, why",
    "heads": "trace, of, layer, head, first, sinks, layers",
    "device": "theme, what, measured, unit, ceiling, ratio",
    "answers": "model, task, method, basis, asked, items, items_all, "
               "questions, exact, loglik_token, loglik, kl, dense_exact, "
               "measurable",
}  # fmt: skip
LIKELY = """CREATE VIEW likely AS SELECT *, coalesce(loglik_token, loglik) AS x,
  CASE WHEN loglik_token IS NULL THEN 'summed over'
    ELSE 'averaged over' END AS how FROM answers"""
VIEWS = """
CREATE TEMP VIEW cell AS SELECT e.*, s.model AS of, s.start,
  s.quarter
  FROM exported e LEFT JOIN source s USING (trace);
CREATE TEMP VIEW found AS SELECT f.*, t.name AS trace, s.model AS of
  FROM r.figure f JOIN r.trace t USING (identity)
    JOIN source s ON s.trace = t.name;
"""


def number(text: str) -> Any:
    """A field of CSV as what it is."""
    if text == "":
        return None
    for kind in int, float:
        try:
            return kind(text)
        except ValueError:
            pass
    return text


class Numbers:
    """The tables; fill() adds to one, rows() asks."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", uri=True)
        self.db.create_function("log10", 1, lambda x: math.log10(x))
        self.db.create_function("power", 2, lambda x, y: float(x) ** y)
        for name, columns in EMPTY.items():
            self.db.execute(f"CREATE TABLE {name}({columns})")
        self.db.execute(LIKELY)

    def fill(self, name: str, rows: Iterable[Row],
             columns: Sequence[str] = ()) -> None:
        """Rows into a table, which is made with these columns where there is
        none; what a table has no column for is left out."""
        have = [x[1] for x in self.db.execute(f"PRAGMA table_info({name})")]
        if not have:
            have = list(columns)
            names = ", ".join(f'"{x}"' for x in have)
            self.db.execute(f"CREATE TABLE {name}({names})")
        self.db.executemany(
            f"INSERT INTO {name} VALUES ({', '.join('?' * len(have))})",
            ([row.get(x) for x in have] for row in rows))  # fmt: skip

    def fill_csv(self, name: str, lines: Iterable[str], of: str = "",
                 columns: Sequence[str] = ()) -> None:
        """The same of CSV. of: a file of the user's, which must have these
        columns."""
        read = csv.DictReader(lines)
        lacks = [x for x in columns if x not in (read.fieldnames or ())]
        need(not lacks, of, "has no column ", ", ".join(lacks), ": is it what "
             "`kvreplay claims --help` asks for?")  # fmt: skip
        rows = [{k: number(x) for k, x in row.items() if k} for row in read]
        self.fill(name, rows, read.fieldnames or ())

    def attach(self, path: str) -> None:
        """The results of a database, read and never written."""
        uri = f"file:{urllib.parse.quote(os.path.abspath(path))}?mode=ro"
        self.db.execute("ATTACH ? AS r", [uri])
        self.fill_csv("exported", said(["kvreport", "export", path]))
        self.db.executescript(VIEWS)

    def rows(self, look: Look) -> List[Row]:
        """What a look finds; nothing where a table is not there."""
        try:
            cursor = self.db.execute(look.sql)
        except sqlite3.OperationalError as e:
            if "no such table" in str(e):
                return []
            raise
        names = [x[0] for x in cursor.description]
        return [dict(zip(names, row)) for row in cursor]


PACKAGES = os.path.abspath(__file__).rsplit(os.sep, 3)[0]
# Of the user's folder, which -c puts first on the path, nothing is imported.
CAPACITY = """import sys
sys.path = [x for x in sys.path if x]
from kvreplay.capacity import main
sys.exit(main())"""


def said(words: Sequence[str]) -> List[str]:
    """Lines that one of our programs prints; RuntimeError, whose code is the
    program's, where it fails. `kvreplay capacity` is this package's own, which
    needs no PATH."""
    line, env = [program(words[0]), *words[1:]], {**os.environ}
    if words[1] == "capacity":
        line = [sys.executable, "-c", CAPACITY, *words[2:]]
        env["PYTHONPATH"] = os.pathsep.join(
            [PACKAGES, *filter(None, [env.get("PYTHONPATH")])])
    try:
        done = subprocess.run(line, text=True, capture_output=True, env=env,
                              stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise ImportError(f"no program {words[0]}: install the wheel of "
                          "kvreplay, or put its folder on the PATH") from None
    if done.returncode in (130, -2):
        raise KeyboardInterrupt
    if done.returncode:
        lines = done.stderr.strip().split("\n")
        e = RuntimeError(f"{words[1]}: {lines[-1].split(': ', 1)[-1]}")
        e.code = done.returncode  # type: ignore[attr-defined]
        raise e
    return done.stdout.splitlines(keepends=True)


def sources(paths: Sequence[str]) -> Iterator[Row]:
    """A row a trace, as `source` has it."""
    seen: Dict[str, str] = {}
    for path in paths:
        x = json.loads("".join(said(["kvtrace", "info", "-f", "json", path])))
        name = x["trace"]
        need(name not in seen, path, f"a trace {name} is given already, "
             f"{seen.get(name)}: rename one")  # fmt: skip
        seen[name] = path
        quarter = x["tokens"] // 4
        yield {"trace": name, "path": path, "n_tokens": x["tokens"],
               "model": str(x["metadata"].get("model", "a model without a "
                                              "name")).split(" (")[0],
               "prompt_len": x["prompt_len"], "quarter": quarter,
               "start": x["prompt_len"] if x["first_decode"] else quarter
               }  # fmt: skip


class Runner:
    """Runs what claims need, into one database."""

    def __init__(self, path: str, source: List[Row], numbers: Numbers,
                 progress: Callable[[str], None]) -> None:
        self.path, self.source, self.numbers = path, source, numbers
        self.progress, self.code = progress, 0

    def each(self, command: str) -> Iterator[Tuple[str, List[str]]]:
        """The word lists that a command stands for, each with what it is called
        in a line of progress."""
        words = command.split()
        if "{traces}" in words:
            paths = [x["path"] for x in self.source]
            if paths:
                at = words.index("{traces}")
                yield typed(command), [*words[:at], *paths, *words[at + 1:]]
        elif "{trace}" in words:
            for x in self.source:
                yield (typed(command).replace("TRACE", x["trace"]),
                       [self.put(w, x) for w in words])  # fmt: skip
        else:
            yield typed(command), [self.put(w, {}) for w in words]

    def put(self, word: str, x: Row) -> str:
        of = {**x, "trace": x.get("path"), "tokens": x.get("n_tokens")}
        for key in "trace", "quarter", "start", "tokens":
            word = word.replace("{" + key + "}", str(of.get(key)))
        return word

    def one(self, words: List[str]) -> None:
        if words[1] == "capacity":
            self.numbers.fill_csv("capacity", said([*words, "-f", "csv"]))
        elif words[:2] == ["kvtrace", "info"]:
            x = json.loads("".join(said([*words, "-f", "json"])))
            self.numbers.fill("heads", heads(x, self.source))
        else:
            said([*words, "-q", "--db", self.path])

    def run(self, claims: Sequence[Claim]) -> None:
        """Every command of the claims once. What a method refuses of a trace
        (query rows that were not recorded) is left out of its means; a command
        that fails is named, and the others go on; without memory or disk
        nothing does."""
        commands = list(dict.fromkeys(
            c for x in claims for look in x.looks for c in look.runs))
        every = [w for c in commands for w in self.each(c)]
        for i, (name, words) in enumerate(every):
            self.progress(f"{i + 1} of {len(every)}: {name}")
            try:
                self.one(words)
            except RuntimeError as e:
                code = getattr(e, "code", 5)
                if code in (4, 5):
                    raise MemoryError(str(e)) from None
                self.progress(str(e))
                if "refused" not in str(e):
                    self.code = 3


def heads(x: Row, source: List[Row]) -> Iterator[Row]:
    """The heads of `kvtrace info --attention`, by layer: how many of them are
    sinks by the mean of the layer's heads, .3 of the mass on token 0."""
    name = x["trace"]
    of = next((s["model"] for s in source if s["trace"] == name), name)
    layers: Dict[int, List[float]] = {}
    for h in x["attention"]:
        if h.get("first") is not None and h["head"] is not None:
            layers.setdefault(h["layer"], []).append(h["first"])
    for layer, first in sorted(layers.items()):
        yield {"trace": name, "of": of, "layer": layer, "head": None,
               "first": sum(first) / len(first)}  # fmt: skip


def read_answers(path: str) -> List[str]:
    """Means of answers: of a database, or lines of CSV as they are."""
    with open(path, "rb") as f:
        if f.read(15) != b"SQLite format 3":
            with open(path, encoding="utf-8", newline="") as text:
                return list(text)
    return said(["kvreport", "table", path, "--answers", "-f", "csv"])


def progress_to(quiet: bool, name: str) -> Callable[[str], None]:
    if quiet:
        return lambda line: None
    return lambda line: print(f"{name}: {line}", file=sys.stderr, flush=True)


def scratch() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="kvreplay-claims-")
