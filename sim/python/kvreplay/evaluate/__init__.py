# SPDX-License-Identifier: Apache-2.0
"""Checks whether a model still answers while a method manages its KV cache.

    kvreplay evaluate MODEL --tasks niah_single_2,kv -m snapkv,keydiff \\
        -b mean:25% --db r.db

This is closed loop: each method compresses the prompt, then the model is asked,
and decodes with what the method kept. MODEL is a folder, a name on the hub, or
a .gguf file. The database has a row per question, method and budget. The table
has a line per method and budget: right answers; log-likelihood of the right
answer and KL(dense || method), in nats per token; tokens until the answer
differs from dense's (agree); bytes as a share of dense's (held).

dense, the uncompressed cache, is always included. A task that dense answers
less than 60 % right says nothing about methods, and is marked. Budgets are
those of `kvreplay run`. evaluate finds them on a trace of the same tokens, and
stores what was measured there too, in open loop.

With --db, repeat a run that was interrupted or killed to continue it. Each
shard of a run writes its own database; `kvreplay merge` joins them.

Exit codes: 0 all was evaluated, 1 --again found another answer, 2 wrong usage,
3 a bad model, file or item, or a method without any cell, 4 no memory, disk or
package, 130 interrupted; finished rows stay.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """`kvreplay evaluate`; returns its exit code."""
    from .command import main

    return main(argv)
