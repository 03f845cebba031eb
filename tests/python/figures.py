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
db.execute("CREATE TEMP VIEW ran AS SELECT r.*, " + ", ".join(
    "(SELECT value FROM scalar s WHERE s.run_id = r.run_id AND"
    f" name = '{n}') AS {n}" for n in ("kept", "kr", "cr")) + " FROM run r")
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


def alike(name, x, y, wants, across, up, view):
    """Rows of a view are what `wants` gives of a row, all drawn, in place."""
    for r in view:
        near(float(r[y]), wants(r), name)
        r["panel"] = r.get("panel") or r["shape"]
        tip_up = (f"{100 * float(r[y]):.3g}%" if up[-1] == "%"
                  else f"{float(r[y]):.6g}")
        r["tip"] = (f"{r['series']}; {up.rstrip('%')}: {tip_up}; {across}: "
                    f"{float(r[x]):.6g}")
    drawn = section(name)
    here = [(a, float(b), float(c)) for b, c, a in re.findall(
        r"translate\(([\d.]+) ([\d.]+)\)[^>]*><title>(.*?)</title>", drawn)]
    assert sorted(m[0] for m in here) == sorted(r["tip"] for r in view), name
    for panel in {r["panel"] for r in view}:
        body = drawn.split(f"<h3>{panel}</h3>")[1].split("</svg>")[0]
        of = {r["tip"]: r for r in view if r["panel"] == panel}
        marks = [(of[t], float(b), float(c)) for b, c, t in re.findall(
            r"translate\(([\d.]+) ([\d.]+)\)[^>]*><title>(.*?)</title>",
            body)]
        assert len(marks) == len(of), f"{name}: {panel}"
        straight([(float(r[x]), b) for r, b, _ in marks], name)
        straight([(float(r[y]), c) for r, _, c in marks], name)
