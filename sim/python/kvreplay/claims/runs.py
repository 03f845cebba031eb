# SPDX-License-Identifier: Apache-2.0
"""Runs the commands that claims need, each once. claims.sql defines the {..} in
them. Needs numpy, the programs and the library."""

from __future__ import annotations

import contextlib
import io
import json
from subprocess import CompletedProcess
from typing import Callable, Dict, Iterator, List, Sequence, Tuple

from .. import capacity
from ..figures import command as figures
from ..need import need
from ..programs import called
from .table import Claim, Row, Table

PUT = {"{traces}": "TRACE...", "{trace}": "TRACE", "{quarter}": "T/4",
       "{start}": "T/4", "{tokens}": "T"}  # fmt: skip


def typed(command: str) -> str:
    """A command as a user would type it, without paths."""
    for key, text in PUT.items():
        command = command.replace(key, text)
    stored = command.startswith("kvreplay ") and " capacity " not in command
    return command + " --db r.db" * stored


OWN = {"capacity": capacity.main, "attention": figures.attention,
       "residuals": figures.residuals, "selection": figures.selection}


def said(words: Sequence[str]) -> List[str]:
    """The output lines of one of our programs. RuntimeError, with the program's
    code, if it fails. Some commands run within this process."""
    if words[1] in OWN:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = OWN[words[1]]([*words[2:]])
        done = CompletedProcess(words, code, out.getvalue(), err.getvalue())
    else:
        done = called(*words)
    if done.returncode in (130, -2):
        raise KeyboardInterrupt
    if done.returncode:
        lines = done.stderr.strip().split("\n")
        e = RuntimeError(f"{words[1]}: {lines[-1].split(': ', 1)[-1]}")
        e.code = done.returncode  # type: ignore[attr-defined]
        raise e
    return done.stdout.splitlines(keepends=True)


def sources(paths: Sequence[str]) -> Iterator[Row]:
    """A row for each trace, for the table `source`."""
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


def each(command: str, source: List[Row]) -> Iterator[Tuple[str, List[str]]]:
    """The command lines of a command, each with its name for progress."""
    words, name = command.split(), typed(command)
    if "{traces}" in words and source:
        at = words.index("{traces}")
        yield name, [*words[:at], *(x["path"] for x in source),
                     *words[at + 1 :]]  # fmt: skip
    elif "{trace}" in words:
        for x in source:
            of = {**x, "trace": x["path"], "tokens": x["n_tokens"]}
            yield (name.replace("TRACE", x["trace"]),
                   [w.format(**of) for w in words])  # fmt: skip
    elif "{traces}" not in words:
        yield name, words


def one(words: List[str], path: str, table: Table) -> None:
    """Runs a command. Its results go to the table or to the database `path`."""
    if words[1] == "capacity":
        table.fill_csv("capacity", said([*words, "-f", "csv"]))
    elif words[:2] == ["kvtrace", "info"]:
        x = json.loads("".join(said([*words, "-f", "json"])))
        table.fill("heads", ({"trace": x["trace"], **h}
                             for h in x["attention"]))  # fmt: skip
    else:
        said([*words, "-q", "--db", path])


def run(claims: Sequence[Claim], path: str, source: List[Row], table: Table,
        progress: Callable[[str], None]) -> int:
    """Runs all commands of the claims; returns the exit code. If a method
    refuses a trace (its query rows were not recorded), its means leave it out.
    A failed command is printed, and ends the run only if memory or disk did."""
    commands = dict.fromkeys(
        c for x in claims for look in x["looks"] for c in look["runs"])
    every, worst = [w for c in commands for w in each(c, source)], 0
    for i, (name, words) in enumerate(every):
        progress(f"{i + 1} of {len(every)}: {name}")
        try:
            one(words, path, table)
        except RuntimeError as e:
            if getattr(e, "code", 5) in (4, 5):
                raise MemoryError(str(e)) from None
            progress(str(e))
            if "refused" not in str(e):
                worst = 3
    return worst


def read_answers(path: str) -> List[str]:
    """Means of answers, from a database or from lines of CSV."""
    with open(path, "rb") as f:
        if f.read(15) != b"SQLite format 3":
            with open(path, encoding="utf-8", newline="") as text:
                return list(text)
    return said(["kvreport", "table", path, "--answers", "-f", "csv"])
