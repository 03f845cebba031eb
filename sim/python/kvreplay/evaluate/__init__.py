# SPDX-License-Identifier: Apache-2.0
"""Does a model still answer when a method holds its KV cache? (closed loop)

    kvreplay evaluate MODEL --tasks niah_single_2,kv -m snapkv,keydiff \\
        -b mean:25% --db r.db

MODEL is a folder, a name on the hub, or a .gguf file. Each method compresses
the prompt; then the model is asked, and decodes with what the method left. A
row of the table, and of the database, is a question, a method and a budget:

    right   its greedy answer has what is accepted, as whole words and numbers
    loglik  of the right answer, in nats a token; of several tasks, by task
    kl      KL(dense || method) of the next token, in nats, mean over dense's
            own answer
    agree   tokens until its greedy answer leaves dense's
    held    bytes, on average over the question and the right answer (dense's
            own where there is none), as a share of dense's
    rows    questions that it answered; 12 of 15 *: the others were refused, or
            failed, and means are of those alone

Budgets are those of `kvreplay run`, and found by it on a trace of the same
tokens; the row has what it measured there (the open loop), too. The method
`dense` is always among them. A task that dense answers to less than 60 % says
nothing about methods, and is shown so.

With --kvpress each method has kvpress's press of its name beside it, with as
many entries: kvpress/snapkv.

With --db a run that was interrupted or killed goes on when it is repeated.
Shards of one run write a database each, which `kvreport merge` joins.

Exit codes: 0 all was evaluated, 1 --again found another answer, 2 wrong usage,
3 a bad model, file or item, or a method that no cell could run with, 4 no
memory, disk or package, 130 interrupted; what was finished stays.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """The command `kvreplay evaluate`; returns its exit code."""
    from .command import main

    return main(argv)
