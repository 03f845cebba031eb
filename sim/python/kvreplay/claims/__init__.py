# SPDX-License-Identifier: Apache-2.0
"""Do the papers' claims hold? A verdict for each, from numbers of this machine.

    kvreplay claims TRACE... --db r.db -o CLAIMS.md --html claims.html
    kvreplay claims --only 4,5,9,14,27        # these need no trace
    kvreplay claims --list                    # claims and their commands

claims runs the commands that each claim needs (`run`, `attention`, `residuals`,
`selection`, `capacity`) and stores their results in one database. Results that
the database has are not computed again, so repeat a stopped command to continue
it. The verdict on a claim is one of

    holds
    direction holds, size not
    does not hold
    not asked                   and why
    cannot be checked here      and why

The evidence is arithmetic (the paper's own numbers); replays, with a row per
model and means over its traces; a device (--device); and answers of a model
(--answers). The weakest row decides the verdict. Answers have a row per task
and decide nothing, because the means of a task cannot tell two methods apart.
Tasks that dense fails are left out.

Drift and rewritten lanes need many decode steps. For these claims a trace of T
tokens is decoded from T/4 on, if all its query rows are recorded. Two traces of
one name are refused. All claims on the bundled traces (traces/tiny without
retrieval_8_small, and traces/smollm2) take a minute of processor time and a
database of 30 MB.

Exit codes: 0 every requested claim has a verdict, whatever it is; 2 wrong
usage; 3 a bad input file, or a command that could not run everything (its
claims say what they were judged by); 4 no memory, disk or program; 130
interrupted; finished results stay in the database.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """`kvreplay claims`; returns its exit code."""
    from .command import main

    return main(argv)
