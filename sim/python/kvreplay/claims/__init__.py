# SPDX-License-Identifier: Apache-2.0
"""Do the papers' claims hold? A verdict for each, from numbers of this machine.

    kvreplay claims TRACE... --db r.db -o CLAIMS.md --html claims.html
    kvreplay claims --only 4,5,9,14,27        # those that need no trace
    kvreplay claims --list                    # claims and their commands

What each claim needs is run by kvreplay itself (`run`, `attention`,
`residuals`, `selection`, `capacity`), into one database: what is there is not
run again, so a command that was stopped goes on when it is repeated. Then each
claim's numbers are asked for, and its conditions say one of

    holds
    direction holds, size not
    does not hold
    not asked                   and why
    cannot be checked here      and why

A claim is looked at as arithmetic (the paper's own numbers), in replays (a row
a model, means over its traces), on a device (--device, what
tests/bench/gpu/device --csv printed) and in what a model answered (--answers, a
database of `kvreplay evaluate`, or what `kvreport table --answers -f csv`
printed of one, without the tasks that dense fails). The verdict of the claim is
that of its weakest row. Answers stand beside, a row a task, and decide nothing:
the means of a task cannot tell two methods apart.

Traces that decode few steps say little of drift and of rewritten lanes, so for
these a trace of T tokens is decoded from T/4 on, if all its query rows are
recorded. Two traces of one name are refused. All of it on the bundled traces
(traces/tiny, but for retrieval_8_small, and traces/smollm2) takes a minute of
processor time and a database of 30 MB.

Exit codes: 0 every claim that was asked for has its verdict, whichever it is; 2
wrong usage; 3 a bad input file, or a command that could not run all (its claims
say from what they were judged); 4 no memory, disk or program; 130 interrupted,
what was finished stays in the database.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """The command `kvreplay claims`; returns its exit code."""
    from .command import main

    return main(argv)
