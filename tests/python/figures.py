# SPDX-License-Identifier: Apache-2.0
"""What the checks of figures share, called as NAME.py DB CSV PAGE: the
database, rows of an exported view, a section of the page, and where its marks
stand. Standard library only."""

import csv
import html
import math
import re
import sqlite3
import sys

db = sqlite3.connect(sys.argv[1])
db.row_factory = sqlite3.Row
page = open(sys.argv[3], encoding="utf-8").read()


def rows(view):
    return list(csv.DictReader(open(f"{sys.argv[2]}/{view}.csv")))


def section(name):
    found = re.search(rf'<h2 id="{name}">.*?</figure>', page, re.S)
    assert found, f"no figure {name}"
    return html.unescape(found.group(0))


def near(a, b, what):
    assert math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12), f"{what}: {a} {b}"


def straight(pairs, what, by=0.11):
    """Places on the page follow their numbers along a line."""
    pairs = sorted(pairs)
    (x0, y0), (x1, y1) = pairs[0], pairs[-1]
    assert x1 > x0 and y1 != y0, f"{what}: one place"
    for x, y in pairs:
        at = y0 + (y1 - y0) * (x - x0) / (x1 - x0)
        assert abs(at - y) < by, f"{what}: {x} at {y}, not {at}"
