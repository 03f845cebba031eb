# SPDX-License-Identifier: Apache-2.0
"""Requests waiting for a pool: pool_queue.py KVREPLAY TRACE [--update].
pool_queue.csv has the numbers for seven requests, three layouts, two methods
and both kinds of admission (sim/run/README.md). A separate queue in Python
agreed with every number (commit dcb7a7cc). Needs only Python."""

import csv
import itertools
import json
import os
import subprocess
import sys

kvreplay, trace, *how = sys.argv[1:]
RECORDED = os.path.splitext(os.path.abspath(__file__))[0] + ".csv"
POOL = "steps held peak running waiting unused map_peak".split()
REQUEST = "arrives admitted first waited put_back ends pages_peak".split()
POOLS = {"dense": (1300000, 1700000, 1700000), "window": (700000,) * 3}


def rows():
    """One line per pool, and one per request in it."""
    for admit, method in itertools.product(("room", "peak"), POOLS):
        for layout, pool in zip(("unified", "slots", "pages:16"),
                                POOLS[method]):
            out = subprocess.run(
                [kvreplay, "run", *[trace] * 7, "-q", "-p", "250", "-m",
                 method, "-f", "jsonl", "-b", "60", "--together", "--wait",
                 "--admit", admit, "--arrive", "poisson:9:7", "--pool",
                 str(pool), "-l", layout],
                check=True, capture_output=True, text=True).stdout
            found = [json.loads(x)["together"] for x in out.splitlines()]
            cell = f"{method} {layout} {admit}"
            assert not any(x["refused"] for x in found), cell
            yield [cell, "pool", *(found[0]["pool"][x] for x in POOL)]
            for i, x in enumerate(found, 1):
                yield [cell, i, *(x[key] for key in REQUEST)]


got = [[*map(str, x)] for x in rows()]
if how == ["--update"]:
    with open(RECORDED, "w", encoding="utf-8") as f:
        csv.writer(f, lineterminator="\n").writerows(got)
with open(RECORDED, encoding="utf-8") as f:
    wrong = [f"{a} were {b}" for a, b in itertools.zip_longest(
        got, csv.reader(f)) if a != b]  # fmt: skip
print("\n".join(wrong) or f"pools: {len(got)} lines")
sys.exit(bool(wrong))
