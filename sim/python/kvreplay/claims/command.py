# SPDX-License-Identifier: Apache-2.0
"""The command line of `kvreplay claims`. Options and files are checked before
anything runs. Needs Python and the programs."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from typing import Dict, List, Optional, Tuple

from . import __doc__ as DOC
from . import deltakv, figures, hardkv, leankv, zsmerge
from ..hf.options import option
from ..hf.text import check_folder, run
from . import page
from .claim import Claim, choose, judge
from .runs import Numbers, Runner, progress_to, read_answers, scratch, sources

NAME = "kvreplay claims"
CLAIMS: Tuple[Claim, ...] = (*deltakv.CLAIMS, *zsmerge.CLAIMS, *hardkv.CLAIMS,
                             *leankv.CLAIMS, *figures.CLAIMS)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog=NAME, description=DOC, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add = p.add_argument
    add("traces", metavar="TRACE", nargs="*", help="recorded attention; traces "
        "of several models are told apart")  # fmt: skip
    add("-d", "--db", metavar="FILE", help="the database that gets what is run "
        "(default: one that is not kept)")  # fmt: skip
    add("--answers", metavar="FILE", action="append", default=[],
        help="a database of `kvreplay evaluate`, or CSV of `kvreport table "
        "--answers`; may be repeated")  # fmt: skip
    add("--device", metavar="FILE", help="CSV of the benchmark `device`")
    add("--only", metavar="LIST", default=list(CLAIMS),
        type=option(functools.partial(choose, CLAIMS)),
        help="of claims: 4,5,14 (default: all)")  # fmt: skip
    add("--list", action="store_true", help="print claims and the commands "
        "that they need, and run none")  # fmt: skip
    add("--from", dest="found", metavar="FILE", help="judge the numbers of an "
        "earlier -f json again, and run nothing")  # fmt: skip
    add("-f", "--format", choices=sorted(page.FORMATS), default="md",
        help="of -o (default: md, Markdown)")  # fmt: skip
    add("-o", "--output", metavar="FILE", default="-",
        help="(default: standard output)")  # fmt: skip
    add("--html", metavar="FILE", help="the same as a web page, beside it")
    add("--json", metavar="FILE", help="the numbers, for --from, beside it")
    add("-q", "--quiet", action="store_true", help="no progress")
    return p


def listed(claims: List[Claim]) -> str:
    out = []
    for x in claims:
        out.append(f"{x.number}  {x.paper}, {x.where}: {x.says}")
        out += [f"    {y}" for y in page.commands(x)]
    return "\n".join(out) + "\n"


def computed(a: argparse.Namespace, claims: List[Claim]
             ) -> Tuple[List[page.Judged], List[Dict[str, object]], int]:
    """Runs what is missing, and judges."""
    say = progress_to(a.quiet, NAME)
    source = list(sources(a.traces))
    numbers = Numbers()
    numbers.fill("source", source)
    with scratch() as made:
        path = a.db or os.path.join(made, "claims.db")
        runner = Runner(path, source, numbers, say)
        runner.run(claims)
        if os.path.exists(path):
            numbers.attach(path)
        if a.device:
            with open(a.device, encoding="utf-8", newline="") as f:
                numbers.fill_csv("device", f, a.device, ["theme", "measured"])
        for answers in a.answers:
            numbers.fill_csv("answers", read_answers(answers), answers,
                             ["method", "loglik", "measurable"])
        judged = [(x, [judge(look, row) for look in x.looks
                       for row in numbers.rows(look)]) for x in claims]
        numbers.db.close()
    return judged, source, runner.code


def write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
        return
    part = f"{path}.{os.getpid()}.part"
    with open(part, "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(part, path)


def go(a: argparse.Namespace) -> int:
    claims: List[Claim] = a.only
    check_folder(*[x for x in (a.db, a.html, a.json) if x],
                 *[x for x in (a.output,) if x != "-"])  # fmt: skip
    for path in (*a.traces, *a.answers, a.device, a.found):
        if path and not os.path.isfile(path):
            raise ValueError(f"{path}: there is no such file")
    if a.list:
        write(a.output, listed(claims))
        return 0
    code = 0
    given = {"Device": os.path.basename(a.device or ""),
             "Answers": ", ".join(map(os.path.basename, a.answers))}
    if a.found:
        with open(a.found, encoding="utf-8") as f:
            try:
                judged, source, given = page.again(f.read(), claims)
            except ValueError as e:
                raise ValueError(f"{a.found}: {e}") from None
    else:
        judged, source, code = computed(a, claims)
    of = judged, source, given
    write(a.output, page.FORMATS[a.format](*of))
    if a.html:
        write(a.html, page.web(*of))
    if a.json:
        write(a.json, page.numbers(*of))
    return code


def main(argv: Optional[List[str]] = None) -> int:
    """The command; argv: its words, None: of the command line. Returns the exit
    code."""
    a = parser().parse_args(argv)
    if a.found and (a.traces or a.answers or a.device):
        parser().error("--from has its numbers: give no traces or results")
    return run(lambda: go(a), NAME)
