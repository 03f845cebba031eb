# SPDX-License-Identifier: Apache-2.0
"""check_summary.py DB MEAN.json: summary() in kvreplay.results agrees with
`kvreport table --mean`. Standard library only."""

import json
import math
import sys

from kvreplay.results import read_results, summary

NAMES = dict(
    (x.replace("_p95", ".p95") if "p95" in x else x + ".mean", x)
    for x in "lse_error kl output_error output_error_p95 mass recall_16".split()
) | {x: x for x in "needle_share kept kr".split()}

ours = {
    (x["method"], x["basis"], x["target"]): x
    for x in summary(read_results(sys.argv[1]))
}
with open(sys.argv[2], encoding="utf-8") as f:
    theirs = json.load(f)
assert theirs and len(theirs) == len(ours), (len(theirs), len(ours))
some = 0
for t in theirs:
    x = ours[t["method"], t["basis"], t["asked"]]
    got = x["traces"], x["traces_all"], len(x["reasons"])
    assert got == (t["traces"], t["traces_all"], t["refused"]), (x, t)
    for trace, reason in sorted(x["reasons"].items())[:1]:
        assert t["reason"] == f"{trace}: {reason}", (x, t)
    for a, b in NAMES.items():
        for mine, other in ((x[a], t[b]), (x[a + ".se"], t[b + "_se"])):
            if other is None:
                assert math.isnan(mine), (t["method"], a, mine)
            else:
                assert math.isclose(mine, other, rel_tol=1e-9, abs_tol=1e-12)
                some += other != 0
assert some > len(theirs), some
