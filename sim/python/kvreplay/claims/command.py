# SPDX-License-Identifier: Apache-2.0
"""The command line of `kvreplay claims`. Checks options and files before it
runs anything. Needs Python and the programs."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from typing import List, Optional, Tuple

from . import __doc__ as DOC
from . import page, runs
from ..hf.options import say_as
from ..hf.text import check_folder, run
from .table import Claim, Row, Table

NAME = "kvreplay claims"


def chosen(claims: List[Claim], only: Optional[str]) -> List[Claim]:
    """The claims with these numbers; None: all. ArgumentTypeError: no claim."""
    known = {x["number"]: x for x in claims}
    asked = [x.strip() for x in only.split(",")] if only else [*known]
    for x in asked:
        if x not in known:
            raise argparse.ArgumentTypeError(
                f"argument --only: no claim has number {x}; `{NAME} --list` "
                "has the numbers")
    return [x for x in claims if x["number"] in asked]


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog=NAME, description=DOC, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add = p.add_argument
    add("traces", metavar="TRACE", nargs="*", help="recorded attention; may be "
        "of several models")  # fmt: skip
    add("-d", "--db", metavar="FILE", help="the database for all results "
        "(default: a temporary one)")  # fmt: skip
    add("--answers", metavar="FILE", action="append", default=[],
        help="a database of `kvreplay evaluate`, or CSV of `kvreplay table "
        "--answers`; may be repeated")  # fmt: skip
    add("--device", metavar="FILE", help="CSV from tests/bench/gpu/device")
    add("--only", metavar="LIST", help="only these claims: 4,5,14")
    add("--list", action="store_true", help="print the claims and the "
        "commands that they need; run nothing")  # fmt: skip
    add("--from", dest="found", metavar="FILE", help="judge the numbers of an "
        "earlier -f json again; run nothing")  # fmt: skip
    add("-f", "--format", choices=sorted(page.FORMATS), default="md",
        help="format of -o (default: md, Markdown)")  # fmt: skip
    add("-o", "--output", metavar="FILE", default="-",
        help="the report (default: standard output)")  # fmt: skip
    add("--html", metavar="FILE", help="also write a web page")
    add("--json", metavar="FILE", help="also write the numbers, for --from")
    add("-q", "--quiet", action="store_true", help="no progress bar")
    return p


def listed(claims: List[Claim]) -> str:
    return "".join(
        f"{x['number']}  {x['paper']}, {x['place']}: {x['says']}\n"
        + "".join(f"    {y}\n" for y in page.commands(x)) for x in claims)


def computed(a: argparse.Namespace, table: Table, claims: List[Claim]
             ) -> Tuple[List[Row], int]:
    """Runs what is missing, and judges. Returns the sources and exit code."""
    source = list(runs.sources(a.traces))
    table.fill("source", source)
    with tempfile.TemporaryDirectory(prefix="kvreplay-claims-") as made:
        path = a.db or os.path.join(made, "claims.db")
        say = (lambda _: None) if a.quiet else say_as(NAME)
        code = runs.run(claims, path, source, table, say)
        if os.path.exists(path):
            table.attach(path, runs.said(["kvreport", "export", path]))
        if a.device:
            with open(a.device, encoding="utf-8", newline="") as f:
                table.fill_csv("device", f, a.device, ["theme", "measured"])
        for answers in a.answers:
            table.fill_csv("answers", runs.read_answers(answers), answers,
                           ["method", "loglik", "measurable"])
        for x in claims:
            x["found"] = [table.judged(x, at, row)
                          for at, look in enumerate(x["looks"])
                          for row in table.ask(look)]  # fmt: skip
        table.db.close()
    return source, code


def write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
        return
    part = f"{path}.{os.getpid()}.part"
    with open(part, "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(part, path)


def go(a: argparse.Namespace, table: Table, claims: List[Claim]) -> int:
    check_folder(*[x for x in (a.db, a.html, a.json) if x],
                 *[x for x in (a.output,) if x != "-"])  # fmt: skip
    for path in (*a.traces, *a.answers, a.device, a.found):
        if path and not os.path.isfile(path):
            raise ValueError(f"{path}: no such file")
    if a.list:
        write(a.output, listed(claims))
        return 0
    code = 0
    given = {"Device": os.path.basename(a.device or ""),
             "Answers": ", ".join(map(os.path.basename, a.answers))}
    if a.found:
        with open(a.found, encoding="utf-8") as f:
            try:
                claims, source, given = page.again(f.read(), table, claims)
            except ValueError as e:
                raise ValueError(f"{a.found}: {e}") from None
    else:
        source, code = computed(a, table, claims)
    of = claims, source, given
    write(a.output, page.FORMATS[a.format](*of))
    if a.html:
        write(a.html, page.web(*of))
    if a.json:
        write(a.json, page.numbers(*of))
    return code


def main(argv: Optional[List[str]] = None) -> int:
    """The command; returns its exit code. argv None: the command line."""
    a, table = parser().parse_args(argv), Table()
    if a.found and (a.traces or a.answers or a.device):
        parser().error("--from already has its numbers; give no traces or "
                       "results")
    try:
        claims = chosen(table.claims(), a.only)
    except argparse.ArgumentTypeError as e:
        parser().error(str(e))
    return run(lambda: go(a, table, claims), NAME)
