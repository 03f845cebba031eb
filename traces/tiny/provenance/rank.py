# SPDX-License-Identifier: Apache-2.0
"""rank.py RESULTS [CLOSED.csv]: which open-loop measure ranks methods as their
right answers do? Kendall's tau-b of each with the answers of closed_loop.csv,
over all its cells but dense's, and its mean over tasks and sizes. Standard
library only. RESULTS: a database, or what --format jsonl printed, of

    kvreplay run retrieval_16.safetensors haystack_8.safetensors \\
      multiturn_11.safetensors -b 12.5%,25%,50% -m METHODS --db RESULTS

with the METHODS of closed_loop.py (tests/check_means.sh has the line).
"""

import csv
import math
import os
import sys

from kvreplay.results import read_results

HERE = os.path.dirname(os.path.abspath(__file__))

TASK = {"retrieval_16": "retrieval", "haystack_8": "haystack",
        "multiturn_11": "turns"}  # fmt: skip
# Each so that more is better. Of lse_error, which is less than 0 where
# something of the sum is lost and more where codes add to it, the size.
MEASURES = {
    "needle_share": lambda r: r["needle_share"],
    "lse_error": lambda r: -abs(r["lse_error.mean"]),
    "kl": lambda r: -r["kl.mean"],
    "output_error": lambda r: -r["output_error.mean"],
    "mass": lambda r: r["mass.mean"],
    "recall_16": lambda r: r["recall_16.mean"],
    "bytes.mean": lambda r: r["bytes.mean"],
}


def tau_b(x, y):
    """Pairs in the same order less those in the other, of those without ties
    (tau-b: a tie in one alone counts in the divisor). NaN without any."""
    same = other = in_x = in_y = 0
    for i in range(len(x)):
        for j in range(i):
            a = (x[i] > x[j]) - (x[i] < x[j])
            b = (y[i] > y[j]) - (y[i] < y[j])
            same += a * b > 0
            other += a * b < 0
            in_x += not a and b != 0
            in_y += not b and a != 0
    both = (same + other + in_x) * (same + other + in_y)
    return (same - other) / math.sqrt(both) if both else math.nan


def cells(results, answers):
    """(task and size, share of right answers, row) of what both have."""
    rows = [r for r in read_results(results) if r["status"] == "ok"]
    for a in answers:
        name, *params = a["method"].split(":")
        for r in rows:
            if (r["method"], r["target"]) == (name, a["size"]) and (
                TASK.get(r["trace"]) == a["task"]
                and set(params) <= set(r["spec"].split(":"))
            ):
                yield (a["task"], a["size"]), float(a["share"]), r


def main(results, closed=os.path.join(HERE, "../closed_loop.csv")):
    with open(closed, newline="") as f:
        answers = [a for a in csv.DictReader(f) if a["method"] != "dense"]
    found = list(cells(results, answers))
    if len(found) != len(answers):
        sys.exit(f"{results}: {len(found)} of {len(answers)} cells of {closed}")
    print(f"{len(found)} cells: tau-b with right answers; mean of 9 groups")
    for name, value in MEASURES.items():
        groups = {}
        for key, share, r in found:
            groups.setdefault(key, []).append((value(r), share))
        every = [x for group in groups.values() for x in group]
        taus = [t for t in (tau_b(*zip(*x)) for x in groups.values())
                if not math.isnan(t)]  # fmt: skip
        print(f"{name:13s} {tau_b(*zip(*every)):5.2f} "
              f"{sum(taus) / len(taus):5.2f}")  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
