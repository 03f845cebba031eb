# SPDX-License-Identifier: Apache-2.0
"""answers.py DB VIEWS: read_evaluations in kvreplay.results returns the rows
and numbers in evaluations.csv and answer_values.csv of the folder VIEWS, which
kvreport export made from the same database."""

import csv
import math
import sys

from kvreplay.results import read_evaluations


def view(name):
    with open(f"{sys.argv[2]}/{name}.csv", newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


rows = {x["key"]: x for x in read_evaluations(sys.argv[1])}
for theirs in view("evaluations"):
    ours = rows[theirs["key"]]
    for name, x in theirs.items():
        if name != "confirmations":
            mine = ours["target" if name == "asked" else name]
            assert str("" if mine is None else mine) == x, (name, mine, x)
values = view("answer_values")
for x in values:
    assert math.isclose(rows[x["key"]][x["name"]], float(x["value"]),
                        rel_tol=1e-14), x
assert len(rows) == len(view("evaluations")) > 0 < len(values)
names = {x["name"] for x in values}
assert len(values) == sum(not math.isnan(x[name]) for x in rows.values()
                          for name in names)
